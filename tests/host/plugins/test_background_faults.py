"""An unexpected error in the background of a plugin connection is logged, and ends what depends on it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hostler.plugins import stdio
from hostler.plugins.connection_monitor import ConnectionMonitor
from hostler.plugins.lifecycle import PluginLifecycle
from hostler.plugins.limits import DEFAULT_CONNECTION_LIMITS as LIMITS
from hostler.plugins.logs import PluginLog
from hostler.plugins.process import start_process
from hostler.plugins.read_pause import ReadPause
from hostler.plugins.remote import RemoteTransport
from hostler.plugins.send_queue import SendQueue
from hostler.plugins.source import Remote
from hostler.plugins.supervisor import Supervisor
from hostler.sandbox.process import Command
from hostler_protocol.errors import PluginError

SECONDS = 60.0


class Receiver:
    """Keeps the reported ends."""

    def __init__(self) -> None:
        self.ends: asyncio.Queue[PluginError] = asyncio.Queue()

    def bytes_received(self, data: bytes) -> None:
        raise AssertionError(data)

    def frame_received(self, data: bytes | str) -> None:
        raise AssertionError(data)

    def sent_some(self) -> None:
        """Nothing was sent."""

    def lost(self, error: PluginError) -> None:
        self.ends.put_nowait(error)


def _broken(*_: Any) -> Any:
    raise LookupError("injected")


async def test_a_connection_that_cannot_be_watched_fails(caplog: pytest.LogCaptureFixture) -> None:
    failed: asyncio.Queue[PluginError] = asyncio.Queue()
    limits = replace(LIMITS, ping_interval_seconds=0.001)
    reading = ReadPause(LIMITS.held_result_bytes)
    ConnectionMonitor(limits, SendQueue(LIMITS), reading, _broken, failed.put_nowait).start()
    async with asyncio.timeout(SECONDS):
        assert "the host failed" in (await failed.get()).message
    assert "LookupError: injected" in caplog.text


async def test_the_end_of_a_process_is_reported_even_if_its_reason_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stdio, "_explain", _broken)
    receiver = Receiver()
    command = Command(argv=[sys.executable, "-S", "-c", "pass"], cwd=tmp_path, environment={})
    log = PluginLog(tmp_path / "log")
    process = await start_process(command, log, marker="m")
    await stdio.StdioTransport.open(process, receiver)
    async with asyncio.timeout(SECONDS):
        assert "LookupError" in (await receiver.ends.get()).message
        await process.wait_gone()
    assert "LookupError: injected" in caplog.text
    log.close()


class BrokenChannel:
    """A WebSocket whose server fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def receive(self) -> str | bytes | None:
        raise self.error

    async def send(self, data: str) -> None:
        raise AssertionError(data)

    async def close(self, code: int, reason: str) -> None:
        """Close nothing."""


@pytest.mark.parametrize("error", [LookupError("injected"), ConnectionError("cut")])
async def test_an_unexpected_error_of_a_remote_connection_is_logged(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver()
    async with asyncio.timeout(SECONDS), RemoteTransport(BrokenChannel(error), receiver).running():
        assert str(error) in (await receiver.ends.get()).message
    assert ("LookupError: injected" in caplog.text) == isinstance(error, LookupError)


async def test_an_error_while_a_process_is_drained_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = Supervisor(tmp_path)
    life = PluginLifecycle("acme/far", Remote("acme/far"), host._context)

    async def drain() -> None:
        _broken()

    life._spawn(drain())
    await life.close(0)
    assert "plugin acme/far" in caplog.text
    assert "LookupError: injected" in caplog.text
    await host.close()
