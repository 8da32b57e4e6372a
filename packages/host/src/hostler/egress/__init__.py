"""Outbound HTTP to addresses that users, models or external documents choose: public ones, within limits.

Webhooks, `fetch`, OpenAPI tools and MCP over HTTP use it. `EgressPolicy` decides what may be reached,
`Egress` sends requests, and `GuardedTransport` applies the same guard to another library's client.
"""

from hostler.egress.client import Egress, HttpAnswer
from hostler.egress.errors import (
    EgressAnswerError,
    EgressError,
    EgressRefusedError,
    EgressTimeoutError,
    EgressUnreachableError,
)
from hostler.egress.limits import ExchangeLimits
from hostler.egress.network import Guard, Network, SystemNetwork
from hostler.egress.policy import EgressPolicy
from hostler.egress.transport import GuardedTransport, httpx2_client

__all__ = [
    "Egress",
    "EgressAnswerError",
    "EgressError",
    "EgressPolicy",
    "EgressRefusedError",
    "EgressTimeoutError",
    "EgressUnreachableError",
    "ExchangeLimits",
    "Guard",
    "GuardedTransport",
    "HttpAnswer",
    "Network",
    "SystemNetwork",
    "httpx2_client",
]
