"""Pauses: three tables of states, and all limits.

A pause holds the calls that wait together. Its status says who has to act next: people (`open`), the host
(`ready`, `resuming`), a person who finds out what happened (`needs_review`), nobody (the rest). A call has a
decision (of people) and an execution (by the host), which are independent of each other.
"""

from __future__ import annotations

from typing import Literal, get_args

from hostler_protocol.limits import DEFAULT_EXPIRY_SECONDS, KIB, MAX_PENDING_CALLS, MIB

PauseStatus = Literal[
    "open", "ready", "resuming", "needs_review", "resumed", "cancelled", "superseded", "failed"
]
PauseForm = Literal["implicit", "explicit"]
CallKind = Literal["approval", "client_tool", "question", "in_doubt", "budget"]
Decided = Literal["undecided", "approved", "denied", "answered", "cancelled", "expired"]
Execution = Literal["none", "reserved", "succeeded", "failed", "in_doubt"]
OnExpiry = Literal["resume", "cancel"]
"""After a call expired and all calls are settled: resume the run with outcome `expired`, or cancel it."""
OnMessage = Literal["hold", "supersede", "reject"]
"""How a message is handled that arrives while a pause of its lane is open."""
ReviewReason = Literal["in_doubt", "changed", "revoked"]
"""Why a person must review a call: it may have been made, its tool has changed, or its approver has lost the
right to approve."""

NO_QUESTIONS = "the agent asks nobody (allow_questions is false)"
"""Comment of a question that is denied without asking anybody."""
HOST = "host"
"""`decided_by` of calls that the host itself denies."""

TRANSITIONS: dict[tuple[PauseStatus | None, PauseStatus], str] = {
    (None, "open"): "a call waits for a person or a client",
    (None, "needs_review"): "it is not known whether a call was made",
    ("open", "ready"): "every call is settled",
    ("open", "needs_review"): "it is not known whether a call was made",
    ("open", "cancelled"): "cancelled, or its run ended",
    ("open", "superseded"): "a new message superseded it",
    ("ready", "resuming"): "an attempt of the run claimed it",
    ("ready", "cancelled"): "its run ended before an attempt claimed it",
    ("resuming", "resumed"): "the runner got the outcome of every call",
    ("resuming", "ready"): "its attempt was lost, or may be tried again",
    ("resuming", "needs_review"): "it is not known whether a call was made, or its tool changed",
    ("resuming", "failed"): "all attempts are used up",
    ("resuming", "cancelled"): "its run ended before every call was answered",
    ("needs_review", "ready"): "the review is complete, and every call is settled",
    ("needs_review", "open"): "asked again: revision + 1",
    ("needs_review", "cancelled"): "cancelled, or its run ended",
}
"""Every permitted change of a pause's status, and its cause; from None: how a pause begins."""

DECISIONS: dict[tuple[Decided, Decided], str] = {
    (
        "undecided",
        "approved",
    ): "it has the approvals that it needs, or a person says that it had not happened",
    ("undecided", "denied"): "an approver denied it, or the agent allows no questions",
    ("undecided", "answered"): "a client sent its result, a person filled in the form or said what happened",
    ("undecided", "cancelled"): "the pause was cancelled or superseded",
    ("undecided", "expired"): "nobody answered in time; nothing was executed",
    ("approved", "undecided"): "the approval no longer holds (tool changed, approver gone): asked again",
}
"""Every permitted change of a call's decision. Within a revision a decision never changes."""

EXECUTIONS: dict[tuple[Execution, Execution], str] = {
    ("none", "reserved"): "about to be made, under this epoch and effect key",
    ("reserved", "reserved"): "made again by a later epoch, with the same key",
    ("reserved", "succeeded"): "the tool returned its result",
    ("reserved", "failed"): "the tool returned an error",
    ("reserved", "in_doubt"): "it is not known whether it was made",
    ("reserved", "none"): "certainly not made: the tool was not called",
    ("none", "in_doubt"): "who said that it did not happen may not say so any more",
    ("in_doubt", "succeeded"): "a person says that it happened",
    ("in_doubt", "none"): "a person says that it did not happen: it may be made, under another key",
}
"""Every permitted change of a call's execution."""

STATUSES: tuple[PauseStatus, ...] = get_args(PauseStatus)
SETTLED: frozenset[PauseStatus] = frozenset({"resumed", "cancelled", "superseded", "failed"})
"""Final statuses. A run has at most one pause in another status."""
UNSETTLED: frozenset[PauseStatus] = frozenset(STATUSES) - SETTLED

# -- limits, all checked before people are asked --------------------------------------------------------

MAX_CALLS = MAX_PENDING_CALLS
MAX_ARGUMENTS_BYTES = 64 * KIB
"""Arguments of one call, as much as a person can read. Stored twice: as proposed and as edited."""
MAX_RESULT_BYTES = 1 * MIB
"""A client's result; a larger one is uploaded as an artifact, and the result names it."""
MAX_COMMENT_BYTES = 4 * KIB
MAX_TITLE_CHARS = 500
"""A line in a list."""
MAX_NAME_CHARS = 255
"""A call's id, or its tool's name."""
MAX_DESCRIPTION_BYTES = 16 * KIB
"""Text above a form."""
MAX_SCHEMA_BYTES = 256 * KIB
"""One JSON Schema or form frozen with a call; schemas of tools have the same limit."""
MAX_INLINE_STATE_BYTES = 256 * KIB
"""State of a runner stored in the database; a larger one is stored in the blob folder."""
MAX_STATE_BYTES = 8 * MIB
"""State of a runner that a pause stores."""
STATE_FORMAT = 1
"""Format of stored states. Older ones are migrated; newer ones are refused."""
MAX_IDEMPOTENCY_KEY_CHARS = 255

MAX_RESUME_ATTEMPTS = 5
"""Attempts to resume that may be lost; after that the pause fails, and its run with it."""
MAX_RESUME_LOSSES = 1_000
"""Attempts that may be lost before they have done anything: with a minute between them, most of a day. Each
is repeated with the same state and decisions."""
FIRST_BACKOFF_SECONDS = 1.0
LAST_BACKOFF_SECONDS = 60.0
"""Back-off after lost attempts to resume: 1 s, doubled each time, at most 60 s."""
STATE_KEPT_SECONDS = 24 * 3600
"""A runner's state is kept this long after its pause is settled."""
ROWS_KEPT_SECONDS = 30 * 86_400
"""Settled pauses are kept this long."""
MAX_SIMILAR_USES = 100
"""Calls that one "approve similar" rule may approve."""
MAX_SIMILAR_MINUTES = 24 * 60
"""Lifetime of an "approve similar" rule."""
MAX_SWEPT_PAUSES = 100
"""Pauses that the sweeper handles in one step."""


def may_become(status: PauseStatus | None, to: PauseStatus) -> bool:
    """Whether a pause in `status` may go to `to`."""
    return (status, to) in TRANSITIONS


def is_settled(status: PauseStatus) -> bool:
    """Whether the status is final."""
    return status in SETTLED


def expiry_seconds(asked: float | None) -> float:
    """Return how long a call waits: the requested seconds, already checked, or the default for None."""
    return DEFAULT_EXPIRY_SECONDS if asked is None else asked
