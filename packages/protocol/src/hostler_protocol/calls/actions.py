"""Calls for actions on a chat platform."""

from __future__ import annotations

from typing import Any, Literal

from hostler_protocol._base import Strict
from hostler_protocol.calls.params import CallParams

ActionOutcome = Literal["done", "unsupported", "in_doubt"]


class ActionParams(CallParams):
    """`action.request`: have an action carried out on the platform, and learn what became of it.

    `target`: the fields of the action's target; what is left out is taken from the run's own event. As a text
    it is the message, person or chat that the action is about.
    """

    action: str
    target: dict[str, Any] | str | None = None
    payload: dict[str, Any] = {}


class ActionReply(Strict):
    """What became of an action. `done`: with the platform's `result`. `unsupported`: nothing was done, as
    nobody can; `in_doubt`: it may have been done, and nobody could find out. `reason` says why.

    An action that is refused is answered with an error: `unauthorized` by the rules, `denied` by people.
    """

    outcome: ActionOutcome
    result: Any = None
    reason: str | None = None
