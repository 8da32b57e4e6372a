"""Knowledge bases where content is encrypted: searched as before, in no byte, and gone with their keys."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hostler.domain.knowledge import KnowledgeBase
from hostler.host.host import Host
from hostler.storage.sealing.old_rows import count_plain, seal_rows
from hostler.tools.knowledge.bases import Upload
from support.canaries import bytes_of
from support.knowledge import chunks
from support.stepping import stage, within
from support.turned_on import turn_on

pytestmark = pytest.mark.gate("sealed-content", "knowledge")

WORDS = {"old": "kanarienvogelalt", "new": "kanarienvogelneu"}


async def put(host: Host, which: str) -> None:
    assert host.bases is not None
    text = f"# Heading of {WORDS[which]}x\n\nThis is about {WORDS[which]}, 金丝雀{which}.\n"
    upload = Upload(name=f"{which}.md", mime_type="text/markdown", metadata={"word": f"{WORDS[which]}y"})
    await host.bases.put_document("default", "house", upload, chunks(text.encode()), "test")


async def find(host: Host, query: str) -> list[str]:
    assert host.bases is not None
    return [one.document for one in await host.bases.search("default", "house", query, 5, None)]


async def until_found(host: Host, query: str, wanted: list[str]) -> None:
    async with asyncio.timeout(100):
        while await find(host, query) != wanted:
            await asyncio.sleep(0.02)


def leaks(data: Path) -> set[str]:
    """The words that are in any file of a data directory."""
    return {
        f"{path.name}: {word}"
        for path, content in bytes_of(data).items()
        for word in (*WORDS.values(), "金丝雀")
        if word.encode() in content
    }


async def test_bases_are_sealed_searched_and_erased(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with within(110), stage(data, agent=False) as host:
        bases = host.host.bases
        assert bases is not None
        await bases.create("default", KnowledgeBase(kb_id="house"), "test")
        await put(host.host, "old")
        await until_found(host.host, WORDS["old"], ["old.md"])
        assert leaks(data)

        await turn_on(host, tmp_path)
        await put(host.host, "new")
        # both are found while rows of both kinds are there, and after the old ones are sealed
        await until_found(host.host, f"{WORDS['old']} {WORDS['new']}", ["new.md", "old.md"])
        await seal_rows(host.host.db)
        assert await host.host.db.read(count_plain) == 0
        eraser = host.host.data.eraser()
        assert eraser is not None
        await eraser.destroy_all_unused()  # the keys of words and documents are used
        await eraser.erase()
        await until_found(host.host, f"{WORDS['old']} {WORDS['new']}", ["new.md", "old.md"])
        await until_found(host.host, "金丝雀old", ["old.md", "new.md"])
        assert len(await bases.search("default", "house", "about", 5, {"word": f"{WORDS['old']}y"})) == 1

        await bases.remove_document("default", "house", "new.md", "test")
        assert await find(host.host, WORDS["new"]) == []
        await put(host.host, "old")  # nothing changes
        assert await find(host.host, WORDS["old"]) == ["old.md"]
    async with within(110), stage(data, agent=False) as host:
        assert await find(host.host, WORDS["old"]) == ["old.md"]
        assert await find(host.host, WORDS["new"]) == []
    # bytes that were stored in the clear before are overwritten by the upkeep: test_sealing_killed.py
    assert not {leak for leak in leaks(data) if WORDS["new"] in leak}
