"""Processes of MCP servers: sandboxed by default, each with its own log."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

from hostler.domain.mcp_entry import McpEntry
from hostler.plugins.limits import DEFAULT_PROCESS_LIMITS, ProcessLimits
from hostler.plugins.logs import LogPump, PluginLog
from hostler.plugins.orphans import Register
from hostler.sandbox.port import MIB, Sandbox, SandboxedProcess, SandboxLimits, SandboxSpec, Violation
from hostler.sandbox.probe import find_sandbox
from hostler.sandbox.process import ChildProcess, Command
from hostler.sandbox.read_pipe import connect_read_pipe
from hostler.sandbox.visible_files import certificate_variables, python_paths
from hostler_protocol.errors import PluginStartError, UnavailableError

READ_BYTES = 256 * 1024
INHERITED = ("LANG", "LC_ALL", "PATH", "TZ")
"""Variables passed to every server."""
INHERITED_IF_TRUSTED = ("HOME", "LOGNAME", "SHELL", "TERM", "TMPDIR", "USER")
MAX_LAST_WORDS = 300
_SYSTEM = tuple(Path(name) for name in ("/usr", "/bin", "/lib", "/lib64", "/sbin"))


class McpProcesses:
    """Starts servers. Their folders, logs and records of processes are in `data_dir`."""

    def __init__(
        self,
        data_dir: Path,
        sandbox: Callable[[], Awaitable[Sandbox]] = find_sandbox,
        limits: ProcessLimits = DEFAULT_PROCESS_LIMITS,
        inherited: Mapping[str, str] = os.environ,
    ) -> None:
        self._folders = data_dir / "mcp"
        self._logs = data_dir / "logs" / "mcp"
        self._register = data_dir / "plugins" / "processes"
        self._sandbox = sandbox
        self._limits = limits
        self._inherited = inherited

    async def start(self, entry: McpEntry, environment: Mapping[str, str]) -> McpProcess:
        """Start a server. Raises PluginStartError or UnavailableError with the reason."""
        assert entry.command is not None
        folder = self._folders / entry.name
        await asyncio.to_thread(folder.mkdir, 0o700, parents=True, exist_ok=True)
        log = PluginLog(self._logs / f"{entry.name}.log", self._limits)
        register, marker = Register(self._register), secrets.token_hex(16)
        register.enter(marker)
        try:
            process = await self._begin(entry, folder, environment, log, marker)
            return await McpProcess.open(process, log, self._limits, lambda: register.leave(marker))
        except BaseException:
            register.leave(marker)
            log.close()
            raise

    async def _begin(
        self, entry: McpEntry, folder: Path, environment: Mapping[str, str], log: PluginLog, marker: str
    ) -> SandboxedProcess:
        argv = list(entry.command or ())
        cwd = folder if entry.cwd is None else _place(entry.cwd)
        try:
            if entry.level == "trusted":
                names = (*INHERITED, *INHERITED_IF_TRUSTED)
                command = Command(argv=argv, cwd=cwd, environment=self._environment(names, environment))
                kept = ChildProcess(self._limits.kill_seconds)
                await kept.begin(command, marker=marker)
                return kept
            spec = self._spec(entry, argv, cwd, folder, environment)
            sandbox = await self._sandbox()
            if sandbox.weakness is not None:
                log.note(sandbox.weakness)
            return await sandbox.start(spec, marker=marker, on_violation=partial(_note, log))
        except UnavailableError as error:
            hint = (
                "" if entry.level == "trusted" else " (it is sandboxed; `level: trusted` starts it without)"
            )
            text = f"its command cannot be executed: {error.message}{hint}"
            raise PluginStartError(text, lasting=True) from error

    def _spec(
        self, entry: McpEntry, argv: list[str], cwd: Path, folder: Path, environment: Mapping[str, str]
    ) -> SandboxSpec:
        certificates = certificate_variables(self._inherited) if entry.network else {}
        own = {"HOME": str(folder), **certificates, **environment}
        variables = self._environment(INHERITED, own)
        return SandboxSpec(
            name=f"mcp {entry.name}",
            argv=argv,
            cwd=cwd,
            environment=variables,
            read_only=[
                *_program_folders(argv[0], variables["PATH"], self._folders.parent),
                cwd,
                *map(Path, certificates.values()),
                *map(_place, entry.read),
            ],
            writable=[folder, *map(_place, entry.write)],
            network=entry.network,
            # other programs may listen on sockets in the folders that an entry names
            unix_sockets=not (entry.read or entry.write or entry.cwd),
            own_folders=not entry.write,
            limits=SandboxLimits(
                memory_bytes=entry.memory_mib * MIB,
                processes=entry.processes,
                disk_bytes=entry.disk_mib * MIB,
                cpus=entry.cpus,
            ),
        )

    def _environment(self, names: tuple[str, ...], own: Mapping[str, str]) -> dict[str, str]:
        found = {name: self._inherited[name] for name in names if name in self._inherited}
        return {"PATH": os.defpath, **found, **own}


class McpProcess:
    """The pipes of a server process, a `tools.mcp.port.ServerPipes`."""

    def __init__(self, process: SandboxedProcess, log: PluginLog, limits: ProcessLimits) -> None:
        self._process = process
        self._log = log
        self._limits = limits
        self._pump = LogPump(log)
        self._reader = asyncio.StreamReader(limit=READ_BYTES)
        self._input = _Input()
        self._stdin: asyncio.WriteTransport
        self._closed: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, process: SandboxedProcess, log: PluginLog, limits: ProcessLimits, leave: Callable[[], None]
    ) -> McpProcess:
        """Take over the pipes; `leave` is called once none of its processes is left."""
        pipes = cls(process, log, limits)
        try:
            await pipes._connect()
        except BaseException:
            process.kill()
            await process.wait_gone()
            raise
        pipes._closed = asyncio.create_task(pipes._clean_up(leave))
        log.note(f"started as process {process.pid}")
        return pipes

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        take = self._process.take_pipe
        await connect_read_pipe(lambda: self._pump, take(2, "rb"))
        protocol = asyncio.StreamReaderProtocol(self._reader)
        await connect_read_pipe(lambda: protocol, take(1, "rb"))
        self._stdin, _ = await loop.connect_write_pipe(lambda: self._input, take(0, "wb"))

    async def read(self) -> bytes:
        """See `ServerPipes`."""
        try:
            return await self._reader.read(READ_BYTES)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        """See `ServerPipes`."""
        self._stdin.write(data)
        await self._input.room()

    async def why(self) -> str:
        """See `ServerPipes`."""
        seconds = self._limits.status_seconds
        await asyncio.wait([self._process.exited], timeout=seconds)
        await asyncio.wait([self._pump.finished], timeout=seconds)
        if self._process.limit_reached is not None:
            what = f"it reached its limit of {self._process.limit_reached} and was killed"
        elif self._process.exited.done():
            what = str(self._process.exited.result())
        else:
            what = "the server closed its output"
        last = self._log.last_line
        return f"{what}; its last words were: {last[:MAX_LAST_WORDS]}" if last else what

    async def close(self, seconds: float) -> None:
        """See `ServerPipes`."""
        self._stdin.close()
        if not self._process.exited.done():
            await asyncio.wait([self._process.exited], timeout=seconds)
        self._process.kill()
        await self._process.wait_gone()

    async def _clean_up(self, leave: Callable[[], None]) -> None:
        await asyncio.shield(self._process.gone)
        await asyncio.wait([self._pump.finished], timeout=self._limits.status_seconds)
        self._log.note("ended")
        self._log.close()
        leave()


class _Input(asyncio.Protocol):
    """The server's stdin, with flow control."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._over = False

    def pause_writing(self) -> None:
        """Note that the server reads more slowly than is written."""
        self._open.clear()

    def resume_writing(self) -> None:
        """Note that the server has caught up."""
        self._open.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that stdin is closed."""
        self._over = True
        self._open.set()

    async def room(self) -> None:
        """Wait until more may be written. Raises BrokenPipeError if stdin is closed."""
        await self._open.wait()
        if self._over:
            raise BrokenPipeError("the server reads no more")


def _place(path: str) -> Path:
    return Path(path).expanduser()


def _note(log: PluginLog, violation: Violation) -> None:
    log.note(f"{violation.kind}: {violation.text}")


def _program_folders(program: str, path: str, data_dir: Path) -> list[Path]:
    """Return what must be visible of a program outside the system folders: the file, or its whole prefix
    (`/opt/node` for `/opt/node/bin/npx`). Never a folder with the home or the host's data in it, which could
    be such a prefix.
    """
    found = shutil.which(program, path=path)
    if found is None:
        return []
    if Path(found).name.startswith("python"):
        return python_paths(found)
    folders: list[Path] = []
    for place in dict.fromkeys((Path(found), Path(os.path.realpath(found)))):
        if any(place.is_relative_to(folder) for folder in _SYSTEM):
            continue
        prefix = place.parent.parent
        private = any(one.is_relative_to(prefix) for one in (Path.home(), data_dir))
        whole = place.parent.name == "bin" and not private and len(prefix.parts) > 2
        folders.append(prefix if whole else place)
    return folders
