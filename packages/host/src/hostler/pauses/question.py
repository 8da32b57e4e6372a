"""Questions that only a person or a client can answer, and their verdicts.

A question is identified by the name of its call: a later attempt that asks it again finds what was decided.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.record import Record
from hostler.domain.recording import CallName
from hostler.domain.tool_pins import ToolPin
from hostler.storage.port import Tx
from hostler_protocol.calls import InteractionParams
from hostler_protocol.errors import CancelledCallError, DeniedError, ExpiredError, HostlerError

QuestionKind = Literal["approval", "client_tool", "question", "in_doubt", "budget"]
VerdictOutcome = Literal["approved", "denied", "answered", "expired", "cancelled", "happened", "not_happened"]


class Question(Record):
    """One call that waits. `parameters`: the arguments as the runner proposed them.

    `rule`: who may decide; None for the default rule. `resolution`: how often a person has said of
    this call that it did not happen. `form`: of an `interaction.request`.
    """

    kind: QuestionKind
    name: CallName
    parameters: dict[str, Any]
    tool_name: str | None = None
    pin: ToolPin | None = None
    rule: ToolApprovalPolicy | None = None
    model_call_id: str | None = None
    resolution: int = 0
    form: InteractionParams | None = None
    begun_under: str | None = None
    """The effect key under which an attempt before began the call, where this one is to finish it."""
    reason: str | None = None
    """For a call in doubt: why the host does not know its outcome."""

    @property
    def call_id(self) -> str:
        """The host's own name of the call."""
        return self.name.call_id


class AskAgainError(CancelledCallError):
    """The decision no longer holds: the same question has to be asked again."""


class Verdict(Record):
    """A decision. `arguments`: the effective ones of an approved call.

    `reserve` is carried out in the transaction that makes the intent durable: (transaction, effect key); it
    gives, as a value, why the call may not be made after all. `settle` is carried out in the transaction of
    the outcome: (transaction, the error that the call ended with, if any).
    """

    outcome: VerdictOutcome
    arguments: dict[str, Any] | None = None
    result: Any = None
    values: dict[str, Any] | None = None
    comment: str | None = None
    decided_by: str | None = None
    pause_id: str | None = None
    pin: ToolPin | None = None
    """The tool that was approved, where it is another one than the grant's by now."""
    definition: str | None = None
    """Of the tool that was approved, if it is about to be called for the first time."""
    similar_id: str | None = None
    """The approval for similar calls that let it through without asking."""
    is_error: bool = False
    """A client says that its tool failed; `result` says how."""
    reserve: Callable[[Tx, str], HostlerError | None] | None = None
    settle: Callable[[Tx, HostlerError | None], None] | None = None


def refusal_of(verdict: Verdict, what: str) -> HostlerError | None:
    """The error that a call ends with where people did not let it go on; None: they did."""
    by = f" by {verdict.decided_by}" if verdict.decided_by else ""
    comment = f": {verdict.comment}" if verdict.comment else ""
    match verdict.outcome:
        case "denied":
            return DeniedError(f"{what} was denied{by}{comment}")
        case "expired":
            return ExpiredError(f"nobody decided on {what} in time: it was not carried out")
        case "cancelled":
            return CancelledCallError(f"{what} was cancelled{by}{comment}")
        case _:
            return None
