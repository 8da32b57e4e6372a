"""Outbound HTTP that a user, a model or a foreign document can steer: to public addresses, within bounds.

One place for all of it: webhooks, `fetch`, OpenAPI tools, MCP over HTTP. `EgressPolicy` says what may be
reached, `Egress` sends requests, and `GuardedTransport` puts the same guard under another library's client.
"""

from hostler.egress.client import Answer, Egress
from hostler.egress.errors import (
    EgressAnswerError,
    EgressError,
    EgressRefusedError,
    EgressTimeoutError,
    EgressUnreachableError,
)
from hostler.egress.limits import ExchangeLimits
from hostler.egress.policy import EgressPolicy
from hostler.egress.resolver import Guard, Resolver, SystemResolver
from hostler.egress.transport import GuardedTransport, httpx2_client

__all__ = [
    "Answer",
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
    "Resolver",
    "SystemResolver",
    "httpx2_client",
]
