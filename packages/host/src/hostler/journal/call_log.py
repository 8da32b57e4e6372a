"""Write the calls of an attempt into the journal; the entry of a large one refers to a blob."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Protocol

import msgspec

from hostler.domain.call_checks import CallCheck
from hostler.domain.clock import monotonic_clock
from hostler.domain.recording import CallName
from hostler.journal.call_records import CallEntry, Intent, Reserved, abridged, fields_of, named_by
from hostler.journal.run_log import Item, RunLog
from hostler.storage.port import Tx
from hostler.storage.stores import model_calls
from hostler.storage.stores.blobs import Blob, BlobFolder, reference
from hostler.storage.stores.journal import MAX_INLINE_BYTES, NewEntry
from hostler.storage.stores.model_calls import ModelCall
from hostler_protocol.errors import HostlerError, to_fault

_encoder = msgspec.json.Encoder()

_OF_MODELS = frozenset({"model.invoke", "model.stream", "model.embed", "model.rerank"})
"""Calls that a model answers."""

Settle = Callable[[Tx], HostlerError | None]
"""Writes what goes with an outcome. The error that it returns becomes the outcome: it wrote nothing then."""


class Reservation(Protocol):
    """What a call has reserved in the run's budgets, until its outcome is journalled."""

    @property
    def shown(self) -> Reserved | None:
        """What was reserved, for the journal; None: nothing."""
        ...

    def settle(self, tx: Tx) -> None:
        """Replace it by what was used, in the transaction of the outcome."""
        ...

    def settled(self) -> None:
        """Note that the outcome is committed."""
        ...


@dataclass(slots=True, eq=False)
class CallRecord:
    """One call in progress. `effect`: the effect class of its tool."""

    name: CallName
    params: Any
    effect: str | None = None
    cost: Decimal | None = None
    """What the reply of a model cost."""
    began: float = field(default_factory=monotonic_clock)
    check: CallCheck | None = None
    """The check that it is at, after the gate's."""
    inherited: bool = False
    """Whether its answer is that of the run it was forked from."""
    chunks: list[Any] = field(default_factory=list)
    """Chunks streamed so far."""
    is_written: bool = False
    """Whether its outcome was queued for the journal."""
    is_late: bool = False
    """Whether its runner was answered before, at the run's deadline, while the tool was at work."""
    is_over: bool = False
    """Whether it was answered, or nobody waits for the answer any more."""
    reservation: Reservation | None = None
    """What it has reserved in budgets; it is settled with the outcome."""
    asking: str | None = None
    """The id of the question to people about a budget that it waits for."""

    def entry(self, reply: Any = None, error: HostlerError | None = None, **more: Any) -> CallEntry:
        """Return the journal entry of the call."""
        return CallEntry(
            method=self.name.method,
            digest=self.name.digest,
            nth=self.name.nth,
            params=self.params,
            ms=round((time.monotonic() - self.began) * 1000, 3),
            chunks=self.chunks,
            reply=msgspec.UNSET if error is not None else reply,
            error=None if error is None else to_fault(error),
            effect=self.effect,
            cost=self.cost,
            check=None if error is None else self.check,
            inherited=self.inherited,
            reserved=self._reserved,
            late=self.is_late,
            **more,
        )

    @property
    def _reserved(self) -> Reserved | None:
        return None if self.reservation is None else self.reservation.shown

    def outline(self, size: int, whole: CallEntry) -> CallEntry:
        """Return the short entry of a call whose whole entry, of `size` bytes, is too large for a row."""
        return CallEntry(
            method=self.name.method,
            digest=self.name.digest,
            nth=self.name.nth,
            error=whole.error,
            effect=self.effect,
            size_bytes=size,
            usage=getattr(whole.reply, "usage", None),
            cost=self.cost,
            given_up=whole.given_up,
            check=whole.check,
            resource=named_by(self.name.method, fields_of(self.params)),
            inherited=whole.inherited,
            reserved=self._reserved,
            late=self.is_late,
        )


