"""The steps of a deletion on request: what they delete, how much, and what they have to find again.

`deletion` says which steps a conversation, a person or a run needs, and in which order.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial

from hostler.storage.port import Database, Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import (
    chat_questions,
    chats,
    client_items,
    copies,
    deletion_receipts,
    outbox,
    people_removal,
    person_accounts,
    readers,
    schedule_removal,
    search_index,
    state_values,
    timeline,
)
from hostler.storage.stores import redactions as emptied
from hostler.storage.stores import waiting_messages as waiting
from hostler.storage.stores.deletion_pieces import Bounds, Pieces, bounds_of
from hostler.storage.stores.deletion_receipts import DeletionReceipt
from hostler.storage.stores.erasure import STEP_ROWS
from hostler.storage.stores.readers import Reader
from hostler_protocol.errors import ConflictError

_q = load(__file__)

_NAMED_RUNS = 10


def target_of(kind: str, name: str) -> str:
    """Return what receipts call the target of a deletion: they outlive its id."""
    return f"{kind}:{hashlib.sha256(name.encode()).hexdigest()}"


async def begin(database: Database, ws: str, target: str, by: str) -> Erasure:
    """Begin a deletion of what there is by now. `by`: who asked, for the audit."""
    return Erasure(database, ws, target, by, await database.read(lambda tx: bounds_of(tx, ws)))


class Erasure(Pieces):
    """A deletion in progress, step by step."""

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

    async def messages_out(self, conversation_id: str) -> None:
        """Delete the messages that are to be sent, or were, to a conversation."""
        await self.step(
            "outbox", lambda tx: outbox.drop_of_conversation(tx, self._ws, conversation_id, self._now)
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

    async def states_of_subjects(self, subjects: Sequence[str], person_id: str) -> None:
        """Delete what agents noted about a person by any account, with the journals of runs that had it.

        ConflictError while such a run is active. A repeated deletion finds the rest by the readers.
        """
        for subject in subjects:
            await self.step("states", partial(readers.drop_states, ws=self._ws, subject=subject))
            of_state = partial(readers.of_state, workspace_id=self._ws, subject=subject)
            await self._journals_of(await self._database.read(of_state))
        forget = partial(readers.forget_person, workspace_id=self._ws, person_id=person_id)
        await self._database.write(forget)

    async def subjects_of(self, person_id: str) -> list[str]:
        """Return the subjects whose state belongs to a person."""
        find = partial(person_accounts.subjects_of, workspace_id=self._ws, person_id=person_id)
        return await self._database.read(find)

    async def private_chats_of(self, person_id: str) -> list[str]:
        """Return the conversations that are a person's private chats."""
        return await self._database.read(
            partial(chats.conversations_of, workspace_id=self._ws, person_id=person_id)
        )

    async def copies_of_histories(self, conversation_ids: Iterable[str]) -> None:
        """Delete the journals of runs elsewhere that had the history of conversations, and forget these.

        ConflictError while such a run is active.
        """
        for one in conversation_ids:
            found = await self._database.read(lambda tx, of=one: readers.of_history(tx, self._ws, of))  # type: ignore[misc]
            await self._journals_of(found)

            def forget(tx: Tx, conversation_id: str = one) -> None:
                readers.forget_conversation(tx, self._ws, conversation_id)
                chats.drop(tx, self._ws, conversation_id)

            await self._database.write(forget)

    async def _journals_of(self, found: Iterable[Reader]) -> None:
        until = await self._bounds()
        for reader in found:
            if reader.run_id:
                await self._journals([reader.run_id])
                continue
            self.conversations.add(reader.reader_id)
            async for run_ids in self._runs_of(reader.reader_id, reader.since, reader.first_event, until):
                await self._journals(run_ids)

    async def copies_of_actor(self, actor_id: str, actor_type: str | None) -> None:
        """Delete a person's messages from copies of conversations, and the journals of those: runs read them.

        ConflictError while a run of such a copy is active. The copies are what names those conversations:
        they go after the journals, so that a repeated deletion finds the conversations again.
        """

        def find(tx: Tx) -> list[str]:
            return copies.places_of_person(tx, self._ws, actor_id, actor_type)

        while places := await self._database.read(find):
            for place in places:
                async for run_ids in self._runs_of(place):
                    await self._journals(run_ids)
                self.conversations.add(place)
            of_person = partial(copies.of_person, actor_id=actor_id, actor_type=actor_type, places=places)
            await self._copies(partial(of_person, ws=self._ws, limit=STEP_ROWS))
            await self.later_journals(places)

    async def schedules_of_conversation(self, conversation_id: str) -> None:
        """Remove the schedules that send events to a conversation."""
        await self.step(
            "schedules",
            lambda tx: schedule_removal.drop_of_conversation(tx, self._ws, conversation_id, self._by),
        )

    async def schedules_of_actor(self, actor_id: str, actor_type: str | None) -> None:
        """Remove the schedules whose events are a person's."""
        await self.step(
            "schedules",
            lambda tx: schedule_removal.drop_of_actor(tx, self._ws, actor_id, actor_type, self._by),
        )

    async def accounts_of(self, person_id: str) -> None:
        """Unbind a person's accounts on channels, with their codes and what they were told of these."""
        await self.step("accounts", lambda tx: people_removal.drop_of_person(tx, self._ws, person_id))
        await self.step("answers", lambda tx: chat_questions.forget_person(tx, self._ws, person_id))

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
        self, conversation_id: str, since: int = 0, first_event: int = 0, until: Bounds | None = None
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


def _is_about(event: Row, actor_id: str, actor_type: str | None) -> bool:
    """Whether the person is the actor or the subject of an event."""
    is_actor = event["actor_id"] == actor_id and actor_type in (None, event["actor_type"])
    return is_actor or (event["subject_id"] == actor_id and actor_type in (None, event["subject_type"]))
