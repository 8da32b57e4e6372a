"""`hostler skills`: what agents can be given to read up on, and what a person confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.options import DataOption, JsonOption, KeyOption, UrlOption
from hostler.cli.output import note, out, write_fields, write_json, write_table

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Skills: list, show, confirm.", no_args_is_help=True)
_DIGEST_CHARS = 12
"""Shown of a digest where people compare two."""


@app.command("list")
def list_skills(
    as_json: JsonOption = False, data: DataOption = None, url: UrlOption = None, key: KeyOption = None
) -> None:
    """List the skills, read anew from their folders."""
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> list[Any]:
        found: list[Any] = (await api.get("/v1/skills"))["items"]
        return found

    found = with_api(ask, url=url, key=key, data=data)
    if as_json:
        write_json(found)
        return
    rows = (
        (
            s["name"],
            s["version"],
            (s["digest"] or "")[:_DIGEST_CHARS],
            s["problem"] or _line(s["description"]),
        )
        for s in found
    )
    none = "no skills yet: name their folders under `skills:` in a configuration and `hostler apply` it"
    write_table(("skill", "version", "digest", "what it is for"), rows, none=none)


@app.command("show")
def show_skill(
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="The skill's name.")],
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Show one skill and its files."""
    from hostler.cli.client import segment
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> dict[str, Any]:
        found: dict[str, Any] = await api.get(f"/v1/skills/{segment(skill)}")
        return found

    record = with_api(ask, url=url, key=key, data=data)
    if as_json:
        write_json(record)
        return
    _show(record)


@app.command("confirm")
def confirm_skill(
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="The skill's name.")],
    digest: Annotated[
        str | None, typer.Option(help="The digest of what you looked at; left out: of what is there now.")
    ] = None,
    as_json: JsonOption = False,
    data: DataOption = None,
    url: UrlOption = None,
    key: KeyOption = None,
) -> None:
    """Let agents use a skill as it is now, after its files changed."""
    from hostler.cli.client import segment
    from hostler.cli.reach import with_api

    async def ask(api: Api) -> dict[str, Any]:
        wanted = digest
        if wanted is None:
            wanted = (await api.get(f"/v1/skills/{segment(skill)}"))["digest"]
        found: dict[str, Any] = await api.post(
            f"/v1/skills/{segment(skill)}/confirm", {"digest": wanted or ""}
        )
        return found

    record = with_api(ask, url=url, key=key, data=data)
    if as_json:
        write_json(record)
        return
    note(f"{record['name']} may be used as it is now: {record['digest']}")


def _show(record: dict[str, Any]) -> None:
    write_fields(
        (
            ("skill", record["name"]),
            ("for", record["description"]),
            ("version", record["version"]),
            ("folder", record["source"]),
            ("digest", record["digest"]),
            ("confirmed", record["confirmed_digest"]),
            ("confirmed by", record["confirmed_by"]),
            ("problem", record["problem"]),
        )
    )
    rows = [(file["path"], file["size_bytes"]) for file in record["files"]]
    if rows:
        out().print()
        write_table(("file", "bytes"), rows, none="")


def _line(text: str) -> str:
    return text.partition("\n")[0]
