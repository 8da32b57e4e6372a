"""What follows from a result is written with its journal entry: transcript, state, artifacts, actions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hostler.calls.scope import CallScope
from hostler.domain.outcomes import (
    ActionRequest,
    ArtifactShown,
    ArtifactWrite,
    Projection,
    StateWrite,
    Stored,
    TranscriptWrite,
)
from hostler.domain.place import NOWHERE, Place
from hostler.domain.scopes import area_of
from hostler.runs.projections import LONG_TEXT_CHARS, Projector
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import artifacts, audit, state_values, transcripts
from hostler.storage.stores.artifacts import NewArtifact, Source
from hostler_protocol.content import ArtifactElement, ArtifactRef, Message
from hostler_protocol.ids import digest
from support.call_world import World, world_of


class Projections:
    """One run's projections on a real database."""

    def __init__(self, world: World, scope: CallScope) -> None:
        self.world, self.scope = world, scope
        self._projector = Projector(world.db, world.services.blobs)

    async def write(self, projection: Projection | None, scope: CallScope | None = None) -> None:
        """Write a result's projection as the run's log does: what comes before, then the transaction."""
        stored = Stored(1, "message.completed", b"{}", projection=projection)
        before, after, settled = self._projector.project(scope or self.scope, stored)
        if before is not None:
            await before()
        if after is not None:
            await self.world.db.write(after)
        if settled is not None:
            settled()
            await self.world.services.blobs.settle()

    async def said(self, conversation_id: str = "c1") -> list[str]:
        """What this run said in a conversation."""

        def read(tx: Tx) -> list[str]:
            page = transcripts.page(tx, self.scope.workspace_id, conversation_id=conversation_id)
            return [item.content for item in page.items if item.run_id == self.scope.run_id]

        return await self.world.db.read(read)

    async def messages(self) -> list[Message]:
        """What this run said anywhere."""
        return await self.world.db.read(
            lambda tx: transcripts.of_run(tx, self.scope.workspace_id, self.scope.run_id)
        )

    async def facts(self) -> list[tuple[str, dict[str, Any]]]:
        """Action and body of each audit fact about this run."""
        facts = await self.world.db.read(lambda tx: audit.page(tx, self.scope.workspace_id, limit=100))
        return [(fact.action, fact.body) for fact in facts if fact.target == self.scope.run_id]

    async def value(self, write: StateWrite) -> state_values.StateValue:
        """The state value that a write is for."""
        area = area_of(write.scope, write.scope_key, self.scope.grant.agent_id, self.scope.event.envelope)
        return await self.world.db.read(
            lambda tx: state_values.get(tx, self.scope.workspace_id, area.scope_key, write.key)
        )


@asynccontextmanager
async def projecting(database: SqlDatabase, folder: Path) -> AsyncIterator[Projections]:
    async with world_of(database, folder) as world:
        yield Projections(world, world.caller().scope())


def state(scope: CallScope, value: str = '{"n":1}', key: str = "k") -> StateWrite:
    return StateWrite("conversation", scope.grant.state_keys["conversation"], key, value)


def artifact(content: bytes = b"bytes") -> ArtifactWrite:
    return ArtifactWrite("a-1", "file", content, "unused", "text/plain", "note.txt", {"page": 3})


def message(text: str) -> TranscriptWrite:
    return TranscriptWrite(Message(role="assistant", content=text, message_id="m1"))


