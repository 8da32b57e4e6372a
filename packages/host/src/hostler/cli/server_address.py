"""The server that a command uses.

It is the one named by `--url` and `--key` (or HOSTLER_URL and HOSTLER_KEY); else the server that has the data
directory open, with the admin key in it; else the data directory itself, opened in this process.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hostler.cli.options import data_directory
from hostler.domain.record import Record
from hostler_protocol.errors import ConflictError, InvalidArgumentError, UnauthorizedError

if TYPE_CHECKING:
    from hostler.cli.client import Api


class Address(Record):
    """A server and a key for it."""

    url: str
    key: str


def find_server(url: str | None, key: str | None, data_dir: Path) -> Address | None:
    """Return the server to use; None if no URL is given and no process has the data directory.

    UnauthorizedError if no key is known; ConflictError if the process serves no HTTP.
    """
    from hostler.host.lock import read_holder
    from hostler.http.admin_key import read_admin_key

    if url is not None:
        if not key:
            raise UnauthorizedError(f"{url} needs a key: give it with --key or HOSTLER_KEY")
        return Address(url, key)
    holder = read_holder(data_dir)
    if holder is None:
        return None
    if holder.url is None:
        raise ConflictError(
            f"the data directory {data_dir} is in use by process {holder.pid}, which serves no HTTP (yet); "
            "try again when it is done, or give --data another directory"
        )
    server_key = key or os.environ.get("HOSTLER_ADMIN_KEY") or read_admin_key(data_dir)
    if server_key is None:
        raise UnauthorizedError(f"{holder.url} needs a key: give it with --key or HOSTLER_KEY")
    return Address(holder.url, server_key)


@asynccontextmanager
async def reach(
    url: str | None, key: str | None, data: Path | None, *, running: bool = False, database: str | None = None
) -> AsyncIterator[Api]:
    """Enter with the API of the server to use.

    If no server runs, the data directory is opened, with `database` (default: HOSTLER_DATABASE, else SQLite
    in the directory). With `running`, InvalidArgumentError instead.
    """
    from hostler.cli.client import Api

    data_dir = data_directory(data)
    address = find_server(url, key, data_dir)
    if address is None and running:
        raise InvalidArgumentError(
            f"no server runs on {data_dir}: start one with `hostler serve --data {data_dir}`, "
            "or name one with --url and --key"
        )
    if address is None:
        from hostler.cli.in_process import InProcessTransport

        wire = InProcessTransport(data_dir, database or os.environ.get("HOSTLER_DATABASE"))
        api = Api(wire, "http://localhost", wire.key, in_process=True)
    else:
        api = Api.at(address.url, address.key)
    try:
        yield api
    finally:
        await api.close()
