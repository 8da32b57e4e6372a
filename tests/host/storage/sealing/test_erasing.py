"""Crypto-erasure: what is destroyed stays destroyed, everything else opens, wherever the process dies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from hostler.domain.retention import RetentionPolicy
from hostler.secrets.key_ring import KeyRing, new_key
from hostler.storage.port import Late, Query, Row, Tx
from hostler.storage.sealing import erasing
from hostler.storage.sealing.columns import TABLES
from hostler.storage.sealing.envelope import SealedError
from hostler.storage.sealing.rows import sealed_by
from hostler.storage.sealing.tx import workspace_key_uses
from hostler.storage.stores import deletion, plugin_storage, retention, transcripts
from support.key_thief import Thief, copy_of
from support.sealed_folders import CrashError, Crashing, Sealed, SealedFolder

pytestmark = pytest.mark.gate("erased-copies")

T = TypeVar("T")
GONE, KEPT = "secret words of ada in c-gone", "secret words of ada in c-kept"
KEYS = Query("t.keys", *["SELECT * FROM sealing_keys"] * 2)


async def filled(folder: SealedFolder) -> None:
    """A folder with two conversations, of which one was deleted and not erased yet."""
    async with folder.open() as opened:
        for _ in range(3):
            await opened.world.turn("c-gone", "ada")
        await opened.world.turn("c-kept", "ada")
        await opened.world.turn("c-other", "bob", ws="w2")


async def delete(opened: Sealed) -> None:
    await deletion.delete_conversation(opened.database, opened.blobs, "w", "c-gone", by="t")


async def says(opened: Sealed, conversation: str, ws: str = "w") -> str:
    """What a conversation's transcript says."""
    page = await opened.database.read(lambda tx: transcripts.page(tx, ws, conversation_id=conversation))
    return " ".join(item.content for item in page.items)


async def test_old_copies_open_no_more_and_all_else_does(tmp_path: Path) -> None:
    folder = SealedFolder(tmp_path / "data")
    await filled(folder)
    old = await copy_of(folder.database, folder.path / "blobs")
    key = folder.path / "erasure.key"
    assert GONE.encode() in Thief(folder.master, key, [old]).read(tmp_path)
    async with folder.open() as opened:
        await delete(opened)
        eraser = opened.eraser()
        assert await eraser.destroy_unused("w", ["c-gone"]) >= 3 * 2 + 1
        before = opened.erasure_key.ring().current_id
        erased = await eraser.erase()
        assert erased == opened.erasure_key.ring().current_id != before
        assert await eraser.erase() is None, "nothing is left to do"
        assert KEPT in await says(opened, "c-kept")
        assert "bob" in await says(opened, "c-other", "w2")
        rows = await opened.database.read(lambda tx: tx.all(KEYS))
        assert not [row for row in rows if row["retired"]]
        await opened.world.turn("c-gone", "ada")  # it may be used again
        assert GONE in await says(opened, "c-gone")
    copies = [old, await copy_of(folder.database, folder.path / "blobs")]
    stolen = Thief(folder.master, key, copies[:1]).read(tmp_path)
    assert GONE.encode() not in stolen
    assert KEPT.encode() not in stolen, "an old copy alone opens nothing: it needs the keys of today"
    assert KEPT.encode() in Thief(folder.master, key, copies).read(tmp_path)


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after it"])
async def test_a_process_that_dies_anywhere_loses_nothing_and_the_next_one_goes_on(
    tmp_path: Path, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "STEP_KEYS", 3)
    first = SealedFolder(tmp_path / "first")
    await filled(first)
    old = await copy_of(first.database, first.path / "blobs")
    async with first.open() as opened:
        await delete(opened)
    for number in range(100):
        folder = first.copy(tmp_path / f"{number}")
        key = folder.path / "erasure.key"
        async with folder.open() as opened:
            crashing = Crashing(opened.database, number, after)
            eraser = opened.eraser(crashing)
            died = False
            try:
                await eraser.destroy_unused("w", ["c-gone"])
                await eraser.erase()
            except CrashError:
                died = True
        async with folder.open() as opened:
            assert KEPT in await says(opened, "c-kept")
            assert "bob" in await says(opened, "c-other", "w2")
            eraser = opened.eraser()
            await eraser.destroy_unused("w", ["c-gone"])
            await eraser.erase()
            assert len(opened.erasure_key.reread().ids) == 1
            assert KEPT in await says(opened, "c-kept")
            await opened.world.turn("c-new", "eve")
            assert "eve" in await says(opened, "c-new")
        copies = [old, await copy_of(folder.database, folder.path / "blobs")]
        stolen = Thief(folder.master, key, copies).read(tmp_path)
        assert GONE.encode() not in stolen
        assert KEPT.encode() in stolen
        if not died:
            assert number > 6, "it died at every write before"
            return
    raise AssertionError("it does not end")


