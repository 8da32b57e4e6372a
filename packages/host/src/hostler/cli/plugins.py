"""`hostler plugins`: their processes, logs and runners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import DataOption, JsonOption, KeyOption, UrlOption
from hostler.cli.output import note, out, when, write_fields, write_json, write_line, write_table

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Plugins: list, show, logs, restart.", no_args_is_help=True)
PluginArgument = Annotated[str, typer.Argument(metavar="AUTHOR/NAME", help="The plugin.")]


@app.command("list")
def list_plugins(
    as_json: JsonOption = False, data: DataOption = None, url: UrlOption = None, key: KeyOption = None
) -> None:
    """List plugins, and how each stands."""
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> list[Any]:
        found: list[Any] = (await api.get("/v1/plugins"))["items"]
        return found

    found = with_api(ask, url=url, key=key, data=data)
    if as_json:
        write_json(found)
        return
    rows = (
        (p["plugin"], p["version"], p["state"], p["source"], ", ".join(p["runners"]), p.get("reason"))
        for p in found
    )
    write_table(
        ("plugin", "version", "state", "source", "runners", "reason"),
        rows,
        none="no plugins yet: name them in a configuration and `hostler apply` it",
    )


@app.command("show")
def show_plugin(
    plugin: PluginArgument,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Show one plugin, its process, its runners and what they ask for."""
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> tuple[dict[str, Any], list[Any]]:
        record = await api.get(_path(plugin))
        runners = (await api.get("/v1/runners"))["items"]
        return record, [runner for runner in runners if runner["id"].startswith(f"plugin:{plugin}/")]

    record, runners = with_api(ask, url=url, key=key, data=data)
    if as_json:
        write_json({**record, "manifests": runners})
        return
    write_fields(
        (
            ("plugin", record["plugin"]),
            ("version", record["version"]),
            ("state", record["state"]),
            ("reason", record.get("reason")),
            ("source", record["source"]),
            ("process", record.get("pid")),
            ("started", when(record.get("started_at"))),
            ("restarts", record["restarts"]),
            ("active runs", record["active_runs"]),
            ("tools", record["tools"]),
            ("containment", record.get("containment")),
        )
    )
    for runner in runners:
        out().print()
        asked = [
            f"{what}: {', '.join(ops)}" for what, ops in (runner.get("permissions") or {}).items() if ops
        ]
        able = [name for name, has in (runner.get("capabilities") or {}).items() if has]
        write_fields(
            (
                ("runner", runner["id"]),
                ("can", able),
                ("asks for", asked),
                ("form", [item["name"] for item in runner.get("config_schema") or []]),
            )
        )


@app.command("logs")
def show_logs(
    plugin: PluginArgument,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=1000, help="How many of the last.")] = 100,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Show the end of what a plugin wrote to its stderr."""
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> list[str]:
        found: list[str] = (await api.get(f"{_path(plugin)}/logs", lines=lines))["lines"]
        return found

    found = with_api(ask, url=url, key=key, data=data)
    if as_json:
        write_json(found)
        return
    for line in found:
        write_line(line.encode())
    if not found:
        note(f"{plugin} has written nothing")


@app.command("restart")
def restart_plugin(
    plugin: PluginArgument, data: DataOption = None, url: UrlOption = None, key: KeyOption = None
) -> None:
    """Replace a plugin's process by one from its files as they are now; its runs finish on the old one."""
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> dict[str, Any]:
        found: dict[str, Any] = await api.post(f"{_path(plugin)}/restart", seconds=300)
        return found

    record = with_api(ask, url=url, key=key, data=data, running=True)
    note(f"{plugin} is {record['state']}, process {record['pid']}")


def _path(plugin: str) -> str:
    from hostler.cli.client import segment

    return f"/v1/plugins/{segment(plugin)}"
