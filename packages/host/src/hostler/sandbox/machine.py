"""The sandbox of this machine: long-living processes, and commands with their output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hostler.sandbox.capabilities import Ground
from hostler.sandbox.exit_status import ExitStatus
from hostler.sandbox.launch_spec import TMP_NAME, command_for, user_of
from hostler.sandbox.port import LimitName, Mechanism, Outcome, SandboxSpec, Told
from hostler.sandbox.process import ChildProcess, Command
from hostler.sandbox.proxy import Proxy
from hostler.sandbox.usage import Walk
from hostler_protocol.errors import UnavailableError

_OF_SIGNAL: dict[int, LimitName] = {-24: "cpu", -25: "file_size"}
"""SIGXCPU and SIGXFSZ."""
OUTPUT_SECONDS = 2.0
"""After the end of a command, for what is still in its pipes."""


def nobody(name: str, told: Told) -> None:
    """Hear nothing."""


class MachineSandbox:
    """A `Sandbox` (port.py) by one mechanism."""

    def __init__(
        self, mechanism: Mechanism, ground: Ground, on_told: Callable[[str, Told], None] = nobody
    ) -> None:
        self._mechanism: Mechanism = mechanism
        self.ground = ground
        self._on_told = on_told

    @property
    def mechanism(self) -> Mechanism:
        """What holds here."""
        return self._mechanism

    @property
    def weakness(self) -> str | None:
        """Why it is not the strongest mechanism there is, in a line; None where it is."""
        return self.ground.weakness(self._mechanism)

    async def prepare(self, spec: SandboxSpec) -> Command:
        """What to execute, with the folders made ready. UnavailableError."""
        command = command_for(spec, self._mechanism, self.ground)
        uid = user_of(spec.name, self.ground, self._mechanism)
        try:
            await asyncio.to_thread(_make_ready, spec, uid, own_tmp=self._mechanism == "landlock")
        except OSError as error:
            raise UnavailableError(f"{spec.name}: its folders cannot be made ready: {error}") from error
        return command

    async def begin(
        self, process: ChildProcess, spec: SandboxSpec, *, marker: str, on_told: Callable[[Told], None]
    ) -> None:
        """Start `process`, which was not started yet, as the spec says. UnavailableError."""
        command = await self.prepare(spec)

        def hear(told: Told) -> None:
            on_told(told)
            self._on_told(spec.name, told)

        process.on_told = hear
        if spec.network:
            proxy = Proxy(spec.name, spec.network, process.hear)
            process.on_door = proxy.serve
            process.gone.add_done_callback(lambda _: proxy.close())
        await process.begin(command, marker=marker)

    async def start(
        self, spec: SandboxSpec, *, marker: str, on_told: Callable[[Told], None] | None = None
    ) -> ChildProcess:
        """Start a process and leave it running. See port.py."""
        process = ChildProcess()
        await self.begin(process, spec, marker=marker, on_told=on_told or (lambda _: None))
        return process

    async def run(
        self, spec: SandboxSpec, *, stdin: bytes = b"", on_output: Callable[[int, bytes], None] | None = None
    ) -> Outcome:
        """Run a command to its end. See port.py."""
        began = time.monotonic()
        process = await self.start(spec, marker=secrets.token_hex(16))
        run = _CommandRun(process, spec, on_output)
        try:
            await run.until_over(stdin)
        finally:
            process.kill()
            await process.wait_gone()
        return run.outcome(time.monotonic() - began)


def _make_ready(spec: SandboxSpec, uid: int | None, *, own_tmp: bool) -> None:
    """Give the writable folders to the user of the sandbox, whatever lies in them."""
    for folder in spec.writable:
        if own_tmp and folder == spec.writable[0]:
            (folder / TMP_NAME).mkdir(exist_ok=True)
        if uid is not None:
            _give(folder, uid)


def _give(folder: Path, uid: int) -> None:
    os.chown(folder, uid, uid)
    with contextlib.closing(Walk(str(folder))) as walk:
        while walk.step():
            for entry in walk.entries():
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_uid != uid:
                        os.chown(entry.name, uid, uid, dir_fd=walk.fd, follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        walk.note(entry.name)


class _CommandRun:
    """One command under way: what it writes, and the limits that the host counts itself."""

    def __init__(
        self, process: ChildProcess, spec: SandboxSpec, on_output: Callable[[int, bytes], None] | None
    ) -> None:
        self._process = process
        self._limits = spec.limits
        self._on_output = on_output
        self._said: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        self._reached: LimitName | None = None
        self._left = spec.limits.output_bytes

    async def until_over(self, stdin: bytes) -> None:
        """Until the command ended, or reached a limit."""
        loop = asyncio.get_running_loop()
        ends = []
        for index in (1, 2):
            pipe = self._process.take_pipe(index, "rb")
            _, output = await loop.connect_read_pipe(partial(_Output, partial(self._take, index)), pipe)
            ends.append(output.ended)
        writing, _ = await loop.connect_write_pipe(asyncio.Protocol, self._process.take_pipe(0, "wb"))
        writing.write(stdin)
        writing.write_eof()
        try:
            async with asyncio.timeout(self._limits.seconds):
                await asyncio.shield(self._process.exited)
        except TimeoutError:
            self._reach("time")
        finally:
            if not writing.is_closing() or writing.get_write_buffer_size():
                writing.abort()  # it fails where the pipe is closed already
        self._process.kill()
        await asyncio.wait(ends, timeout=OUTPUT_SECONDS)

    def _take(self, index: int, data: bytes) -> None:
        if self._left is not None:
            data, over = data[: self._left], len(data) > self._left
            self._left -= len(data)
            if over:
                self._reach("output")
        if data:
            self._said[index] += data
            if self._on_output is not None:
                self._on_output(index, data)

    def _reach(self, name: LimitName) -> None:
        if self._reached is None:
            self._reached = name
            self._process.hear(Told("limit", name, f"its limit of {name}"))
        self._process.kill()

    def outcome(self, seconds: float) -> Outcome:
        """How it ended."""
        process = self._process
        status = process.exited.result() if process.exited.done() else ExitStatus(None)
        reached = self._reached or process.reached
        if reached is None and status.code is not None:
            reached = _OF_SIGNAL.get(status.code)
        refused = tuple(told for told in process.told if told.kind != "limit")
        return Outcome(status, bytes(self._said[1]), bytes(self._said[2]), reached, refused, seconds)


class _Output(asyncio.Protocol):
    """One pipe of a command."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self.ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """Count it."""
        self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The command closed it, or ended."""
        if not self.ended.done():
            self.ended.set_result(None)