async def test_what_is_stored_while_keys_are_replaced_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two steps somebody stores and reads, in old and in new conversations."""
    monkeypatch.setattr(erasing, "STEP_KEYS", 2)
    folder = SealedFolder(tmp_path / "data")
    await filled(folder)
    async with folder.open() as opened:
        await delete(opened)

        class Busy(Crashing):
            async def write(self, work, *, synced=True, late=None):  # type: ignore[no-untyped-def]
                done = await super().write(work, synced=synced, late=late)
                if self.writes % 3 == 0:
                    await opened.world.turn("c-kept", f"writer{self.writes}")
                    await opened.world.turn(f"c-{self.writes}", "writer")
                    assert KEPT in await says(opened, "c-kept")
                return done

        busy = Busy(opened.database)
        eraser = opened.eraser(busy)
        await eraser.destroy_unused("w", ["c-gone"])
        await eraser.erase()
        assert busy.writes > 10
        said = await says(opened, "c-kept")
        assert all(f"writer{number}" in said for number in range(3, busy.writes, 3))
    async with folder.open() as opened:
        assert await says(opened, "c-kept") == said


async def test_a_receipt_names_the_erasure_key_whoever_erased(tmp_path: Path) -> None:
    """The daily look of a host may have done all of it, between the deletion of the rows and its end."""
    folder = SealedFolder(tmp_path / "data")
    await filled(folder)
    async with folder.open() as opened:
        await delete(opened)
        eraser = opened.eraser()
        assert await eraser.destroy_all_unused() > 0
        current = await eraser.erase()
        receipt = await deletion.delete_conversation(
            opened.database, opened.blobs, "w", "c-gone", by="t", eraser=eraser
        )
        assert receipt.erasure_key == current is not None


def tree(rows: list[Row]) -> dict[bool, set[str]]:
    """The ids of keys: True for those that wrap others by their kind, False for data keys."""
    above = ("#", "workspace", "conversation:")
    is_above = {row["key_id"]: any(part in row["name"] for part in above) for row in rows}
    return {kind: {key for key, one in is_above.items() if one is kind} for kind in (True, False)}


@pytest.mark.gate("keys-change")
@pytest.mark.parametrize("workspace", ["w", None])
async def test_keys_of_workspaces_are_rotated_and_everything_opens(
    tmp_path: Path, workspace: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "STEP_KEYS", 2)
    folder = SealedFolder(tmp_path / "data")
    await filled(folder)
    noted: list[str] = []
    async with folder.open() as opened:
        before = await opened.database.read(lambda tx: tx.all(KEYS))
        erasure_key = opened.erasure_key.ring().current_id
        replaced, current = await opened.eraser().rotate(workspace, lambda _: noted.append("noted"))
        assert current == opened.erasure_key.reread().current_id != erasure_key
        after = await opened.database.read(lambda tx: tx.all(KEYS))
        mine = [row for row in before if workspace in (None, row["workspace_id"])]
        assert noted == ["noted"]
        assert replaced == len(tree(mine)[True]) > 5
        assert not tree(mine)[True] & {row["key_id"] for row in after}, "no key of before wraps anything"
        assert tree(after)[False] == tree(before)[False]
        assert not [row for row in after if row["retired"]]
        others = tree([row for row in before if row not in mine])[True]
        assert others <= tree(after)[True]
        assert GONE in await says(opened, "c-gone")
        assert "bob" in await says(opened, "c-other", "w2")
        await opened.world.turn("c-kept", "eve")
    async with folder.open() as opened:
        assert KEPT in (said := await says(opened, "c-kept"))
        assert "eve" in said
        assert await opened.eraser().rotate("nowhere", lambda _: noted.append("again")) == (0, current)
        assert noted == ["noted"]


@dataclass
class Sleeping(Crashing):
    """A database whose process is stopped at its write number `at`, while something else goes on."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def write(self, work: Callable[[Tx], T], *, synced: bool = True, late: Late[T] | None = None) -> T:
        number, self.writes = self.writes, self.writes + 1
        if number == self.at and not self.after and self.meanwhile is not None:
            await self.meanwhile()
        done = await self.database.write(work, synced=synced, late=late)
        if number == self.at and self.after and self.meanwhile is not None:
            await self.meanwhile()
        return done


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after it"])
async def test_of_two_hosts_that_erase_at_once_none_destroys_a_key_that_the_other_needs(
    tmp_path: Path, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sleeps at each of its writes, for so long that its right to erase ends, while another erases."""
    monkeypatch.setattr(erasing, "STEP_KEYS", 3)
    first = SealedFolder(tmp_path / "first")
    await filled(first)
    async with first.open() as opened:
        await delete(opened)
    for number in range(100):
        folder = first.copy(tmp_path / f"{number}")
        async with folder.open() as opened, folder.open() as other:
            await opened.eraser().destroy_unused("w", ["c-gone"])
            sleeping = Sleeping(opened.database, number, after, meanwhile=other.eraser().erased)
            old = await copy_of(folder.database, folder.path / "blobs")
            await opened.eraser(sleeping).erased()
            assert len(other.erasure_key.reread().ids) == 1
            for host in (opened, other):
                await host.world.turn(f"c-new-{id(host)}", "eve")
                assert KEPT in await says(host, "c-kept")
                assert "eve" in await says(other, f"c-new-{id(host)}")
        async with folder.open() as opened:
            assert KEPT in await says(opened, "c-kept"), "also to one that has not read it before"
            assert "bob" in await says(opened, "c-other", "w2")
        copies = [old, await copy_of(folder.database, folder.path / "blobs")]
        assert GONE.encode() not in Thief(folder.master, folder.path / "erasure.key", copies).read(tmp_path)
        if sleeping.writes <= number:
            assert number > 5, "it slept at every write"
            return
    raise AssertionError("it does not end")


@pytest.mark.gate("keys-change")
@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after it"])
async def test_a_rotation_that_dies_anywhere_loses_nothing_and_the_next_look_ends_it(
    tmp_path: Path, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "STEP_KEYS", 3)
    first = SealedFolder(tmp_path / "first")
    await filled(first)
    for number in range(100):
        folder = first.copy(tmp_path / f"{number}")
        died = False
        async with folder.open() as opened:
            try:
                await opened.eraser(Crashing(opened.database, number, after)).rotate(None, lambda _: None)
            except CrashError:
                died = True
        async with folder.open() as opened:
            for _ in range(2):
                assert GONE in await says(opened, "c-gone")
                assert "bob" in await says(opened, "c-other", "w2")
                await opened.world.turn("c-new", "eve")
                assert "eve" in await says(opened, "c-new")
                await opened.eraser().erase()  # as the upkeep does at each start
            assert len(opened.erasure_key.reread().ids) == 1
            assert not [row for row in await opened.database.read(lambda tx: tx.all(KEYS)) if row["retired"]]
        if not died:
            assert number > 6, "it died at every write before"
            return
    raise AssertionError("it does not end")


async def test_keys_of_what_retention_deleted_go_too(tmp_path: Path) -> None:
    folder = SealedFolder(tmp_path / "data")
    async with folder.open() as opened:
        await opened.world.turn("c-old", "ada", age_days=100)
        await opened.world.turn("c-new", "ada")
        old = await copy_of(folder.database, folder.path / "blobs")
        policy = RetentionPolicy(events=30, transcripts=30, journals=30, artifacts=30, states=30)
        await retention.collect_workspace(opened.database, "w", policy)
        eraser = opened.eraser()
        assert await eraser.destroy_all_unused() >= 1
        assert await eraser.erase() is not None
        assert await eraser.destroy_all_unused() == 0
        assert "c-new" in await says(opened, "c-new")
    copies = [old, await copy_of(folder.database, folder.path / "blobs")]
    stolen = Thief(folder.master, folder.path / "erasure.key", copies).read(tmp_path)
    deltas = '{"data":{"text":"secret words of ada in %s"}}\n{"data"'
    assert (deltas % "c-old").encode() not in stolen
    assert (deltas % "c-new").encode() in stolen


async def test_a_key_is_destroyed_only_if_no_table_has_a_value_of_it(tmp_path: Path) -> None:
    """For each kind of data key and each table: one value is enough to keep it."""
    async with SealedFolder(tmp_path / "data").open() as opened:
        await opened.world.turn("c", "ada")

        def unused(tx: Tx) -> list[str]:
            above = ("#", "workspace", "conversation:")
            rows = [row for row in tx.all(KEYS) if not any(part in row["name"] for part in above)]
            assert len(rows) > 5
            return [row["name"] for row in rows if not erasing.is_used(tx, row["workspace_id"], row)]

        assert await opened.database.read(unused) == []
        assert await opened.eraser().destroy_all_unused() == 0
        for table in TABLES.values():
            for leaf in table.leaves:
                assert sealed_by(leaf.kind), leaf


async def test_a_rotated_master_key_wraps_all_and_the_old_one_nothing(tmp_path: Path) -> None:
    first, second = new_key(), new_key()
    folder = SealedFolder(tmp_path / "data", KeyRing([first]))
    await filled(folder)
    both = SealedFolder(folder.path, KeyRing([second, first]))
    async with both.open() as opened:
        assert await opened.eraser().rewrap() == 3, "of two workspaces, and of blobs"
        assert await opened.eraser().rewrap() == 0
        uses = await opened.database.read(workspace_key_uses)
        assert uses == {KeyRing([second]).current_id: 3}
    async with SealedFolder(folder.path, KeyRing([second])).open() as opened:
        assert GONE in await says(opened, "c-gone")
    async with SealedFolder(folder.path, KeyRing([first])).open() as opened:
        with pytest.raises(SealedError, match="does not open"):
            await says(opened, "c-gone")


async def test_without_the_erasure_key_nothing_opens(tmp_path: Path) -> None:
    folder = SealedFolder(tmp_path / "data")
    await filled(folder)
    (folder.path / "erasure.key").unlink()
    async with folder.open() as opened:  # it makes another one, as somebody might
        with pytest.raises(SealedError, match="does not open"):
            await says(opened, "c-gone")
        with pytest.raises(SealedError, match="the erasure key is another one"):
            await opened.database.write(
                lambda tx: plugin_storage.set(tx, "w3", "author/name", "key", b"value")
            )
