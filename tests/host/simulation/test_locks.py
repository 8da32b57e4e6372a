"""Locks of files between simulated processes: waited for, kept while frozen, released by death."""

from __future__ import annotations

import asyncio
import fcntl
from pathlib import Path
from typing import IO

import pytest

from hostler.simulation.loop import MustWaitError
from hostler.simulation.world import World
from hostler_sdk.loading import load_folder


class Owners:
    """Processes that lock one file in a thread, as hosts that share a folder of blobs do."""

    def __init__(self, path: Path) -> None:
        self.world = World("1", lambda _, source: load_folder(Path(source.path)))
        self.first, self.second = (self.world.process(name) for name in ("first", "second"))
        self.locked: list[str] = []
        self._path = path

    def lock(self, how: int = fcntl.LOCK_EX) -> IO[bytes]:
        file = self._path.open("wb")
        fcntl.flock(file, how)
        return file

    async def keep_locked(self, name: str, seconds: float = 1e9) -> None:
        with await asyncio.to_thread(self.lock):
            self.locked.append(name)
            await asyncio.sleep(seconds)


def test_a_thread_waits_until_the_lock_is_released(tmp_path: Path) -> None:
    owners = Owners(tmp_path / "lock")

    async def live() -> None:
        owners.first.spawn(owners.keep_locked("first", 5.0))
        await asyncio.sleep(1)
        owners.second.spawn(owners.keep_locked("second"))
        await asyncio.sleep(3)
        assert owners.locked == ["first"]
        await asyncio.sleep(2)
        assert owners.locked == ["first", "second"]

    owners.world.run(live())


def test_a_frozen_process_keeps_its_lock_and_a_dead_one_does_not(tmp_path: Path) -> None:
    owners = Owners(tmp_path / "lock")

    async def live() -> None:
        owners.first.spawn(owners.keep_locked("first"))
        await asyncio.sleep(1)
        owners.first.freeze()
        owners.second.spawn(owners.keep_locked("second"))
        await asyncio.sleep(60)
        assert owners.locked == ["first"]
        owners.first.kill()
        await asyncio.sleep(1)
        assert owners.locked == ["first", "second"]

    owners.world.run(live())


def test_the_death_of_a_process_releases_only_what_it_holds_itself(tmp_path: Path) -> None:
    """Also where a descriptor that it has closed belongs to another process by now."""
    owners = Owners(tmp_path / "lock")

    async def live() -> None:
        owners.first.spawn(owners.keep_locked("first", 1.0))
        await asyncio.sleep(2)
        owners.second.spawn(owners.keep_locked("second"))
        await asyncio.sleep(1)
        owners.first.kill()
        with pytest.raises(BlockingIOError):
            owners.lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(MustWaitError):  # not in a thread: nobody tries again
            owners.lock()

    owners.world.run(live())
