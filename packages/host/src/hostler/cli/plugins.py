"""`hostler plugins`: plugins, their processes, logs and runners."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.entries import FieldsArgument, add_entry, change_entry, parse_fields, remove_entry
from hostler.cli.options import JsonOption
from hostler.cli.output import USAGE, fail, note, write_json, write_line
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import add_list_command, moment, write_done, write_fields, write_record
from hostler.cli.terminal import out
from hostler.cli.terminal_text import visible

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(
    help="Plugins: add, list, show, confirm, change, remove, logs, restart.", no_args_is_help=True
)
PluginArgument = Annotated[str, typer.Argument(metavar="AUTHOR/NAME", help="The plugin.")]
FOLLOW_SECONDS = 0.5
MAX_LINES = 1_000
RESTART_SECONDS = 300.0
"""The server may have to build the plugin's environment first."""


add_list_command(
    app,
    "/v1/plugins",
    {name: name for name in ("plugin", "version", "state", "source", "runners", "reason")},
    help="List plugins and their states.",
    none="no plugins yet: `hostler plugins add FOLDER` adds one; `hostler runners` lists the shipped ones",
)


@app.command("show")
@server_command
def show_plugin(server: Server, plugin: PluginArgument, as_json: JsonOption = False) -> None:
    """Show one plugin, its process, and its runners with their permissions."""

    async def look(api: Api) -> dict[str, Any]:
        record = await api.get(route("plugins", plugin))
        runners = (await api.get("/v1/runners"))["items"]
        mine = [runner for runner in runners if runner["id"].startswith(f"plugin:{plugin}/")]
        return {**record, "manifests": mine}

    write_record(server.ask(look), _show, as_json=as_json)


@app.command("add")
@server_command
def add_plugin(
    server: Server,
    folder: Annotated[Path, typer.Argument(help="A folder with a hostler.yaml, or a plugin of LangBot.")],
    fields: FieldsArgument = None,
    as_json: JsonOption = False,
) -> None:
    """Add a plugin folder to the configuration and start it, sandboxed unless level=trusted."""
    add_entry(server, "plugins", {"path": str(folder), **parse_fields(fields)}, as_json=as_json)


@app.command("change")
@server_command
def change_plugin(
    server: Server, plugin: PluginArgument, fields: FieldsArgument = None, as_json: JsonOption = False
) -> None:
    """Change a plugin's level, network, limits or path. Its active runs finish on the old process."""
    change_entry(server, "plugins", plugin, parse_fields(fields), as_json=as_json)


@app.command("remove")
@server_command
def remove_plugin(server: Server, plugin: PluginArgument, as_json: JsonOption = False) -> None:
    """Remove a plugin from the configuration. Its active runs get 30 seconds to finish."""
    remove_entry(server, "plugins", plugin, as_json=as_json)


