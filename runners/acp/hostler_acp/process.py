"""The process of an agent: started in a group of its own, and ended with everything that it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from hostler_acp.failures import AcpFailure
from hostler_acp.limits import EXIT_SECONDS, MAX_LINE_BYTES, STDERR_BYTES
from hostler_acp.settings import Settings

MARKER = "HOSTLER_ACP_PROCESS"
"""The variable by which processes are found that an agent started in groups of their own."""
POLL_SECONDS = 0.05


class AgentProcess:
    """A running agent, with its pipes."""

    def __init__(self, process: asyncio.subprocess.Process, marker: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdin, self.stdout = process.stdin, process.stdout
        self._process = process
        self._marker = marker
        self._tail = bytearray()
        self._stderr = asyncio.create_task(self._read_errors(process.stderr))
        self._exit = asyncio.create_task(self._watch_exit())

    @classmethod
    async def start(cls, settings: Settings, offered: Mapping[str, str]) -> AgentProcess:
        """Start the agent in its folder. Raises AcpFailure if that is not possible."""
        marker = uuid4().hex
        environment = _environment({**offered, **settings.environment}, settings.folder) | {MARKER: marker}
        name = settings.argv[0]
        program = shutil.which(name, path=environment["PATH"])
        if program is None:
            raise AcpFailure("command_not_found", _not_found(settings, environment["PATH"]))
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *settings.argv[1:],
                cwd=settings.folder,
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                process_group=0,
                limit=MAX_LINE_BYTES,
            )
        except (OSError, ValueError) as error:
            raise AcpFailure(
                "command_not_found", f"`{name:.200}` cannot be executed: {error}; check config `command`"
            ) from None
        return cls(process, marker)

    async def _read_errors(self, stream: asyncio.StreamReader) -> None:
        while piece := await stream.read(STDERR_BYTES):
            self._tail += piece
            del self._tail[:-STDERR_BYTES]

    async def said(self) -> str:
        """Return the last lines on standard error, once the process has ended or after a moment."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_SECONDS):
                await asyncio.shield(self._stderr)
        return self._tail.decode(errors="replace").strip()

    async def _watch_exit(self) -> int:
        """Wait until the process has ended, and kill what it left: that would hold its pipes open.

        `Process.wait` also waits for the pipes.
        """
        while (code := self._process.returncode) is None:  # noqa: ASYNC110 - asyncio tells it to no one else
            await asyncio.sleep(POLL_SECONDS)
        self._signal(signal.SIGKILL)
        await asyncio.to_thread(_kill_marked, self._marker)
        return code

    async def exit_status(self) -> str:
        """Return how the process ended, for a message."""
        await asyncio.wait({self._exit}, timeout=EXIT_SECONDS)
        code = self._process.returncode
        if code is None:
            return "closed its output"
        return f"ended by signal {-code}" if code < 0 else f"ended with status {code}"

    async def stop(self) -> None:
        """End the process and all that it started: by its closed input, then by signals."""
        try:
            self.stdin.close()
            for number in (signal.SIGTERM, signal.SIGKILL):
                done, _ = await asyncio.wait({self._exit}, timeout=EXIT_SECONDS)
                if done:
                    break
                self._signal(number)
        finally:
            if not self._exit.done():
                self._signal(signal.SIGKILL)
            await self._exit
            self._stderr.cancel()
            # a pipe that a process out of reach still holds would keep its transport open
            getattr(self._process, "_transport").close()  # noqa: B009

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _environment(own: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the variables of the agent: the plugin's, without those of the protocol, and its own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOSTLER_")}
    return {"PATH": os.defpath, "HOME": str(folder), **inherited, **own}


def _not_found(settings: Settings, path: str) -> str:
    hint = f"install it with `{settings.provider.install}`, or " if settings.provider.install else ""
    return (
        f"there is no program `{settings.argv[0]:.200}` where the plugin runs (PATH is {path:.400}); {hint}"
        "set config `command`. A sandbox sees only programs below /usr"
    )


def _kill_marked(marker: str) -> None:
    """Kill the processes that have the marker in their environment, until there is none."""
    wanted = f"{MARKER}={marker}".encode()
    for _ in range(20):
        found = [pid for pid in _processes() if wanted in _variables(pid)]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)  # in a thread; a killed process has its variables until it has ended


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []  # a system without /proc: the group is all that can be ended


def _variables(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []  # it has ended, or belongs to somebody else
