"""Pauses and their calls as values: what opens one, and how one stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler.domain.approvers import DEFAULT_RULE, ApproverRule
from hostler.domain.pauses import (
    CallKind,
    Decided,
    Execution,
    OnExpiry,
    OnMessage,
    PauseForm,
    PauseStatus,
    ReviewReason,
)
from hostler.domain.tools import ToolPin
from hostler_protocol.pausing import FormField, InteractionAction


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCall:
    """One call that has to wait. `call_id` is the host's, unique in the run; `expires_in` in seconds."""

    call_id: str
    kind: CallKind
    title: str
    tool_name: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    description: str | None = None
    tool_call_id: str | None = None
    """The model's own id."""
    pin: ToolPin | None = None
    args_schema: Mapping[str, Any] | None = None
    result_schema: Mapping[str, Any] | None = None
    """What a client's result must be like."""
    fields: Sequence[FormField] = ()
    actions: Sequence[InteractionAction] = ()
    rule: ApproverRule = DEFAULT_RULE
    editable: bool = False
    locked: Sequence[str] = ()
    """Paths of the arguments that an edit must leave as they are."""
    expires_in: float | None = None
    effect_key: str | None = None
    """Of a call that may have been made (`in_doubt`): the key it was made under."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPause:
    """What is known of a pause when it opens. `state` is the runner's, encoded (explicit form)."""

    pause_id: str
    workspace_id: str
    run_id: str
    calls: Sequence[NewCall]
    form: PauseForm = "implicit"
    agent_version: int = 1
    conversation_id: str | None = None
    requester: str | None = None
    on_expiry: OnExpiry = "resume"
    on_message: OnMessage = "hold"
    state: bytes | None = None
    state_digest: str | None = None
    state_blob: str | None = None
    """Sha256 in the blob folder of a state that is too large to stand in the row."""
    state_format: int = 1


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
    """Attempts at going on that were lost."""
    agent_version: int
    on_expiry: OnExpiry
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
    """A call as it stands. `arguments` are the proposed ones; `effective` those that were decided on, or
    that are to be decided on after an edit.
    """

    workspace_id: str
    pause_id: str
    run_id: str
    call_id: str
    ordinal: int
    kind: CallKind
    title: str
    description: str | None
    tool_name: str | None
    tool_call_id: str | None
    pin: ToolPin | None
    arguments: dict[str, Any]
    effective: dict[str, Any]
    args_hash: str
    """Digest of the effective arguments: what whoever decides sends back."""
    edited_by: str | None
    args_schema: dict[str, Any] | None
    result_schema: dict[str, Any] | None
    fields: list[FormField]
    actions: list[InteractionAction]
    rule: ApproverRule
    editable: bool
    locked: list[str]
    decision: Decided
    decided_by: str | None
    decided_at: int | None
    comment: str | None
    result: Any
    """Of a client tool, and of a call that happened after all; of an executed call its result or error."""
    is_error: bool
    values: dict[str, Any] | None
    action: str | None
    """The button that was pressed."""
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
    expires_at: int
    created_at: int


def encoded(value: Any) -> str | None:
    """JSON for a column; None stays NULL."""
    return None if value is None else msgspec.json.encode(value).decode()
