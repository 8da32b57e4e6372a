"""`hostler backup` and `hostler restore`: a folder that holds everything, made while the server runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.options import DatabaseOption, DataOption, JsonOption, NoKeyOption, NoUrlOption
from hostler.cli.output import note, write_json

if TYPE_CHECKING:
    from hostler.cli.archive import BackupNote
    from hostler.cli.database import Facts


def backup(
    ctx: typer.Context,
    target: Annotated[Path, typer.Argument(help="A new folder for the backup.")],
    as_json: JsonOption = False,
    data: DataOption = None,
    database: DatabaseOption = None,
    url: NoUrlOption = None,
    key: NoKeyOption = None,
) -> None:
    """Copy everything into a new folder, also while a server is at work: one consistent state.

    Left out are the admin key, logs, and the environments of plugins, which are built again. PostgreSQL has
    pg_dump for its part.
    """

    from hostler.cli.archive import back_up
    from hostler.cli.database import with_facts

    async def work(facts: Facts) -> BackupNote:
        return await back_up(facts, target.expanduser().resolve())

    del key
    made = with_facts(ctx, data, database, url, work)
    if as_json:
        write_json(made)
    else:
        note(f"{target} holds the database and {made.blobs:,} blobs ({made.blob_bytes:,} bytes)")


def restore(
    ctx: typer.Context,
    source: Annotated[Path, typer.Argument(help="A folder that `hostler backup` made.")],
    as_json: JsonOption = False,
    data: DataOption = None,
    database: DatabaseOption = None,
    url: NoUrlOption = None,
    key: NoKeyOption = None,
) -> None:
    """Put a backup into a data directory that holds no facts yet. Everything is checked on the way."""

    from hostler.cli.archive import put_back
    from hostler.cli.database import with_facts

    async def work(facts: Facts) -> BackupNote:
        return await put_back(source.expanduser().resolve(), facts)

    del key
    found = with_facts(ctx, data, database, url, work)
    if as_json:
        write_json(found)
    else:
        note(
            f"restored the database and {found.blobs:,} blobs; `hostler audit verify` checks the hash chains"
        )
