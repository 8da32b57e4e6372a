"""`hostler doctor`: check this machine, the data directory and the server, and how to fix them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import shutil
import socket
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import typer

from hostler.cli.database import StorageLocation, open_storage
from hostler.cli.options import DatabaseOption, DataOption, JsonOption, KeyOption, UrlOption, data_directory
from hostler.cli.output import FAILED, write_json
from hostler.cli.tables import write_indented
from hostler_protocol.errors import UnauthorizedError

if TYPE_CHECKING:
    from hostler.cli.client import Api

Verdict = Literal["ok", "note", "wrong"]
MARKS: dict[Verdict, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "note": ("•", "yellow"),
    "wrong": ("✗", "bold red"),
}
LOW_DISK_BYTES = 1024**3
NO_SANDBOX = (
    "none on this machine: a plugin starts only if its entry says `level: trusted`, and then has the "
    "rights of this user. In a container, allow user namespaces or use a kernel with Landlock"
)
PLUGIN_SECONDS = 60.0
WIDTH = 24
OLDEST_PYTHON = (3, 11)


class Finding(NamedTuple):
    """The result of one check; `text` says what was found and, if it is wrong, what to do."""

    what: str
    verdict: Verdict
    text: str


def doctor(
    port: int = typer.Option(8420, "--port", min=1, max=65535, help="The port to check for a future server."),
    as_json: JsonOption = False,
    data: DataOption = None,
    database: DatabaseOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Check Python, SQLite, the sandbox, the data directory, the server and its plugins.

    With --url, that server is checked; everything else is on this machine.
    Exit status 1 if something is wrong.
    """
    location = StorageLocation(data_directory(data), database or None)
    findings = asyncio.run(_examine(location, port, url, key))
    if as_json:
        write_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            mark, style = MARKS[finding.verdict]
            write_indented([(f"{mark} ", style), (f"{finding.what:{WIDTH}}", "dim")], finding.text)
    raise typer.Exit(FAILED if any(finding.verdict == "wrong" for finding in findings) else 0)


async def _examine(location: StorageLocation, port: int, url: str | None, key: str | None) -> list[Finding]:
    from hostler.host.lock import read_holder

    findings = [_python(), _sqlite(), _uv(), *_directory(location.data_dir)]
    findings += await _sandbox(location.data_dir)
    findings += [found async for found in _plugin_start()]
    findings += [found async for found in _check_database(location)]
    if url is not None:
        return findings + [found async for found in _named_server(url, key, location.data_dir)]
    if findings[-1].verdict == "ok" and read_holder(location.data_dir) is None:
        findings += await _configuration(location)
    return findings + [found async for found in _server(location.data_dir, port)]


def _python() -> Finding:
    text = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        return Finding("python", "wrong", f"{text}: 3.11 or newer is needed")
    return Finding("python", "ok", text)


def _sqlite() -> Finding:
    text = f"SQLite {sqlite3.sqlite_version}"
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5(words)")
    except sqlite3.Error as error:
        return Finding(
            "database", "wrong", f"{text} without full-text search ({error}): use another Python build"
        )
    finally:
        connection.close()
    return Finding("database", "ok", f"{text} with FTS5")


def _uv() -> Finding:
    try:
        from uv import find_uv_bin

        return Finding("uv", "ok", f"{find_uv_bin()} builds the environments of plugins")
    except (ImportError, FileNotFoundError) as error:
        return Finding(
            "uv", "wrong", f"not found ({error}): plugins with `requires` cannot be installed; pip install uv"
        )


def _directory(data_dir: Path) -> list[Finding]:
    if not data_dir.exists():
        parent = next(path for path in data_dir.parents if path.exists())
        writable = os.access(parent, os.W_OK)
        found = Finding(
            "data directory",
            "note" if writable else "wrong",
            f"{data_dir} does not exist yet" + ("" if writable else f", and {parent} is not writable"),
        )
        return [found, _disk(parent)]
    findings = []
    mode = data_dir.stat().st_mode & 0o777
    if not os.access(data_dir, os.W_OK | os.X_OK):
        findings.append(Finding("data directory", "wrong", f"{data_dir} is not writable: chown it"))
    elif mode & 0o077:
        text = f"{data_dir} is readable by others (mode {mode:o}): chmod 700 it"
        findings.append(Finding("data directory", "note", text))
    else:
        findings.append(Finding("data directory", "ok", str(data_dir)))
    key = data_dir / "admin.key"
    if key.exists():
        mode = key.stat().st_mode & 0o777
        ok = not mode & 0o077
        text = f"{key} is private" if ok else f"{key} is readable by others (mode {mode:o}): chmod 600 it"
        findings.append(Finding("admin key", "ok" if ok else "wrong", text))
    return [*findings, _disk(data_dir)]


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    text = f"{free / 1024**3:,.1f} GiB free"
    if free < LOW_DISK_BYTES:
        return Finding(
            "disk", "wrong", f"{text}: a full disk refuses new events; `hostler gc` deletes expired data"
        )
    return Finding("disk", "ok", text)


