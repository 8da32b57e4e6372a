"""Heads of the hash chains, noted in a file beside the database: what was cut off or rewritten shows.

The file holds the latest head of each chain. A head is replaced only while the chain still holds it, so that
what was done to the database while no host ran does not become right by the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from hostler.host.data_directory import replace_file
from hostler.storage.port import Database, Tx
from hostler.storage.stores import hash_chain
from hostler.storage.stores.verification import Noted
from hostler_protocol.errors import HostlerError, InvalidArgumentError

log = logging.getLogger(__name__)

FILE_NAME = "audit-heads.json"
MAX_FILE_BYTES = 64 * 1024 * 1024
"""Some 300,000 workspaces."""
_PAGE = 1_000
_decoder = msgspec.json.Decoder(list[Noted])


def read_noted(path: Path) -> list[Noted]:
    """The heads in a file: one that a host wrote, or what `hostler audit verify --json` printed.

    InvalidArgumentError where it is missing, or something else.
    """
    try:
        with path.open("rb") as file:
            return _decoder.decode(file.read(MAX_FILE_BYTES))
    except FileNotFoundError:
        raise InvalidArgumentError(f"{path}: no such file") from None
    except OSError as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise InvalidArgumentError(
            f"{path} holds no heads of chains ({error}): name a file that `hostler audit verify --json` made"
        ) from error


def read_own(data_dir: Path) -> list[Noted]:
    """The heads that the hosts of a data directory noted; none where there is no file."""
    path = data_dir / FILE_NAME
    return read_noted(path) if path.exists() else []


class AuditHeads:
    """Keeps the file of a data directory. Several hosts on one database have one each."""

    def __init__(self, database: Database, data_dir: Path) -> None:
        self._database = database
        self._path = data_dir / FILE_NAME
        self._noted: dict[tuple[str, str], Noted] | None = None
        self.broken: dict[tuple[str, str], str] = {}
        """Chains that no longer hold what was noted, with a sentence; they are noted no further."""

    async def note(self) -> None:
        """Note where the chains end now. StorageError where the file cannot be written, or the database read.

        InvalidArgumentError where the file is there and holds something else.
        """
        if self._noted is None:
            found = await asyncio.to_thread(read_own, self._path.parent)
            self._noted = {(one.workspace, one.chain): one for one in found}
        known = self._noted
        changed = await self._database.read(lambda tx: list(self._changed(tx, known)))
        if changed:
            after = known | {(one.workspace, one.chain): one for one in changed}
            await asyncio.to_thread(replace_file, self._path, msgspec.json.encode(list(after.values())))
            self._noted = after

    async def keep(self, every_seconds: float, succeeded: Callable[[], None] = lambda: None) -> None:
        """Note them every so often. A worker of the host."""
        while True:
            await asyncio.sleep(every_seconds)
            await self.try_note()
            succeeded()

    async def try_note(self) -> None:
        """Note where the chains end now, or log why that cannot be done; the next time will do it."""
        try:
            await self.note()
        except HostlerError as error:
            log.warning("the heads of the hash chains are not noted now: %s", error.message)

    def _changed(self, tx: Tx, known: dict[tuple[str, str], Noted]) -> Iterable[Noted]:
        """The heads that moved since they were noted, of chains that still hold what was noted."""
        left = dict(known)
        for head in _heads(tx):
            key = (head.workspace_id, head.chain)
            before = left.pop(key, None)
            if before is not None and (before.seq, before.head) == (head.link.seq, head.link.digest):
                continue
            if before is None or self._holds(tx, before):
                yield Noted(workspace=key[0], chain=head.chain, seq=head.link.seq, head=head.link.digest)
        for before in left.values():
            self._holds(tx, before)

    def _holds(self, tx: Tx, before: Noted) -> bool:
        """Whether a chain holds what was noted; where not, that is said once."""
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
