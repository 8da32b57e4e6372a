"""`hostler doctor`: check this machine, the data directory and the server, and how to fix them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hostler.cli.database import StorageLocation, open_storage
from hostler.cli.options import DatabaseOption, DataOption, JsonOption, KeyOption, UrlOption, data_directory
from hostler.cli.output import FAILED, write_json
from hostler.cli.tables import write_indented
from hostler.host.machine_checks import (
    Finding,
    Verdict,
    check_directory,
    check_python,
    check_sandbox,
    check_sqlite,
    check_uv,
)
from hostler_protocol.errors import UnauthorizedError

if TYPE_CHECKING:
    from hostler.cli.client import Api

MARKS: dict[Verdict, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "note": ("•", "yellow"),
    "wrong": ("✗", "bold red"),
}
STORED = {"remote worker", "channel", "outbox", "schedule", "reminder"}
"""What a running server says of connections, messages and firings that it has stored."""
PLUGIN_SECONDS = 60.0
WIDTH = 24


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

    findings = [check_python(), check_sqlite(), check_uv(), *check_directory(location.data_dir)]
    findings += await check_sandbox(location.data_dir)
    findings += [found async for found in _plugin_start()]
    findings += [found async for found in _check_database(location)]
    if url is not None:
        return findings + [found async for found in _named_server(url, key, location.data_dir)]
    if findings[-1].verdict == "ok" and read_holder(location.data_dir) is None:
        findings += await _configuration(location)
    return findings + [found async for found in _server(location.data_dir, port)]


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
        for finding in await _connections(api):
            yield finding
        for finding in await _problems(api):
            if finding.what not in STORED:
                yield finding


async def _connections(api: Api) -> list[Finding]:
    """Return what the server finds of remote workers, channels and schedules; nothing for a key that may not
    ask for all findings.
    """
    try:
        found = (await api.get("/v1/doctor"))["items"]
    except UnauthorizedError:
        return []
    return [Finding(**one) for one in found if one["what"] in STORED]


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