async def _sandbox(data_dir: Path) -> list[Finding]:
    """Report what each sandbox mechanism enforces here for this user. The host uses the first that works."""
    from hostler.sandbox.limit_reports import limit_reports
    from hostler.sandbox.probe import check_mechanisms, find_capabilities
    from hostler.sandbox.project_quotas import problem_at

    ground = await find_capabilities()
    held = await check_mechanisms(ground)
    best = next((one.mechanism for one in held if one.works), None)
    who = "as root" if hasattr(os, "geteuid") and os.geteuid() == 0 else "as an ordinary user"
    findings = [
        Finding(
            one.mechanism, "ok" if one.works else "note", f"{one.text} ({who})" if one.works else one.text
        )
        for one in held
    ]
    if best is None:
        return [*findings, Finding("sandbox", "wrong", NO_SANDBOX)]
    for report in limit_reports(ground, best, await asyncio.to_thread(problem_at, data_dir)):
        verdict: Verdict = "ok" if report.is_exact else "note"
        findings.append(Finding(f"limit: {report.limit}", verdict, report.text))
    if weakness := ground.weakness(best):
        return [*findings, Finding("sandbox", "note", f"plugins are {weakness}")]
    return [
        *findings,
        Finding(
            "sandbox", "ok", f"plugins are sandboxed by {best}, unless their entry says `level: trusted`"
        ),
    ]


async def _plugin_start() -> AsyncIterator[Finding]:
    """Start the example plugin, and report how its processes are contained."""
    from hostler.host.bundled import bundled
    from hostler.plugins.source import Folder
    from hostler.plugins.supervisor import Supervisor
    from hostler_protocol.errors import HostlerError

    with tempfile.TemporaryDirectory(prefix="hostler-doctor-") as folder:
        supervisor = Supervisor(Path(folder))
        try:
            async with asyncio.timeout(PLUGIN_SECONDS):
                key = supervisor.add(Folder(bundled("examples", "echo")))
                await supervisor.connection(key)
            containment = supervisor.status()[0].containment or ""
        except (HostlerError, TimeoutError) as error:
            yield Finding("plugins", "wrong", f"the example plugin does not start: {error}")
        else:
            weak = "group" in containment and "namespace" not in containment
            yield Finding("plugins", "note" if weak else "ok", f"a plugin starts; {containment}")
        finally:
            await supervisor.close(0)


async def _check_database(location: StorageLocation) -> AsyncIterator[Finding]:
    from hostler.host.data_directory import address_of, own_database, read_note
    from hostler.storage.stores.quotas import recount_all
    from hostler_protocol.errors import HostlerError

    own = own_database(location.data_dir)
    try:
        if location.database is None and not own.exists() and read_note(location.data_dir) is None:
            yield Finding("facts", "note", "none yet")
            return
        async with open_storage(location) as opened:
            wrong = await recount_all(opened)
    except HostlerError as error:
        yield Finding("facts", "wrong", error.message)
    else:
        where = address_of(location.data_dir, location.database)
        if where == "sqlite":
            where = f"{own.stat().st_size / 1024**2:,.1f} MiB"
        yield Finding("facts", "ok", f"the database opens with this version ({where})")
        for name, counters in wrong.items():
            text = (
                f"{len(counters)} counters of workspace {name!r} differ from what is stored: run `hostler gc`"
            )
            yield Finding("quotas", "wrong", text)


async def _named_server(url: str, key: str | None, data_dir: Path) -> AsyncIterator[Finding]:
    from hostler_protocol.errors import HostlerError

    try:
        async for finding in _probe_server(url, key, data_dir, f"it is ready at {url}"):
            yield finding
    except HostlerError as error:
        yield Finding("server", "wrong", error.message)


async def _server(data_dir: Path, port: int) -> AsyncIterator[Finding]:
    from hostler.host.lock import read_holder
    from hostler_protocol.errors import HostlerError

    holder = read_holder(data_dir)
    if holder is None:
        yield _port(port)
        return
    if holder.url is None:
        yield Finding("server", "note", f"process {holder.pid} uses the data directory, and serves no HTTP")
        return
    try:
        async for finding in _probe_server(
            None, None, data_dir, f"process {holder.pid} is ready at {holder.url}"
        ):
            yield finding
    except HostlerError as error:
        yield Finding("server", "wrong", f"process {holder.pid} at {holder.url}: {error.message}")


async def _probe_server(
    url: str | None, key: str | None, data_dir: Path, ready: str
) -> AsyncIterator[Finding]:
    """Report on a server that answers, its plugins and its problems. HostlerError if it does not answer."""
    from hostler.cli.server_address import reach

    async with reach(url, key, data_dir, running=True) as api:
        await api.get("/readyz")
        yield Finding("server", "ok", ready)
        for plugin in (await api.get("/v1/plugins"))["items"]:
            if not plugin["reason"]:
                yield Finding("plugin", "ok", f"{plugin['plugin']} is {plugin['state']}")
        for finding in await _problems(api):
            yield finding


async def _problems(api: Api) -> list[Finding]:
    """Return the problems of the configuration. Those of skills are notes: agents work without them."""
    try:
        found = (await api.get("/v1/problems"))["items"]
    except UnauthorizedError as error:
        return [Finding("configuration", "note", f"not checked: {error.message}")]
    return [_finding(one) for one in found]


def _finding(problem: dict[str, Any]) -> Finding:
    minor = problem["kind"] == "skill" or problem["severity"] == "warning"
    place = f"{problem['place']}: " if problem["place"] else ""
    return Finding(
        problem["kind"], "note" if minor else "wrong", f"{problem['name']}: {place}{problem['problem']}"
    )


async def _configuration(location: StorageLocation) -> list[Finding]:
    """Return the problems of the configuration while no server runs, by opening the data directory."""
    from hostler.cli.server_address import reach
    from hostler_protocol.errors import HostlerError

    try:
        async with reach(None, None, location.data_dir, database=location.database) as api:
            return await _problems(api)
    except HostlerError as error:
        return [Finding("configuration", "wrong", error.message)]


def _port(port: int) -> Finding:
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return Finding("port", "note", f"{port} is not free ({error.strerror}): serve with --port")
    return Finding("port", "ok", f"{port} is free; no server runs on this data directory")
