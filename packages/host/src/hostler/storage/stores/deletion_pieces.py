"""The pieces of a deletion on request: rows and files of single events and runs, in bounded transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from hostler.domain.seq_set import SeqSet
from hostler.storage.port import Database, Row, Tx
from hostler.storage.sealing.erasing import Eraser
from hostler.storage.sql.statements import load
from hostler.storage.stores import (
    artifacts,
    copies,
    outbox,
    pause_retention,
    push_receivers,
    transcripts,
)
from hostler.storage.stores import erasure as erasing
from hostler.storage.stores import hash_chain as chain
from hostler.storage.stores import redactions as emptied
from hostler.storage.stores import waiting_messages as waiting
from hostler.storage.stores.erasure import STEP_ROWS, until_nothing
from hostler_protocol.errors import ConflictError
from hostler_protocol.runs import TERMINAL_STATUSES

_q = load(__file__.replace("deletion_pieces.py", "deletion_steps.py"))
_MAX_CHILDREN = 100_000
"""Child runs of one run, far above what budgets allow."""


def bounds_of(tx: Tx, ws: str) -> Bounds:
    """Return the bounds of what has arrived by now."""
    return Bounds(tx.now, transcripts.latest_seq(tx, ws), chain.head(tx, ws, "events").seq)


class Bounds(NamedTuple):
    """A time, and the last sequences of transcript and event log before it."""

    now: int
    last_item: int
    last_event: int


class Pieces:
    """A deletion in progress: its bounds and its counts."""

    def __init__(self, database: Database, ws: str, target: str, by: str, bounds: Bounds) -> None:
        self._database = database
        self._ws = ws
        self._target = target
        self._by = by
        self._now, self._last_item, self._last_event = bounds
        self._emptied = SeqSet(self._last_event)
        self._counts: dict[str, int] = {}
        self.eraser: Eraser | None = None
        self.conversations: set[str] = set()
        """Conversations that data was deleted in."""

    async def step(self, kind: str, step: Callable[[Tx], int]) -> None:
        """Repeat a bounded step until it returns 0, and count its results under `kind`."""
        self._count(kind, await until_nothing(self._database, step))

    async def _of_event(self, event: Row) -> list[str]:
        """Delete the messages and artifacts of an event; return the runs that it opened.

        For a steer, which opened no run, delete the journal of the run that absorbed it.
        """
        await self._copies(lambda tx: copies.of_event(tx, self._ws, event["event_id"], STEP_ROWS))
        await self._contents_of_event(event["event_id"])
        run_id = event["run_id"]
        if run_id is None:
            return []
        if event["outcome"] == "steered":
            await self._journal(run_id)
            return []
        return [run_id]

    async def _families(self, run_ids: Sequence[str]) -> list[str]:
        """Return the runs and their child runs, each run before its children."""
        family: list[str] = []
        waiting = list(run_ids)
        while waiting:
            run_id = waiting.pop()
            family.append(run_id)
            children = await self._read(_q.children, run_id=run_id, limit=_MAX_CHILDREN)
            waiting += [row["run_id"] for row in children]
        return family

    async def _contents(self, run_id: str) -> None:
        """Delete the journal, messages, artifacts and pauses of a run and its event."""
        await self._journal(run_id)
        await self._items(_q.items_of_run, run_id=run_id)
        for event in await self._read(_q.event_of_run, run_id=run_id):
            await self._contents_of_event(event["event_id"])
        await self.step("artifacts", lambda tx: erasing.drop_files_of_run(tx, self._ws, run_id))
        await self.step("pauses", lambda tx: pause_retention.drop_of_run(tx, self._ws, run_id))
        await self.step("push_receivers", lambda tx: push_receivers.drop_of_run(tx, self._ws, run_id))
        await self.step("outbox", lambda tx: outbox.drop_of_run(tx, self._ws, run_id))

    async def _contents_of_event(self, event_id: str) -> None:
        await self._items(_q.items_of_event, event_id=event_id)
        await self._artifacts(_q.artifacts_of_event, event_id=event_id)

    async def _copies_of_run(self, run_id: str) -> None:
        """Delete copies, in other conversations, of what a run said and made, and of its event."""
        await self._copies(lambda tx: copies.of_run(tx, self._ws, run_id, STEP_ROWS))
        for event in await self._read(_q.event_of_run, run_id=run_id):
            event_id = event["event_id"]
            await self._copies(lambda tx, of=event_id: copies.of_event(tx, self._ws, of, STEP_ROWS))  # type: ignore[misc]

    async def _copies(self, find: Callable[[Tx], list[copies.Copy]]) -> None:
        def remove(tx: Tx) -> int:
            found = find(tx)
            for copy in found:
                self.conversations.add(copy.conversation_id)
                if copy.seq is not None:
                    transcripts.remove(tx, self._ws, [copy.seq])
                    copies.forget_item(tx, self._ws, copy.seq)
                if copy.artifact_id is not None:
                    artifacts.remove(tx, self._ws, copy.artifact_id)
                    copies.forget_file(tx, self._ws, copy.artifact_id)
            return len(found)

        await self.step("copies", remove)

    async def _empty_runs(self, family: Sequence[str]) -> None:
        """Empty runs and their events: each run after its event and children, so that a repeated deletion
        finds them.
        """
        events: list[Row] = []
        for run_id in family:
            events += await self._read(_q.event_of_run, run_id=run_id)
        await self._empty_events(events)
        for run_id in reversed(family):
            emptied = await self._database.write(
                lambda tx, run_id=run_id: erasing.empty_run(tx, self._ws, run_id)  # type: ignore[misc]
            )
            self._count("runs", emptied)

    async def _bounds(self) -> Bounds:
        """Return the bounds of what has arrived by now."""
        return await self._database.read(lambda tx: bounds_of(tx, self._ws))

    async def _journals(self, run_ids: Sequence[str]) -> None:
        for run_id in await self._families(run_ids):
            await self._journal(run_id)

    async def _journal(self, run_id: str) -> None:
        status = await self._read(_q.run_status, run_id=run_id)
        if status and status[0]["status"] not in TERMINAL_STATUSES:
            raise ConflictError(f"run {run_id} is still active: cancel it first, then ask again")
        await self.step("journal_entries", lambda tx: erasing.drop_journal(tx, run_id))

    async def _items(self, query: Any, **where: Any) -> None:
        def remove(tx: Tx) -> int:
            rows = tx.all(query, ws=self._ws, limit=STEP_ROWS, **where)
            return transcripts.remove(tx, self._ws, [row["seq"] for row in rows])

        await self.step("transcripts", remove)

    async def _artifacts(self, query: Any, **where: Any) -> None:
        def remove(tx: Tx) -> int:
            rows = tx.all(query, ws=self._ws, limit=STEP_ROWS, **where)
            return sum(artifacts.remove(tx, self._ws, row["artifact_id"]) is not None for row in rows)

        await self.step("artifacts", remove)

    async def _empty_events(self, rows: Iterable[Row]) -> None:
        """Account for events, then empty them."""
        left = [row for row in rows if int(row["seq"]) not in self._emptied]
        if not left:
            return
        seqs = [int(row["seq"]) for row in left]
        await self._database.write(
            lambda tx: emptied.account(tx, self._ws, seqs, by=self._by, target=self._target)
        )
        for start in range(0, len(left), STEP_ROWS):
            step = left[start : start + STEP_ROWS]

            def empty(tx: Tx, step: list[Row] = step) -> int:
                waiting.discard(tx, self._ws, [row["event_id"] for row in step])
                return erasing.empty_events(tx, self._ws, [int(row["seq"]) for row in step])

            self._count("events", await self._database.write(empty))
        for seq in seqs:
            self._emptied.add(seq, seq)

    async def _read(self, query: Any, **where: Any) -> list[Row]:
        return await self._database.read(lambda tx: tx.all(query, ws=self._ws, **where))

    def _count(self, kind: str, count: int) -> None:
        self._counts[kind] = self._counts.get(kind, 0) + count
