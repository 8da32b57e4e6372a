"""An erased conversation cannot be read from database, log, backup or replica by who has the keys."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hostler.cli.archive import back_up, restore_backup
from hostler.cli.database import StorageLocation
from hostler.host import maintenance
from hostler.secrets.key_ring import KeyRing
from hostler.storage.stores import events, transcripts, verification
from hostler_protocol.errors import InvalidArgumentError, StorageError
from support.canaries import PLACES, Canaries, configure, leaks, leave
from support.key_thief import Copy, Thief, copy_of
from support.stepping import WORKSPACE, Stage, stage, within
from support.turned_on import turn_on

pytestmark = pytest.mark.gate("erased-copies")

STAYS = {"cancelled", "runnerstate", "actorstate", "pluginvalue", "workspacevalue"}
"""What a deletion of a conversation does not delete: audit facts, and what is not the conversation's."""


async def test_an_erased_conversation_is_in_no_copy(tmp_path: Path, database_url: str) -> None:
    data, url = tmp_path / "data", database_url if database_url.startswith("postgresql:") else None
    gone, kept, named = Canaries("gone"), Canaries("kept"), (data / "erasure.key",)
    async with within(300), stage(data, database=url, erasure_key=named, hold_seconds=0.05) as host:
        master = KeyRing([await turn_on(host, tmp_path)])
        await configure(host, tmp_path)
        await leave(host, gone, "c-gone")
        await leave(host, kept, "c-kept")
        database, key = url or data / "hostler.db", data / "erasure.key"
        copies: list[Copy] = [await copy_of(database, data / "blobs")]
        if url is None:
            backup = await back_up(StorageLocation(data), tmp_path / "backup")
            assert backup.blobs
            assert not (tmp_path / "backup" / key.name).exists()
            copies.append(await copy_of(tmp_path / "backup" / "hostler.db", tmp_path / "backup" / "blobs"))
        old_key = tmp_path / "old.key"
        shutil.copy(key, old_key)
        before = Thief(master, key, copies)
        assert before.places(tmp_path, gone) == set(PLACES)

        receipt = await maintenance.delete_conversation(host.host.data, WORKSPACE, "c-gone", by="test")

        assert receipt.deleted["keys"] > 5
        assert receipt.erasure_key is not None
        copies.append(await copy_of(database, data / "blobs"))
        after = Thief(master, key, copies)
        assert after.places(tmp_path, gone) == STAYS
        assert after.places(tmp_path, kept) == set(PLACES), "the rest opens, in old copies too"
        assert Thief(master, old_key, copies).places(tmp_path, gone) == set(PLACES), "all hung on the old key"
        # and the host goes on
        reports = await verification.verify_all(host.host.db)
        assert [report.broken for report in reports] == [None] * len(reports)
        await leave(host, Canaries("again"), "c-gone")
    assert leaks(data, gone) == {}


async def test_an_older_backup_opens_with_later_keys_and_without_what_was_erased(tmp_path: Path) -> None:
    data, gone, kept = tmp_path / "data", Canaries("gone"), Canaries("kept")
    async with within(300), stage(data, hold_seconds=0.05) as host:
        master = KeyRing([await turn_on(host, tmp_path)])
        await configure(host, tmp_path)
        await leave(host, gone, "c-gone")
        await leave(host, kept, "c-kept")
        await back_up(StorageLocation(data), tmp_path / "backup")
        await maintenance.delete_conversation(host.host.data, WORKSPACE, "c-gone", by="test")
        after = await host.run([["say", "said later"]], conversation_id="c-kept")
        assert after.said
    alone, restored = tmp_path / "alone", tmp_path / "restored"
    for folder in (alone, restored):
        folder.mkdir(mode=0o700)
        shutil.copy(data / "erasure.key", folder)
    await restore_backup(tmp_path / "backup", StorageLocation(alone))
    async with within(100), stage(alone, agent=False) as host:
        with pytest.raises(StorageError, match="restore an older backup with --keys"):
            await _history(host, "c-kept")
    await restore_backup(tmp_path / "backup", StorageLocation(restored), keys=data / "hostler.db")
    async with within(200), stage(restored, hold_seconds=0.05) as host:
        assert kept.said in await _history(host, "c-kept")
        assert await _history(host, "c-gone") == ""
        assert await host.host.db.read(lambda tx: events.page(tx, WORKSPACE, limit=100))
        reports = await verification.verify_all(host.host.db)
        assert [report.broken for report in reports] == [None] * len(reports)
        await configure(host, tmp_path)
        await leave(host, Canaries("again"), "c-gone")
        await maintenance.delete_conversation(host.host.data, WORKSPACE, "c-kept", by="test")
    copies = [await copy_of(restored / "hostler.db", restored / "blobs")]
    thief = Thief(master, restored / "erasure.key", copies)
    assert thief.places(tmp_path, gone) == STAYS & thief.places(tmp_path, gone)
    with pytest.raises(InvalidArgumentError, match="another installation"):
        await _restored_with_foreign_keys(tmp_path)


async def _history(host: Stage, conversation_id: str) -> str:
    page = await host.host.db.read(
        lambda tx: transcripts.page(tx, WORKSPACE, conversation_id=conversation_id, limit=100)
    )
    return " ".join(item.content for item in page.items)


async def _restored_with_foreign_keys(tmp_path: Path) -> None:
    other = tmp_path / "other"
    async with within(100), stage(other) as host:
        await turn_on(host, tmp_path)
        await host.run([["say", "x"]], conversation_id="c")
    await restore_backup(tmp_path / "backup", StorageLocation(tmp_path / "third"), keys=other / "hostler.db")


async def test_a_persons_data_is_in_no_copy(tmp_path: Path) -> None:
    data, words = tmp_path / "data", Canaries("ada")
    async with within(200), stage(data, hold_seconds=0.05) as host:
        master = KeyRing([await turn_on(host, tmp_path)])
        await configure(host, tmp_path)
        await leave(host, words, "c")
        other = await host.run([["say", "othersword"]], conversation_id="c", actor={"actor_id": "bob"})
        copies = [await copy_of(data / "hostler.db", data / "blobs")]
        assert "artifact" in Thief(master, data / "erasure.key", copies).places(tmp_path, words)
        await maintenance.delete_actor(host.host.data, WORKSPACE, "ada", by="test", actor_type=None)
        copies.append(await copy_of(data / "hostler.db", data / "blobs"))
        thief = Thief(master, data / "erasure.key", copies)
        assert "text" not in thief.places(tmp_path, words)
        assert not {"said", "toolargument", "comment", "artifact", "actorstate"} & thief.places(
            tmp_path, words
        )
        assert b"othersword" in thief.read(tmp_path)
        assert other.said == ["othersword"]
