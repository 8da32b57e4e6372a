"""Pauses: calls that wait for a person or a client, and their decisions."""

from __future__ import annotations

from typing import Any, Literal

from hostler_protocol._base import Lenient, Sparse, always
from hostler_protocol.limits import MAX_EXPIRY_SECONDS, MIN_EXPIRY_SECONDS

PendingKind = Literal["approval", "client_tool", "question"]
QuestionKind = Literal["form", "confirmation", "choice"]
"""How `interaction.request` wants a question to be shown."""
Executor = Literal["host", "runner"]
"""The side that carries out a call once it is approved."""
DecisionOutcome = Literal["approved", "denied", "answered", "expired", "cancelled"]
FieldType = Literal["text", "textarea", "select", "multiselect", "number", "boolean", "file"]


class FormField(Sparse):
    """One field of a form that a person fills in."""

    name: str
    type: FieldType
    label: str | None = None
    required: bool = False
    default: Any = None
    options: list[Any] = []
    description: str | None = None


class PendingCall(Sparse):
    """One call that waits for a person or a client.

    `executor: "runner"`: the runner carries the call out itself after the decision. It may then name any
    tool; the host records the decision and executes nothing.
    """

    tool_name: str
    arguments: dict[str, Any]
    kind: PendingKind
    title: str = always("")
    call_id: str | None = None
    description: str | None = None
    schema: list[FormField] | None = None
    editable: bool = always(False)
    executor: Executor = "host"


class Decision(Lenient):
    """The decision on one call. `arguments` are those to use: the original or the edited ones."""

    call_id: str
    decision: DecisionOutcome
    arguments: dict[str, Any] | None = None
    result: Any = None
    values: dict[str, Any] | None = None
    comment: str | None = None
    decided_by: str | None = None


class Continuation(Lenient):
    """Passed to an attempt that goes on after `run.paused`: the runner's saved `state` and the decisions."""

    state: Any = None
    decisions: list[Decision] = []
    resumed_by: str | None = None


class InteractionAction(Sparse):
    """A button of a question. `style` is a hint for its display."""

    name: str
    label: str | None = None
    style: str | None = None


def expiry_misfit(expires_in: float | None) -> str | None:
    """Return a sentence on why `expires_in` seconds are out of range, or None if they are not.

    `expires_in=None` is always valid: the tool's policy or the default of 30 minutes applies.
    """
    if expires_in is None or MIN_EXPIRY_SECONDS <= expires_in <= MAX_EXPIRY_SECONDS:
        return None
    return (
        f"expires_in is {expires_in:,g} seconds; {MIN_EXPIRY_SECONDS:,.0f} to {MAX_EXPIRY_SECONDS:,.0f} "
        "(1 minute to 30 days) are possible"
    )
