"""A plugin that a command tries out in a sandbox, with a workspace that is removed afterwards."""

from __future__ import annotations

import asyncio
import secrets
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hostler.plugins.sandbox_spec import network_warnings, spec_of
from hostler.plugins.source import Folder, Launch
from hostler.sandbox.machine import MachineSandbox
from hostler.sandbox.port import Mechanism, SandboxSpec, Violation
from hostler.sandbox.probe import find_sandbox, trial_folder
from hostler.sandbox.process import ChildProcess
from hostler.sandbox.read_pipe import connect_read_pipe


class TriedPlugin:
    """Starts a plugin, as often as it is asked to, as a host would: in a sandbox, with its default limits."""

    def __init__(self, sandbox: MachineSandbox, spec: SandboxSpec, warnings: list[str]) -> None:
        self._sandbox = sandbox
        self.spec = spec
        self.warnings = warnings
        """Why it may fail here: a weaker sandbox, and endpoints that it cannot reach."""
        self._violations: dict[Violation, None] = {}

    @property
    def mechanism(self) -> Mechanism:
        """How it is confined."""
        return self._sandbox.mechanism

    @property
    def violations(self) -> list[Violation]:
        """What the sandbox prevented so far, each thing once."""
        return list(self._violations)

    async def start(self) -> TriedProcess:
        """Start it. UnavailableError if this machine has no sandbox, or its command cannot be executed."""
        process = await self._sandbox.start(
            self.spec,
            marker=secrets.token_hex(16),
            on_violation=self._note,
        )
        try:
            return await TriedProcess.of(process)
        except BaseException:
            process.kill()
            await process.wait_gone()
            raise

    def _note(self, violation: Violation) -> None:
        self._violations[violation] = None


class TriedProcess:
    """A process in its sandbox, with streams for its pipes."""

    def __init__(
        self,
        process: ChildProcess,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
    ) -> None:
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self._process = process

    @classmethod
    async def of(cls, process: ChildProcess) -> TriedProcess:
        """Take the pipes of a process that was just started."""
        loop = asyncio.get_running_loop()
        stdout, stderr = [await _reader(process.take_pipe(index, "rb")) for index in (1, 2)]
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, process.take_pipe(0, "wb")
        )
        return cls(process, asyncio.StreamWriter(transport, protocol, None, loop), stdout, stderr)

    @property
    def pid(self) -> int:
        """Its number as the host sees it."""
        return self._process.pid

    async def wait(self) -> int:
        """Wait for its end, and return its exit status; negative for a signal."""
        status = await asyncio.shield(self._process.exited)
        return -signal.SIGKILL if status.code is None else status.code

    async def kill(self) -> None:
        """Kill everything in the sandbox, and wait until nothing is left."""
        self._process.kill()
        self.stdin.close()
        await self._process.wait_gone()


async def _reader(pipe: Any) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


@asynccontextmanager
async def tried_plugin(
    source: Folder, launch: Launch, python: str, data_dir: Path
) -> AsyncIterator[TriedPlugin]:
    """Prepare the sandbox of a plugin. PluginStartError if its folder holds more than its code."""
    sandbox = await find_sandbox()
    # not below /tmp, since a sandbox may have its own
    with tempfile.TemporaryDirectory(
        prefix=".hostler-test-", dir=trial_folder(), ignore_cleanup_errors=True
    ) as folder:
        spec = spec_of(source, launch, python, Path(folder), data_dir)
        weakness = [] if sandbox.weakness is None else [sandbox.weakness]
        yield TriedPlugin(sandbox, spec, weakness + network_warnings(source, launch))
