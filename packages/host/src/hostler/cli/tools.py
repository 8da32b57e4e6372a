"""`hostler tools`: what agents can be given to act with."""

from __future__ import annotations

import difflib
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.entries import (
    FieldsArgument,
    add_entry,
    change_entry,
    parse_fields,
    remove_entry,
    show_entry,
)
from hostler.cli.options import JsonOption
from hostler.cli.output import USAGE, fail, note, out, write_json
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import write_fields, write_items, write_record, write_table
from hostler.cli.terminal_text import visible

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(
    help="Tools: list, show, approve; what offers them: entries, add, change, remove, servers.",
    no_args_is_help=True,
)
EntryArgument = Annotated[
    str, typer.Argument(metavar="KIND:NAME", help="The entry, like mcp:files, openapi:shop, exec:exec.")
]
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
        none="no tools yet: `hostler tools add KIND:NAME` adds some, `hostler apply` a whole file",
        spare=("owner", "state"),
    )


@app.command("show")
@server_command
def show_tool(
    server: Server,
    tool: Annotated[
        str, typer.Argument(metavar="TOOL", help="The tool, like shop.book; or its entry, like mcp:files.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Show one tool and its parameters, or the entry of the configuration that tools come from."""
    if ":" in tool:
        show_entry(server, "tools", tool, as_json=as_json)
        return
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
    from hostler.domain.name_patterns import matches

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


@app.command("entries")
@server_command
def list_entries(server: Server, as_json: JsonOption = False) -> None:
    """List the entries of the configuration that tools come from: servers, documents, built-in tools."""
    write_items(
        server.all("/v1/config/tools"),
        ("entry", "problem"),
        lambda one: (one["name"], one["problem"]),
        as_json=as_json,
        none="no entries yet: `hostler tools add KIND:NAME` adds one, like `add fetch:web`",
    )


@app.command("add")
@server_command
def add_tools(
    server: Server, entry: EntryArgument, fields: FieldsArgument = None, as_json: JsonOption = False
) -> None:
    """Add what tools come from, like `add mcp:files 'command=["npx", "server"]'` or `add exec:exec`."""
    kind, _, name = entry.partition(":")
    given = {kind: {"name": name, **parse_fields(fields)}}
    add_entry(server, "tools", given, as_json=as_json)


@app.command("change")
@server_command
def change_tools(
    server: Server, entry: EntryArgument, fields: FieldsArgument = None, as_json: JsonOption = False
) -> None:
    """Change an entry that tools come from. Calls that are under way finish."""
    kind = entry.partition(":")[0]
    found = parse_fields(fields)
    change_entry(server, "tools", entry, {kind: found} if found else {}, as_json=as_json)


@app.command("remove")
@server_command
def remove_tools(server: Server, entry: EntryArgument, as_json: JsonOption = False) -> None:
    """Remove an entry that tools come from."""
    remove_entry(server, "tools", entry, as_json=as_json)


@app.command("servers")
@server_command
def list_servers(server: Server, as_json: JsonOption = False) -> None:
    """List the MCP servers, and how each stands."""
    write_items(
        server.all("/v1/mcp-servers", running=True),
        ("server", "state", "says it is", "restarts", "what is wrong"),
        lambda one: (one["name"], one["state"], one["server"], one["restarts"], _told(one)),
        as_json=as_json,
        none="no MCP servers yet: `hostler tools add mcp:NAME` adds one, `hostler apply` a whole file",
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
