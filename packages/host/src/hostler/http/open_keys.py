"""The keys and sessions of connections that stay open: streams, waiting requests, remote plugins.

A connection ends with its key or session: at once if that is revoked on this host or expires; within
KEY_CACHE_SECONDS if it is revoked on another host. It also ends if the role of its member changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial

from hostler.domain.events import Caller
from hostler.domain.members import session_of_credential
from hostler.http.auth import ADMIN_KEY_ID, KeyHolder, KeysUntil, caller_of, ends_with, token_caller
from hostler.http.limits import KEY_CACHE_SECONDS
from hostler.http.problems import UnauthenticatedError
from hostler.http.sessions import present_caller
from hostler.storage.port import Database, Tx
from hostler.storage.stores import api_keys, sessions, tokens

ENDED = "this key or session is no longer valid: it has expired, or was revoked"
CLOCK_SECONDS = 0.01
"""After an expiry; the clocks of host and database may be so far apart."""
KEYS_AT_ONCE = 500
"""Keys that are looked up in one transaction."""
FindEnded = Callable[[Iterable[Caller]], Awaitable[set[str]]]
"""Callers -> the ids of those keys and sessions that are revoked or expired."""


def find_ended(db: Database, vouches: Callable[[str], bool], keys_until: KeysUntil) -> FindEnded:
    """Return the lookup in the database.

    `vouches`: whether sessions of an issuer are valid at all; `keys_until`: until when personal keys act.
    """

    async def find(callers: Iterable[Caller]) -> set[str]:
        ended: set[str] = set()
        left = list(callers)
        while left:
            some, left = left[:KEYS_AT_ONCE], left[KEYS_AT_ONCE:]
            ended |= await db.read(partial(_ended, some, vouches, keys_until))
        return ended

    return find


def _ended(
    callers: Iterable[Caller], vouches: Callable[[str], bool], keys_until: KeysUntil, tx: Tx
) -> set[str]:
    return {one.credential_id for one in callers if _has_ended(tx, one, vouches, keys_until)}


def _has_ended(tx: Tx, caller: Caller, vouches: Callable[[str], bool], keys_until: KeysUntil) -> bool:
    if (session_id := session_of_credential(caller.credential_id)) is not None:
        session = sessions.find(tx, caller.workspace_id, session_id)
        if session is None or not session.is_valid(tx.now) or not vouches(session.issuer):
            return True
        present = present_caller(tx, session, keys_until)
        return present is None or present[0] != caller
    if caller.scope is not None:
        token = tokens.find(tx, caller.workspace_id, caller.credential_id)
        holder = None if token is None else token_caller(tx, token, keys_until)
        return holder is None or holder[0] != caller
    key = api_keys.find(tx, caller.workspace_id, caller.credential_id)
    if key is None or not key.is_valid(tx.now):
        return True
    if key.member_id is not None:
        found = caller_of(tx, key, keys_until)
        if found is None or found[0] != caller:
            return True
    return False


@dataclass(eq=False, slots=True)
class _Use:
    """One connection. `end` ends it."""

    end: Callable[[], None]


@dataclass(eq=False, slots=True)
class _OpenKey:
    holder: KeyHolder
    uses: set[_Use] = field(default_factory=set)


class OpenKeys:
    """The keys in use by connections that stay open. `now`: UTC epoch seconds."""

    def __init__(
        self,
        find: FindEnded,
        *,
        now: Callable[[], float] = time.time,
        look_seconds: float = KEY_CACHE_SECONDS,
    ) -> None:
        self._find_ended = find
        self._now = now
        self._look_seconds = look_seconds
        self._open: dict[str, _OpenKey] = {}
        self._any = asyncio.Event()
        """Set while a key is in use."""
        self._new = asyncio.Event()
        """Set when one comes into use that expires before the next look."""
        self._look_at = 0.0
        """When the next look is due (UTC epoch seconds)."""

    @property
    def count(self) -> int:
        """The number of keys in use."""
        return len(self._open)

    @asynccontextmanager
    async def held(
        self, holder: KeyHolder | None, *, before: Callable[[], None] = lambda: None
    ) -> AsyncIterator[None]:
        """Cancel the block when the key ends, and raise UnauthenticatedError. `before` is called first.

        The administrator's key ends with the process; None is no key.
        """
        task = asyncio.current_task()
        if holder is None or holder.caller.credential_id == ADMIN_KEY_ID or task is None:
            yield
            return
        ended = False

        def end() -> None:
            nonlocal ended
            if not ended:
                ended = True
                before()
                task.cancel()

        with self._in_use(holder, _Use(end)):
            try:
                yield
            except asyncio.CancelledError:
                if not ended or task.uncancel() > 0:
                    raise
                raise UnauthenticatedError(ENDED) from None

    def end(self, key_id: str) -> None:
        """End the connections of a key, token or session, and of the tokens that a key made."""
        for found in [one for one in self._open.values() if ends_with(one.holder, key_id)]:
            for use in list(found.uses):
                use.end()

    async def keep(self, succeeded: Callable[[], None]) -> None:
        """End the connections of keys that expire, or are revoked on another host. A worker of the host."""
        loop = asyncio.get_running_loop()
        looked = loop.time()
        while True:
            await self._any.wait()
            self._new.clear()
            # counted from the last look: keys that come and go all the time put it off no further
            wait = min(self._seconds_to_expiry(), max(0.0, looked + self._look_seconds - loop.time()))
            self._look_at = self._now() + wait
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._new.wait()
                    continue
            looked = loop.time()
            for key_id in await self._find_ended([one.holder.caller for one in self._open.values()]):
                self.end(key_id)
            succeeded()

    def _seconds_to_expiry(self) -> float:
        """Return the seconds until the next key expires."""
        left = [
            one.holder.expires_at / 1000 - self._now()
            for one in self._open.values()
            if one.holder.expires_at is not None
        ]
        # one that should have expired has not, by the clock of the database: that is for the next look
        return min((seconds + CLOCK_SECONDS for seconds in left if seconds > 0), default=math.inf)

    @contextmanager
    def _in_use(self, holder: KeyHolder, use: _Use) -> Iterator[None]:
        key_id = holder.caller.credential_id
        opened = self._open.get(key_id)
        if opened is None:
            opened = self._open[key_id] = _OpenKey(holder)
            self._any.set()
            if holder.expires_at is not None and holder.expires_at / 1000 < self._look_at:
                self._new.set()
        opened.uses.add(use)
        try:
            yield
        finally:
            opened.uses.discard(use)
            if not opened.uses:
                del self._open[key_id]
                if not self._open:
                    self._any.clear()
