"""`hostler tools`: what agents can be given to act with."""

from __future__ import annotations

import difflib
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import JsonOption
from hostler.cli.output import USAGE, fail, note, out, write_json
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import write_fields, write_items, write_record, write_table
from hostler.cli.visible import visible

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Tools: list, show, approve; and the servers of some.", no_args_is_help=True)
_DIFFERENCE = {"+": "green", "-": "red", "@": "dim"}


@app.command("list")
@server_command
def list_tools(server: Server, as_json: JsonOption = False) -> None:
    """List the tools that agents can be given, and those that nobody can be given, and why."""
    write_items(
        server.all("/v1/tools", running=True),
        ("tool", "state", "effect", "approval", "owner", "what it does"),
        lambda t: (
            t["name"],
            t["state"],
            t["effect"],
            t["approval"],
            _owner(t),
            t["problem"] or t["description"].partition("\n")[0],
        ),
        as_json=as_json,
        none="no tools yet: name what offers some under `tools:` in a configuration and `hostler apply` it",
        spare=("owner", "state"),
    )


@app.command("show")
@server_command
def show_tool(
    server: Server,
    tool: Annotated[str, typer.Argument(metavar="PLUGIN.TOOL", help="The tool, like shop.book.")],
    as_json: JsonOption = False,
) -> None:
    """Show one tool and its parameters."""
    write_record(server.get(route("tools", tool), running=True), _show, as_json=as_json)


@app.command("approve")
@server_command
def approve_tools(
    server: Server,
    tool: Annotated[
        str, typer.Argument(metavar="SERVER.TOOL", help="The tool, like files.read, or several: 'files.*'.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve what is shown without asking.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what an MCP server changed of its tools, or came up with, and approve it."""
    from hostler.domain.patterns import matches

    async def look(api: Api) -> list[dict[str, Any]]:
        if "*" not in tool:
            return [await api.get(route("tools", tool))]
        found = (await api.get("/v1/tools"))["items"]
        return [one for one in found if matches(tool, one["name"])]

    waiting = [one for one in server.ask(look, running=True) if one["waiting"]]
    if not waiting:
        fail(f"nothing of {tool} waits for an approval")
    if not yes and (as_json or not (sys.stdin.isatty() and sys.stdout.isatty())):
        fail("nobody can be asked here: look at it with `hostler tools show`, then say --yes", USAGE)
    agreed = waiting if as_json else [one for one in waiting if _agreed(one, yes=yes)]

    async def approve(api: Api) -> list[Any]:
        return [
            await api.post(route("tools", one["name"], "approve"), {"digest": one["waiting"]["digest"]})
            for one in agreed
        ]

    approved = server.ask(approve, running=True)
    if as_json:
        write_json(approved)
    else:
        for one in agreed:
            note(f"{one['name']} is approved as it is now")


@app.command("servers")
@server_command
def list_servers(server: Server, as_json: JsonOption = False) -> None:
    """List the MCP servers, and how each stands."""
    write_items(
        server.all("/v1/mcp-servers", running=True),
        ("server", "state", "says it is", "restarts", "what is wrong"),
        lambda one: (one["name"], one["state"], one["server"], one["restarts"], _told(one)),
        as_json=as_json,
        none="no MCP servers yet: name them under `tools:` in a configuration and `hostler apply` it",
    )


def _show(record: dict[str, Any]) -> None:
    write_fields(
        (
            ("tool", record["name"]),
            ("owner", _owner(record)),
            ("state", record["state"]),
            ("effect", record["effect"]),
            ("approval", record["approval"]),
            ("problem", record["problem"]),
            ("does", record["description"]),
        )
    )
    parameters = record["parameters"]
    required = parameters.get("required") or []
    rows = [
        (name, _kind(schema), "yes" if name in required else "", schema.get("description"))
        for name, schema in (parameters.get("properties") or {}).items()
        if isinstance(schema, dict)
    ]
    if rows:
        out().print()
        write_table(("parameter", "type", "required", "what it is"), rows, none="no parameters")


def _agreed(tool: dict[str, Any], *, yes: bool) -> bool:
    """Show what would be approved, and ask, unless it was said before."""
    from rich.text import Text

    for line in _difference(tool["waiting"]):
        out().print(Text(line, _DIFFERENCE.get(line[:1], "")), soft_wrap=True)
    return yes or typer.confirm(f"approve {tool['name']}?", default=False)


def _told(server: dict[str, Any]) -> str:
    return "; ".join([server["reason"] or "", *server["warnings"]]).strip("; ")


def _difference(waiting: dict[str, Any]) -> list[str]:
    """What is to be approved, line by line, against what was approved before."""
    before, now = (_lines(waiting[which]) for which in ("approved", "now"))
    return list(difflib.unified_diff(before, now, "approved", "now", n=100, lineterm=""))


def _lines(said: dict[str, Any] | None) -> list[str]:
    if said is None:
        return []
    schemas = {name: said[name] for name in ("parameters", "output_schema") if said[name] is not None}
    text = said["description"] + "\n" + json.dumps(schemas, indent=2, sort_keys=True, ensure_ascii=False)
    return [visible(line) for line in text.split("\n")]


def _owner(tool: dict[str, Any]) -> str:
    return f"{tool['owner']} (client)" if tool["client"] else str(tool["owner"])


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(str(one) for one in schema["enum"])
    kind = schema.get("type", "any")
    return " | ".join(kind) if isinstance(kind, list) else str(kind)
