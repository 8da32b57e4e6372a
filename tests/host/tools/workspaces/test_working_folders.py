"""Whose a folder is, how long it lasts, and that nobody removes it under somebody's hands."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from hostler.domain.working_folders import FolderOwner, WorkingFolderSettings
from hostler.tools.workspaces.folders import Swept, WorkingFolders
from hostler_protocol.errors import PayloadTooLargeError, StorageError

pytestmark = pytest.mark.gate("working-folders", "folder-quotas")

DAY = 86_400


async def nobody(owner: FolderOwner) -> bool:
    return False


def conversation(name: str, workspace: str = "w", **more: str) -> FolderOwner:
    return FolderOwner(
        kind="conversation", workspace_id=workspace, agent_id="a", conversation_id=name, **more
    )


OWNERS = [
    conversation("c"),
    conversation("c", bot_id="b"),
    conversation("c", thread_id="b"),
    conversation("c", workspace="w2"),
    conversation("../../c"),
    conversation("/c"),
    conversation("c\x00"),
    conversation("ç" * 4_000),
    conversation("C"),
    FolderOwner(kind="conversation", workspace_id="w", agent_id="b", conversation_id="c"),
    FolderOwner(kind="run", workspace_id="w", run_id="c"),
]


async def test_every_owner_has_a_folder_of_its_own_and_none_leads_elsewhere(tmp_path: Path) -> None:
    folders = WorkingFolders(tmp_path / "w")
    for number, owner in enumerate(OWNERS):
        async with folders.use(owner) as folder:
            assert list(folder.path.iterdir()) == []
            (folder.path / "mine").write_text(str(number))
            assert folder.path.parent.parent.parent == tmp_path / "w"
    for number, owner in enumerate(OWNERS):
        async with folders.use(owner) as folder:
            assert (folder.path / "mine").read_text() == str(number)
    held = await folders.found()
    assert {one.owner for one in held} == set(OWNERS)
    folders.close()


async def test_a_folder_lasts_until_it_is_unused_for_long_or_its_owner_is_gone(tmp_path: Path) -> None:
    folders = WorkingFolders(tmp_path, WorkingFolderSettings(keep_days=7))
    for name in ("used", "old", "gone"):
        async with folders.use(conversation(name)) as folder:
            (folder.path / "data").write_bytes(b"x" * 1_000)
    _age(tmp_path, conversation("old"), 8 * DAY)
    _age(tmp_path, conversation("used"), 6 * DAY)

    async def gone(owner: FolderOwner) -> bool:
        return owner.conversation_id == "gone"

    swept = await folders.sweep(gone)
    assert swept.folders == 2
    assert swept.size_bytes >= 2_000
    assert [one.owner for one in await folders.found()] == [conversation("used")]
    assert await folders.sweep(gone) == Swept()
    folders.close()


async def test_a_folder_in_use_is_never_removed(tmp_path: Path) -> None:
    folders, others = WorkingFolders(tmp_path), WorkingFolders(tmp_path)
    owner = conversation("c")

    async def always(_: FolderOwner) -> bool:
        return True

    async with folders.use(owner) as folder, folders.use(owner):
        (folder.path / "data").write_text("kept")
        assert await others.sweep(always) == Swept()
        assert (folder.path / "data").read_text() == "kept"
    assert (await others.sweep(always)).folders == 1
    async with folders.use(owner) as folder:
        assert list(folder.path.iterdir()) == []
    folders.close()
    others.close()


async def test_use_and_removal_at_the_same_time_always_leave_a_whole_folder(tmp_path: Path) -> None:
    folders, others = WorkingFolders(tmp_path), WorkingFolders(tmp_path)
    owner = conversation("c")

    async def work(name: str) -> None:
        for number in range(60):
            async with folders.use(owner) as folder:
                (folder.path / name).write_text("x")
                await asyncio.sleep(0)
                assert (folder.path / name).read_text() == "x", number

    async def remove() -> None:
        for _ in range(60):
            await others.remove(owner.key)

    await asyncio.gather(work("a"), work("b"), remove())
    folders.close()
    others.close()


async def test_what_a_crash_left_half_made_goes_after_a_while(tmp_path: Path) -> None:
    folders = WorkingFolders(tmp_path)
    half = tmp_path / "ab" / ("ab" * 32)
    half.mkdir(parents=True)
    (tmp_path / "removed").mkdir()
    (tmp_path / "removed/x").mkdir()
    async with folders.use(conversation("c")) as folder:
        left = folder.path.parent / "staging/left"
        left.write_text("half")
    assert (await folders.sweep(nobody)).folders == 0
    assert half.exists()
    assert not (tmp_path / "removed/x").exists()
    old = time.time() - 2 * 3600
    os.utime(half, (old, old))
    os.utime(left, (old, old))
    assert (await folders.sweep(nobody)).folders == 1
    assert not half.exists()
    assert not left.exists()
    async with folders.use(FolderOwner(kind="run", workspace_id="w", run_id="r")):
        pass
    assert len(await folders.found()) == 2
    folders.close()


async def test_a_folder_that_says_it_is_anothers_is_nobodys(tmp_path: Path) -> None:
    folders = WorkingFolders(tmp_path)
    async with folders.use(conversation("a")) as first, folders.use(conversation("b")) as second:
        (second.path.parent / "about.json").write_bytes((first.path.parent / "about.json").read_bytes())
    owners = {one.key: one.owner for one in await folders.found()}
    assert owners == {conversation("a").key: conversation("a"), conversation("b").key: None}
    folders.close()


async def test_commands_take_turns_and_who_gives_up_waits_no_more(tmp_path: Path) -> None:
    folders = WorkingFolders(tmp_path)
    owner, order = conversation("c"), []

    async def work(name: str, begun: asyncio.Event, go: asyncio.Event) -> None:
        async with folders.turn(owner):
            order.append(f"{name} begins")
            begun.set()
            await go.wait()
            order.append(f"{name} ends")

    events = [asyncio.Event() for _ in range(6)]
    first = asyncio.create_task(work("first", events[0], events[1]))
    await events[0].wait()
    second = asyncio.create_task(work("second", events[2], events[3]))
    third = asyncio.create_task(work("third", events[4], events[5]))
    await asyncio.sleep(0)
    second.cancel()
    async with folders.turn(conversation("other")):
        assert order == ["first begins"]
    events[1].set()
    events[5].set()
    await asyncio.gather(first, third)
    assert order == ["first begins", "first ends", "third begins", "third ends"]
    assert folders._turns == {}
    folders.close()


async def test_a_full_folder_says_what_it_may_hold(tmp_path: Path) -> None:
    folders = WorkingFolders(tmp_path, WorkingFolderSettings(disk_mib=1, max_files=3))
    async with folders.use(conversation("c")) as folder:
        assert folder.room().files == 3
        (folder.path / "a").write_bytes(b"x" * 1_000_000)
        assert folder.room().size_bytes <= 48_576
        (folder.path / "b").write_bytes(b"x" * 100_000)
        with pytest.raises(PayloadTooLargeError, match="1,048,576"):
            folder.room()
    folders.configure(WorkingFolderSettings(disk_mib=10))
    async with folders.use(conversation("c")) as folder:
        assert folder.room().size_bytes > 9_000_000
    folders.close()


async def test_there_are_no_more_folders_than_may_be_and_the_disk_stays_free(tmp_path: Path) -> None:
    folders = WorkingFolders(tmp_path, WorkingFolderSettings(max_folders=2, spare_mib=1_048_576))
    for name in ("a", "b", "a"):
        async with folders.use(conversation(name)) as folder:
            with pytest.raises(StorageError, match="stay free"):
                folder.room()
    with pytest.raises(StorageError, match="max_folders"):
        async with folders.use(conversation("c")):
            pass
    assert len(await folders.found()) == 2
    folders.close()


async def test_where_no_folder_can_be_made_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "w").write_text("a file in the way")
    folders = WorkingFolders(tmp_path / "w")
    with pytest.raises(StorageError, match="cannot be made"):
        async with folders.use(conversation("c")):
            pass
    folders.close()


def _age(root: Path, owner: FolderOwner, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(root / owner.key[:2] / owner.key / "lock", (then, then))
