"""A runner that floods, and a reader that hardly reads: memory stays, nothing is lost, others go on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.examples import SOAK
from support.http_runs import perform, record, send
from support.server_process import PLUGINS, HostProcess, config_file, sampled_memory, serving
from support.wire_client import LOST, stream

pytestmark = pytest.mark.gate("wire-bounds")

DELTAS = 1_000_000 if SOAK else 60_000
BLOCKS = 10
"""Flood and quiet take turns, so that noise of the machine hits the measurements of both."""
QUIET_PROBES = 6
SECONDS = 90 + DELTAS // 500
MEMORY_BOUND_BYTES = 128 * 1024 * 1024
"""What the flood may add to the host's memory, however long it is: 16 MiB of results that are not committed,
16 MiB of cache for each connection to the database (five), and what the allocator keeps."""
SLOWDOWN_BOUND = 12
"""How much longer a run of another plugin may take during the flood: the host has one loop and one writer."""
SLOW_READER_BYTES = 16 * 1024
SLOW_READER_SECONDS = 0.05
"""The slow reader reads a piece, and waits for so long."""


@pytest.mark.timeout(SECONDS + 30)
async def test_a_flood_of_deltas_to_a_slow_reader(tmp_path: Path) -> None:
    async with asyncio.timeout(SECONDS), serving(_host(tmp_path)) as host:
        try:
            await _flooded(host, str(tmp_path / "flood.sock"))
            assert await host.stop() == 0
            _check_journal(host.data / "hostler.db")
        except BaseException:
            print(host.log)
            raise


def _host(folder: Path) -> HostProcess:
    agents: list[dict[str, Any]] = [
        {"name": "flood", "runner": "plugin:test/flood/default", "config": {"timeout": 0}},
        {"name": "other", "runner": "plugin:test/puppet/default"},
    ]
    plugins = [PLUGINS / "flood", PLUGINS / "puppet"]
    return HostProcess(folder / "host", config_file(folder / "config.yaml", plugins=plugins, agents=agents))


async def _flooded(host: HostProcess, path: str) -> None:
    for _ in range(QUIET_PROBES):
        await _probe(host)  # everything is loaded and warm
    async with _valve(path) as connected:
        run_id = (await send(host, "flood", path)).run_id
        reader, writer = await connected
        flooding = asyncio.Event()
        slow = asyncio.create_task(_read_slowly(host, run_id, flooding))
        quiet: list[float] = []
        during: list[float] = []
        async with sampled_memory(host) as memory:
            for _ in range(BLOCKS):
                quiet += [await _probe(host) for _ in range(QUIET_PROBES)]
                writer.write(b"%d\n" % (DELTAS // BLOCKS))
                emitted = asyncio.create_task(reader.readline())
                while not emitted.done():
                    during.append(await _probe(host))
                assert await emitted == b"ok\n"
                print(f"{memory.added / 2**20:.1f} MiB", end=" ", flush=True)
            writer.close()
            await _wait_over(host, run_id)
            flooding.set()
            await slow
    added, slowdown = memory.added, statistics.median(during) / statistics.median(quiet)
    print(
        f"{DELTAS} deltas: {added / 2**20:.1f} MiB, others {slowdown:.1f} times slower ({len(during)} runs)"
    )
    assert added < MEMORY_BOUND_BYTES
    assert slowdown < SLOWDOWN_BOUND


@contextlib.asynccontextmanager
async def _valve(
    path: str,
) -> AsyncIterator[asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """Where the flooding runner will connect to."""
    connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    connected = asyncio.get_running_loop().create_future()
    server = await asyncio.start_unix_server(lambda r, w: connected.set_result((r, w)), path)
    async with server:
        yield connected


async def _probe(host: HostProcess) -> float:
    """Seconds of a whole small run of another plugin, watched by its own reader."""
    began = time.perf_counter()
    results = await perform(host, "other", "say 5")
    took = time.perf_counter() - began
    assert results.types == ["message.delta"] * 5 + ["message.completed", "run.completed"]
    return took


async def _wait_over(host: HostProcess, run_id: str) -> None:
    while (await record(host, run_id))["status"] != "completed":
        await asyncio.sleep(0.1)


async def _read_slowly(host: HostProcess, run_id: str, hurry: asyncio.Event) -> None:
    """See every result once, in order: slowly until `hurry`, and again from there after being cut off."""
    last = 0
    while True:
        try:
            async with contextlib.aclosing(
                stream(host.url, run_id, last, buffer=SLOW_READER_BYTES)
            ) as pieces:
                async for seen in pieces:
                    for result in seen:
                        assert result.sequence == last + 1
                        last = result.sequence
                        if last <= DELTAS:
                            assert result.type == "message.delta"
                            assert b'"%d "' % last in result.data
                    if seen[-1].type == "run.completed":
                        assert last == DELTAS + 2
                        return
                    if not hurry.is_set():
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(SLOW_READER_SECONDS):
                                await hurry.wait()
        except LOST:
            assert not hurry.is_set(), "the host cut off a reader that reads"


def _check_journal(path: Path) -> None:
    """Every delta stands in the journal once, in order, as it was emitted."""
    expected = 0
    with sqlite3.connect(path) as database:
        rows = database.execute(
            "SELECT count, last_sequence, data FROM journal WHERE type = 'message.delta' AND run_id ="
            " (SELECT run_id FROM runs WHERE agent_name = 'flood') ORDER BY last_position"
        )
        for count, last_sequence, data in rows:
            lines = data.splitlines()
            assert len(lines) == count
            for line in lines:
                expected += 1
                assert json.loads(line)["data"]["chunk"]["content"] == f"{expected} "
            assert last_sequence == expected
    assert expected == DELTAS
