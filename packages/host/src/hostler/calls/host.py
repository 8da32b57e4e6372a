"""`host.info`, `prompt.get` and `interaction.request`."""

from __future__ import annotations

from hostler.calls.scope import CallScope
from hostler_protocol.calls import HostInfo, HostInfoParams, InteractionParams, PromptGetParams, PromptReply
from hostler_protocol.errors import UnauthorizedError
from hostler_protocol.pausing import Decision


async def info(scope: CallScope, params: HostInfoParams) -> HostInfo:
    """`host.info`: version and limits."""
    return scope.services.info


async def prompt(scope: CallScope, params: PromptGetParams) -> PromptReply:
    """`prompt.get`: the binding's effective prompt."""
    return PromptReply(prompt=list(scope.prompt))


async def interaction(scope: CallScope, params: InteractionParams) -> Decision:
    """`interaction.request`: refused, since nobody can be asked here. No grant holds it.

    It is not answered as `denied` or `expired`: those say what a person did.
    """
    raise UnauthorizedError("this host cannot put questions to people")
