"""Pauses: what a run waits for, as three tables of states, and every limit of them.

A pause holds the calls that wait together. Its own status says who has the next step: people (`open`), the
host (`ready`, `resuming`), somebody who can find out what happened (`needs_review`), nobody (the rest). A
call has a decision (what people said) and an execution (what the host did); neither stands in for the other.
"""

from __future__ import annotations

from typing import Literal, get_args

from hostler_protocol.limits import DEFAULT_EXPIRY_SECONDS, KIB, MAX_PENDING_CALLS, MIB

PauseStatus = Literal[
    "open", "ready", "resuming", "needs_review", "resumed", "cancelled", "superseded", "failed"
]
PauseForm = Literal["implicit", "explicit"]
CallKind = Literal["approval", "client_tool", "question", "in_doubt"]
Decided = Literal["undecided", "approved", "denied", "answered", "cancelled", "expired"]
Execution = Literal["none", "reserved", "succeeded", "failed", "in_doubt"]
OnExpiry = Literal["resume", "cancel"]
"""What follows when every call is settled and one of them expired: the run goes on with `expired` as its
outcome, or ends as cancelled."""
OnMessage = Literal["hold", "supersede", "reject"]
"""What becomes of a message that arrives while a pause of its lane is open."""
ReviewReason = Literal["in_doubt", "changed", "revoked"]
"""Why somebody has to look at a call: nobody knows whether it was made, its tool is another one now, or who
approved it may no longer do so."""

NO_QUESTIONS = "the agent asks nobody (allow_questions is false)"
"""Why a question is denied that nobody was asked."""
HOST = "host"
"""Who denied it."""

TRANSITIONS: dict[tuple[PauseStatus | None, PauseStatus], str] = {
    (None, "open"): "a call waits for a person or a client",
    (None, "needs_review"): "a call may have been made: nobody knows",
    ("open", "ready"): "every call is settled",
    ("open", "needs_review"): "nobody knows whether a call was made",
    ("open", "cancelled"): "cancelled, or its run ended",
    ("open", "superseded"): "a new message took its place",
    ("ready", "resuming"): "an attempt of the run took it",
    ("ready", "cancelled"): "its run ended before an attempt took it",
    ("resuming", "resumed"): "every call was answered to the runner",
    ("resuming", "ready"): "its attempt was lost, or may be tried again",
    ("resuming", "needs_review"): "nobody knows whether a call was made, or its tool changed",
    ("resuming", "failed"): "it was tried as often as it may be",
    ("resuming", "cancelled"): "its run ended before every call was answered",
    ("needs_review", "ready"): "what happened is known, and every call is settled",
    ("needs_review", "open"): "asked again: revision + 1",
    ("needs_review", "cancelled"): "cancelled, or its run ended",
}
"""Every permitted change of a pause, and what brings it about; from None: how it begins."""

DECISIONS: dict[tuple[Decided, Decided], str] = {
    ("undecided", "approved"): "as many people as it needs said yes, or that it had not happened",
    ("undecided", "denied"): "somebody who may decide said no, or the agent asks nobody",
    (
        "undecided",
        "answered",
    ): "a client gave its result, a person filled in the form or said what happened",
    ("undecided", "cancelled"): "the pause was cancelled or superseded",
    ("undecided", "expired"): "nobody answered in time; nothing was executed",
    ("approved", "undecided"): "the approval no longer holds (tool changed, approver gone): asked again",
}
"""Every permitted change of what was decided of a call. Within a revision a decision never changes."""

EXECUTIONS: dict[tuple[Execution, Execution], str] = {
    ("none", "reserved"): "about to be made, under this epoch and effect key",
    ("reserved", "reserved"): "made again by a later epoch, with the same key",
    ("reserved", "succeeded"): "the tool gave its result",
    ("reserved", "failed"): "the tool gave an error",
    ("reserved", "in_doubt"): "nobody knows whether it was made",
    ("reserved", "none"): "certainly not made: the tool was never asked",
    ("in_doubt", "succeeded"): "a person says that it happened",
    ("in_doubt", "none"): "a person says that it did not happen: it may be made, under another key",
}
"""Every permitted change of what the host did with a call."""

STATUSES: tuple[PauseStatus, ...] = get_args(PauseStatus)
SETTLED: frozenset[PauseStatus] = frozenset({"resumed", "cancelled", "superseded", "failed"})
"""Nothing follows. A run has at most one pause that is not among these."""
UNSETTLED: frozenset[PauseStatus] = frozenset(STATUSES) - SETTLED

# -- limits, all checked before anybody is asked --------------------------------------------------------

MAX_CALLS = MAX_PENDING_CALLS
MAX_ARGUMENTS_BYTES = 64 * KIB
"""Arguments of one call: what a person can be shown. Stored twice, as proposed and as edited."""
MAX_RESULT_BYTES = 1 * MIB
"""A client's result; larger ones are uploaded as an artifact and named."""
MAX_COMMENT_BYTES = 4 * KIB
MAX_TITLE_CHARS = 500
MAX_NAME_CHARS = 255
"""Of a call's id and of its tool's name."""
"""A line in a list."""
MAX_DESCRIPTION_BYTES = 16 * KIB
"""Text above a form."""
MAX_SCHEMA_BYTES = 256 * KIB
"""One JSON Schema or form that is frozen with a call: what a tool may have."""
MAX_INLINE_STATE_BYTES = 256 * KIB
"""State of a runner that stands in the database; larger ones lie in the blob folder."""
MAX_STATE_BYTES = 8 * MIB
"""State of a runner: what a pause keeps for it."""
STATE_FORMAT = 1
"""How a runner's state is wrapped. An older one is migrated, a newer one is left to a newer build."""
MAX_IDEMPOTENCY_KEY_CHARS = 255

MAX_RESUME_ATTEMPTS = 5
"""Attempts at going on that may be lost; then the pause has failed, and its run with it."""
MAX_RESUME_LOSSES = 1_000
"""The same of attempts that were lost before they had done anything: with a minute between them, most of a
day. They are begun again with the same state and decisions."""
FIRST_BACKOFF_SECONDS = 1.0
LAST_BACKOFF_SECONDS = 60.0
"""Back-off after lost attempts at going on."""
STATE_KEPT_SECONDS = 24 * 3600
"""A runner's state is kept this long after the end of its pause."""
ROWS_KEPT_SECONDS = 30 * 86_400
"""Settled pauses are kept this long."""
MAX_SIMILAR_USES = 100
"""How often one "approve similar" may stand in for its approver."""
MAX_SIMILAR_MINUTES = 24 * 60
"""How long it may."""
MAX_SWEPT_PAUSES = 100
"""Pauses that one step of the sweeper looks at."""


def may_become(status: PauseStatus | None, to: PauseStatus) -> bool:
    """Whether a pause in `status` may go to `to`."""
    return (status, to) in TRANSITIONS


def is_settled(status: PauseStatus) -> bool:
    """Whether nothing follows."""
    return status in SETTLED


def expiry_seconds(asked: float | None) -> float:
    """How long a call waits: what was asked for, which was checked before; None: the default."""
    return DEFAULT_EXPIRY_SECONDS if asked is None else asked
