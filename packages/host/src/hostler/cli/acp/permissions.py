"""Permission requests: a person at the editor chooses one of some options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import acp
from acp.schema import (
    AllowedOutcome,
    PermissionOption,
    PermissionOptionKind,
    RequestPermissionRequest,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from hostler.cli.acp.decisions import Action
from hostler.cli.acp.editor import Editor
from hostler.cli.acp.updates import kind_of, title_of, tool_text
from hostler.cli.pause_show import pretty

ALLOW, ALLOW_AGAIN, REJECT = "allow", "allow_again", "reject"
SIMILAR = {"uses": 20, "minutes": 30}
"""What "allow again" covers: the same call with the same arguments."""


def option(option_id: str, name: str, kind: PermissionOptionKind) -> PermissionOption:
    """Return one option."""
    return PermissionOption(option_id=option_id, name=name, kind=kind)


async def choose(
    editor: Editor, session_id: str, tool_call: ToolCallUpdate, options: Sequence[PermissionOption]
) -> str | None:
    """Return the id of the chosen option; None if the person chose none. EditorError."""
    request = RequestPermissionRequest(session_id=session_id, tool_call=tool_call, options=list(options))
    method = acp.CLIENT_METHODS["session_request_permission"]
    answer = await editor.ask(method, request, RequestPermissionResponse)
    if not isinstance(answer.outcome, AllowedOutcome):
        return None
    chosen = answer.outcome.option_id
    return chosen if chosen in {one.option_id for one in options} else None


def described(
    call_id: str, name: str, arguments: Any, *, title: str | None = None, text: str = ""
) -> ToolCallUpdate:
    """Return what a permission is asked for: the call with all its arguments."""
    shown = f"```json\n{pretty(arguments)}\n```"
    return ToolCallUpdate(
        tool_call_id=call_id,
        title=title or title_of(name, arguments),
        kind=kind_of(name),  # type: ignore[arg-type]
        status="pending",
        raw_input=arguments,
        content=[tool_text("\n\n".join(filter(None, (text, shown))))],
    )


def approval_options(call: dict[str, Any]) -> list[PermissionOption]:
    """Return the options of an approval."""
    found = [option(ALLOW, "Allow", "allow_once"), option(REJECT, "Reject", "reject_once")]
    if call["kind"] == "budget":
        return [option(ALLOW, "Add to the budget", "allow_once"), found[1]]
    if call.get("executor", "host") == "host" and call.get("approvals_needed", 1) == 1:
        again = f"Allow, and the same call again for {SIMILAR['minutes']} minutes"
        found.insert(1, option(ALLOW_AGAIN, again, "allow_always"))
    return found


def approval_action(call: dict[str, Any], chosen: str) -> Action:
    """Return the action for a chosen option, with the digest of the arguments that were shown."""
    if chosen == REJECT:
        return {"type": "deny", "args_hash": call["args_hash"]}
    action: Action = {"type": "approve", "args_hash": call["args_hash"]}
    return action | {"similar": SIMILAR} if chosen == ALLOW_AGAIN else action


def approval_text(call: dict[str, Any]) -> str:
    """Return the sentence above the arguments of an approval."""
    texts = [call.get("title"), call.get("description") or call.get("fallback_text")]
    if call.get("approvals_needed", 1) > 1:
        texts.append(f"{call['approvals_needed']} people have to approve it.")
    return "\n\n".join(str(text) for text in texts if text and text != call.get("tool"))
