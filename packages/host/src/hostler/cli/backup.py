"""`hostler backup` and `hostler restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.options import DatabaseOption, DataOption, JsonOption, NoKeyOption, NoUrlOption
from hostler.cli.output import note, write_json

if TYPE_CHECKING:
    from hostler.cli.archive import BackupNote
    from hostler.cli.database import StorageLocation


def backup(
    ctx: typer.Context,
    target: Annotated[Path, typer.Argument(help="A folder for the backup, which must not exist yet.")],
    as_json: JsonOption = False,
    data: DataOption = None,
    database: DatabaseOption = None,
    url: NoUrlOption = None,
    key: NoKeyOption = None,
) -> None:
    """Copy the database and files into a new folder as one consistent state, also while a server runs.

    The admin key, logs and the environments of plugins are left out;
    environments are built again when needed. With PostgreSQL, use pg_dump.
    """
    from hostler.cli.archive import back_up
    from hostler.cli.database import with_storage

    async def work(location: StorageLocation) -> BackupNote:
        return await back_up(location, target.expanduser().resolve())

    del key
    made = with_storage(ctx, data, database, url, work)
    if as_json:
        write_json(made)
    else:
        note(f"copied the database and {made.blobs:,} blobs ({made.blob_bytes:,} bytes) to {target}")


def restore(
    ctx: typer.Context,
    source: Annotated[Path, typer.Argument(help="A folder that `hostler backup` wrote.")],
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            metavar="FOLDER",
            help="A later backup or a data directory, whose keys open this one. For sealed content, after an "
            "erasure.",
        ),
    ] = None,
    as_json: JsonOption = False,
    data: DataOption = None,
    database: DatabaseOption = None,
    url: NoUrlOption = None,
    key: NoKeyOption = None,
) -> None:
    """Restore a backup into a data directory without a database. Every file is verified.

    Content that was sealed needs the master key and the erasure key, which
    no backup contains. What was erased after the backup was made is
    removed with --keys; without them such a backup cannot be read.
    """
    from hostler.cli.archive import restore_backup
    from hostler.cli.database import with_storage

    async def work(location: StorageLocation) -> BackupNote:
        later = None if keys is None else keys.expanduser().resolve() / "hostler.db"
        return await restore_backup(source.expanduser().resolve(), location, keys=later)

    del key
    found = with_storage(ctx, data, database, url, work)
    if as_json:
        write_json(found)
    else:
        note(
            f"restored the database and {found.blobs:,} blobs; `hostler audit verify` checks the hash chains"
        )
