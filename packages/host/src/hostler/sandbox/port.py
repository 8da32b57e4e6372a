"""The sandbox interface: a long-running process with pipes, or one command with its output.

Three mechanisms implement it, strongest first: `bubblewrap`, `landlock`, `none` (docs/sandbox.md lists what
each one enforces). `sandbox/probe.py` finds out which of them this machine offers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from hostler.domain.record import Record
from hostler.sandbox.exit_status import ExitStatus

KIB = 1024
MIB = 1024 * KIB

Mechanism = Literal["bubblewrap", "landlock", "none"]
LimitName = Literal["time", "output", "memory", "disk", "files", "processes", "cpu", "file_size"]
"""The limits of a sandbox. `cpu` and `file_size` are recognised by the signal that ended the process."""


class SandboxLimits(Record):
    """Limits for all processes of one sandbox together, except where a limit says: per process."""

    memory_bytes: int = 1024 * MIB
    """Resident memory of all processes. A single process cannot map much more than that either."""
    processes: int = 128
    """Processes and threads."""
    open_files: int = 1024
    """Descriptors per process."""
    file_bytes: int = 256 * MIB
    """Size of each file."""
    disk_bytes: int = 512 * MIB
    """Bytes in all writable folders."""
    files: int = 20_000
    """Files and folders in all writable folders."""
    tmp_bytes: int = 128 * MIB
    """Size of its /tmp, which is in memory and ends with the sandbox."""
    cpus: float | None = None
    """Processor time it may use, in processors; it runs on no more of them than that, rounded up. None for
    all. Without control groups only the number of processors is limited."""
    cpu_seconds: int | None = None
    """Processor time per process; None for no limit."""
    seconds: float | None = None
    """Time from start to end; None for no limit."""
    output_bytes: int | None = None
    """Bytes of stdout and stderr together; None for no limit."""


class SandboxSpec(Record):
    """The command of one sandbox, and everything it may see."""

    name: str
    """Name in logs, such as `plugin acme/echo` or `exec conversation 12`. Where the host runs as root,
    sandboxes of one name run as one user, so that they can share a writable folder."""
    argv: Sequence[str]
    cwd: Path
    """A folder inside one of the paths below."""
    environment: Mapping[str, str]
    """The complete environment: nothing is inherited from the host."""
    read_only: Sequence[Path] = ()
    """Readable paths besides the programs and libraries of the system; their parents and siblings are
    hidden."""
    writable: Sequence[Path] = ()
    """Folders it may change. They exist, and nothing else uses them while the sandbox runs."""
    network: Sequence[str] = ()
    """The `name:port` endpoints it may reach through its proxy."""
    loopback: bool = False
    """Its processes may use TCP among themselves if it has a network namespace, where nothing else is
    reached. Endpoints of `network` need no such permission."""
    unix_sockets: bool = False
    """It may use Unix sockets if it has a network namespace. False where it sees folders that other programs
    use: no namespace keeps it from connecting to a socket in one of these."""
    own_folders: bool = False
    """The writable folders are the host's and no other sandbox name uses them: where their file system has
    project quotas, one limits what they hold together (project_quotas.py)."""
    limits: SandboxLimits = msgspec.field(default_factory=SandboxLimits)


class Violation(Record):
    """Something the sandbox prevented.

    `kind` is `limit` (`subject` is a LimitName; everything in the sandbox was killed), `refused` (`subject`
    is a system call, a path with its operation, or a resource that one process has used up) or `network`
    (`subject` is the requested `name:port`).
    """

    kind: Literal["limit", "refused", "network"]
    subject: str
    text: str
    """One line for people."""


class CommandResult(Record):
    """The end of a command. `limit_reached` is the limit that ended it, if any."""

    status: ExitStatus
    stdout: bytes
    stderr: bytes
    """stdout and stderr together are at most `output_bytes` long."""
    limit_reached: LimitName | None
    violations: tuple[Violation, ...]
    """Everything else that was prevented, each thing once."""
    seconds: float


class SandboxedProcess(Protocol):
    """A process in its sandbox. Once `gone` is done, none of its processes is left."""

    pid: int
    exited: asyncio.Future[ExitStatus]
    gone: asyncio.Future[None]
    limit_reached: LimitName | None
    """The limit it was killed for."""
    violations: deque[Violation]
    """Violations so far, each once."""

    def take_pipe(self, index: int, mode: str) -> Any:
        """Return the host's end of stdin (0), stdout (1) or stderr (2) as an unbuffered file; once per
        pipe."""

    def kill(self) -> None:
        """Kill it and everything it started, without waiting; `gone` is done afterwards."""

    async def wait_gone(self) -> None:
        """Wait, with a bound, until none of its processes is left."""


class Sandbox(Protocol):
    """A sandbox of one mechanism."""

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism in use."""

    @property
    def weakness(self) -> str | None:
        """One line on why a weaker mechanism is in use; None with the strongest one."""

    async def start(
        self, spec: SandboxSpec, *, marker: str, on_violation: Callable[[Violation], None] | None = None
    ) -> SandboxedProcess:
        """Start a process and leave it running; take its pipes with `take_pipe`.

        `marker` identifies its processes after a crash of the host (plugins/orphans.py). Raises
        UnavailableError if this machine offers no sandbox or the command cannot be executed.
        """

    async def run(
        self, spec: SandboxSpec, *, stdin: bytes = b"", on_output: Callable[[int, bytes], None] | None = None
    ) -> CommandResult:
        """Run a command until it ends or reaches a limit; afterwards none of its processes is left.

        `on_output` is called with (1 or 2, bytes) as output arrives. Cancellation kills the command. Raises
        UnavailableError like `start`.
        """
