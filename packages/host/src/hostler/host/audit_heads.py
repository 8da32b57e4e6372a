"""Heads of the hash chains, recorded in a file outside the database, to detect truncated and rewritten
chains.

The file has the latest head of each chain. A head is replaced only while the chain still contains it, so that
the next start does not legitimize a manipulation made while no host was running.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from hostler.domain.audit_anchors import ChainEnd
from hostler.host.data_directory import replace_file
from hostler.storage.port import Database, Tx
from hostler.storage.stores import hash_chain, installation
from hostler.storage.stores.verification import Noted
from hostler_protocol.errors import HostlerError, InvalidArgumentError

log = logging.getLogger(__name__)

FILE_NAME = "audit-heads.json"
MAX_FILE_BYTES = 64 * 1024 * 1024
"""Some 300,000 workspaces."""
_PAGE = 1_000
_decoder = msgspec.json.Decoder(list[ChainEnd])


def read_noted(path: Path) -> list[Noted]:
    """Read the heads in a file that a host wrote, or in the output of `hostler audit verify --json`.

    InvalidArgumentError if it is missing or something else.
    """
    try:
        with path.open("rb") as file:
            return [Noted(head, str(path)) for head in _decoder.decode(file.read(MAX_FILE_BYTES))]
    except FileNotFoundError:
        raise InvalidArgumentError(f"{path}: no such file") from None
    except OSError as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise InvalidArgumentError(
            f"{path} holds no heads of chains ({error}): name a file with anchors, or one that "
            "`hostler audit verify --json` made"
        ) from error


def read_own(data_dir: Path) -> list[Noted]:
    """Read the heads recorded in a data directory; none if there is no file."""
    path = data_dir / FILE_NAME
    return read_noted(path) if path.exists() else []


class AuditHeads:
    """Maintains the file of a data directory. Each of several hosts on one database has its own."""

    def __init__(self, database: Database, data_dir: Path) -> None:
        self._database = database
        self._path = data_dir / FILE_NAME
        self._noted: dict[tuple[str, str], ChainEnd] | None = None
        self.broken: dict[tuple[str, str], str] = {}
        """Chains that no longer contain their recorded head -> message. They are not recorded any more."""

    async def note(self) -> None:
        """Record the current heads.

        StorageError if the file cannot be written or the database not read; InvalidArgumentError if the file
        contains something else.
        """
        if self._noted is None:
            recorded = await asyncio.to_thread(read_own, self._path.parent)
            self._noted = {(one.end.workspace, one.end.chain): one.end for one in recorded}
        known = self._noted
        changed = await self._database.read(lambda tx: list(self._changed(tx, known)))
        if changed:
            await installation.make_durable(self._database)  # a power cut is no manipulation
            after = known | {(head.workspace, head.chain): head for head in changed}
            await asyncio.to_thread(replace_file, self._path, msgspec.json.encode(list(after.values())))
            self._noted = after

    async def keep(self, every_seconds: float, succeeded: Callable[[], None] = lambda: None) -> None:
        """Record the heads every `every_seconds`. A worker of the host."""
        while True:
            await asyncio.sleep(every_seconds)
            await self.try_note()
            succeeded()

    async def try_note(self) -> None:
        """Record the current heads, or log why that failed."""
        try:
            await self.note()
        except HostlerError as error:
            log.warning("the heads of the hash chains are not noted now: %s", error.message)

    def _changed(self, tx: Tx, known: dict[tuple[str, str], ChainEnd]) -> Iterable[ChainEnd]:
        """Yield the heads that moved, of chains that still contain their recorded head."""
        left = dict(known)
        for head in _heads(tx):
            key = (head.workspace_id, head.chain)
            before = left.pop(key, None)
            if before is not None and (before.seq, before.head) == (head.link.seq, head.link.digest):
                continue
            if before is None or self._holds(tx, before):
                yield ChainEnd(workspace=key[0], chain=head.chain, seq=head.link.seq, head=head.link.digest)
        for before in left.values():
            self._holds(tx, before)

    def _holds(self, tx: Tx, before: ChainEnd) -> bool:
        """Whether a chain contains its recorded head. Logs an error once per chain if not."""
        key = (before.workspace, before.chain)
        if key in self.broken:
            return False
        if hash_chain.digest_at(tx, before.workspace, before.chain, before.seq) == before.head:
            return True
        self.broken[key] = (
            f"the chain {before.chain} of workspace {before.workspace} no longer holds row {before.seq} as "
            f"noted in {self._path}: rows were cut off or rewritten; `hostler audit verify` says more. "
            "Where an older copy of the database was put back on purpose, delete that file"
        )
        log.error("%s", self.broken[key])
        return False


def _heads(tx: Tx) -> Iterable[hash_chain.Head]:
    after = ("", "")
    while page := hash_chain.heads(tx, after=after, limit=_PAGE):
        yield from page
        after = (page[-1].workspace_id, page[-1].chain)
