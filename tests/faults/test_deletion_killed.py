"""A deletion is killed between the rows and the bytes: asked again it goes on, and its receipt is true."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.domain.events import Event
from hostler.domain.place import Place
from hostler.storage.port import Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import artifacts, blobs, conversations, deletion, events, transcripts
from hostler.storage.stores.artifacts import NewArtifact
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.transcripts import item_of
from hostler_protocol.content import Message
from hostler_protocol.events import EventEnvelope, Input

pytestmark = pytest.mark.gate("deletion")

SECRET, SHARED = b"nobody may read this again", b"another workspace has this too"

DELETE_UNTIL_KILLED = """
import asyncio, os, pathlib, signal, sys
from hostler.storage.sql.connect import open_database
from hostler.storage.stores import blobs, deletion
from hostler.storage.stores.blobs import BlobFolder

where, folder, place = sys.argv[1:]

class Killed(BlobFolder):
    def _unlink(self, doomed):
        if place == "after the rows":
            os.kill(os.getpid(), signal.SIGKILL)
        super()._unlink(doomed)
        if place == "after the bytes":
            os.kill(os.getpid(), signal.SIGKILL)

async def main():
    database = open_database(where)
    await deletion.delete_conversation(database, Killed(pathlib.Path(folder)), "w", "c", by="admin")

asyncio.run(main())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[BlobFolder]:
    opened = BlobFolder(tmp_path / "blobs")
    yield opened
    opened.close()


async def _fill(database: SqlDatabase, folder: BlobFolder) -> None:
    secret, shared = await folder.put(SECRET), await folder.put(SHARED)

    place = Place(conversation_id="c")

    def work(tx: Tx) -> None:
        envelope = EventEnvelope(
            event_type="message.received",
            event_id="e",
            workspace_id="w",
            conversation_id="c",
            input=Input(text="words"),
        )
        events.insert(tx, Event("w", "e", envelope, "d", False, tx.now), "unrouted", None, {})
        transcripts.append(tx, "w", item_of(Message(role="user", content="words"), place))
        for ws, blob in (("w", secret), ("w", shared), ("w2", shared)):
            new = NewArtifact(artifact_type="f", blob=blob, source="upload", place=place)
            artifacts.create(tx, ws, new)

    await database.write(work)


@pytest.mark.parametrize("place", ["after the rows", "after the bytes"])
async def test_a_killed_deletion_goes_on_and_then_the_bytes_are_gone(
    database_url: str, folder: BlobFolder, tmp_path: Path, place: str
) -> None:
    database = open_database(database_url)
    await _fill(database, folder)
    command = [sys.executable, "-c", DELETE_UNTIL_KILLED, database_url, str(tmp_path / "blobs"), place]
    killed = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert await database.read(lambda tx: conversations.known(tx, "w", "c")), "it can be asked again"
    await deletion.delete_conversation(database, folder, "w", "c", by="admin")
    every = [path.read_bytes() for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    assert [content for content in every if content] == [SHARED]
    assert not await database.read(lambda tx: conversations.known(tx, "w", "c"))
    assert (await blobs.collect(database, folder)).blobs == 0
    await database.close()
