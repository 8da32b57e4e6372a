"""Pauses and their calls as values: the question, its state and its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from hostler.domain.approvers import DEFAULT_RULE, ApproverRule
from hostler.domain.pauses import (
    HOST,
    CallKind,
    Decided,
    Execution,
    OnExpiry,
    OnMessage,
    PauseForm,
    PauseStatus,
    ReviewReason,
)
from hostler.domain.record import Record
from hostler.domain.tool_pins import ApprovedTool, PresentTool, ToolPin, approved_tool
from hostler_protocol.ids import digest
from hostler_protocol.pausing import Executor, FormField, InteractionAction, QuestionKind

VoteWord = Literal["approve", "deny", "result", "error", "answer", "happened", "not_happened"]
TOOL_CHANGED = "The tool has changed since this was first asked: look at it again."


class DecisionRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The question of a call, frozen when its pause opens and shown to those who decide."""

    title: str
    tool_name: str | None = None
    arguments: dict[str, Any] = {}
    """The arguments proposed by the agent."""
    description: str | None = None
    question_kind: QuestionKind | None = None
    """For questions: how the runner wants it shown."""
    fallback_text: str | None = None
    """For questions: the text to show where a form cannot be shown."""
    tool_call_id: str | None = None
    """The model's id of the tool call."""
    executor: Executor = "host"
    """Who executes the call once it is approved."""
    pin: ToolPin | None = None
    definition: str | None = None
    """The tool's definition as it is shown, as of `PresentTool`; None if it is not known."""
    changed: bool = False
    """Whether the tool is another one than when the call was first asked."""
    args_schema: dict[str, Any] | None = None
    result_schema: dict[str, Any] | None = None
    """JSON Schema of a client's result."""
    fields: list[FormField] = []
    actions: list[InteractionAction] = []
    rule: ApproverRule = DEFAULT_RULE
    editable: bool = False
    locked: list[str] = []
    """Paths of the arguments that an edit must not change."""
    on_expiry: OnExpiry = "resume"
    expires_in: float | None = None
    """Requested seconds; None: the default, or never for a call in doubt."""

    def is_about(self, tool: PresentTool) -> bool:
        """Return whether a decision about this call holds for the tool."""
        return tool.pin == self.pin if self.definition is None else tool.definition == self.definition

    def shown_digest(self, arguments: dict[str, Any]) -> str:
        """Return the digest by which a decision refers to what was shown: the arguments, and the tool if
        it is another one than when the call was first asked.
        """
        return digest([arguments, self.definition]) if self.changed else args_hash(arguments)

    @property
    def approved_tool(self) -> ApprovedTool | None:
        """The tool that an approval refers to, if the host carries the call out."""
        return None if self.pin is None else approved_tool(self.pin, self.definition)

    @property
    def explained(self) -> str | None:
        """The description, after a sentence that says that the tool changed."""
        said = [TOOL_CHANGED if self.changed else None, self.description]
        return " ".join(text for text in said if text) or None


class DecisionData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data given with a decision, or the outcome of executing the call."""

    comment: str | None = None
    result: Any = None
    is_error: bool = False
    values: dict[str, Any] | None = None
    action: str | None = None
    """The button that was pressed."""


class NewCall(Record, kw_only=True):
    """A call that must wait. `call_id` is the host's, unique within the run.

    `effect_key`: for a call that may have been made (kind `in_doubt`), its effect key. `denied`: the reason
    why the call is denied as soon as its pause opens, without asking anybody.
    """

    call_id: str
    kind: CallKind
    asked: DecisionRequest
    effect_key: str | None = None
    denied: str | None = None


class NewPause(Record, kw_only=True):
    """A pause to be opened. `state` is the runner's encoded state (explicit form)."""

    pause_id: str
    run_id: str
    calls: Sequence[NewCall]
    form: PauseForm = "implicit"
    on_message: OnMessage = "hold"
    state: bytes | None = None
    state_digest: str | None = None
    state_blob: str | None = None
    """SHA-256, in the blob folder, of a state that is too large for the row."""
    state_format: int = 1
    data_key: bytes | None = None


class Pause(Record, kw_only=True):
    """A stored pause. Times are UTC epoch milliseconds."""

    workspace_id: str
    pause_id: str
    run_id: str
    segment: int
    conversation_id: str | None
    requester: str | None
    status: PauseStatus
    revision: int
    form: PauseForm
    epoch: int
    """The latest attempt of the run that resumed from this pause; 0: none yet."""
    attempts: int
    """Attempts to resume that were lost or could not be started."""
    losses: int = 0
    """Attempts that were lost before they had done anything, and are repeated (explicit form)."""
    agent_version: int
    on_message: OnMessage
    state: bytes | None
    state_digest: str | None
    state_blob: str | None
    state_format: int
    data_key: bytes | None
    """The wrapped key with which `state` is sealed; None: it is not sealed."""
    created_at: int
    expires_at: int | None
    """When the next undecided call expires."""
    parked_at: int | None
    """When the run was parked; None: the attempt is still running and holds the calls."""
    settled_at: int | None
    resumed_by: str | None
    """The subject that made the last decision."""


class PausedCall(Record, kw_only=True):
    """A stored call of a pause. Times are UTC epoch milliseconds."""

    workspace_id: str
    pause_id: str
    run_id: str
    call_id: str
    ordinal: int
    kind: CallKind
    revision: int
    """The pause's revision when this call was last asked; votes of earlier revisions do not count."""
    asked: DecisionRequest
    effective: dict[str, Any]
    """The current arguments, edits included."""
    args_hash: str
    """As of `DecisionRequest.shown_digest`, of `effective`: a decision must repeat it."""
    edited_by: str | None
    decision: Decided
    decided_by: str | None
    decided_at: int | None
    given: DecisionData
    similar_id: str | None
    """The "approve similar" rule that approved the call."""
    execution: Execution
    epoch: int
    effect_key: str | None
    resolution: int
    """Times that a person declared the call not to have happened; part of the effect key."""
    review: ReviewReason | None
    handed_over: bool
    """Whether the outcome was delivered to the runner."""
    created_at: int
    expires_at: int | None

    @property
    def settled(self) -> bool:
        """Whether the call needs neither a decision nor a review."""
        return self.decision != "undecided" and self.review is None


def nobody_was_asked(calls: Sequence[PausedCall]) -> bool:
    """Whether there are calls and the host itself denied all of them."""
    return bool(calls) and all(call.decision == "denied" and call.decided_by == HOST for call in calls)


class CastVote(NamedTuple):
    """A stored vote. Votes never change."""

    call_id: str
    revision: int
    args_hash: str
    subject: str
    key_id: str
    vote: VoteWord
    comment: str | None
    at: int


def args_hash(arguments: dict[str, Any]) -> str:
    """Return the digest of the arguments that were shown."""
    return digest(arguments)
