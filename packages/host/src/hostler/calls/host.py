"""`host.info` and `prompt.get`."""

from __future__ import annotations

from hostler.calls.scope import CallScope
from hostler_protocol.calls import HostInfo, HostInfoParams, PromptGetParams, PromptReply


async def info(scope: CallScope, params: HostInfoParams) -> HostInfo:
    """`host.info`: version and limits."""
    return scope.services.info


async def prompt(scope: CallScope, params: PromptGetParams) -> PromptReply:
    """`prompt.get`: the binding's effective prompt."""
    return PromptReply(prompt=list(scope.prompt))
