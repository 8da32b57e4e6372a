"""Platform actions as tools: `platform.message_react`. A channel carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

from hostler.domain.action_decisions import ChannelActions
from hostler.domain.platform_actions import ACTION_OF_TOOL, PLATFORM_ACTIONS, PlatformAction
from hostler.domain.tool_pins import ToolPin
from hostler.tools.port import Found, OfferedTool, ToolInvocation
from hostler_protocol.errors import NotFoundError
from hostler_protocol.grants import ToolResource
from hostler_protocol.ids import digest
from hostler_protocol.manifest import ToolEffect


class ActionExecutor(Protocol):
    """Carries platform actions out through the channels of a host."""

    @property
    def revision(self) -> int:
        """Increases with each change of the channels."""
        ...

    def channels(self, workspace_id: str) -> Mapping[str, ChannelActions]:
        """Return what the channels of a workspace can do, by name."""
        ...

    async def perform(self, invocation: ToolInvocation, action: PlatformAction) -> Any:
        """Carry an action out, once per effect key, and return the platform's answer.

        ToolFailedError: the platform refused it. OutcomeUnknownError: it may have been done.
        UnavailableError: the channel is not reachable, and nothing was done.
        """
        ...

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """Return what became of an action under an effect key; None if it was not begun."""
        ...


class PlatformTools:
    """The source of the tools `platform.*`: those actions that a channel of the workspace can do."""

    id_prefix = "platform:"

    def __init__(self) -> None:
        self.executor: ActionExecutor | None = None
        """Set once the host has channels."""

    @property
    def revision(self) -> int:
        """See `ToolSource`."""
        return 0 if self.executor is None else self.executor.revision

    def channels(self, workspace_id: str) -> Mapping[str, ChannelActions]:
        """Return what the channels of a workspace can do, by name."""
        return {} if self.executor is None else self.executor.channels(workspace_id)

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """See `ToolSource`."""
        able = {name for channel in self.channels(workspace_id).values() for name in channel.supported}
        return {name: _tool(name) for name in PLATFORM_ACTIONS if name in able}

    async def call(self, invocation: ToolInvocation) -> Any:
        """See `ToolSource`."""
        if self.executor is None:
            raise NotFoundError("this host has no channels")
        return await self.executor.perform(invocation, action_of(invocation))

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """See `ToolSource`."""
        return None if self.executor is None else await self.executor.lookup(invocation)


def action_of(invocation: ToolInvocation) -> PlatformAction:
    """Return the action that a call of a tool is about."""
    return PLATFORM_ACTIONS[ACTION_OF_TOOL[invocation.tool_name]]


@cache
def action_pin(name: str) -> ToolPin:
    """Return the pin of an action's tool. What the channel did is on record under the effect key."""
    action = PLATFORM_ACTIONS[name]
    effect: ToolEffect = "pure" if action.risk == "read" else "reconcilable"
    return ToolPin(
        tool_id=f"platform:{name}", owner="platform", schema_digest=digest(action.schema), effect=effect
    )


@cache
def _tool(name: str) -> OfferedTool:
    action = PLATFORM_ACTIONS[name]
    resource = ToolResource(
        tool_name=action.tool_name,
        tool_type="platform",
        description=action.description,
        operations=["detail", "call"],
    )
    return OfferedTool(resource, action_pin(name), action.schema)
