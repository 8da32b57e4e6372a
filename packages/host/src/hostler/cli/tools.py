"""`hostler tools`: tools that agents can use, and the entries that provide them."""

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
from hostler.cli.output import USAGE, fail, note, write_json
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import add_list_command, write_fields, write_record, write_table
from hostler.cli.terminal import out
from hostler.cli.terminal_text import visible
from hostler.cli.trials import try_out

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(
    help="Tools: list, show, test, approve; their entries: entries, add, change, remove; servers, reconnect.",
    no_args_is_help=True,
)
EntryArgument = Annotated[
    str, typer.Argument(metavar="KIND:NAME", help="The entry, like mcp:files, openapi:shop, exec:exec.")
]
_DIFFERENCE = {"+": "green", "-": "red", "@": "dim"}


def _owner(tool: dict[str, Any]) -> str:
    return f"{tool['owner']} (client)" if tool["client"] else str(tool["owner"])


def _problems(server: dict[str, Any]) -> str:
    return "; ".join([server["reason"] or "", *server["warnings"]]).strip("; ")


add_list_command(
    app,
    "/v1/tools",
    {
        "tool": "name",
        "state": "state",
        "effect": "effect",
        "approval": "approval",
        "owner": _owner,
        "description": lambda tool: tool["problem"] or tool["description"].partition("\n")[0],
    },
    help="List all tools; for those that agents cannot use, with the reason.",
    none="no tools yet: `hostler tools add KIND:NAME` adds some, `hostler apply FILE` many",
    spare=("owner", "state"),
    running=True,
)
add_list_command(
    app,
    "/v1/config/tools",
    {"entry": "name", "problem": "problem"},
    name="entries",
    help="List the configuration entries that provide tools: MCP servers, OpenAPI documents, built-in tools.",
    none="no entries yet: `hostler tools add KIND:NAME` adds one, like `hostler tools add fetch:web`",
)
add_list_command(
    app,
    "/v1/mcp-servers",
    {"server": "name", "state": "state", "identity": "server", "restarts": "restarts", "problems": _problems},
    name="servers",
    help="List the MCP servers and their states.",
    none="no MCP servers yet: `hostler tools add mcp:NAME` adds one, `hostler apply FILE` many",
    running=True,
)


@app.command("show")
@server_command
def show_tool(
    server: Server,
    tool: Annotated[
        str, typer.Argument(metavar="TOOL", help="A tool like shop.book, or an entry like mcp:files.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Show one tool and its parameters, or a configuration entry that provides tools."""
    if ":" in tool:
        show_entry(server, "tools", tool, as_json=as_json)
        return
    write_record(server.get(route("tools", tool), running=True), _show, as_json=as_json)


@app.command("test")
@server_command
def try_tool(
    server: Server,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="A tool like shop.book.")],
    fields: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FIELD=VALUE]...",
            help="Arguments of the call, like kind=double or place.city=Rome. Values are parsed as JSON if "
            "possible.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Test a tool: call it once with arguments like `city=Paris days=3`, by a run of its own.

    The call is real. Exit status as of `hostler run`. Needs a running server.
    """
    arguments = parse_fields(fields, "like kind=double")
    try_out(server, route("tools", tool, "test"), {"arguments": arguments}, as_json=as_json)


@app.command("reconnect")
@server_command
def reconnect_server(
    server: Server,
    name: Annotated[str, typer.Argument(metavar="SERVER", help="The MCP server's name.")],
    as_json: JsonOption = False,
) -> None:
    """Connect an MCP server anew, at once. Calls at work end first."""

    async def ask(api: Api) -> dict[str, Any]:
        found: dict[str, Any] = await api.post(route("mcp-servers", name, "reconnect"), {})
        return found

    record = server.ask(ask, running=True)
    if as_json:
        write_json(record)
    else:
        note(f"{name} is connected anew; `hostler tools servers` shows its state")


@app.command("approve")
@server_command
def approve_tools(
    server: Server,
    tool: Annotated[
        str, typer.Argument(metavar="SERVER.TOOL", help="A tool like files.read, or several: 'files.*'.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve what is shown without asking.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the tools that an MCP server changed or added, and approve them."""
    from hostler.domain.name_patterns import matches

    async def look(api: Api) -> list[dict[str, Any]]:
        if "*" not in tool:
            return [await api.get(route("tools", tool))]
        items = (await api.get("/v1/tools"))["items"]
        return [item for item in items if matches(tool, item["name"])]

    waiting = [one for one in server.ask(look, running=True) if one["waiting"]]
    if not waiting:
        fail(f"{tool}: no tool waits for an approval")
    if not yes and (as_json or not (sys.stdin.isatty() and sys.stdout.isatty())):
        fail("there is no terminal to confirm at: review with `hostler tools show`, then add --yes", USAGE)
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
            note(f"{one['name']} is approved in this version")


@app.command("add")
@server_command
def add_tools(
    server: Server, entry: EntryArgument, fields: FieldsArgument = None, as_json: JsonOption = False
) -> None:
    """Add an entry that provides tools, like `mcp:files 'command=["npx", "server"]'` or `exec:exec`."""
    kind, _, name = entry.partition(":")
    entry_fields = {kind: {"name": name, **parse_fields(fields)}}
    add_entry(server, "tools", entry_fields, as_json=as_json)


@app.command("change")
@server_command
def change_tools(
    server: Server, entry: EntryArgument, fields: FieldsArgument = None, as_json: JsonOption = False
) -> None:
    """Change an entry that provides tools. Active calls finish."""
    kind = entry.partition(":")[0]
    found = parse_fields(fields)
    change_entry(server, "tools", entry, {kind: found} if found else {}, as_json=as_json)


@app.command("remove")
@server_command
def remove_tools(server: Server, entry: EntryArgument, as_json: JsonOption = False) -> None:
    """Remove an entry that provides tools."""
    remove_entry(server, "tools", entry, as_json=as_json)


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
        write_table(("parameter", "type", "required", "description"), rows, none="no parameters")


def _agreed(tool: dict[str, Any], *, yes: bool) -> bool:
    """Show the change of a tool, and ask whether to approve it, unless `yes`."""
    from rich.text import Text

    for line in _difference(tool["waiting"]):
        out().print(Text(line, _DIFFERENCE.get(line[:1], "")), soft_wrap=True)
    return yes or typer.confirm(f"approve {tool['name']}?", default=False)


def _difference(waiting: dict[str, Any]) -> list[str]:
    """Return the lines of a diff between the approved version of a tool and the new one."""
    before, now = (_lines(waiting[which]) for which in ("approved", "now"))
    return list(difflib.unified_diff(before, now, "approved", "now", n=100, lineterm=""))


def _lines(version: dict[str, Any] | None) -> list[str]:
    if version is None:
        return []
    schemas = {name: version[name] for name in ("parameters", "output_schema") if version[name] is not None}
    text = version["description"] + "\n" + json.dumps(schemas, indent=2, sort_keys=True, ensure_ascii=False)
    return [visible(line) for line in text.split("\n")]


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    kind = schema.get("type", "any")
    return " | ".join(kind) if isinstance(kind, list) else str(kind)
