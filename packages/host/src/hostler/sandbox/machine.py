"""The sandbox of this machine: long-running processes, and commands with their output."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import stat
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from hostler.domain.control_groups import GroupLimits
from hostler.sandbox.capabilities import SandboxCapabilities
from hostler.sandbox.control_groups import SPARE_PROCESSES, SandboxGroup
from hostler.sandbox.exit_status import ExitStatus
from hostler.sandbox.folders import PinnedFolder, pin
from hostler.sandbox.launch_spec import TMP_NAME, check_possible, command_for
from hostler.sandbox.port import CommandResult, LimitName, Mechanism, SandboxSpec, Violation
from hostler.sandbox.process import ChildProcess, Command
from hostler.sandbox.project_quotas import NoQuotaError, Quota, limit_folders
from hostler.sandbox.proxy import Proxy
from hostler.sandbox.read_pipe import connect_read_pipe
from hostler.sandbox.usage import OpenFolder, Walk
from hostler.sandbox.users import OF_THIS_PROCESS, SandboxUsers
from hostler_protocol.errors import UnavailableError

_LIMIT_OF_SIGNAL: dict[int, LimitName] = {-24: "cpu", -25: "file_size"}
"""SIGXCPU and SIGXFSZ."""
OUTPUT_SECONDS = 2.0
"""Time for the rest of a command's output after its end."""
_log = logging.getLogger(__name__)


def ignore_violation(name: str, violation: Violation) -> None:
    """Do nothing."""


class MachineSandbox:
    """A `Sandbox` (port.py) of one mechanism."""

    def __init__(
        self,
        mechanism: Mechanism,
        capabilities: SandboxCapabilities,
        on_violation: Callable[[str, Violation], None] = ignore_violation,
        users: SandboxUsers = OF_THIS_PROCESS,
    ) -> None:
        self._mechanism: Mechanism = mechanism
        self.capabilities = capabilities
        self._on_violation = on_violation
        self._users = users

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism in use."""
        return self._mechanism

    @property
    def weakness(self) -> str | None:
        """One line on why a weaker mechanism is in use; None with the strongest one."""
        return self.capabilities.weakness(self._mechanism)

    async def _prepare(
        self, spec: SandboxSpec, uid: int | None, group: SandboxGroup | None = None
    ) -> Command:
        """Prepare the folders and return the command to execute. Raises UnavailableError."""
        own_tmp = self._mechanism == "landlock"
        try:
            folders = await asyncio.to_thread(_prepare_folders, spec, uid, own_tmp=own_tmp)
        except OSError as error:
            raise UnavailableError(f"{spec.name}: its folders cannot be made ready: {error}") from error
        quota = None
        if uid is not None and spec.own_folders and folders:
            quota = await asyncio.to_thread(_limit_folders, spec, uid, folders)
        return command_for(spec, self._mechanism, self.capabilities, uid, folders, group=group, quota=quota)

    @contextlib.asynccontextmanager
    async def _group(self, spec: SandboxSpec, process: ChildProcess) -> AsyncIterator[SandboxGroup | None]:
        """Make the control groups of a sandbox, which go with its process; None where there are none."""
        groups = self.capabilities.groups.groups
        if groups is None:
            yield None
            return
        limits = spec.limits
        wanted = GroupLimits(limits.memory_bytes, limits.processes + SPARE_PROCESSES, limits.cpus)
        try:
            group = await asyncio.to_thread(groups.make, spec.name, wanted)
        except OSError as error:
            _log.warning("%s: no control group: %s; its limits are looked at instead", spec.name, error)
            yield None
            return
        process.clean_up = group.remove
        try:
            yield group
        except BaseException:
            await asyncio.to_thread(group.remove)
            raise

    @contextlib.asynccontextmanager
    async def _user(self, spec: SandboxSpec, process: ChildProcess) -> AsyncIterator[int | None]:
        """Lend the user of a sandbox until the process is gone; None is the host's own."""
        if not self.capabilities.has_own_users(self._mechanism):
            yield None
            return
        uid = await asyncio.to_thread(self._users.lend, spec.name)
        try:
            yield uid
        except BaseException:
            self._users.give_back(spec.name)
            raise
        process.gone.add_done_callback(lambda _: self._users.give_back(spec.name))

    async def begin(
        self,
        process: ChildProcess,
        spec: SandboxSpec,
        *,
        marker: str,
        on_violation: Callable[[Violation], None],
    ) -> None:
        """Start `process`, which has not been started, with this spec. Raises UnavailableError."""
        check_possible(spec, self._mechanism, self.capabilities)

        def note(violation: Violation) -> None:
            on_violation(violation)
            self._on_violation(spec.name, violation)

        process.on_violation = note
        if spec.network:
            proxy = Proxy(spec.name, spec.network, process.add_violation)
            process.on_proxy_socket = proxy.serve
            process.gone.add_done_callback(lambda _: proxy.close())
        async with self._user(spec, process) as uid, self._group(spec, process) as group:
            await process.begin(await self._prepare(spec, uid, group), marker=marker)

    async def start(
        self, spec: SandboxSpec, *, marker: str, on_violation: Callable[[Violation], None] | None = None
    ) -> ChildProcess:
        """Start a process and leave it running; see port.py."""
        process = ChildProcess()
        await self.begin(process, spec, marker=marker, on_violation=on_violation or (lambda _: None))
        return process

    async def run(
        self, spec: SandboxSpec, *, stdin: bytes = b"", on_output: Callable[[int, bytes], None] | None = None
    ) -> CommandResult:
        """Run a command until it ends; see port.py."""
        began = time.monotonic()
        process = await self.start(spec, marker=secrets.token_hex(16))
        run = _CommandRun(process, spec, on_output)
        try:
            await run.wait(stdin)
        finally:
            process.kill()
            await process.wait_gone()
        return run.result(time.monotonic() - began)


