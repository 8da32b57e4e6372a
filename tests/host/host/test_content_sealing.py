"""Which keys content is sealed with, as a host finds them: in files, in the database, and while others change
them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hostler.host.content_sealing import LOOKS, ContentSealing
from hostler.secrets.key_ring import LiveKeyRing, new_key
from hostler.storage.sealing.erasure_key import ErasureKey
from support.sealed_folders import Sealed, SealedFolder


def sealing_of(folder: SealedFolder, opened: Sealed) -> ContentSealing:
    """A host's sealing of an opened folder, as it starts."""
    ring = LiveKeyRing()
    ring.replace(folder.master)
    return ContentSealing(opened.database, None, ring, folder.path, [folder.path / "erasure.key"])


@pytest.mark.parametrize("times", [1, LOOKS - 1])
async def test_a_key_that_another_host_replaces_in_between_is_found(tmp_path: Path, times: int) -> None:
    """The other host erases after this one has read the file, and before it reads the database."""
    folder = SealedFolder(tmp_path / "data")
    async with folder.open() as opened, folder.open() as other:
        await other.world.turn("c", "ada")
        sealing = sealing_of(folder, opened)
        noted, left = sealing._noted, times

        async def slow(current: str) -> str | None:
            nonlocal left
            if left:
                left -= 1
                await other.eraser().rotate(None, lambda _: None)
            return await noted(current)

        sealing._noted = slow  # type: ignore[method-assign]
        assert await sealing.follow() is None
        assert left == 0
        assert sealing.eraser is not None
        await opened.world.turn("c", "bob")


async def test_a_key_of_another_database_stays_one(tmp_path: Path) -> None:
    folder = SealedFolder(tmp_path / "data")
    async with folder.open() as opened:
        await opened.world.turn("c", "ada")
        (folder.path / "erasure.key").write_text(f"{new_key().hex()}\n")
        sealing: Any = sealing_of(folder, opened)
        assert "is not the one of this database" in await sealing.follow()
        assert sealing.eraser is None
        assert ErasureKey([folder.path / "erasure.key"]).ring().ids
