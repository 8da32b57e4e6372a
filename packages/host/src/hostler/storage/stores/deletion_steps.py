"""The steps of a deletion on request: what they delete, how much, and what they have to find again.

`deletion` says which steps a conversation, a person or a run needs, and in which order.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from hostler.domain.seq_set import SeqSet
from hostler.storage.port import Database, Row, Tx
from hostler.storage.sealing.erasing import Eraser
from hostler.storage.sql.statements import load
from hostler.storage.stores import (
    artifacts,
    client_items,
    copies,
    deletion_receipts,
    pause_retention,
    push_receivers,
    search_index,
    state_values,
    timeline,
    transcripts,
)
from hostler.storage.stores import erasure as erasing
from hostler.storage.stores import hash_chain as chain
from hostler.storage.stores import redactions as emptied
from hostler.storage.stores import waiting_messages as waiting
from hostler.storage.stores.deletion_receipts import DeletionReceipt
from hostler.storage.stores.erasure import STEP_ROWS, until_nothing
from hostler_protocol.errors import ConflictError
from hostler_protocol.runs import TERMINAL_STATUSES

_q = load(__file__)

_NAMED_RUNS = 10
_MAX_CHILDREN = 100_000
"""Child runs of one run, far above what budgets allow."""


def target_of(kind: str, name: str) -> str:
    """Return what receipts call the target of a deletion: they outlive its id."""
    return f"{kind}:{hashlib.sha256(name.encode()).hexdigest()}"


async def begin(database: Database, ws: str, target: str, by: str) -> Erasure:
    """Begin a deletion of what there is by now. `by`: who asked, for the audit."""
    return Erasure(database, ws, target, by, await database.read(lambda tx: _bounds(tx, ws)))


def _bounds(tx: Tx, ws: str) -> _Bounds:
    return _Bounds(tx.now, transcripts.latest_seq(tx, ws), chain.head(tx, ws, "events").seq)


class _Bounds(NamedTuple):
    """A time, and the last sequences of transcript and event log before it."""

    now: int
    last_item: int
    last_event: int


class Erasure:
    """A deletion in progress: its bounds and its counts."""

    def __init__(self, database: Database, ws: str, target: str, by: str, bounds: _Bounds) -> None:
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

    async def refuse_active(self, conversation_id: str) -> None:
        """Raise ConflictError while a run of a conversation is active."""
        bounds = {"until": self._now, "last_event": self._last_event}
        where = {"conversation_id": conversation_id, **bounds}
        if rows := await self._read(_q.active_runs, **where, limit=_NAMED_RUNS):
            names = ", ".join(row["run_id"] for row in rows)
            raise ConflictError(f"runs of this conversation are still active: cancel them first ({names})")

    async def conversation_items(self, conversation_id: str) -> None:
        """Delete the messages of a conversation."""
        await self._items(_q.items_of_conversation, conversation_id=conversation_id, until=self._last_item)

    async def waiting_messages(self, conversation_id: str) -> None:
        """Delete the messages of a conversation that wait for their runs."""
        await self.step(
            "waiting_messages", lambda tx: waiting.drop_conversation(tx, self._ws, conversation_id, self._now)
        )

    async def states_of_conversation(self, conversation_id: str) -> None:
        """Delete what agents noted about a conversation."""
        await self.step(
            "states",
            lambda tx: state_values.drop(
                tx, self._ws, _q.drop_state_of_conversation, conversation_id=conversation_id
            ),
        )

    async def states_of_actor(self, actor_id: str, actor_type: str | None) -> None:
        """Delete what agents noted about a person."""
        await self.step(
            "states",
            lambda tx: state_values.drop(
                tx, self._ws, _q.drop_state_of_actor, actor_id=actor_id, actor_type=actor_type
            ),
        )

    async def copies_of_actor(self, actor_id: str, actor_type: str | None) -> None:
        """Delete a person's messages from copies of conversations, and the journals of those: runs read them.

        ConflictError while a run of such a copy is active.
        """
        person = (actor_id, actor_type)
        places = await self._database.read(lambda tx: copies.places_of_person(tx, self._ws, *person))
        for place in places:
            async for run_ids in self._runs_of(place):
                await self._journals(run_ids)
            self.conversations.add(place)

        await self._copies(lambda tx: copies.of_person(tx, self._ws, *person, limit=STEP_ROWS))
        await self.later_journals(places)

    async def items_named(self, name: str) -> None:
        """Delete the items of clients that a conversation's or person's id names."""
        await self.step("items", lambda tx: client_items.drop_named(tx, self._ws, name, STEP_ROWS))

    async def one_run(self, run_id: str) -> None:
        """Delete what a run heard and said, with its child runs and the messages that it absorbed."""
        absorbed = await self._read(_q.absorbed, run_id=run_id)
        family = await self._families([run_id])
        for one in family:
            await self._contents(one)
        for event in absorbed:
            await self._contents_of_event(event["event_id"])
        await self._empty_events(absorbed)
        await self._empty_runs(family)

    async def conversation_files(self, conversation_id: str) -> None:
        """Delete the artifacts of a conversation."""
        latest = (await self._read(_q.latest_file, conversation_id=conversation_id))[0]["at"]
        until = max(self._now, latest or 0)  # the clock may have been set back since
        await self._artifacts(_q.artifacts_of_conversation, conversation_id=conversation_id, until=until)

    async def conversation_events(self, conversation_id: str) -> None:
        """Empty the events of a conversation."""
        while rows := await self._read(
            _q.events_of_conversation,
            conversation_id=conversation_id,
            until=self._last_event,
            limit=emptied.MAX_ACCOUNT_SEQS,
        ):
            await self._empty_events(rows)

    async def event_files(self, conversation_id: str) -> None:
        """Delete the artifacts that the events of a conversation brought."""
        after = 0
        while rows := await self._read(
            _q.events_of_conversation_after,
            conversation_id=conversation_id,
            after=after,
            until=self._last_event,
            limit=STEP_ROWS,
        ):
            for row in rows:
                await self._artifacts(_q.artifacts_of_event, event_id=row["event_id"])
            after = int(rows[-1]["seq"])

    async def contents_of_runs(self, conversation_id: str) -> None:
        """Delete the content of the runs of a conversation and of their child runs."""
        async for run_ids in self._runs_of(conversation_id):
            for run_id in await self._families(run_ids):
                await self._contents(run_id)

    async def runs(self, conversation_id: str) -> None:
        """Empty the rows of the runs of a conversation and of their events."""
        async for run_ids in self._runs_of(conversation_id):
            await self._empty_runs(await self._families(run_ids))

    async def journals(self, conversation_id: str, *, since: Row) -> None:
        """Delete the journals of the runs of a conversation that were opened since an event."""
        async for run_ids in self._runs_of(conversation_id, int(since["created_at"]), int(since["seq"])):
            await self._journals(run_ids)

    async def later_journals(self, conversation_ids: Iterable[str]) -> None:
        """Delete the journals of the runs of conversations that were opened since the request.

        They may have read what was deleted meanwhile. ConflictError if one of them is active.
        """
        until = await self._bounds()
        for conversation_id in conversation_ids:
            async for run_ids in self._runs_of(conversation_id, self._now, self._last_event + 1, until):
                await self._journals(run_ids)

    async def later_journals_of_actor(self, actor_id: str, actor_type: str | None) -> None:
        """Delete the journals of a person's runs that were opened since the request.

        They may have read state about the person. ConflictError if one of them is active.
        """
        async for rows in self._events(self._last_event, (await self._bounds()).last_event):
            theirs = [row["run_id"] for row in rows if _is_about(row, actor_id, actor_type)]
            await self._journals([run_id for run_id in theirs if run_id is not None])

    async def _runs_of(
        self, conversation_id: str, since: int = 0, first_event: int = 0, until: _Bounds | None = None
    ) -> AsyncIterator[list[str]]:
        """Yield the runs of a conversation since a time or event, until the request or `until`."""
        after, (now, _, last_event) = "", until or (self._now, 0, self._last_event)
        bounds = {"since": since, "until": now, "first_event": first_event, "last_event": last_event}
        while rows := await self._read(
            _q.runs_of_conversation, conversation_id=conversation_id, **bounds, after=after, limit=STEP_ROWS
        ):
            after = rows[-1]["run_id"]
            yield [row["run_id"] for row in rows]

    async def actor_events(self, actor_id: str, actor_type: str | None) -> None:
        """Walk the event log: delete what the person's events led to, then empty those events."""
        seen = self.conversations
        async for rows in self._events(0, self._last_event):
            theirs = [row for row in rows if _is_about(row, actor_id, actor_type)]
            run_ids: list[str] = []
            for row in theirs:
                conversation_id = row["conversation_id"]
                if conversation_id is not None and conversation_id not in seen:
                    # before the event is emptied: if this raises, a repeated deletion finds the event again
                    await self.journals(conversation_id, since=row)
                    seen.add(conversation_id)
                run_ids += await self._of_event(row)
            family = await self._families(run_ids)
            for run_id in family:
                await self._copies_of_run(run_id)
                await self._contents(run_id)
            await self.later_journals({one: None for row in theirs if (one := row["conversation_id"])})
            await self._empty_runs(family)
            await self._empty_events(theirs)

    async def _events(self, after: int, until: int) -> AsyncIterator[list[Row]]:
        """Walk the event log."""
        while rows := await self._read(_q.events_between, after=after, until=until, limit=STEP_ROWS):
            yield rows
            after = int(rows[-1]["seq"])

    async def forget_timeline(self) -> None:
        """Remove what the timeline has of emptied runs and events."""
        for conversation_id in sorted(self.conversations):
            after, more = 0, True
            while more:
                _, after, more = await self._database.write(
                    partial(timeline.forget, ws=self._ws, conversation_id=conversation_id, after=after)
                )

    async def finish(self, *, deleted: str | None = None) -> DeletionReceipt:
        """Purge the text index, destroy keys, and write the receipt into the audit chain.

        `deleted`: the conversation whose streams are told of its deletion.
        """
        await self.forget_timeline()
        if self._database.dialect == "sqlite" and self._counts.get("transcripts"):
            await search_index.purge(self._database)
        erasure_key = None
        if self.eraser is not None:
            self._count("keys", await self.eraser.destroy_unused(self._ws, sorted(self.conversations)))
            erasure_key = await self.eraser.erased()
        counts = {one: count for one, count in sorted(self._counts.items()) if count}

        def write(tx: Tx) -> DeletionReceipt:
            if deleted is not None:
                timeline.add_deletion(tx, self._ws, deleted)
            return deletion_receipts.write(
                tx,
                self._ws,
                by=self._by,
                target=self._target,
                requested_at=self._now,
                deleted=counts,
                erasure_key=erasure_key,
            )

        return await self._database.write(write)

    # -- pieces -----------------------------------------------------------------------------------------

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

    async def _bounds(self) -> _Bounds:
        """Return the bounds of what has arrived by now."""
        return await self._database.read(lambda tx: _bounds(tx, self._ws))

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


def _is_about(event: Row, actor_id: str, actor_type: str | None) -> bool:
    """Whether the person is the actor or the subject of an event."""
    is_actor = event["actor_id"] == actor_id and actor_type in (None, event["actor_type"])
    return is_actor or (event["subject_id"] == actor_id and actor_type in (None, event["subject_type"]))
