"""`hostler tools`: what agents can be given to act with."""

from __future__ import annotations

import difflib
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import DataOption, JsonOption, KeyOption, UrlOption
from hostler.cli.output import USAGE, fail, note, out, write_fields, write_json, write_table

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Tools: list, show, approve; and the servers of some.", no_args_is_help=True)


_DIFFERENCE = {"+": "green", "-": "red", "@": "dim"}


@app.command("list")
def list_tools(
    as_json: JsonOption = False, data: DataOption = None, url: UrlOption = None, key: KeyOption = None
) -> None:
    """List the tools that agents can be given, and those that nobody can be given, and why."""
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> list[Any]:
        found: list[Any] = (await api.get("/v1/tools"))["items"]
        return found

    found = with_api(ask, url=url, key=key, data=data, running=True)
    if as_json:
        write_json(found)
        return
    rows = (
        (
            t["name"],
            t["state"],
            t["effect"],
            t["approval"],
            _owner(t),
            _visible(t["problem"] or "") or _line(t),
        )
        for t in found
    )
    write_table(
        ("tool", "state", "effect", "approval", "owner", "what it does"),
        rows,
        none="no tools yet: a plugin lists its functions under `tools:` in hostler.yaml",
    )


@app.command("show")
def show_tool(
    tool: Annotated[str, typer.Argument(metavar="PLUGIN.TOOL", help="The tool, like shop.book.")],
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Show one tool and its parameters."""
    from hostler.cli.client import segment
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> dict[str, Any]:
        found: dict[str, Any] = await api.get(f"/v1/tools/{segment(tool)}")
        return found

    record = with_api(ask, url=url, key=key, data=data, running=True)
    if as_json:
        write_json(record)
        return
    write_fields(
        (
            ("tool", record["name"]),
            ("owner", _owner(record)),
            ("state", record["state"]),
            ("effect", record["effect"]),
            ("approval", record["approval"]),
            ("problem", _visible(record["problem"] or "")),
            ("does", _visible(record["description"])),
        )
    )
    parameters = record["parameters"]
    required = parameters.get("required") or []
    rows = [
        (
            name,
            _kind(schema),
            "yes" if name in required else "",
            _visible(str(schema.get("description") or "")),
        )
        for name, schema in (parameters.get("properties") or {}).items()
        if isinstance(schema, dict)
    ]
    if rows:
        out().print()
        write_table(("parameter", "type", "required", "what it is"), rows, none="")


@app.command("approve")
def approve_tools(
    tool: Annotated[
        str, typer.Argument(metavar="SERVER.TOOL", help="The tool, like files.read, or several: 'files.*'.")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Approve what is shown without asking.")] = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Show what an MCP server changed of its tools, or came up with, and approve it."""
    from rich.text import Text

    from hostler.cli.client import segment
    from hostler.cli.reach import with_api
    from hostler.domain.patterns import matches

    async def ask(api: Api) -> list[dict[str, Any]]:
        if "*" not in tool:
            return [await api.get(f"/v1/tools/{segment(tool)}")]
        found = (await api.get("/v1/tools"))["items"]
        return [one for one in found if one["waiting"] and matches(tool, one["name"])]

    waiting = [one for one in with_api(ask, url=url, key=key, data=data, running=True) if one["waiting"]]
    if not waiting:
        fail(f"nothing of {tool} waits for an approval")
    if not yes and not (sys.stdin.isatty() and sys.stdout.isatty()):
        fail("nobody can be asked here: look at it with `hostler tools show`, then say --yes", USAGE)
    agreed: list[dict[str, Any]] = []
    for one in waiting:
        for line in _difference(one["waiting"]):
            out().print(Text(line, _DIFFERENCE.get(line[:1], "")), soft_wrap=True)
        if yes or typer.confirm(f"approve {one['name']}?", default=False):
            agreed.append(one)

    async def approve(api: Api) -> None:
        for one in agreed:
            digest = one["waiting"]["digest"]
            await api.post(f"/v1/tools/{segment(one['name'])}/approve", {"digest": digest})
            note(f"{one['name']} is approved as it is now")

    with_api(approve, url=url, key=key, data=data, running=True)


@app.command("servers")
def list_servers(
    as_json: JsonOption = False, data: DataOption = None, url: UrlOption = None, key: KeyOption = None
) -> None:
    """List the MCP servers, and how each stands."""
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> list[Any]:
        found: list[Any] = (await api.get("/v1/mcp-servers"))["items"]
        return found

    found = with_api(ask, url=url, key=key, data=data, running=True)
    if as_json:
        write_json(found)
        return
    rows = ((one["name"], one["state"], one["server"], one["restarts"], _told(one)) for one in found)
    write_table(("server", "state", "says it is", "restarts", "what is wrong"), rows, none="no MCP servers")


def _told(server: dict[str, Any]) -> str:
    return _visible("; ".join([server["reason"] or "", *server["warnings"]]).strip("; "))


def _difference(waiting: dict[str, Any]) -> list[str]:
    """What is to be approved, line by line, against what was approved before."""
    before, now = (_lines(waiting[which]) for which in ("approved", "now"))
    return list(difflib.unified_diff(before, now, "approved", "now", n=100, lineterm=""))


def _lines(said: dict[str, Any] | None) -> list[str]:
    if said is None:
        return []
    schemas = {name: said[name] for name in ("parameters", "output_schema") if said[name] is not None}
    text = said["description"] + "\n" + json.dumps(schemas, indent=2, sort_keys=True, ensure_ascii=False)
    return [_visible(line) for line in text.split("\n")]


def _visible(text: str) -> str:
    """A server's words; what one does not see in them, or a terminal obeys, is spelled out."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\u{ord(c):04x}" for c in text)


def _owner(tool: dict[str, Any]) -> str:
    return f"{tool['owner']} (client)" if tool["client"] else str(tool["owner"])


def _line(tool: dict[str, Any]) -> str:
    return _visible(tool["description"].partition("\n")[0])


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(str(one) for one in schema["enum"])
    kind = schema.get("type", "any")
    return " | ".join(kind) if isinstance(kind, list) else str(kind)
