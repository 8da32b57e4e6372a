"""Write agent runners for Hostler, or for any host that speaks AgentRunner Protocol v1.

Derive from `Runner`, yield results, and reach everything else through the run's context.
"""

from __future__ import annotations

from hostler_sdk.context import RunContext
from hostler_sdk.errors import (
    Cancelled,
    Conflict,
    DeadlineExceeded,
    Denied,
    Expired,
    HostError,
    InvalidArgument,
    NotFound,
    PayloadTooLarge,
    RateLimited,
    RuntimeFailure,
    Unauthorized,
)
from hostler_sdk.results import (
    Result,
    action,
    artifact,
    completed,
    delta,
    failed,
    log,
    message,
    paused,
    state_updated,
    tool_completed,
    tool_started,
)
from hostler_sdk.runner import Runner
from hostler_sdk.tools import Tool, ToolContext, tool

__all__ = [
    "Cancelled",
    "Conflict",
    "DeadlineExceeded",
    "Denied",
    "Expired",
    "HostError",
    "InvalidArgument",
    "NotFound",
    "PayloadTooLarge",
    "RateLimited",
    "Result",
    "RunContext",
    "Runner",
    "RuntimeFailure",
    "Tool",
    "ToolContext",
    "Unauthorized",
    "action",
    "artifact",
    "completed",
    "delta",
    "failed",
    "log",
    "message",
    "paused",
    "state_updated",
    "tool",
    "tool_completed",
    "tool_started",
]
