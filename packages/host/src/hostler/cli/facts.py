"""The facts of a data directory, opened beside a server that may have them open as well."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hostler.cli.options import data_directory
from hostler.cli.output import errors_told
from hostler_protocol.errors import ConflictError, InvalidArgumentError

if TYPE_CHECKING:
    from hostler.sql.database import SqlDatabase

T = TypeVar("T")


@asynccontextmanager
async def opened_facts(data_dir: Path) -> AsyncIterator[SqlDatabase]:
    """The database. InvalidArgumentError without one; ConflictError beside a server of another version."""
    from hostler.lock import read_holder
    from hostler.sql.opening import open_database
    from hostler.version import VERSION

    where = os.environ.get("HOSTLER_DATABASE") or str(data_dir / "hostler.db")
    if "://" not in where and not os.path.isfile(where):  # noqa: PTH113, ASYNC240 - one look, before anything runs
        raise InvalidArgumentError(f"there are no facts in {data_dir}: name the data directory with --data")
    holder = read_holder(data_dir)
    if holder is not None and holder.version != VERSION:
        raise ConflictError(
            f"process {holder.pid} of hostler {holder.version} has {data_dir}; this is hostler {VERSION}: "
            "use the same version, or stop it first"
        )
    database = await asyncio.to_thread(open_database, where, readers=1)
    try:
        yield database
    finally:
        await database.close()


def with_data(data: Path | None, work: Callable[[Path], Coroutine[Any, Any, T]]) -> T:
    """Do something with a data directory, for one command; errors end the command with one line."""
    with errors_told(usage=InvalidArgumentError):
        return asyncio.run(work(data_directory(data)))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    with contextlib.closing(_Descriptor(folder)) as opened:
        os.fsync(opened.fd)


class _Descriptor:
    def __init__(self, folder: Path) -> None:
        self.fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def close(self) -> None:
        os.close(self.fd)
