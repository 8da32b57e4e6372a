"""The facts themselves, opened by a command beside a server that may have them open as well.

Commands on the facts need the data directory and the database. They cannot work through the URL of a server,
and never take another directory in its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from hostler.cli.options import data_directory
from hostler.cli.output import errors_told
from hostler_protocol.errors import ConflictError, InvalidArgumentError

if TYPE_CHECKING:
    from hostler.storage.sql.database import SqlDatabase

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Facts:
    """A data directory and its database; `database` None: SQLite, in the directory."""

    data_dir: Path
    database: str | None = None

    @property
    def is_postgres(self) -> bool:
        """Whether the database has tools of its own for copying it."""
        return (self.database or "").startswith("postgres")


def find_facts(ctx: typer.Context, data: Path | None, database: str | None, url: str | None) -> Facts:
    """The facts that a command's options name; what the command line says goes before the environment.

    InvalidArgumentError where a server is named instead.
    """
    if url is not None:
        by_option = _on_command_line(ctx, "url")
        if by_option or not (_on_command_line(ctx, "data") or _on_command_line(ctx, "database")):
            named = "--url" if by_option else "HOSTLER_URL"
            raise InvalidArgumentError(
                f"`{ctx.command_path}` works on the database and the files themselves, not over HTTP, and "
                f"{named} names the server {url}: run it on that server's machine with --data DIR (and "
                "--database URL where its facts are in PostgreSQL)"
            )
    return Facts(data_directory(data), database or None)


def _on_command_line(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@asynccontextmanager
async def opened_facts(facts: Facts) -> AsyncIterator[SqlDatabase]:
    """The database.

    InvalidArgumentError without one, or where it is not the directory's; ConflictError beside a server of
    another version.
    """
    from hostler.host.data_directory import check_address, check_database, own_database
    from hostler.host.lock import read_holder
    from hostler.storage.sql.connect import open_database
    from hostler.storage.stores import installation
    from hostler.version import VERSION

    check_address(facts.data_dir, facts.database)
    where = facts.database or str(own_database(facts.data_dir))
    file = None if where.startswith("postgres") else where.removeprefix("sqlite://")
    if file is not None and not os.path.isfile(file):  # noqa: PTH113, ASYNC240 - one look, before anything runs
        raise InvalidArgumentError(
            f"there are no facts in {facts.data_dir}: name the data directory with --data, or the database "
            "with --database"
        )
    holder = read_holder(facts.data_dir)
    if holder is not None and holder.version != VERSION:
        raise ConflictError(
            f"process {holder.pid} of hostler {holder.version} has {facts.data_dir}; this is hostler "
            f"{VERSION}: use the same version, or stop it first"
        )
    database = await asyncio.to_thread(open_database, where, readers=1)
    try:
        identity = await database.read(installation.known_identity)
        check_database(facts.data_dir, facts.database, identity)
        yield database
    finally:
        await database.close()


def with_facts(
    ctx: typer.Context,
    data: Path | None,
    database: str | None,
    url: str | None,
    work: Callable[[Facts], Coroutine[Any, Any, T]],
) -> T:
    """Do something with the facts, for one command; errors end the command with one line."""
    with errors_told(usage=InvalidArgumentError):
        return asyncio.run(work(find_facts(ctx, data, database, url)))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    with contextlib.closing(_Descriptor(folder)) as opened:
        os.fsync(opened.fd)


class _Descriptor:
    def __init__(self, folder: Path) -> None:
        self.fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def close(self) -> None:
        os.close(self.fd)
