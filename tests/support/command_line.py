"""The command line as real processes: commands that end, and a server that stays."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from hostler.host.lock import read_holder
from support import ready_processes
from support.loopback import NO_CERTIFICATES
from support.ready_processes import CommandProcess

BOUND_SECONDS = 200.0
"""What any command may take; it only has to end what hangs."""
LOOK_SECONDS = 0.02
HOSTLER = [sys.executable, "-m", "hostler"]
AUTHORS_PYTEST = "-p no:schemathesis -p no:langsmith_plugin -p no:hypothesispytest"
"""Of pytest in child processes: authors do not have these plugins, four fifths of what it costs to start."""
EXAMPLES = Path(__file__).parents[2] / "examples"
GUIDE, ECHO, WIRE = (EXAMPLES / name for name in ("guide", "echo", "wire"))


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it wrote."""

    status: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line that says what went wrong."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self.err
        return lines[0].removeprefix("error: ")

    @property
    def json(self) -> Any:
        """Standard output as one JSON value."""
        return json.loads(self.out)

    @property
    def results(self) -> list[dict[str, Any]]:
        """Standard output as one JSON object a line, and nothing else."""
        return [json.loads(line) for line in self.out.splitlines()]


def environment(data: Path | None = None, **more: str) -> dict[str, str]:
    """This process's environment, with nothing of Hostler but what is given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOSTLER_")}
    kept |= {"COLUMNS": "200", "PYTEST_ADDOPTS": AUTHORS_PYTEST, **more}
    return kept if data is None else kept | {"HOSTLER_DATA": str(data)}


class CommandLine:
    """`hostler` over one data directory."""

    def __init__(self, data: Path, cwd: Path, **variables: str) -> None:
        self.data = data
        self.cwd = cwd
        self.variables = variables

    def __call__(
        self, *arguments: str | Path, stdin: str | bytes = b"", env: Mapping[str, str] | None = None
    ) -> Ran:
        """Run a command to its end."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        status, out, err = ready_processes.run(
            list(map(str, arguments)),
            given,
            environment(self.data, **self.variables, **(env or {})),
            self.cwd,
            BOUND_SECONDS,
        )
        ran = Ran(status, out.decode(), err.decode())
        assert "Traceback" not in ran.err, ran.err
        assert "bug in hostler" not in ran.err, ran.err
        return ran

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start a command, to be watched while it runs."""
        return subprocess.Popen(
            [*HOSTLER, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.cwd,
            env=environment(self.data, PYTHONUNBUFFERED="1", **self.variables),
        )

    @contextlib.contextmanager
    def serving(self, *arguments: str | Path) -> Iterator[Server]:
        """`hostler serve` on this data directory, ready; ended by SIGTERM at the end of the block."""
        log_path = self.data.with_name(f"{self.data.name}.serve.log")
        with log_path.open("wb") as log:
            process = ready_processes.start(
                ["serve", "--port", "0", *map(str, arguments)],
                environment(self.data, **self.variables),
                log,
                self.cwd,
            )
        server = Server(process, self.data, log_path)
        try:
            server.wait_ready()
            yield server
        finally:
            server.end()


class Server:
    """A server that runs."""

    def __init__(self, process: CommandProcess, data: Path, log_path: Path) -> None:
        self.process = process
        self.data = data
        self._log_path = log_path
        self.url = ""

    @property
    def log(self) -> str:
        """What it wrote so far."""
        return self._log_path.read_text("utf-8")

    @property
    def key(self) -> str:
        """The admin key."""
        return (self.data / "admin.key").read_text().strip()

    def client(self) -> httpx.Client:
        """An HTTP client with the admin key."""
        headers = {"authorization": f"Bearer {self.key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=BOUND_SECONDS, verify=NO_CERTIFICATES)

    def wait_ready(self) -> None:
        """Wait until /readyz answers 200."""
        until(lambda: self._find_url() or self._fail_if_ended(), "the server does not say where it listens")
        with httpx.Client(base_url=self.url, timeout=BOUND_SECONDS, verify=NO_CERTIFICATES) as client:
            until(lambda: client.get("/readyz").status_code == 200, "the server is not ready")

    def wait_log(self, text: str) -> None:
        """Wait until it has written something."""
        until(lambda: text in self.log, f"the server never wrote {text!r}")

    def _find_url(self) -> bool:
        holder = read_holder(self.data)
        if holder is None or holder.pid != self.process.pid or holder.url is None:
            return False
        self.url = holder.url
        return True

    def _fail_if_ended(self) -> bool:
        assert self.process.poll() is None, self.log
        return False

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the exit status."""
        self.process.send_signal(how)
        return self.process.wait(BOUND_SECONDS)

    def end(self) -> None:
        """Nothing of it is left."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(BOUND_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(BOUND_SECONDS)


def until(holds: Any, otherwise: str) -> None:
    """Look, within a bound, until something of another process holds."""
    end = time.monotonic() + BOUND_SECONDS
    while not holds():
        assert time.monotonic() < end, otherwise
        time.sleep(LOOK_SECONDS)
