"""What streams of a workspace and of its conversations show: entries of the timeline with their content.

The results of runs are as in the stream of their run. Beside them is what a client needs to follow runs that
it did not begin: events that arrived, changes of status, pauses and their calls, steering, deletions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, get_args

import msgspec

from hostler.domain.pauses import PauseStatus
from hostler.domain.record import Record
from hostler.journal.feed import DELTA, StoredResult
from hostler.storage.port import Tx
from hostler.storage.sealing.envelope import KeyMissingError, SealedError
from hostler.storage.stores import timeline
from hostler.storage.stores.timeline import ArrivedEvent, JournalPiece, TimelineRow
from hostler_protocol._base import Lenient, Strict
from hostler_protocol.events import EventEnvelope
from hostler_protocol.results import RESULT_TYPES
from hostler_protocol.runs import RunStatus

log = logging.getLogger("hostler.journal")

OwnType = Literal[
    "event.received",
    "run.status",
    "steering.queued",
    "steering.injected",
    "steering.requeued",
    "steering.dropped",
    "pause.status",
    "pause.call",
    "conversation.deleted",
]
"""The types that are no results. Steering: a run absorbed a message, pulled it, left it to the next run, or
dropped it."""
ENTRY_TYPES: tuple[str, ...] = (*RESULT_TYPES, *get_args(OwnType))
"""All types that a stream may show."""
_encode = msgspec.json.encode


class ReceivedEvent(Strict):
    """`event.received`: an event was stored.

    `agent`: who receives it, if that was known. `envelope`: the event, inline files replaced by artifacts;
    null once its content was deleted. Times are UTC epoch seconds.
    """

    event_id: str
    event_type: str
    source: str
    agent: str | None
    bot_id: str | None
    conversation_id: str | None
    thread_id: str | None
    requester: str | None
    content_redacted: bool
    at: float
    envelope: EventEnvelope | None


class RunStatusChange(Strict):
    """`run.status`: a run was opened or changed its status. `event_id`: the event that it answers.

    `status_before` is null when it is opened. `cause`: why, in words.
    """

    run_id: str
    status: RunStatus
    status_before: RunStatus | None
    status_code: str | None
    cause: str
    attempt: int
    agent: str
    bot_id: str | None
    conversation_id: str | None
    thread_id: str | None
    event_id: str | None
    parent_run_id: str | None
    at: float


class SteeringChange(Strict):
    """`steering.*`: what became of a message that the run absorbed. `next_run_id`: who gets it instead."""

    run_id: str
    event_id: str
    conversation_id: str | None
    next_run_id: str | None
    reason: str | None
    at: float


class PauseChange(Strict):
    """`pause.status`: a pause was opened or changed its status; `interaction.requested` says what it asks."""

    pause_id: str
    run_id: str
    conversation_id: str | None
    status: PauseStatus
    status_before: PauseStatus | None
    revision: int
    at: float


class PausedCallChange(Strict):
    """`pause.call`: a call of a pause was decided, or has to be decided (`undecided`)."""

    pause_id: str
    run_id: str
    conversation_id: str | None
    call_id: str
    decision: str
    decision_before: str | None
    revision: int
    at: float


class ConversationDeletion(Strict):
    """`conversation.deleted`: all data of a conversation was deleted.

    `conversation`: `conversation:` and the SHA-256 of its id, as in the receipt of the deletion.
    """

    conversation: str
    at: float


DATA_OF: dict[OwnType, type[Strict]] = {
    "event.received": ReceivedEvent,
    "run.status": RunStatusChange,
    "steering.queued": SteeringChange,
    "steering.injected": SteeringChange,
    "steering.requeued": SteeringChange,
    "steering.dropped": SteeringChange,
    "pause.status": PauseChange,
    "pause.call": PausedCallChange,
    "conversation.deleted": ConversationDeletion,
}
"""Type -> its data. The data of a result is an AgentRunResult."""


class TimelineEntry(StoredResult, frozen=True, gc=False):
    """One entry: its sequence in the workspace, its type, its data as JSON, and what it belongs to."""

    conversation_id: str | None = None
    agent_name: str | None = None
    bot_id: str | None = None


class TimelinePage(Record):
    """Entries in order. `until`: all up to this sequence were looked at; `more` follow."""

    entries: list[TimelineEntry]
    until: int
    more: bool


class _Lifecycle(Lenient):
    before: RunStatus | None = msgspec.field(name="from", default=None)
    cause: str = ""
    status_code: str | None = None


class _Steering(Lenient):
    event_id: str = msgspec.field(name="source_event_id", default="")
    next_run_id: str | None = None
    reason: str | None = None


class _Decision(Lenient):
    pause_id: str = ""
    call_id: str = ""
    revision: int = 1
    before: str | None = msgspec.field(name="from", default=None)
    to: str = ""


class _SentEvent(ReceivedEvent):
    """A `ReceivedEvent` whose envelope is the stored JSON."""

    envelope: msgspec.Raw | None = None  # type: ignore[assignment]


_lifecycles = msgspec.json.Decoder(_Lifecycle)
_steerings = msgspec.json.Decoder(_Steering)
_decisions = msgspec.json.Decoder(_Decision)


def read_page(
    tx: Tx,
    ws: str,
    after: int,
    *,
    conversation_id: str | None,
    wants: Callable[[TimelineRow], bool],
    deltas: bool,
) -> TimelinePage:
    """Return the next wanted entries after a sequence. A page holds about 512 KiB, and may hold none."""
    step = timeline.step(tx, ws, after, conversation_id, wants)
    if not step.rows:
        return TimelinePage([], step.until, step.more)
    try:
        return _with_content(tx, ws, step.rows, after, deltas, step.until, step.more)
    except SealedError:
        return _first_row(tx, ws, step.rows[0], after, deltas)


def _first_row(tx: Tx, ws: str, row: TimelineRow, after: int, deltas: bool) -> TimelinePage:
    """Return the entries of one row, none if its content cannot be opened: its key was destroyed.

    KeyMissingError if this host lacks a key: then nothing is left out, and streams wait.
    """
    try:
        return _with_content(tx, ws, [row], after, deltas, row.last_seq, True)
    except KeyMissingError:
        raise
    except SealedError as error:
        log.warning("workspace %s: streams leave out what cannot be opened: %s", ws, error.message)
        return TimelinePage([], row.last_seq, more=True)


def _with_content(  # noqa: PLR0917
    tx: Tx, ws: str, rows: list[TimelineRow], after: int, deltas: bool, until: int, more: bool
) -> TimelinePage:
    pieces, all_of_them = timeline.pieces(tx, ws, rows, after, deltas=deltas)
    if not all_of_them:
        until, more = pieces[-1].seq, True
    known, left_out = timeline.events(tx, ws, [row for row in rows if row.last_seq <= until])
    if left_out is not None:
        until, more = left_out.last_seq - 1, True
    of_row: dict[int, list[JournalPiece]] = {}
    for piece in pieces:
        if piece.seq <= until:
            of_row.setdefault(piece.last_seq, []).append(piece)
    entries: list[TimelineEntry] = []
    for row in rows:
        match row.kind:
            case "journal":
                for piece in of_row.get(row.last_seq, ()):
                    entries += _of_piece(row, piece, after)
            case "event" if row.last_seq <= until:
                entries += _of_event(row, known.get(row.event_id or ""))
            case "deletion" if row.last_seq <= until:
                data = ConversationDeletion(conversation=row.conversation_id or "", at=row.created_at / 1000)
                entries.append(_entry(row, row.last_seq, "conversation.deleted", data))
    return TimelinePage(entries, until, more)


def _of_piece(row: TimelineRow, piece: JournalPiece, after: int) -> Iterator[TimelineEntry]:
    match piece.kind:
        case "result":
            yield from _results(row, piece, after)
        case "lifecycle":
            yield _entry(row, piece.seq, "run.status", _status_of(row, piece))
        case "steering":
            said = _steerings.decode(piece.data)
            data = SteeringChange(
                run_id=row.run_id or "",
                event_id=said.event_id,
                conversation_id=row.conversation_id,
                next_run_id=said.next_run_id,
                reason=said.reason,
                at=piece.at / 1000,
            )
            yield _entry(row, piece.seq, piece.type, data)
        case "decision":
            yield from _decision(row, piece)


def _results(row: TimelineRow, piece: JournalPiece, after: int) -> Iterator[TimelineEntry]:
    run_id, last = row.run_id or "", piece.last_sequence or 0
    if piece.type != DELTA:
        result = StoredResult.of(run_id, last, piece.type, piece.data.encode())
        yield _shown(row, piece.seq, piece.type, result.json)
        return
    lines: Sequence[str] = [piece.data] if piece.count == 1 else piece.data.split("\n")
    first = piece.seq - piece.count + 1
    for index, line in enumerate(lines):
        if first + index > after:
            sequence = last - piece.count + 1 + index
            result = StoredResult.of(run_id, sequence, DELTA, line.encode())
            yield _shown(row, first + index, DELTA, result.json)


def _status_of(row: TimelineRow, piece: JournalPiece) -> RunStatusChange:
    change = _lifecycles.decode(piece.data)
    return RunStatusChange(
        run_id=row.run_id or "",
        status=piece.type,  # type: ignore[arg-type]  # the type of such an entry is the status
        status_before=change.before,
        status_code=change.status_code,
        cause=change.cause,
        attempt=piece.attempt,
        agent=row.agent_name or "",
        bot_id=row.bot_id,
        conversation_id=row.conversation_id,
        thread_id=piece.thread_id,
        event_id=piece.event_id,
        parent_run_id=piece.parent_run_id,
        at=piece.at / 1000,
    )


def _decision(row: TimelineRow, piece: JournalPiece) -> Iterator[TimelineEntry]:
    if piece.type == "pause.vote":
        return
    change = _decisions.decode(piece.data)
    same: dict[str, Any] = {
        "pause_id": change.pause_id,
        "run_id": row.run_id,
        "conversation_id": row.conversation_id,
        "revision": change.revision,
        "at": piece.at / 1000,
    }
    if piece.type.startswith("pause.call."):
        decided = PausedCallChange(
            call_id=change.call_id, decision=change.to, decision_before=change.before, **same
        )
        yield _entry(row, piece.seq, "pause.call", decided)
    else:
        moved = PauseChange(status=change.to, status_before=change.before, **same)  # type: ignore[arg-type]
        yield _entry(row, piece.seq, "pause.status", moved)


def _of_event(row: TimelineRow, event: ArrivedEvent | None) -> Iterator[TimelineEntry]:
    if event is None:
        return
    sent = _SentEvent(
        event_id=event.event_id,
        event_type=event.event_type,
        source=event.source,
        agent=row.agent_name,
        bot_id=event.bot_id,
        conversation_id=event.conversation_id,
        thread_id=event.thread_id,
        requester=event.requester,
        content_redacted=event.content_redacted,
        at=event.created_at / 1000,
        envelope=None if event.body is None else msgspec.Raw(event.body.encode()),
    )
    yield _entry(row, row.last_seq, "event.received", sent)


def _entry(row: TimelineRow, sequence: int, entry_type: str, data: Strict) -> TimelineEntry:
    return _shown(row, sequence, entry_type, _encode(data))


def _shown(row: TimelineRow, sequence: int, entry_type: str, data: bytes) -> TimelineEntry:
    return TimelineEntry(sequence, entry_type, data, row.conversation_id, row.agent_name, row.bot_id)