async def test_a_message_is_part_of_the_conversation_of_its_run(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with projecting(database, tmp_path) as run:
        await run.write(message("good morning"))
        assert await run.said() == ["good morning"]


async def test_a_long_message_is_prepared_on_another_thread(
    database: SqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    item_of = transcripts.item_of

    def noted(*given: Any, **named: Any) -> Any:
        threads.append(threading.get_ident())
        return item_of(*given, **named)

    monkeypatch.setattr(transcripts, "item_of", noted)
    async with projecting(database, tmp_path) as run:
        await run.write(message("x" * LONG_TEXT_CHARS))
        await run.write(message("x" * (LONG_TEXT_CHARS + 1)))
        assert [one == threading.get_ident() for one in threads] == [True, False]
        lengths = [len(str(one.content)) for one in await run.messages()]
        assert sorted(lengths) == [LONG_TEXT_CHARS, LONG_TEXT_CHARS + 1]


async def test_a_run_without_effects_speaks_outside_of_its_conversation(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with projecting(database, tmp_path) as run:
        fork = replace(run.scope, effects=False)
        await run.write(message("another way"), fork)
        await run.write(artifact(), fork)
        await run.write(state(run.scope), fork)
        assert [one.content for one in await run.messages()] == ["another way"]
        assert await run.said() == []
        stored = await database.read(lambda tx: artifacts.find(tx, "main", "a-1"))
        assert stored is not None
        assert stored.place == NOWHERE
        assert (await run.value(state(run.scope))).version == 0


async def test_a_state_value_is_written_in_the_scope_of_the_grant(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with projecting(database, tmp_path) as run:
        await run.write(state(run.scope, '{"n":1}'))
        await run.write(state(run.scope, '{"n":2}'))
        assert await run.value(state(run.scope)) == state_values.StateValue({"n": 2}, 2)


async def test_a_state_value_too_many_is_refused_and_audited_and_the_run_goes_on(
    database: SqlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_values, "MAX_KEYS", 1)
    async with projecting(database, tmp_path) as run:
        await run.write(state(run.scope, key="first"))
        await run.write(state(run.scope, key="second"))
        assert (await run.value(state(run.scope, key="second"))).version == 0
        ((action, body),) = await run.facts()
        assert (action, body["key"], body["scope"]) == ("state.refused", "second", "conversation")


async def test_an_artifact_has_its_bytes_its_metadata_and_the_place_of_its_run(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with projecting(database, tmp_path) as run:
        await run.write(artifact(b"bytes"))
        stored = await database.read(lambda tx: artifacts.find(tx, "main", "a-1"))
        assert stored is not None
        assert (stored.name, stored.mime_type, stored.metadata) == ("note.txt", "text/plain", {"page": 3})
        assert (stored.place.conversation_id, stored.run_id, stored.size_bytes) == ("c1", run.scope.run_id, 5)
        assert await run.world.services.blobs.read(stored.sha256, 0, 100) == b"bytes"


@pytest.mark.parametrize(
    ("refused", "effects", "action", "reason"),
    [
        (None, True, "action.refused", "does not allow action"),
        ("nobody allows it", True, "action.refused", "nobody allows it"),
        (None, False, "action.refused", "forked without effects"),
    ],
)
async def test_an_action_is_never_lost(
    database: SqlDatabase, tmp_path: Path, refused: str | None, effects: bool, action: str, reason: str
) -> None:
    async with projecting(database, tmp_path) as run:
        asked = ActionRequest("member.mute", "g1", {"minutes": 5}, refused)
        await run.write(asked, replace(run.scope, effects=effects))
        ((found, body),) = await run.facts()
        assert (found, reason in body.pop("reason")) == (action, True)
        assert body == {
            "action": "member.mute",
            "target": "g1",
            "payload_fields": ["minutes"],
            "payload_digest": digest({"minutes": 5}),
            "sequence": 1,
        }


async def test_nothing_of_a_transaction_that_fails_stays(database: SqlDatabase, tmp_path: Path) -> None:
    async with projecting(database, tmp_path) as run:
        writes = [
            run._projector.project(run.scope, Stored(1, "any", b"{}", projection=one))
            for one in (message("never said"), state(run.scope), artifact())
        ]
        await asyncio.gather(*(before() for before, _, _ in writes if before is not None))

        def fail(tx: Tx) -> None:
            for _, after, _ in writes:
                assert after is not None
                after(tx)
            raise LookupError("fenced")

        with pytest.raises(LookupError):
            await database.write(fail)
        assert await run.messages() == []
        assert (await run.value(state(run.scope))).version == 0
        assert await database.read(lambda tx: artifacts.find(tx, "main", "a-1")) is None


async def test_a_result_without_a_projection_writes_nothing(database: SqlDatabase, tmp_path: Path) -> None:
    async with projecting(database, tmp_path) as run:
        assert run._projector.project(run.scope, Stored(1, "message.delta", b"{}")) == (None, None, None)


async def test_files_of_tools_are_shown_once_a_message_or_a_result_names_them(
    database: SqlDatabase, tmp_path: Path
) -> None:
    async with projecting(database, tmp_path) as run:
        ws, place = run.scope.workspace_id, Place(conversation_id="c1")
        blob = await run.world.services.blobs.put(b"bytes")

        async def make(name: str, source: Source = "tool", kind: str = "file", of: str | None = None) -> None:
            new = NewArtifact(
                artifact_type=kind,
                blob=blob,
                source=source,
                artifact_id=name,
                place=place,
                run_id=of or run.scope.run_id,
            )
            await run.world.db.write(lambda tx: artifacts.create(tx, ws, new))

        async def shown() -> set[str]:
            def read(tx: Tx) -> set[str]:
                listed = artifacts.page(tx, ws, conversation_id="c1", only_shown=True, limit=100)
                every = artifacts.page(tx, ws, conversation_id="c1", limit=100)
                assert [one.artifact_id for one in listed] == [
                    one.artifact_id for one in every if one.is_shown
                ]
                return {one.artifact_id for one in listed}

            return await run.world.db.read(read)

        for name in ("in-content", "in-refs", "in-result", "in-nothing"):
            await make(name)
        await make("large", kind="tool_result")
        await make("foreign", of="another run")
        await make("own", "run")
        await make("sent", "event")
        assert await shown() == {"own", "sent"}
        said = Message(
            role="assistant",
            content=[
                ArtifactElement(artifact_id=name) for name in ("in-content", "large", "foreign", "gone")
            ],
            artifact_refs=[ArtifactRef(artifact_id="in-refs")],
            message_id="m1",
        )
        await run.write(TranscriptWrite(said))
        await run.write(ArtifactShown("in-result"))
        await run.write(ArtifactShown("large"))
        assert await shown() == {"own", "sent", "in-content", "in-refs", "in-result"}
