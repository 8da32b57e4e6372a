"""Pauses and their calls as values: what is asked, how a call stands, what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from hostler.domain.tool_pins import ToolPin
from hostler_protocol.ids import digest
from hostler_protocol.pausing import Executor, FormField, InteractionAction, QuestionKind

VoteWord = Literal["approve", "deny", "result", "error", "answer", "happened", "not_happened"]


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is frozen of a call when it is asked, and shown to whoever decides it."""

    title: str
    tool_name: str | None = None
    arguments: dict[str, Any] = {}
    """As the agent proposed them."""
    description: str | None = None
    question_kind: QuestionKind | None = None
    """Of a question: how the runner wants it to be shown."""
    fallback_text: str | None = None
    """Of a question: what to show where its form cannot be."""
    tool_call_id: str | None = None
    """The model's own id."""
    executor: Executor = "host"
    """Who carries it out once it is approved."""
    pin: ToolPin | None = None
    args_schema: dict[str, Any] | None = None
    result_schema: dict[str, Any] | None = None
    """What a client's result must be like."""
    fields: list[FormField] = []
    actions: list[InteractionAction] = []
    rule: ApproverRule = DEFAULT_RULE
    editable: bool = False
    locked: list[str] = []
    """Paths of the arguments that an edit must leave as they are."""
    on_expiry: OnExpiry = "resume"
    expires_in: float | None = None
    """Seconds, as given; None: the default, and never where the call is in doubt."""


class Given(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came with a decision, or of carrying it out."""

    comment: str | None = None
    result: Any = None
    is_error: bool = False
    values: dict[str, Any] | None = None
    action: str | None = None
    """The button that was pressed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCall:
    """One call that has to wait. `call_id` is the host's, unique in the run.

    `effect_key`: of a call that may have been made (kind `in_doubt`), the key it was made under. `denied`:
    why nobody is asked, and the call is denied as soon as its pause opens.
    """

    call_id: str
    kind: CallKind
    asked: Asked
    effect_key: str | None = None
    denied: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPause:
    """What is known of a pause when it opens. `state` is the runner's, encoded (explicit form)."""

    pause_id: str
    run_id: str
    calls: Sequence[NewCall]
    form: PauseForm = "implicit"
    on_message: OnMessage = "hold"
    state: bytes | None = None
    state_digest: str | None = None
    state_blob: str | None = None
    """Sha256 in the blob folder of a state that is too large to stand in the row."""
    state_format: int = 1
    data_key: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause as it stands. Times are UTC epoch milliseconds."""

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
    """The attempt of the run that goes on with it, or did last; 0: none yet."""
    attempts: int
    """Attempts at going on that were lost, or could not be begun."""
    losses: int = 0
    """Attempts that were lost before they had done anything: they are begun again (explicit form)."""
    agent_version: int
    on_message: OnMessage
    state: bytes | None
    state_digest: str | None
    state_blob: str | None
    state_format: int
    data_key: bytes | None
    """The wrapped key that `state` is sealed with; None: it is not sealed."""
    created_at: int
    expires_at: int | None
    """When the next undecided call expires."""
    parked_at: int | None
    """Since when the run is paused for it; None: the run holds the calls itself."""
    settled_at: int | None
    resumed_by: str | None
    """Who gave the last decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedCall:
    """A call as it stands. Times are UTC epoch milliseconds."""

    workspace_id: str
    pause_id: str
    run_id: str
    call_id: str
    ordinal: int
    kind: CallKind
    revision: int
    """Of the pause, when this call was asked last: votes of an earlier one do not count."""
    asked: Asked
    effective: dict[str, Any]
    """The arguments that were decided on, or are to be decided on."""
    args_hash: str
    """Their digest: what whoever decides sends back."""
    edited_by: str | None
    decision: Decided
    decided_by: str | None
    decided_at: int | None
    given: Given
    similar_id: str | None
    """The rule that approved it in its approver's stead."""
    execution: Execution
    epoch: int
    effect_key: str | None
    resolution: int
    """How often a person said that it had not happened: part of the effect key."""
    review: ReviewReason | None
    handed_over: bool
    """Whether the runner was given its outcome."""
    created_at: int
    expires_at: int | None

    @property
    def settled(self) -> bool:
        """Whether nobody has to say anything about it any more."""
        return self.decision != "undecided" and self.review is None


def nobody_was_asked(calls: Sequence[PausedCall]) -> bool:
    """Whether there are calls, and the host itself denied every one."""
    return bool(calls) and all(call.decision == "denied" and call.decided_by == HOST for call in calls)


class CastVote(NamedTuple):
    """A vote as it was given. Votes never change."""

    call_id: str
    revision: int
    args_hash: str
    subject: str
    key_id: str
    vote: VoteWord
    comment: str | None
    at: int


def args_hash(arguments: dict[str, Any]) -> str:
    """The digest by which whoever decides names the arguments that were shown."""
    return digest(arguments)
