"""Write agent runners for Hostler, or for any host that speaks AgentRunner Protocol v1.

Derive a class from `Runner`, write its `run`, and yield results:

    class Echo(Runner):
        async def run(self, ctx: RunContext):
            yield message(ctx.input.text)

`RunContext` holds the event and the calls to the host. `@tool` offers a function to agents. Every refused
call raises a `HostError`. The protocol's types, for annotations, are in `hostler_sdk.types`; tests of runners
use `hostler_sdk.testing`.
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