class CallLog:
    """Writes the calls of one attempt into its run's journal.

    Answers go out in the order of the outcomes there, in which a later attempt or a replay gets them again:
    an answer that need not wait for a commit waits for those that do. `turn` comes before the answer, `over`
    after it.
    """

    def __init__(self, journal: RunLog, blobs: BlobFolder) -> None:
        self._journal = journal
        self._blobs = blobs
        self._unanswered: dict[CallRecord, asyncio.Future[None] | None] = {}
        """Calls whose outcome is queued, in that order; with what those wait for whose turn has not come."""

    def queued(self, record: CallRecord) -> None:
        """Note that the outcome of a call takes its place in the journal."""
        if not record.is_over:
            self._unanswered[record] = None

    async def turn(self, record: CallRecord) -> None:
        """Wait until the calls are answered whose outcomes were queued before this one's."""
        if record in self._unanswered and next(iter(self._unanswered)) is not record:
            turn = self._unanswered[record] = asyncio.get_running_loop().create_future()
            await turn

    def over(self, record: CallRecord) -> None:
        """Note that a call was answered, or that nobody waits for the answer any more."""
        record.is_over = True
        self._unanswered.pop(record, None)
        turn = next(iter(self._unanswered.values()), None)
        if turn is not None and not turn.done():
            turn.set_result(None)

    def write_refusal(self, refusal: CallEntry) -> None:
        """Write a call that the gate refused."""
        data = _encoder.encode(refusal)
        item = Item(entry=NewEntry("refusal", refusal.method, data), synced=False, size=len(data))
        self._journal.add(item, hurry=False)

    def effect_entry(self, record: CallRecord, reply: Any, error: HostlerError | None) -> NewEntry:
        """Return the entry of a call that is carried out in the transaction that writes the entry."""
        data = _encoder.encode(record.entry(reply, error))
        if len(data) > MAX_INLINE_BYTES:  # its large values are stored by the effect itself
            data = _encoder.encode(replace(record, params=abridged(record.params)).entry(reply, error))
        return NewEntry("call", record.name.method, data)

    def child_intent(self, record: CallRecord, child_run_id: str) -> NewEntry:
        """Return the intent of a call whose child run exists, and whose answer waits for that run."""
        name = record.name
        intent = Intent(
            name.method,
            name.digest,
            name.nth,
            name.call_id,
            params=abridged(record.params),
            child_run_id=child_run_id,
        )
        return NewEntry("intent", name.method, _encoder.encode(intent))

    def write(
        self,
        record: CallRecord,
        *,
        reply: Any = None,
        error: HostlerError | None = None,
        given_up: bool = False,
        settle: Callable[[Tx], None] | None = None,
    ) -> None:
        """Queue an outcome without waiting for its commit. `settle` runs in the same transaction."""
        whole = record.entry(reply, error, given_up=given_up)
        self._journal.add(self._outcome(record, whole, settle), hurry=False)

    async def write_durable(
        self,
        record: CallRecord,
        reply: Any,
        error: HostlerError | None,
        settle: Settle | None = None,
    ) -> HostlerError | None:
        """Write an outcome; it is durable when this returns.

        `settle` runs in the same transaction. An error that it returns is the outcome instead, and returned.
        """
        item = self._outcome(record, record.entry(reply, error), settle)
        item.synced = True
        refused: HostlerError | None = await self._journal.commit(item)
        return refused

    def _outcome(self, record: CallRecord, whole: CallEntry, settle: Settle | None) -> Item:
        record.is_written = True
        if not record.is_late:
            self.queued(record)
        data = _encoder.encode(whole)
        entry = NewEntry("call", record.name.method, data)
        is_small = len(data) <= MAX_INLINE_BYTES
        reservation, model_call = record.reservation, _model_call(record, whole)
        if is_small and settle is None and reservation is None and model_call is None:
            return Item(entry=entry, synced=False, size=len(data))
        stored: list[Blob] = []

        async def put() -> None:
            stored.append(await self._blobs.put(data))

        def work(tx: Tx) -> tuple[NewEntry, HostlerError | None]:
            refused = None if settle is None else settle(tx)
            if reservation is not None:
                reservation.settle(tx)
            if model_call is not None:
                model_calls.add(tx, self._journal.run_id, model_call)
            if refused is not None:
                return NewEntry(
                    "call", record.name.method, _encoder.encode(record.entry(error=refused))
                ), refused
            return entry if is_small else _outlined(tx, record, stored[-1], whole), None

        return Item(
            before=None if is_small else put,
            work=work,
            synced=settle is not None,
            size=len(data),
            done=None if reservation is None else _settled(reservation),
        )

    def write_withdrawn(
        self, record: CallRecord, settle: Callable[[Tx], None], durable: Callable[[], None]
    ) -> None:
        """Write that the runner gave up a call before any of it was carried out.

        `settle` runs in the same transaction; `durable` is called after the commit.
        """
        record.is_written = True
        entry = replace(record, params=abridged(record.params)).entry(given_up=True)
        data = _encoder.encode(entry)

        def work(tx: Tx) -> tuple[NewEntry, None]:
            settle(tx)
            return NewEntry("call", record.name.method, data), None

        self._journal.add(Item(work=work, size=len(data), done=lambda *_: durable()))


def _model_call(record: CallRecord, whole: CallEntry) -> ModelCall | None:
    """Return what a call used of a model; None: it called none, or the run it was forked from did."""
    if record.inherited or record.name.method not in _OF_MODELS:
        return None
    return ModelCall(
        model_id=record.params.model_id,
        outcome="given_up" if whole.given_up else "completed" if whole.error is None else "failed",
        milliseconds=round(whole.ms or 0),
        usage=getattr(whole.reply, "usage", None),
        cost=record.cost,
    )


def _settled(reservation: Reservation) -> Callable[[Any, HostlerError | None], None]:
    def done(_: Any, error: HostlerError | None) -> None:
        if error is None:
            reservation.settled()

    return done


def _outlined(tx: Tx, record: CallRecord, blob: Blob, whole: CallEntry) -> NewEntry:
    reference(tx, blob)
    data = _encoder.encode(record.outline(blob.size_bytes, whole))
    return NewEntry("call", record.name.method, data, blob=blob.name)
