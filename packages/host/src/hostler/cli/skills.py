"""`hostler skills`: what agents can be given to read up on, and what a person confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.entries import add_entry, remove_entry
from hostler.cli.options import JsonOption
from hostler.cli.output import out
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import write_done, write_fields, write_items, write_record, write_table

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Skills: add, list, show, confirm, remove.", no_args_is_help=True)
SkillArgument = Annotated[str, typer.Argument(metavar="SKILL", help="The skill's name.")]
_DIGEST_CHARS = 12
"""Shown of a digest where people compare two."""


@app.command("list")
@server_command
def list_skills(server: Server, as_json: JsonOption = False) -> None:
    """List the skills, read anew from their folders."""
    write_items(
        server.all("/v1/skills"),
        ("skill", "version", "digest", "what it is for"),
        lambda s: (
            s["name"],
            s["version"],
            (s["digest"] or "")[:_DIGEST_CHARS],
            s["problem"] or s["description"].partition("\n")[0],
        ),
        as_json=as_json,
        none="no skills yet: `hostler skills add FOLDER` adds some, `hostler apply` a whole file",
    )


@app.command("show")
@server_command
def show_skill(server: Server, skill: SkillArgument, as_json: JsonOption = False) -> None:
    """Show one skill and its files."""
    write_record(server.get(route("skills", skill)), _show, as_json=as_json)


@app.command("add")
@server_command
def add_skills(
    server: Server,
    folder: Annotated[Path, typer.Argument(help="A folder with a SKILL.md, or one that holds such.")],
    as_json: JsonOption = False,
) -> None:
    """Add a folder of skills to the configuration."""
    add_entry(server, "skills", {"path": str(folder)}, as_json=as_json)


@app.command("remove")
@server_command
def remove_skills(
    server: Server,
    folder: Annotated[Path, typer.Argument(help="The folder, as it was added.")],
    as_json: JsonOption = False,
) -> None:
    """Remove a folder of skills from the configuration. Runs that have one of them keep what they read."""
    remove_entry(server, "skills", str(Path.cwd() / folder), as_json=as_json)


@app.command("confirm")
@server_command
def confirm_skill(
    server: Server,
    skill: SkillArgument,
    digest: Annotated[
        str | None, typer.Option(help="The digest of what you looked at; left out: of what is there now.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Let agents use a skill as it is now, after its files changed."""

    async def confirm(api: Api) -> dict[str, Any]:
        wanted = digest
        if wanted is None:
            wanted = (await api.get(route("skills", skill)))["digest"]
        found: dict[str, Any] = await api.post(route("skills", skill, "confirm"), {"digest": wanted or ""})
        return found

    record = server.ask(confirm)
    write_done(record, f"{record['name']} may be used as it is now: {record['digest']}", as_json=as_json)


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
    if record["files"]:
        out().print()
        rows = [(file["path"], file["size_bytes"]) for file in record["files"]]
        write_table(("file", "bytes"), rows, none="no files")
