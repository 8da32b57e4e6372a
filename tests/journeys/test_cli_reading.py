"""What a command costs that only reads a data directory: few imports, no process, no file, no lock."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostler.host.lock import DataDirLock, Holder
from support.command_line import ECHO, CommandLine, environment

pytestmark = pytest.mark.timeout(240)
HEAVY = {
    *("httpx", "importlib.metadata", "litellm", "markdown_it", "mcp", "opentelemetry"),
    *("prometheus_client", "psycopg", "pydantic", "rich", "uvicorn", "websockets", "yaml"),
}
"""No list of facts needs any of these."""
HEAVY_OWN = {
    "host.host",
    "plugins",
    "models.port",
    "sandbox",
    "storage.sql.database",
    "tools",
    "host.config",
    "http.app",
    "egress",
}
WATCHED = """
import atexit, sys
started = []
def watch(event, arguments):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec"):
        started.append(event)
sys.addaudithook(watch)
def tell():
    sys.stderr.write("STARTED " + " ".join(started) + "\\n")
    sys.stderr.write("LOADED " + " ".join(sys.modules) + "\\n")
atexit.register(tell)
sys.argv = ["hostler", *sys.argv[1:]]
from hostler.cli.main import main
main()
"""


def files(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file below a folder: when it was written, and the digest of its content."""
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            found[str(file.relative_to(folder))] = (file.stat().st_mtime_ns, digest)
    return found


def watched(data: Path, *arguments: str) -> tuple[str, set[str], list[str]]:
    """What a command writes, the modules that it imported, and the processes that it started."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments],
        env=environment(data),
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    told = {line.split(" ")[0]: line.split()[1:] for line in done.stderr.splitlines()}
    return done.stdout, set(told["LOADED"]), told["STARTED"]


def test_reading_imports_starts_and_writes_nothing_that_it_does_not_need(hostler: CommandLine) -> None:
    said = hostler("run", str(ECHO), "hello")
    assert said.status == 0, said.err
    (run,) = hostler("runs", "list", "--json").json
    assert hostler("runs", "list", "--min-cost", "0", "--json").json == [], "what it cost is not known"
    totals = hostler("runs", "totals", "--min-cost", "0", "--agent", run["agent"], "--json").json
    assert totals["runs"] == 0
    assert hostler("runs", "totals", "--agent", run["agent"], "--json").json["runs"] == 1
    before = files(hostler.data)
    commands: list[tuple[list[str], str]] = [
        (["runs", "list"], run["run_id"][:8]),
        (["runs", "show", run["run_id"]], "completed"),
        (["keys", "list"], ""),
        (["runs", "list", "--json"], run["run_id"]),
    ]
    for command, written in commands:
        out, loaded, started = watched(hostler.data, *command)
        assert written in out
        shown = {"rich", "markdown_it"} if command[1] == "show" else set()  # a run is shown in colours
        assert HEAVY & loaded <= shown, command
        own = {name.removeprefix("hostler.") for name in loaded if name.startswith("hostler.")}
        assert not HEAVY_OWN & own, command
        assert started == [], command
        assert files(hostler.data) == before, command
    out, loaded, started = watched(hostler.data, "pauses", "list")
    assert not {"uvicorn", "mcp", "litellm", "hostler.host.host", "hostler.plugins"} & loaded
    assert (started, files(hostler.data)) == ([], before)


def test_a_directory_that_a_process_without_http_holds_is_refused_as_before(hostler: CommandLine) -> None:
    assert hostler("keys", "create", "one").status == 0
    with DataDirLock(hostler.data) as lock:
        lock.acquire(Holder(pid=os.getpid(), started_at=0.0))
        refused = hostler("runs", "list")
    assert refused.status == 1
    assert f"in use by process {os.getpid()}" in refused.error
