"""`hostler tools`: what agents can be given to act with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import DataOption, JsonOption, KeyOption, UrlOption
from hostler.cli.output import out, write_fields, write_json, write_table

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Tools: list, show.", no_args_is_help=True)


@app.command("list")
def list_tools(
    as_json: JsonOption = False, data: DataOption = None, url: UrlOption = None, key: KeyOption = None
) -> None:
    """List the tools that plugins offer."""
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> list[Any]:
        found: list[Any] = (await api.get("/v1/tools"))["items"]
        return found

    found = with_api(ask, url=url, key=key, data=data, running=True)
    if as_json:
        write_json(found)
        return
    rows = (
        (t["name"], t["effect"], _where(t), t["approval"], t["owner"], t.get("problem") or _line(t))
        for t in found
    )
    write_table(
        ("tool", "effect", "runs", "approval", "owner", "what it does"),
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
            ("owner", record["owner"]),
            ("effect", record["effect"]),
            ("runs", _where(record)),
            ("approval", record["approval"]),
            ("problem", record.get("problem")),
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
        write_table(("parameter", "type", "required", "what it is"), rows, none="")


def _where(tool: dict[str, Any]) -> str:
    return "client" if tool["client"] else "plugin"


def _line(tool: dict[str, Any]) -> str:
    line: str = tool["description"].partition("\n")[0]
    return line


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(str(one) for one in schema["enum"])
    kind = schema.get("type", "any")
    return " | ".join(kind) if isinstance(kind, list) else str(kind)
