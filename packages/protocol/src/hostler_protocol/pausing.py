"""Pausing for a person or a client (PROTOCOL.md section 10)."""

from __future__ import annotations

from typing import Any, Literal

from hostler_protocol._base import Lenient, Sparse, always
from hostler_protocol.limits import MAX_EXPIRY_SECONDS, MIN_EXPIRY_SECONDS

PendingKind = Literal["approval", "client_tool", "question"]
QuestionKind = Literal["form", "confirmation", "choice"]
"""How a question is meant to be shown, as `interaction.request` says."""
Executor = Literal["host", "runner"]
"""Who carries out a call once it is approved."""
DecisionOutcome = Literal["approved", "denied", "answered", "expired", "cancelled"]
FieldType = Literal["text", "textarea", "select", "multiselect", "number", "boolean", "file"]


class FormField(Sparse):
    """One field of a form put to a person."""

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
    """What was decided of one call; `arguments` are the effective ones."""

    call_id: str
    decision: DecisionOutcome
    arguments: dict[str, Any] | None = None
    result: Any = None
    values: dict[str, Any] | None = None
    comment: str | None = None
    decided_by: str | None = None


class Continuation(Lenient):
    """What a resumed attempt is given: the runner's own state and the decisions."""

    state: Any = None
    decisions: list[Decision] = []
    resumed_by: str | None = None


class InteractionAction(Sparse):
    """A button of a question."""

    name: str
    label: str | None = None
    style: str | None = None


def expiry_misfit(expires_in: float | None) -> str | None:
    """Why a call cannot wait for `expires_in` seconds, as a sentence; None: it can.

    None is always possible: the tool's policy, or the default of 30 minutes, says how long.
    """
    if expires_in is None or MIN_EXPIRY_SECONDS <= expires_in <= MAX_EXPIRY_SECONDS:
        return None
    return (
        f"expires_in is {expires_in:,g} seconds; {MIN_EXPIRY_SECONDS:,.0f} to {MAX_EXPIRY_SECONDS:,.0f} "
        "(1 minute to 30 days) are possible"
    )
