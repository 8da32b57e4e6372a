"""`hostler skills`: skills that agents can read, and their confirmation after a change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.entries import add_entry, remove_entry
from hostler.cli.options import JsonOption
from hostler.cli.routes import route
from hostler.cli.server import Server, server_command
from hostler.cli.tables import add_list_command, write_done, write_fields, write_record, write_table
from hostler.cli.terminal import out

if TYPE_CHECKING:
    from hostler.cli.client import Api

app = typer.Typer(help="Skills: add, list, show, confirm, remove.", no_args_is_help=True)
SkillArgument = Annotated[str, typer.Argument(metavar="SKILL", help="The skill's name.")]
_DIGEST_CHARS = 12
"""The characters of a digest in a list."""


add_list_command(
    app,
    "/v1/skills",
    {
        "skill": "name",
        "version": "version",
        "digest": lambda skill: (skill["digest"] or "")[:_DIGEST_CHARS],
        "purpose": lambda skill: skill["problem"] or skill["description"].partition("\n")[0],
    },
    help="List the skills in the configured folders.",
    none="no skills yet: `hostler skills add FOLDER` adds some, `hostler apply FILE` many",
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
    folder: Annotated[Path, typer.Argument(help="A folder with a SKILL.md, or with such folders.")],
    as_json: JsonOption = False,
) -> None:
    """Add a folder of skills to the configuration."""
    add_entry(server, "skills", {"path": str(folder)}, as_json=as_json)


@app.command("remove")
@server_command
def remove_skills(
    server: Server,
    folder: Annotated[Path, typer.Argument(help="The folder, as in `add`.")],
    as_json: JsonOption = False,
) -> None:
    """Remove a folder of skills from the configuration. Active runs keep the text they have read."""
    remove_entry(server, "skills", str(Path.cwd() / folder), as_json=as_json)


@app.command("confirm")
@server_command
def confirm_skill(
    server: Server,
    skill: SkillArgument,
    digest: Annotated[
        str | None, typer.Option(help="The digest of the version you reviewed; default: the current one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Allow agents to use a skill after its files have changed."""

    async def confirm(api: Api) -> dict[str, Any]:
        wanted = digest
        if wanted is None:
            wanted = (await api.get(route("skills", skill)))["digest"]
        found: dict[str, Any] = await api.post(route("skills", skill, "confirm"), {"digest": wanted or ""})
        return found

    record = server.ask(confirm)
    write_done(record, f"{record['name']} may be used in this version: {record['digest']}", as_json=as_json)


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
