"""What the host needs of a sandbox: a long-living process with pipes, or one command with its output.

Three mechanisms stand behind it, the strongest first (docs/sandbox.md says what each holds): `bubblewrap`,
`landlock`, `none`. `sandbox/probe.py` finds out which of them this machine offers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from hostler.sandbox.exit_status import ExitStatus

KIB = 1024
MIB = 1024 * KIB

Mechanism = Literal["bubblewrap", "landlock", "none"]
LimitName = Literal["time", "output", "memory", "disk", "files", "processes", "cpu", "file_size"]
"""The limits whose reaching the host sees for itself; `file_size` and `cpu` are told by the signal."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What everything in one sandbox may use together, unless it says: each."""

    memory_bytes: int = 1024 * MIB
    """Resident memory of all its processes; one process alone may not map much more than that either."""
    processes: int = 128
    """Processes and threads."""
    open_files: int = 1024
    """Descriptors of each process."""
    file_bytes: int = 256 * MIB
    """The size of each file."""
    disk_bytes: int = 512 * MIB
    """What its writable folders hold."""
    files: int = 20_000
    """How many files and folders they hold."""
    tmp_bytes: int = 128 * MIB
    """Its /tmp, which lies in memory and is gone with it."""
    cpus: int | None = None
    """On how many processors it may run; None: on all."""
    cpu_seconds: int | None = None
    """Processor time of each process; None: as much as it gets."""
    seconds: float | None = None
    """From its start to its end; None: until it is killed."""
    output_bytes: int | None = None
    """What a command may write to its output and errors together; None: as much as somebody reads."""


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """One sandbox: what runs in it, and all it may see."""

    name: str
    """What the sandbox is called in logs. Sandboxes of one name are one user where the host runs as root, so
    that they can share a writable folder: `plugin acme/echo`, `exec conversation 12`."""
    argv: Sequence[str]
    cwd: Path
    """A folder under one of the paths below."""
    environment: Mapping[str, str]
    """Complete: nothing of the host's is inherited."""
    read_only: Sequence[Path] = ()
    """Visible as they are, besides the programs and libraries of the system; nothing above or beside them."""
    writable: Sequence[Path] = ()
    """Folders it may change; they exist, and belong to it alone while it runs."""
    network: Sequence[str] = ()
    """`name:port` that it may reach, through the proxy that stands in its environment; nothing else."""
    limits: SandboxLimits = field(default_factory=SandboxLimits)


@dataclass(frozen=True, slots=True)
class Told:
    """Something that the sandbox did not let happen.

    `kind`: `limit` (what is a LimitName; everything in the sandbox was killed), `refused` (what is a call of
    the system or a file, with what it was for, or what a single process has no more of) or `network` (what is
    the `name:port` that was asked for).
    """

    kind: Literal["limit", "refused", "network"]
    what: str
    text: str
    """For people, one line."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended. `reached` is the limit that ended it, if it was one."""

    status: ExitStatus
    stdout: bytes
    stderr: bytes
    """Of both, no more than `output_bytes` together."""
    reached: LimitName | None
    refused: tuple[Told, ...]
    """What else it was not let do, each once."""
    seconds: float


class SandboxedProcess(Protocol):
    """A process in its sandbox. Nothing of it is left once `gone` is done."""

    pid: int
    exited: asyncio.Future[ExitStatus]
    gone: asyncio.Future[None]
    reached: LimitName | None
    """The limit for which it was killed."""
    told: list[Told]
    """What was not let happen so far, each thing once."""

    def take_pipe(self, index: int, mode: str) -> Any:
        """The host's end of stdin (0), stdout (1) or stderr (2), as an unbuffered file; each once."""

    def kill(self) -> None:
        """End it and everything it started; `gone` tells when that is done."""

    async def wait_gone(self) -> None:
        """Wait, bounded, until nothing of it is left."""


class Sandbox(Protocol):
    """The way into a sandbox of one mechanism."""

    @property
    def mechanism(self) -> Mechanism:
        """What holds here."""

    @property
    def weakness(self) -> str | None:
        """Why it is not the strongest mechanism there is, in a line; None where it is."""

    async def start(
        self, spec: SandboxSpec, *, marker: str, on_told: Callable[[Told], None] | None = None
    ) -> SandboxedProcess:
        """Start a process and leave it running; its pipes are taken with `take_pipe`.

        `marker` is what its processes are known by after a crash of the host (plugins/orphans.py).
        UnavailableError where this machine offers no sandbox, or the command cannot be executed.
        """

    async def run(
        self, spec: SandboxSpec, *, stdin: bytes = b"", on_output: Callable[[int, bytes], None] | None = None
    ) -> Outcome:
        """Run a command to its end, or to the first limit it reaches; nothing of it is left afterwards.

        `on_output` hears (1 or 2, bytes) as they come. A cancellation kills it. UnavailableError as above.
        """
