"""The database and data directory, opened by a command while a server may have them open as well.

Commands such as `hostler backup` need the data directory and the database. They cannot work through the URL
of a server, and refuse it instead of using the local directory.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from hostler.cli.options import data_directory
from hostler.cli.output import report_errors
from hostler.domain.record import Record
from hostler_protocol.errors import ConflictError, InvalidArgumentError

if TYPE_CHECKING:
    from hostler.storage.sql.database import SqlDatabase

T = TypeVar("T")


class StorageLocation(Record):
    """A data directory and its database; `database` None: SQLite in the directory."""

    data_dir: Path
    database: str | None = None

    @property
    def is_postgres(self) -> bool:
        """Whether the database is PostgreSQL, which has its own tools for copying."""
        return (self.database or "").startswith("postgres")


def find_storage(
    ctx: typer.Context, data: Path | None, database: str | None, url: str | None
) -> StorageLocation:
    """Return the storage that a command's options name. Options override environment variables.

    InvalidArgumentError if they name a server instead.
    """
    if url is not None:
        by_option = _on_command_line(ctx, "url")
        if by_option or not (_on_command_line(ctx, "data") or _on_command_line(ctx, "database")):
            named = "--url" if by_option else "HOSTLER_URL"
            raise InvalidArgumentError(
                f"`{ctx.command_path}` works on the database and files directly, not over HTTP, but {named} "
                f"names the server {url}: run it on that server's machine with --data DIR (and "
                "--database URL for PostgreSQL)"
            )
    return StorageLocation(data_directory(data), database or None)


def _on_command_line(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@asynccontextmanager
async def open_storage(location: StorageLocation, *, content: bool = False) -> AsyncIterator[SqlDatabase]:
    """Open the database during the block. `content`: with the keys that open what is sealed in it.

    InvalidArgumentError if there is none, or it does not belong to the directory; ConflictError if a server
    of another version has it open.
    """
    from hostler.host.data_directory import check_address, check_database, own_database
    from hostler.host.lock import read_holder
    from hostler.storage.sql.connect import open_database
    from hostler.storage.stores import installation
    from hostler.version import VERSION

    check_address(location.data_dir, location.database)
    where = location.database or str(own_database(location.data_dir))
    file = None if where.startswith("postgres") else where.removeprefix("sqlite://")
    if file is not None and not os.path.isfile(file):  # noqa: PTH113, ASYNC240 - one check, before anything runs
        raise InvalidArgumentError(
            f"there is no database in {location.data_dir}: name the data directory with --data, or the "
            "database with --database"
        )
    holder = read_holder(location.data_dir)
    if holder is not None and holder.version != VERSION:
        raise ConflictError(
            f"process {holder.pid} of hostler {holder.version} uses {location.data_dir}, but this is hostler "
            f"{VERSION}: use the same version, or stop that process first"
        )
    database = await asyncio.to_thread(open_database, where, readers=1)
    try:
        identity = await database.read(installation.known_identity)
        check_database(location.data_dir, location.database, identity)
        if content:
            from hostler.host.content_sealing import open_content

            await open_content(database, location.data_dir)
        yield database
    finally:
        await database.close()


def with_storage(
    ctx: typer.Context,
    data: Path | None,
    database: str | None,
    url: str | None,
    work: Callable[[StorageLocation], Coroutine[Any, Any, T]],
) -> T:
    """Run the work of a command on its storage; a HostlerError ends the command with one line."""
    with report_errors(usage=InvalidArgumentError):
        return asyncio.run(work(find_storage(ctx, data, database, url)))


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names of its files survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