@app.command("logs")
@server_command
def show_logs(
    server: Server,
    plugin: PluginArgument,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=1000, help="How many lines.")] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what it writes.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the last lines that a plugin wrote to standard error."""
    if follow and as_json:
        fail("--follow writes lines as they come: leave out --json", USAGE)
    if follow:
        _follow(server, plugin, lines)
        return
    found: list[str] = server.get(route("plugins", plugin, "logs"), lines=lines)["lines"]
    if as_json:
        write_json(found)
        return
    _write(found)
    if not found:
        note(f"{plugin} has not written anything to standard error")


def _write(lines: list[str]) -> None:
    for line in lines:
        write_line((visible(line.expandtabs()) if sys.stdout.isatty() else line).encode())


def _follow(server: Server, plugin: str, lines: int) -> None:
    """Write lines as they come, until Ctrl-C."""
    path = route("plugins", plugin, "logs")

    async def ask(api: Api) -> None:
        page = await api.get(path, lines=lines)
        while True:
            _write(page["lines"])
            await asyncio.sleep(FOLLOW_SECONDS)
            more = {"after": page["next"]} if page["next"] else {}
            page = await api.get(path, lines=MAX_LINES, **more)
            if page["skipped"]:
                note("some lines were left out: it writes faster than they are read, or began a new file")

    server.ask(ask, running=True)


@app.command("restart")
@server_command
def restart_plugin(server: Server, plugin: PluginArgument, as_json: JsonOption = False) -> None:
    """Restart a plugin from its current files. Its active runs finish on the old process."""

    async def restart(api: Api) -> dict[str, Any]:
        found: dict[str, Any] = await api.post(route("plugins", plugin, "restart"), seconds=RESTART_SECONDS)
        return found

    record = server.ask(restart, running=True)
    write_done(record, f"{plugin} is {record['state']}, process {record['pid']}", as_json=as_json)


@app.command("confirm")
@server_command
def confirm_plugin(
    server: Server,
    plugin: PluginArgument,
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Look for newer versions of what it requires.")
    ] = False,
    digest: Annotated[
        str | None, typer.Option(help="The digest of the folder you reviewed; default: the current one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Let a plugin start with the requirements, and with `pin` the files, that it has now.

    Says which packages of its environment changed. Its active runs finish on
    the old process.
    """
    from hostler_protocol.errors import NotFoundError

    async def confirm(api: Api) -> tuple[dict[str, Any], dict[str, Any]]:
        before = await api.get(route("plugins", plugin))
        if before["pin"] is None:
            raise NotFoundError(f"plugin {plugin!r} has no entry in the configuration, or was never started")
        body = {"digest": digest or before["pin"]["digest"], "upgrade": upgrade}
        after: dict[str, Any] = await api.post(
            route("plugins", plugin, "confirm"), body, seconds=RESTART_SECONDS
        )
        return before, after

    before, after = server.ask(confirm, running=True)
    if as_json:
        write_json(after)
        return
    for line in _package_changes(before["pin"]["packages"], after["pin"]["packages"]):
        note(line)
    note(f"{plugin} is {after['state']} as it is now: {after['pin']['digest']}")


def _package_changes(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[str]:
    from hostler.domain.plugin_pins import LockedPackage, package_changes

    old, new = ([LockedPackage(**package) for package in packages] for packages in (before, after))
    return package_changes(old, new)


def _in(seconds: float) -> str:
    return f"in {seconds:,.0f} s, or at the next run once its files change"


def _pin_fields(pin: dict[str, Any] | None) -> list[tuple[str, object]]:
    if pin is None:
        return []
    packages = [f"{package['name']} {package['version']}" for package in pin["packages"]]
    return [
        ("requires", pin["requires"]),
        ("locked", packages),
        ("pinned", "requirements and files" if pin["files"] else "requirements"),
        ("digest", pin["digest"]),
        ("confirmed by", pin["confirmed_by"]),
        ("confirmed", moment(pin["confirmed_at"])),
        ("changed", pin["changed"]),
    ]


def _show(record: dict[str, Any]) -> None:
    write_fields(
        (
            ("plugin", record["plugin"]),
            ("version", record["version"]),
            ("state", record["state"]),
            ("reason", record.get("reason")),
            ("next try", None if not record.get("retry_in_seconds") else _in(record["retry_in_seconds"])),
            ("source", record["source"]),
            ("process", record.get("pid")),
            ("started", moment(record.get("started_at"))),
            ("restarts", record["restarts"]),
            ("active runs", record["active_runs"]),
            ("tools", record["tools"]),
            ("containment", record.get("containment")),
            ("warnings", "; ".join(record.get("warnings") or [])),
            *_pin_fields(record.get("pin")),
        )
    )
    for runner in record["manifests"]:
        out().print()
        permissions = [
            f"{what}: {', '.join(ops)}" for what, ops in (runner.get("permissions") or {}).items() if ops
        ]
        capabilities = [name for name, has in (runner.get("capabilities") or {}).items() if has]
        write_fields(
            (
                ("runner", runner["id"]),
                ("can", capabilities),
                ("asks for", "; ".join(permissions)),
                ("form", [item["name"] for item in runner.get("config_schema") or []]),
            )
        )
