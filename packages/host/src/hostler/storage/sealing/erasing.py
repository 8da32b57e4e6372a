"""Crypto-erasure: destroy data keys that seal nothing any more, then replace every key above them.

Old copies of the database (backups, replicas, the write-ahead log) hold the destroyed keys, wrapped by keys
that are still in use. So those are replaced, up to the erasure key, which is in no copy: its old version is
destroyed last, and with it whatever is in old copies. Keys that stay are moved to the new ones, a bounded
number in each transaction; in between all of them open. After an interruption `erase` goes on with the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import NamedTuple, TypeVar

from hostler.storage.port import Database, Row, Tx
from hostler.storage.sealing.columns import WORDS_OF_BASE, conversation_group, named_by
from hostler.storage.sealing.keyring import Sealer
from hostler.storage.sealing.rows import heads, sealed_by
from hostler.storage.sealing.tx import SealingTx
from hostler.storage.sql.statements import load
from hostler.storage.stores import installation

STEP_KEYS = 200
"""Keys of one transaction: it takes a few milliseconds."""
CLAIM = "erasing"
"""The name under which a shared database notes until when a host has the right to erase."""
CLAIM_MS = 60_000
CLAIM_POLL_SECONDS = 0.2
ERASURE_KEY = "erasure key"
"""The name under which the database notes which erasure key is the current one."""
BUCKETS = (
    "event",
    "run",
    "journal",
    "pause",
    "item",
    "artifact",
    "upload",
    "state",
    "storage",
    "answer",
    "channel",
    "outbox",
    "schedule",
    "document",
)

_q = load(__file__.replace("erasing.py", "keys.py"))
T = TypeVar("T")


def _nothing(tx: Tx) -> None:
    """Note nothing."""


class Eraser:
    """Destroys keys of a database that seals. One erasure at a time; several at once share the last step."""

    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer
        self._erasure_key = sealer.erasure
        self._turn = asyncio.Lock()

    async def destroy_unused(self, workspace_id: str, conversation_ids: Iterable[str] = ()) -> int:
        """Destroy the data keys of conversations, and of data without one, that seal no row any more.

        Return their number. Old copies still open them, until `erase`.
        """
        names = [(name, f"{name}\x01") for name in map(conversation_group, conversation_ids)]
        names += [(f"{kind}#", f"{kind}$") for kind in BUCKETS]
        destroyed = 0
        for name, name_end in names:
            for group in await self._read(partial(_groups, ws=workspace_id, name=name, name_end=name_end)):
                destroyed += await self._sweep(workspace_id, group)
        return destroyed

    async def destroy_all_unused(self) -> int:
        """Destroy all data keys of the installation that seal nothing any more: what retention left."""
        destroyed = 0
        for workspace in await self._read(lambda tx: tx.all(_q.workspaces)):
            ws, after = workspace["workspace_id"], ""
            while groups := await self._read(partial(_next_groups, ws=ws, after=after)):
                for after in groups:
                    destroyed += await self._sweep(ws, after)
        return destroyed

    async def erase(self) -> str | None:
        """Replace every key above destroyed ones, and the erasure key; None if no key was destroyed.

        Return the id of the new erasure key. Once this returned, no copy of the database from before opens
        what the destroyed keys sealed. StorageError if the erasure key cannot be written: ask again.
        """
        async with self._turn, self._claimed():
            return await self._erase()

    async def _erase(self) -> str | None:
        if not await self._is_due():
            return None
        while True:
            current = await asyncio.to_thread(self._erasure_key.begin)
            # from here on no host wraps a workspace's key with an older one
            if await self._write(partial(self._note_erasure_key, current=current)):
                break
        while retired := await self._read(lambda tx: tx.all(_q.retired, limit=1)):
            await self._replace(retired[0])
        while await self._rewrap():  # until a look finds none under the old one
            pass
        await asyncio.to_thread(self._erasure_key.finish, current)
        return current

    def _note_erasure_key(self, tx: SealingTx, current: str) -> bool:
        """Note which erasure key is the current one.

        False if this host slept since it began it, and another one has begun a newer one: that one stays, and
        copies may have been made since then, so that only a still newer one takes from them what is erased.
        """
        tx.one(_q.erasure_key_alone)
        if self._erasure_key.reread().current_id != current:
            return False
        installation.put(tx, ERASURE_KEY, current.encode())
        return True

    async def erased(self) -> str:
        """`erase`, and return the id of the erasure key of after, also if another erasure had done it all."""
        return await self.erase() or self._erasure_key.reread().current_id

    async def rotate(self, workspace_id: str | None, note: Callable[[Tx], object]) -> tuple[int, str]:
        """Replace the keys of one workspace, or of all, that wrap data keys, and then the erasure key.

        Data keys stay, under new ones; the old ones open nothing that is stored from then on. Return how many
        were replaced, and the id of the erasure key. `note` is called in the first transaction, if any is
        replaced. After an interruption `erase` goes on with the keys that were reached.
        """
        replaced = 0
        async with self._turn, self._claimed():
            for row in await self._read(lambda tx: tx.all(_q.to_rotate, workspace_id=workspace_id)):
                key_id, said = row["key_id"], note if not replaced else _nothing
                replaced += await self._write(partial(self._retire, key_ids=[key_id], note=said))
                while groups := await self._read(partial(_groups_below, parent_id=key_id)):
                    replaced += await self._write(partial(self._retire, key_ids=groups))
            current = await self._erase() or self._erasure_key.reread().current_id
        return replaced, current

    async def rewrap(self) -> int:
        """Wrap the keys of workspaces with the current master key; return how many were not."""
        async with self._turn:
            return await self._rewrap()

    async def _rewrap(self) -> int:
        done, after = 0, ""
        while rows := await self._write(partial(_rewrap_workspaces, sealer=self._sealer, after=after)):
            after = rows[-1].key_id
            done += sum(row.changed for row in rows)
        return done

    @contextlib.asynccontextmanager
    async def _claimed(self) -> AsyncIterator[None]:
        """Keep other hosts on the database from erasing, and wait for one that does."""
        if not self._database.shared:
            yield
            return
        while not await self._write(_claim):  # noqa: ASYNC110  another host tells nobody that it is through
            await asyncio.sleep(CLAIM_POLL_SECONDS)
        try:
            yield
        finally:
            await self._database.write(lambda tx: installation.remove(tx, CLAIM))

    async def _is_due(self) -> bool:
        is_begun = len(self._erasure_key.ring().ids) > 1
        return is_begun or bool(await self._read(lambda tx: tx.all(_q.retired, limit=1)))

    def _retire(self, tx: SealingTx, key_ids: list[str], note: Callable[[Tx], object] = _nothing) -> int:
        """Retire keys, and return how many were in use."""
        _keep_claim(tx, self._sealer)
        retired = sum(tx.retire(key_id) for key_id in key_ids)
        if retired:
            note(tx)
        return retired

    async def _replace(self, retired: Row) -> None:
        """Move all keys below a retired key to its successor, then destroy it."""
        while await self._write(lambda tx: _move_children(tx, self._sealer, retired)):
            pass

    async def _sweep(self, workspace_id: str, group: str) -> int:
        """Destroy the unused data keys below a key."""
        destroyed, after = 0, ""
        while rows := await self._read(partial(_leaves, parent_id=group, after=after)):
            after = rows[-1]["key_id"]
            if unused := await self._read(partial(_unused, ws=workspace_id, keys=rows)):
                destroyed += await self._write(partial(_destroy, ws=workspace_id, keys=unused))
        return destroyed

    async def _read(self, work: Callable[[Tx], T]) -> T:
        return await self._database.read(work)

    async def _write(self, work: Callable[[SealingTx], T]) -> T:
        return await self._database.write(lambda tx: work(_sealing(tx)))


def is_used(tx: Tx, workspace_id: str, key: Row) -> bool:
    """Whether any stored value is sealed with a data key."""
    kind, values = named_by(key["name"])
    if kind == "audit":  # facts are never deleted, and their digests are keyed even where nothing is sealed
        return True
    if kind == "blob":
        return tx.one(_q.stored, name=values[0]) is not None
    if kind == "search":
        base_id = values[0].removeprefix(WORDS_OF_BASE)
        if base_id != values[0] and tx.one(_q.has_base, workspace_id=workspace_id, base_id=base_id):
            return True
        return tx.one(_q.indexed, workspace_id=workspace_id, conversation_id=values[0]) is not None
    params = {f"named_{n}": value for n, value in enumerate(values)} | heads(key["key_id"])
    params["workspace_id"] = workspace_id
    return any(
        tx.one(query, **{name: params[name] for name in set(query.names)}) is not None
        for query in sealed_by(kind)
    )


def _leaves(tx: Tx, parent_id: str, after: str) -> list[Row]:
    return tx.all(_q.leaves, parent_id=parent_id, after=after, limit=STEP_KEYS)


def _unused(tx: Tx, ws: str, keys: list[Row]) -> list[Row]:
    return [key for key in keys if not is_used(tx, ws, key)]


def _destroy(tx: SealingTx, ws: str, keys: list[Row]) -> int:
    """Destroy keys but those that are used by now; return their number."""
    destroyed = 0
    for key in keys:
        held = tx.one(_q.held_alone, key_id=key["key_id"])
        if held is not None and not is_used(tx, ws, key):
            destroyed += tx.destroy_key(key["key_id"])
    return destroyed


def _groups(tx: Tx, ws: str, name: str, name_end: str) -> list[str]:
    rows = tx.all(_q.named_groups, workspace_id=ws, name=name, name_end=name_end)
    return [row["key_id"] for row in rows]


def _groups_below(tx: Tx, parent_id: str) -> list[str]:
    rows = tx.all(_q.groups_below, parent_id=parent_id, after="", limit=STEP_KEYS)
    return [row["key_id"] for row in rows]


def _next_groups(tx: Tx, ws: str, after: str) -> list[str]:
    rows = tx.all(_q.groups, workspace_id=ws, after=after, limit=STEP_KEYS)
    return [row["key_id"] for row in rows]


def _claim(tx: SealingTx) -> bool:
    """Take or renew the right to erase, unless another host has it."""
    until = (tx.now + CLAIM_MS).to_bytes(8)
    return tx.run(_q.claim, name=CLAIM, until=until, now=tx.now.to_bytes(8)) == 1


def _keep_claim(tx: SealingTx, sealer: Sealer) -> None:
    """Renew the right to erase."""
    if sealer.shared:
        installation.put(tx, CLAIM, (tx.now + CLAIM_MS).to_bytes(8))


def _move_children(tx: SealingTx, sealer: Sealer, retired: Row) -> int:
    """Wrap the next keys below a retired key with its successor, and return their number; destroy it at 0."""
    key_id = retired["key_id"]
    _keep_claim(tx, sealer)
    if tx.one(_q.held_alone, key_id=key_id) is None:
        return 0
    rows = tx.all(_q.below, parent_id=key_id, after="", limit=STEP_KEYS)
    if not rows:
        tx.run(_q.destroy, key_id=key_id)
        tx.change.destroyed.add(key_id)
        return 0
    parent = tx.key_named(retired["workspace_id"], retired["name"])
    for row in rows:
        wrapped = sealer.wrap(tx.open_row(row), row["workspace_id"], parent)
        tx.run(_q.rewrap, key_id=row["key_id"], parent_id=parent.key_id, wrapped=wrapped)
    return len(rows)


class _Rewrapped(NamedTuple):
    key_id: str
    changed: bool


def _rewrap_workspaces(tx: SealingTx, sealer: Sealer, after: str) -> list[_Rewrapped]:
    """Wrap the next keys of workspaces with the current keys outside, where they are not."""
    done: list[_Rewrapped] = []
    tx.check_erasure_key()  # also of a host that has slept since it looked
    for row in tx.all(_q.of_workspaces_alone, after=after, limit=STEP_KEYS):
        wrapped = sealer.rewrapped(row)
        if wrapped is not None:
            tx.run(_q.rewrap, key_id=row["key_id"], parent_id=None, wrapped=wrapped)
        done.append(_Rewrapped(row["key_id"], wrapped is not None))
    return done


def _sealing(tx: Tx) -> SealingTx:
    if not isinstance(tx, SealingTx):
        raise RuntimeError("keys are destroyed in transactions that seal")
    return tx