def _prepare_folders(spec: SandboxSpec, uid: int | None, *, own_tmp: bool) -> list[PinnedFolder]:
    """Make the sandbox's user the owner of the writable folders and everything in them. Raises OSError."""
    prepared = []
    for folder in spec.writable:
        pinned, fd = pin(str(folder))
        try:
            if own_tmp and folder == spec.writable[0]:
                _make_tmp(fd)
            if uid is not None:
                _chown_tree(OpenFolder(pinned.real, fd), uid)
        finally:
            os.close(fd)
        prepared.append(pinned)
    return prepared


def _limit_folders(spec: SandboxSpec, uid: int, folders: list[PinnedFolder]) -> Quota | None:
    """Give the folders a project quota, where it can be had; else the shim looks at them."""
    try:
        return limit_folders(folders, uid, spec.limits.disk_bytes, spec.limits.files)
    except NoQuotaError as error:
        _log.debug("%s: no project quota: %s", spec.name, error)  # `hostler doctor` says so
    except OSError as error:
        _log.warning("%s: no project quota: %s; its folders are looked at instead", spec.name, error)
    return None


def _make_tmp(folder: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(TMP_NAME, dir_fd=folder, follow_symlinks=False).st_mode):
            return
        os.unlink(TMP_NAME, dir_fd=folder)  # of whatever the sandbox has put in its place
    os.mkdir(TMP_NAME, dir_fd=folder)


def _chown_tree(folder: OpenFolder, uid: int) -> None:
    os.chown(".", uid, uid, dir_fd=folder.fd, follow_symlinks=False)
    with contextlib.closing(Walk(folder)) as walk:
        while walk.step():
            for entry in walk.entries():
                with contextlib.suppress(FileNotFoundError):
                    if entry.stat(follow_symlinks=False).st_uid != uid:
                        os.chown(entry.name, uid, uid, dir_fd=walk.fd, follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        walk.descend_later(entry.name)


class _CommandRun:
    """A running command: its output, and the limits that the host enforces itself."""

    def __init__(
        self, process: ChildProcess, spec: SandboxSpec, on_output: Callable[[int, bytes], None] | None
    ) -> None:
        self._process = process
        self._limits = spec.limits
        self._on_output = on_output
        self._output: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        self._limit_reached: LimitName | None = None
        self._output_left = spec.limits.output_bytes

    async def wait(self, stdin: bytes) -> None:
        """Wait until the command has ended or reached a limit."""
        loop = asyncio.get_running_loop()
        ends = []
        for index in (1, 2):
            pipe = self._process.take_pipe(index, "rb")
            _, output = await connect_read_pipe(partial(_Output, partial(self._take, index)), pipe)
            ends.append(output.ended)
        writing, _ = await loop.connect_write_pipe(asyncio.Protocol, self._process.take_pipe(0, "wb"))
        writing.write(stdin)
        writing.write_eof()
        try:
            async with asyncio.timeout(self._limits.seconds):
                await asyncio.shield(self._process.exited)
        except TimeoutError:
            self._stop_at("time")
        finally:
            if not writing.is_closing() or writing.get_write_buffer_size():
                writing.abort()  # it fails if the pipe is closed already
        self._process.kill()
        await asyncio.wait(ends, timeout=OUTPUT_SECONDS)

    def _take(self, index: int, data: bytes) -> None:
        if self._output_left is not None:
            data, over = data[: self._output_left], len(data) > self._output_left
            self._output_left -= len(data)
            if over:
                self._stop_at("output")
        if data:
            self._output[index] += data
            if self._on_output is not None:
                self._on_output(index, data)

    def _stop_at(self, name: LimitName) -> None:
        if self._limit_reached is None:
            self._limit_reached = name
            self._process.add_violation(Violation("limit", name, f"its limit of {name}"))
        self._process.kill()

    def result(self, seconds: float) -> CommandResult:
        """Return how the command ended."""
        process = self._process
        status = process.exited.result() if process.exited.done() else ExitStatus(None)
        reached = self._limit_reached or process.limit_reached
        if reached is None and status.code is not None:
            reached = _LIMIT_OF_SIGNAL.get(status.code)
        refused = tuple(violation for violation in process.violations if violation.kind != "limit")
        return CommandResult(
            status, bytes(self._output[1]), bytes(self._output[2]), reached, refused, seconds
        )


class _Output(asyncio.Protocol):
    """One output pipe of a command."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self.ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """Pass the data on."""
        self._take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end of the output."""
        if not self.ended.done():
            self.ended.set_result(None)
