"""`hostler doctor`: whether this machine and this data directory are in order, and what to do if not."""

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

from hostler.cli.database import Facts, opened_facts
from hostler.cli.options import (
    DatabaseOption,
    DataOption,
    JsonOption,
    KeyOption,
    UrlOption,
    data_directory,
)
from hostler.cli.output import FAILED, write_json
from hostler.cli.tables import write_beside
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
    "none on this machine: a plugin starts only where its entry says `level: trusted`, and then has the "
    "rights of this user. In a container, allow user namespaces, or a kernel with Landlock"
)
PLUGIN_SECONDS = 60.0
OLDEST_PYTHON = (3, 11)


class Finding(NamedTuple):
    """One thing that was looked at; `text` says how it is and, where it is wrong, what to do."""

    what: str
    verdict: Verdict
    text: str


def doctor(
    port: int = typer.Option(8420, "--port", min=1, max=65535, help="The port you would serve on."),
    as_json: JsonOption = False,
    data: DataOption = None,
    database: DatabaseOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Look at Python, SQLite, the sandbox, the data directory, the server and its plugins.

    With --url that server is looked at; everything else is this machine's. Exit status 1 where something
    is wrong.
    """
    facts = Facts(data_directory(data), database or None)
    findings = asyncio.run(_examine(facts, port, url, key))
    if as_json:
        write_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            mark, style = MARKS[finding.verdict]
            write_beside([(f"{mark} ", style), (f"{finding.what:15}", "dim")], finding.text)
    raise typer.Exit(FAILED if any(finding.verdict == "wrong" for finding in findings) else 0)


async def _examine(facts: Facts, port: int, url: str | None, key: str | None) -> list[Finding]:
    from hostler.host.lock import read_holder

    findings = [_python(), _sqlite(), _uv(), *_directory(facts.data_dir)]
    findings += await _sandbox()
    findings += [found async for found in _plugin_start()]
    findings += [found async for found in _facts(facts)]
    if url is not None:
        return findings + [found async for found in _named_server(url, key, facts.data_dir)]
    if findings[-1].verdict == "ok" and read_holder(facts.data_dir) is None:
        findings += await _configuration(facts)
    return findings + [found async for found in _server(facts.data_dir, port)]


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
            "uv", "wrong", f"not found ({error}): plugins with `requires` cannot be built; pip install uv"
        )


def _directory(data_dir: Path) -> list[Finding]:
    if not data_dir.exists():
        parent = next(path for path in data_dir.parents if path.exists())
        writable = os.access(parent, os.W_OK)
        found = Finding(
            "data directory",
            "note" if writable else "wrong",
            f"{data_dir} is not there yet" + ("" if writable else f", and {parent} cannot be written"),
        )
        return [found, _disk(parent)]
    findings = []
    mode = data_dir.stat().st_mode & 0o777
    if not os.access(data_dir, os.W_OK | os.X_OK):
        findings.append(Finding("data directory", "wrong", f"{data_dir} cannot be written: chown it"))
    elif mode & 0o077:
        text = f"{data_dir} may be read by others (mode {mode:o}): chmod 700 it"
        findings.append(Finding("data directory", "note", text))
    else:
        findings.append(Finding("data directory", "ok", str(data_dir)))
    key = data_dir / "admin.key"
    if key.exists():
        mode = key.stat().st_mode & 0o777
        ok = not mode & 0o077
        text = f"{key} is yours alone" if ok else f"{key} may be read by others (mode {mode:o}): chmod 600 it"
        findings.append(Finding("admin key", "ok" if ok else "wrong", text))
    return [*findings, _disk(data_dir)]


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    text = f"{free / 1024**3:,.1f} GiB free"
    if free < LOW_DISK_BYTES:
        return Finding(
            "disk", "wrong", f"{text}: a full disk refuses new events; `hostler gc` removes what may go"
        )
    return Finding("disk", "ok", text)


async def _sandbox() -> list[Finding]:
    """What each mechanism holds here, as this user; the first that does is used."""
    from hostler.sandbox.probe import check_mechanisms, find_capabilities

    ground = await find_capabilities()
    held = await check_mechanisms(ground)
    best = next((one.mechanism for one in held if one.works), None)
    who = "as root" if hasattr(os, "geteuid") and os.geteuid() == 0 else "as an ordinary user"
    findings = [
        Finding(
            one.mechanism,
            "ok" if one.works else "note",
            f"{one.text} ({who})" if one.works else one.text,
        )
        for one in held
    ]
    if best is None:
        return [*findings, Finding("sandbox", "wrong", NO_SANDBOX)]
    if weakness := ground.weakness(best):
        return [*findings, Finding("sandbox", "note", f"plugins are {weakness}")]
    return [*findings, Finding("sandbox", "ok", f"plugins are sandboxed by {best}, unless trusted by name")]


async def _plugin_start() -> AsyncIterator[Finding]:
    """Start a real plugin, and see what holds its processes together."""
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


async def _facts(facts: Facts) -> AsyncIterator[Finding]:
    from hostler.host.data_directory import address_of, own_database, read_note
    from hostler_protocol.errors import HostlerError

    own = own_database(facts.data_dir)
    try:
        if facts.database is None and not own.exists() and read_note(facts.data_dir) is None:
            yield Finding("facts", "note", "none yet")
            return
        async with opened_facts(facts) as opened:
            await opened.read(lambda tx: tx.now)
    except HostlerError as error:
        yield Finding("facts", "wrong", error.message)
    else:
        where = address_of(facts.data_dir, facts.database)
        if where == "sqlite":
            where = f"{own.stat().st_size / 1024**2:,.1f} MiB"
        yield Finding("facts", "ok", f"the database opens with this version ({where})")


async def _named_server(url: str, key: str | None, data_dir: Path) -> AsyncIterator[Finding]:
    from hostler_protocol.errors import HostlerError

    try:
        async for finding in _served(url, key, data_dir, f"it is ready at {url}"):
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
        yield Finding("server", "note", f"process {holder.pid} has the data directory, and serves no HTTP")
        return
    try:
        async for finding in _served(None, None, data_dir, f"process {holder.pid} is ready at {holder.url}"):
            yield finding
    except HostlerError as error:
        yield Finding("server", "wrong", f"process {holder.pid} at {holder.url}: {error.message}")


async def _served(url: str | None, key: str | None, data_dir: Path, ready: str) -> AsyncIterator[Finding]:
    """A server that answers, and its plugins. HostlerError where it does not."""
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
    """What does not work of the configuration. A skill is seldom the operator's own, and the rest works."""
    try:
        found = (await api.get("/v1/problems"))["items"]
    except UnauthorizedError as error:
        return [Finding("configuration", "note", f"it was not looked at: {error.message}")]
    return [_finding(one) for one in found]


def _finding(problem: dict[str, Any]) -> Finding:
    minor = problem["kind"] == "skill" or problem["severity"] == "warning"
    place = f"{problem['place']}: " if problem["place"] else ""
    return Finding(
        problem["kind"], "note" if minor else "wrong", f"{problem['name']}: {place}{problem['problem']}"
    )


async def _configuration(facts: Facts) -> list[Finding]:
    """The same where no server runs: the directory is opened for it."""
    from hostler.cli.server_address import reach
    from hostler_protocol.errors import HostlerError

    try:
        async with reach(None, None, facts.data_dir, database=facts.database) as api:
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
