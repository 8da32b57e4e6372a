"""The pipes of a plugin process that ends while they are taken over."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hostler.plugins.limits import DEFAULT_PROCESS_LIMITS
from hostler.plugins.logs import PluginLog
from hostler.plugins.process import start_process
from hostler.plugins.stdio import StdioTransport
from hostler.sandbox.process import Command
from hostler_protocol.errors import PluginError

LIMITS = replace(DEFAULT_PROCESS_LIMITS, status_seconds=0.001)
LATE_SECONDS = 0.2
"""From one pipe to the other: far more than the end of the process waits for its status and its output."""


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


async def test_an_end_before_both_pipes_are_open_is_reported_once_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, receiver = asyncio.get_running_loop(), Receiver()
    command = Command(argv=[sys.executable, "-S", "-c", "raise SystemExit(3)"], cwd=tmp_path, environment={})
    log = PluginLog(tmp_path / "log", LIMITS)
    process = await start_process(command, log, marker="m", limits=LIMITS)
    await process.exited
    connect = loop.connect_read_pipe

    async def late(*arguments: Any) -> Any:
        await asyncio.sleep(LATE_SECONDS)
        assert receiver.ends.empty()
        return await connect(*arguments)

    monkeypatch.setattr(loop, "connect_read_pipe", late)
    transport = await StdioTransport.open(process, receiver)
    async with asyncio.timeout(60):
        error = await receiver.ends.get()
        while not transport._stdout.is_closing():
            await asyncio.sleep(0)
        await process.wait_gone()
    assert error.details.get("exit_status") == 3, error
    assert receiver.ends.empty()
    log.close()
