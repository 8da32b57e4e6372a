"""Slash commands of a session that are not for the agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from acp.schema import AvailableCommand, AvailableCommandsUpdate

from hostler.cli.acp.editor import Editor
from hostler.cli.acp.host_access import HostAccess
from hostler.cli.acp.updates import agent_text
from hostler.cli.pause_show import WAITING, summary
from hostler.cli.routes import route
from hostler_protocol.errors import NotFoundError

MAX_WAITING = 20
MAX_STATE_VALUES = 1_000
OwnCommand: TypeAlias = Callable[[Editor, HostAccess, str], Awaitable[None]]


def own_command(text: str) -> OwnCommand | None:
    """Return the command that a prompt is, for a session; None if it is for the agent."""
    return _COMMANDS.get(text.strip())


def commands_update() -> AvailableCommandsUpdate:
    """Return the commands, as the editor lists them."""
    listed = [
        AvailableCommand(name=name.removeprefix("/"), description=description)
        for name, description in _DESCRIPTIONS.items()
    ]
    return AvailableCommandsUpdate(session_update="available_commands_update", available_commands=listed)


async def _show_pauses(editor: Editor, host: HostAccess, session_id: str) -> None:
    found = await host.ask(lambda api: api.items("/v1/pauses", limit=MAX_WAITING, conversation_id=session_id))
    waiting = [pause for pause in found if pause["status"] in WAITING]
    lines = [f"- {summary(pause)}: `hostler pauses show {pause['id']}`" for pause in reversed(waiting)]
    await editor.update(session_id, agent_text("\n".join(lines) or "Nothing waits for a decision."))


async def _show_state(editor: Editor, host: HostAccess, session_id: str) -> None:
    path = route("conversations", session_id, "state")
    try:
        found: list[dict[str, Any]] = await host.ask(lambda api: api.items(path, limit=MAX_STATE_VALUES))
    except NotFoundError:
        found = []
    lines = [f"{one['key']} = {msgspec.json.encode(one['value']).decode()}" for one in found]
    text = "```\n" + "\n".join(lines) + "\n```" if lines else "No state is kept for this session."
    await editor.update(session_id, agent_text(text))


_COMMANDS: Mapping[str, OwnCommand] = {"/pauses": _show_pauses, "/state": _show_state}
_DESCRIPTIONS = {
    "/pauses": "List the calls of this session that wait for a decision",
    "/state": "Show the state that is kept for this session",
}
