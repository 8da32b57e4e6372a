"""The disk fills up under a host at work: new events are refused clearly, and what it took, it keeps."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.http_runs import begin, cancel, follow, perform, record, send
from support.oracle import check_chains
from support.server_process import PLUGINS, HostProcess, config_file, serving
from support.wire_client import ask

pytestmark = pytest.mark.gate("full-disk")

SECONDS = 200
DISK_BYTES = 24 * 1024 * 1024
MOST_EVENTS = 3000
"""The log of the database has room in itself: so many events are more than fit."""
LEFT_BYTES = 512 * 1024
"""Enough for some events, not for all that their runs have to say."""
SMALL_DISK = [
    *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c"),
    f'mount -t tmpfs -o size={DISK_BYTES},mode=700 tmpfs "$0" && exec "$@"',
]
"""Followed by the folder, and the command that sees a small disk there."""


def _small_disks() -> bool:
    tried = [*SMALL_DISK, "/mnt", "true"]
    return sys.platform == "linux" and subprocess.run(tried, capture_output=True, check=False).returncode == 0


@pytest.mark.timeout(SECONDS + 30)
@pytest.mark.skipif(not _small_disks(), reason="a small disk needs user namespaces")
async def test_a_full_disk_refuses_events_loses_nothing_and_recovers(tmp_path: Path) -> None:
    path = str(tmp_path / "flood.sock")
    connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    connected = asyncio.get_running_loop().create_future()
    valve = await asyncio.start_unix_server(lambda r, w: connected.set_result((r, w)), path)
    async with asyncio.timeout(SECONDS), valve, serving(_host(tmp_path)) as host:
        try:
            sent = await send(host, "flood", path)
            reader, writer = await connected
            held = await begin(host, "other", "hold")
            ballast = host.data_seen / "ballast"
            _fill(ballast)
            accepted = await _send_until_refused(host)
            assert accepted
            writer.write(b"5000\n")
            emitted = asyncio.create_task(reader.readline())
            await _full_for_a_while(host, sent.run_id)
            assert not emitted.done(), "nothing may be taken that cannot be kept"
            ballast.unlink()
            assert await emitted == b"ok\n"
            writer.close()
            flooded = await follow(host, sent.run_id)
            assert flooded.types == ["message.delta"] * 5000 + ["message.completed", "run.completed"]
            for run_id in accepted.values():
                assert (await follow(host, run_id)).ending == ("run.completed", None)
            assert (await perform(host, "other", "make something")).ending == ("run.completed", None)
            assert (await cancel(host, held.run_id)).types == ["message.delta", "run.failed"]
            await _check(host, set(accepted) | {sent.event_id, held.event_id})
            assert await host.stop() == 0
        except BaseException:
            print(host.log)
            raise


def _host(folder: Path) -> HostProcess:
    agents: list[dict[str, Any]] = [
        {"name": "flood", "runner": "plugin:test/flood/default"},
        {"name": "other", "runner": "plugin:test/puppet/default"},
    ]
    plugins = [PLUGINS / "flood", PLUGINS / "puppet"]
    data = folder / "host"
    data.mkdir()
    config = config_file(folder / "config.yaml", plugins=plugins, agents=agents)
    return HostProcess(data, config, within=[*SMALL_DISK, str(data)])


def _fill(path: Path) -> None:
    """Leave but a few bytes."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            _write_on(descriptor)
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - LEFT_BYTES)
    finally:
        os.close(descriptor)


def _write_on(descriptor: int) -> None:
    while True:
        os.write(descriptor, b"\0" * 4096)


async def _send_until_refused(host: HostProcess) -> dict[str, str]:
    """Events that were taken before the first refusal, and their runs."""
    accepted: dict[str, str] = {}
    for number in range(MOST_EVENTS):
        event = _event(number)
        answer = await ask(host.url, "POST", "/v1/events", event)
        if answer.status != 202:
            problem = answer.json()
            assert answer.status == 503, problem
            assert "no space left" in problem["detail"], problem
            return accepted
        accepted[event["event_id"]] = answer.json()["run"]["run_id"]
    raise AssertionError("the disk never filled up")


def _event(number: int) -> dict[str, Any]:
    return {
        "event_id": f"e{number}",
        "event_type": "message.received",
        "agent": "other",
        "input": {"text": "say 1"},
        "data": {"padding": "x" * 20_000},
    }


async def _full_for_a_while(host: HostProcess, run_id: str) -> None:
    """Reading works on a full disk; new events go on being refused."""
    for number in range(10):
        answer = await ask(host.url, "POST", "/v1/events", _event(MOST_EVENTS + number))
        assert answer.status == 503, answer
        assert (await record(host, run_id))["status"] == "running"


async def _check(host: HostProcess, acknowledged: set[str]) -> None:
    """Every event that was acknowledged is there, none that was refused, and the chain holds."""
    copied = host.data.with_name("copy")
    copied.mkdir()
    for name in ("hostler.db", "hostler.db-wal"):  # nobody writes now
        shutil.copy(host.data_seen / name, copied / name)
    with sqlite3.connect(copied / "hostler.db") as copy:
        stored = {str(row[0]) for row in copy.execute("SELECT event_id FROM events")}
        statuses = {str(row[0]) for row in copy.execute("SELECT status FROM runs")}
    assert acknowledged <= stored
    assert len(stored) == len(acknowledged) + 1, "only the last one, `make`, came after"
    assert statuses == {"completed", "cancelled"}
    assert check_chains(copied) == len(stored)
