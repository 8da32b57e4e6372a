"""What a call of the tools' ledger is about: a tool and its arguments, or a platform action."""

from __future__ import annotations

from typing import Any, NamedTuple

from hostler.domain.platform_actions import ACTION_OF_TOOL, PLATFORM_ACTIONS
from hostler.journal.call_log import CallRecord
from hostler_protocol.calls import ActionOutcome, ActionParams, ActionReply, ToolCallReply

TOOL_METHODS = frozenset({"tool.call", "action.request"})
"""The calls of the ledger that carry something out."""


class PlatformCall(NamedTuple):
    """The platform action that a call asks for, by either of the two ways."""

    name: str
    params: ActionParams | None = None
    """None: by the tool of the action."""

    def reply(
        self, outcome: ActionOutcome, result: Any = None, reason: str | None = None
    ) -> ToolCallReply | ActionReply:
        """Return the reply of the call."""
        said = ActionReply(outcome=outcome, result=result, reason=reason)
        if self.params is not None:
            return said
        plain = {"outcome": outcome, "result": result, "reason": reason}
        return ToolCallReply(result={name: value for name, value in plain.items() if value is not None})


def tool_of(record: CallRecord) -> str:
    """Return the name of the tool that a call is about."""
    params = record.params
    if not isinstance(params, ActionParams):
        return str(params.tool_name)
    action = PLATFORM_ACTIONS.get(params.action)
    return params.action if action is None else action.tool_name


def platform_call(record: CallRecord) -> PlatformCall | None:
    """Return the platform action that a call asks for; None for any other tool."""
    params = record.params
    if isinstance(params, ActionParams):
        return PlatformCall(params.action, params)
    name = ACTION_OF_TOOL.get(params.tool_name)
    return None if name is None else PlatformCall(name)
