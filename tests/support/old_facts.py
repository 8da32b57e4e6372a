"""A host's facts with everything that one turn of a conversation leaves, to be deleted or to grow old."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from hostler.domain.events import Event
from hostler.domain.keys import state_value_of
from hostler.domain.place import Place
from hostler.domain.scopes import StateArea
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores import (
    artifacts,
    blobs,
    events,
    idempotency,
    runs,
    transcripts,
)
from hostler.storage.stores import hash_chain as chain
from hostler.storage.stores import state_values as states
from hostler.storage.stores.artifacts import NewArtifact
from hostler.storage.stores.blobs import Blob, BlobFolder
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.journal import NewEntry
from hostler.storage.stores.retention import DAY_MS
from hostler.storage.stores.transcripts import item_of
from hostler_protocol.content import Message
from hostler_protocol.events import Actor, EventEnvelope, Input, Subject
from hostler_protocol.ids import new_id
from support.run_rows import new

AGE = parse(
    """
-- name: run
UPDATE runs SET finished_at = :at, created_at = :at WHERE run_id = :run_id
-- name: states
UPDATE states SET updated_at = :at WHERE workspace_id = :ws
-- name: uploads
UPDATE uploads SET created_at = :at WHERE workspace_id = :ws
-- name: answers
UPDATE idempotency SET created_at = :at WHERE workspace_id = :ws
-- name: artifact
UPDATE artifacts SET created_at = :at WHERE artifact_id = :artifact_id
""",
    "age",
)
TABLES = (
    *("events", "transcripts", "artifacts", "uploads", "states", "storage", "runs", "journal", "idempotency"),
    "audit",
)


@dataclass
class World:
    """A host's facts, made as the host makes them, with everything one turn of a conversation leaves."""

    database: SqlDatabase
    folder: BlobFolder

    async def turn(
        self,
        conversation: str | None,
        person: str,
        *,
        ws: str = "w",
        age_days: float = 0,
        end: Any = "completed",
        outcome: Any = "started",
        absorbed_by: str | None = None,
        parent: str | None = None,
        subject: str | None = None,
    ) -> str:
        """A message and its run; every text of it names conversation and person. The run's id."""
        now = await self.database.read(lambda tx: tx.now)
        at = now - round(age_days * DAY_MS)
        run_id, event_id = absorbed_by or new_id(), new_id()
        text = f"secret words of {person} in {conversation}"
        of_run = f"journal of {text} {run_id}" if absorbed_by is None else ""
        blob = await self.folder.put(of_run.encode())
        picture = await self.folder.put(f"picture of {text} {event_id}".encode())

        def work(tx: Tx) -> None:
            place = Place("b", conversation)
            envelope = EventEnvelope(
                event_type="message.received",
                event_id=event_id,
                workspace_id=ws,
                bot_id="b",
                conversation_id=conversation,
                input=Input(text=text),
                actor=Actor(actor_id=person, actor_name=f"{person} by name"),
                subject=None if subject is None else Subject(subject_type="user", subject_id=subject),
            )
            event = Event(ws, event_id, envelope, "digest", False, at, requester=person)
            events.insert(tx, event, outcome, run_id, {"candidates": [text]})
            message = Message(role="user", content=text)
            transcripts.append(tx, ws, item_of(message, place, event_id=event_id, created_at=at))
            given = NewArtifact(
                artifact_type="image", blob=picture, source="event", event_id=event_id, name=text, place=place
            )
            artifacts.create(tx, ws, given)
            if absorbed_by is None:
                self._run(tx, ws, run_id, event_id, person, place, blob, text, end, parent)
            areas = [StateArea("actor", _digest("actor", person), "a1", actor_type="user", actor_id=person)]
            if conversation is not None:
                key = _digest("conversation", conversation)
                areas.append(StateArea("conversation", key, "a1", conversation_id=conversation))
            for area in areas:
                states.set(tx, ws, area, "note", state_value_of(text))

        await self.database.write(work)
        if end is not None and absorbed_by is None:
            await self.database.write(lambda tx: runs.transition(tx, run_id, None, end, cause="t", actor="t"))
            await self.database.write(lambda tx: tx.run(AGE.run, run_id=run_id, at=at))
        return run_id

    def _run(
        self,
        tx: Tx,
        ws: str,
        run_id: str,
        event_id: str,
        person: str,
        place: Place,
        blob: Blob,
        text: str,
        end: Any,
        parent: str | None,
    ) -> None:
        opens = new(
            run_id,
            workspace=ws,
            event_id=event_id,
            requester=person,
            binding={"because": text},
            parent_run_id=parent,
            **place._asdict(),
        )
        runs.open(tx, opens, Membership("h1"))
        granted = f'{{"note":"{text}"}}'
        runs.transition(tx, run_id, 1, "running", cause="t", actor="t", grant_json=granted)
        delta = NewEntry("result", "message.delta", f'{{"data":{{"text":"{text}"}}}}')
        entries = [delta] * 600 + [NewEntry("call", "history.page", f'"{text}"', blob=blob.name), delta]
        runs.append(
            tx, run_id, 1, [*entries, NewEntry("result", "message.completed", f'{{"data":"{text}"}}')]
        )
        blobs.reference(tx, blob)
        answer = Message(role="assistant", content=f"answer with {text}")
        transcripts.append(tx, ws, item_of(answer, place, run_id=run_id))
        made = NewArtifact(
            artifact_type="file", blob=blob, source="run", run_id=run_id, name=text, place=place
        )
        artifacts.create(tx, ws, made)
        idempotency.begin(tx, ws, person, run_id, "body")
        output = f'{{"run_id":"{run_id}","output":"{text}"}}'
        idempotency.finish(tx, ws, person, run_id, status=200, answer=output)

    async def facts(self, needle: str, ws: str = "w") -> list[str]:
        """In which tables rows of a workspace hold the needle anywhere, and how they are scoped."""

        def rows(tx: Tx) -> list[str]:
            found = []
            for table in TABLES:
                every = tx.all(
                    parse(f"-- name: all\nSELECT * FROM {table} WHERE workspace_id = :ws", "t").all, ws=ws
                )
                found += [f"{table} {row.get('scope', '')}".strip() for row in every if needle in repr(row)]
            return found

        return await self.database.read(rows)

    def files(self, needle: str) -> int:
        """How many files hold the needle."""
        every = (path for path in self.folder._root.rglob("*") if path.is_file())
        return sum(needle in path.read_bytes().decode() for path in every)

    async def verify(self, ws: str = "w") -> int:
        """Walk the event chain; how many rows are empty."""
        result = await self.database.read(lambda tx: chain.verify(tx, ws, "events"))
        assert result.done
        assert result.broken is None
        return result.deleted

    async def put(self, data: bytes) -> Blob:
        """A blob that nobody is about to name."""
        blob = await self.folder.put(data)
        return Blob(blob.sha256, blob.size_bytes)

    async def purge_blobs(self) -> int:
        return (await blobs.collect(self.database, self.folder)).blobs


def _digest(*parts: str) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
