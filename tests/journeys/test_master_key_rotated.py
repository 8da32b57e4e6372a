"""Master key and keys of workspaces change, a conversation is erased, while runs are at work: none fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest

from hostler.host import maintenance, workspace_keys
from hostler.host.config import ConfigFile
from hostler.journal.timeline_feed import TimelineFilter
from hostler.secrets.key_ring import KeyRing, new_key
from hostler.storage.sealing.tx import workspace_key_uses
from hostler.storage.stores import verification
from hostler_protocol.errors import StorageError
from support.key_thief import Thief, copy_of
from support.sealed_load import LANES, Load
from support.stepping import WORKSPACE, Stage, stage, within
from support.turned_on import turn_on

pytestmark = pytest.mark.gate("keys-change", "sealed-content")


async def rewrapped(host: Stage, key: bytes) -> None:
    """Wait until all keys of workspaces are under a master key."""
    while set(await host.host.db.read(workspace_key_uses)) != {KeyRing([key]).current_id}:
        await asyncio.sleep(0.01)


async def test_no_run_fails_while_keys_change(tmp_path: Path, database_url: str) -> None:
    data, url = tmp_path / "data", database_url if database_url.startswith("postgresql:") else None
    async with within(300), stage(data, database=url, erasure_key=(data / "erasure.key",)) as host:
        first, second = await turn_on(host, tmp_path), new_key()
        (tmp_path / "second.key").write_text(second.hex())
        old, new = f"file:{tmp_path / 'master.key'}", f"file:{tmp_path / 'second.key'}"
        await host.run([["say", "goneword"]], conversation_id="gone")
        before = await copy_of(url or data / "hostler.db")
        async with Load(host) as load:
            await load.more(LANES)
            await host.host.apply(ConfigFile(master_key=[new, old]), actor="test")
            await rewrapped(host, second)
            await load.more(LANES)
            await host.host.apply(ConfigFile(master_key=[new]), actor="test")
            await load.more(LANES)
            for workspace in (WORKSPACE, None):
                rotated = await workspace_keys.rotate(host.host.sealing, WORKSPACE, workspace, by="test")
                assert rotated.replaced > LANES
                await load.more(LANES)
            receipt = await maintenance.delete_conversation(host.host.data, WORKSPACE, "gone", by="test")
            assert receipt.erasure_key is not None
            await load.more(2 * LANES)
        assert not await host.host.problems()
        reports = await verification.verify_all(host.host.db)
        assert [report.broken for report in reports] == [None] * len(reports)
    copies = [before, await copy_of(url or data / "hostler.db")]
    key = data / "erasure.key"
    assert b"goneword" not in Thief(KeyRing([second, first]), key, copies).read(tmp_path)
    words = [word.encode() for word in load.ended]
    with_new = Thief(KeyRing([second]), key, copies).read(tmp_path)
    assert all(word in with_new for word in words)
    assert not Thief(KeyRing([first]), key, copies).keys, "the old master key opens nothing any more"


async def test_without_a_key_a_host_says_so_and_neither_reads_nor_stores(tmp_path: Path) -> None:
    data, key_path = tmp_path / "data", tmp_path / "master.key"
    async with within(100), stage(data) as host:
        await turn_on(host, tmp_path)
        await host.run([["say", "sealedword"]], conversation_id="c")
    kept, erasure = key_path.read_text(), (data / "erasure.key").read_bytes()
    for missing in (key_path, data / "erasure.key"):
        missing.unlink()
        async with within(100), stage(data, agent=False) as host:
            problems = [problem.sentence for problem in await host.host.problems()]
            assert any(missing.name in problem for problem in problems), problems
            assert host.host.sealing.problem is not None
            with pytest.raises(StorageError, match="content is sealed"):
                await host.send([["say", "lostword"]], conversation_id="c")
        assert not any(
            word in path.read_bytes()
            for path in data.rglob("*")
            if path.is_file()
            for word in (b"lostword", b"sealedword")
        )
        key_path.write_text(kept)
        (data / "erasure.key").write_bytes(erasure)
    async with within(100), stage(data) as host:
        assert not await host.host.problems()
        ended = await host.run([["call", "history.page", {}], ["tell"]], conversation_id="c")
        assert "sealedword" in str(ended.told)


async def test_without_its_key_a_stream_over_runs_leaves_nothing_out(tmp_path: Path) -> None:
    """It waits or breaks: whoever goes on by the cursor later, when the key is there, sees all."""
    data, key_path = tmp_path / "data", tmp_path / "master.key"
    wanted = TimelineFilter(WORKSPACE)
    async with within(100), stage(data) as host:
        await turn_on(host, tmp_path)
        await host.run([["say", "sealedword"]], conversation_id="c")
    kept = key_path.read_text()
    for other in (None, new_key().hex()):
        key_path.unlink()
        if other is not None:
            key_path.write_text(other)
        async with within(100), stage(data, agent=False) as host:
            watching = cast("AsyncGenerator[Any, None]", host.host.runs.timelines.watch(wanted, 0))
            with pytest.raises(StorageError, match=r"content is sealed|does not open"):
                await anext(watching)
            await watching.aclose()
        key_path.write_text(kept)
    async with within(100), stage(data, agent=False) as host:
        watching = cast("AsyncGenerator[Any, None]", host.host.runs.timelines.watch(wanted, 0))
        types: list[str] = []
        while "run.completed" not in types:
            types += [entry.type for entry in await anext(watching)]
        assert types[:2] == ["event.received", "run.status"]
        await watching.aclose()


async def test_a_master_key_cannot_be_taken_away_from_what_it_opens(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with within(100), stage(data) as host:
        await turn_on(host, tmp_path)
        await host.run([["say", "sealedword"]], conversation_id="c")
        await host.host.configurator.apply(ConfigFile(), actor="t", prune=True)
        assert host.host.sealing.problem is not None
        assert "no master key is configured" in host.host.sealing.problem
        with pytest.raises(StorageError, match="no master key is configured"):
            await host.send([["say", "plainword"]], conversation_id="c", agent=None)
        await turn_on(host, tmp_path)
        assert not await host.host.problems()
    assert not any(b"plainword" in path.read_bytes() for path in data.rglob("*") if path.is_file())
