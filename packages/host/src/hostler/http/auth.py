"""Authentication by bearer keys, and their rights. People who sign in have sessions: http/sessions.py.

Keys are stored by digest (storage/stores/api_keys.py). The administrator's key is any string that an operator
chose; it is compared by digest, in constant time.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Literal, get_args

from hostler.domain.api_keys import FRONT_END_PREFIX
from hostler.domain.events import Caller, CallerScope
from hostler.domain.narrow_callers import narrow_caller, subject_of_conversation
from hostler.domain.record import Record
from hostler.domain.token_bucket import TokenBuckets
from hostler.domain.widgets import subject_of_visitor, widget_of
from hostler.http.limits import (
    FAILED_AUTH_BURST,
    FAILED_AUTH_PER_SECOND,
    KEY_CACHE_SECONDS,
    MAX_CACHED_KEYS,
    MAX_RATE_BUCKETS,
    MAX_TOKEN_CHARS,
)
from hostler.http.problems import UnauthenticatedError
from hostler.http.proxies import rate_key
from hostler.storage.port import Database, Tx
from hostler.storage.stores import api_keys, members, tokens, widgets
from hostler.storage.stores.api_keys import ApiKey
from hostler.storage.stores.sessions import Session
from hostler.storage.stores.tokens import Token
from hostler_protocol.errors import RateLimitedError, UnauthorizedError

Right = Literal[
    "events:read",
    "events:write",
    "runs:read",
    "runs:write",
    "conversations:read",
    "conversations:write",
    "agents:read",
    "agents:write",
    "artifacts:read",
    "artifacts:write",
    "pauses:read",
    "pauses:write",
    "pauses:decide_blind",
    "plugins:read",
    "models:read",
    "knowledge:read",
    "knowledge:write",
    "usage:read",
    "budgets:read",
    "budgets:write",
    "audit:read",
    "secrets:read",
    "secrets:write",
    "plugins:connect",
    "workers:read",
    "workers:write",
    "workers:connect",
    "tokens:subject",
    "admin",
    "installation",
]
"""`tokens:subject`: naming the person for whom a front-end token acts. `admin`: everything in the key's
workspace. `installation`: that, and all that workspaces share
(configuration, logs of plugins, metrics, keys of other workspaces)."""
RIGHTS: frozenset[str] = frozenset(get_args(Right))
ADMIN_KEY_ID = "admin"
KEY_ISSUER = "key"
"""Vouches for sessions of stored keys: these say themselves whether they are valid."""


class KeyHolder(Record):
    """The holder of a valid key or session. `plugin`: the plugin identity (`author/name`) of a remote process
    that connects with it; None for keys of people and programs. `expires_at`: UTC epoch milliseconds.
    `session`: that of a person who signed in. `origins`: those of pages that may use a front-end token; none:
    all.
    """

    caller: Caller
    plugin: str | None = None
    expires_at: int | None = None
    session: Session | None = None
    origins: tuple[str, ...] = ()


FindKey = Callable[[str], Awaitable[KeyHolder | None]]
"""Key -> its holder; None if it is unknown, revoked or expired."""


def failed_authentications(clock: Callable[[], float]) -> TokenBuckets:
    """Return the buckets that limit failed authentications by address. `clock` is monotonic."""
    return TokenBuckets(FAILED_AUTH_PER_SECOND, FAILED_AUTH_BURST, clock=clock, max_buckets=MAX_RATE_BUCKETS)


KeysUntil = Callable[[str, int], int]
"""Subject and last sign-in of a person -> until when personal keys act; times in UTC epoch milliseconds."""


def _no_personal_keys(subject: str, signed_in_at: int) -> int:
    return 0


def admin_issuer(admin_key: str) -> str:
    """Return what vouches for sessions of the administrator's key: they end when another one is chosen."""
    return "admin:" + _digest(f"session {admin_key}")[:32]


def key_caller(
    tx: Tx, workspace_id: str, key_id: str, keys_until: KeysUntil
) -> tuple[Caller, int | None] | None:
    """Return the caller of a key that is valid by its own row, and when it ends; None without one."""
    if key_id == ADMIN_KEY_ID:
        return administrator(workspace_id).caller, None
    key = api_keys.find(tx, workspace_id, key_id)
    if key is None or not key.is_valid(tx.now):
        return None
    found = caller_of(tx, key, keys_until)
    if found is None:
        return None
    ends = [moment for moment in (key.expires_at, found[1]) if moment is not None]
    return found[0], min(ends, default=None)


def find_key(db: Database, keys_until: KeysUntil = _no_personal_keys) -> FindKey:
    """Return the lookup of keys and front-end tokens. `keys_until`: until when keys of people act."""

    def read(tx: Tx, token: str) -> KeyHolder | None:
        if token.startswith(FRONT_END_PREFIX) and (narrow := tokens.find_by_token(tx, token)) is not None:
            return _holder_of_token(tx, narrow, keys_until)
        key = api_keys.find_by_token(tx, token)
        found = None if key is None else caller_of(tx, key, keys_until)
        if key is None or found is None:
            return None
        caller, rests_at = found
        ends = [moment for moment in (key.expires_at, rests_at) if moment is not None]
        return KeyHolder(caller, plugin=key.plugin, expires_at=min(ends, default=None))

    async def find(token: str) -> KeyHolder | None:
        return await db.read(lambda tx: read(tx, token))

    return find


def _holder_of_token(tx: Tx, token: Token, keys_until: KeysUntil) -> KeyHolder | None:
    found = token_caller(tx, token, keys_until)
    if found is None:
        return None
    origins = token.origins
    if not origins and (name := widget_of(token.made_by)) is not None:
        widget = widgets.find(tx, token.workspace_id, name)
        origins = () if widget is None else widget.page_origins  # those of now, not those of when it was made
    return KeyHolder(found[0], expires_at=found[1], origins=origins)


def token_caller(tx: Tx, token: Token, keys_until: KeysUntil) -> tuple[Caller, int] | None:
    """Return the caller of a token, and when the token ends (UTC epoch milliseconds).

    None once the token has ended, or the key that made it, or if that key may not name the token's subject
    any more.
    """
    found = _maker(tx, token, keys_until) if token.is_valid(tx.now) else None
    if found is None:
        return None
    maker, ends_at = found
    if token.subject is not None and not has_right(maker, "tokens:subject"):
        return None
    scope = CallerScope(
        agent=token.agent,
        conversation_id=token.conversation_id,
        made_by=token.made_by,
        counted_by=maker.key_id,
    )
    caller = narrow_caller(
        token.workspace_id,
        subject=token.subject or subject_of_conversation(token.conversation_id),
        token_id=token.token_id,
        rights=frozenset(right for right in token.rights if has_right(maker, right)),  # type: ignore[arg-type]
        scope=scope,
        answers_only=maker.answers_only,
    )
    return caller, min(ends_at, token.expires_at)


def _maker(tx: Tx, token: Token, keys_until: KeysUntil) -> tuple[Caller, int] | None:
    """Return the present caller of the key that made a token, and when the key ends.

    A widget ends once it is removed or has another agent; the rate of each visitor is counted by itself.
    """
    if (name := widget_of(token.made_by)) is not None:
        widget = widgets.find(tx, token.workspace_id, name)
        if widget is None or widget.agent != token.agent:
            return None
        counted_by = subject_of_visitor(token.conversation_id)
        maker = Caller(
            token.workspace_id,
            widget.key_id,
            counted_by,
            rights=widget.rights,
            answers_only=not widget.visitors_approve,
        )
        return maker, token.expires_at
    found = key_caller(tx, token.workspace_id, token.made_by, keys_until)
    if found is None:
        return None
    return found[0], token.expires_at if found[1] is None else min(found[1], token.expires_at)


def caller_of(tx: Tx, key: ApiKey, keys_until: KeysUntil) -> tuple[Caller, int | None] | None:
    """Return the caller of a key, and when a personal one rests; None if its member was removed, or it rests.

    A personal key acts as its member, with those of its rights that the member's role still has.
    """
    if key.member_id is not None:
        member = members.find(tx, key.workspace_id, key.member_id)
        if member is None or member.removed_at is not None:
            return None
        until = keys_until(member.subject or "", member.signed_in_at or 0)
        return None if until <= tx.now else (member.caller(key.rights, credential=key.key_id), until)
    caller = Caller(
        workspace_id=key.workspace_id,
        subject=key.subject,
        key_id=key.key_id,
        roles=key.roles,
        rights=key.rights,
    )
    return caller, None


def administrator(workspace_id: str) -> KeyHolder:
    """Return the holder of the administrator's key."""
    rights: frozenset[str] = frozenset({"installation"})
    return KeyHolder(Caller(workspace_id, "admin", ADMIN_KEY_ID, frozenset({"admin"}), rights))


def ends_with(holder: KeyHolder, key_id: str) -> bool:
    """Whether a holder ends with this key, token, session or member. A session of a key ends with the key."""
    session = holder.session
    return is_of(holder.caller, key_id) or (session is not None and session.key_id == key_id)


def is_of(caller: Caller, key_id: str) -> bool:
    """Whether a caller ends with this key, token, session or member. A token ends with what made it."""
    scope = caller.scope
    makers = () if scope is None else (scope.made_by, scope.counted_by)
    return key_id in (caller.key_id, caller.credential_id, *makers)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def has_right(caller: Caller, right: Right) -> bool:
    """Whether the caller has the right, or a wider one that includes it."""
    rights = caller.rights
    return right in rights or "installation" in rights or (right != "installation" and "admin" in rights)


def require_right(caller: Caller, right: Right) -> None:
    """Raise UnauthorizedError unless the caller has the right."""
    if not has_right(caller, right):
        raise UnauthorizedError(f"this key does not have the right {right!r}", right=right)


class KeyRing:
    """Authenticates bearer tokens. Valid keys are cached for KEY_CACHE_SECONDS.

    `clock` is monotonic, `now` gives UTC epoch seconds.
    """

    def __init__(
        self,
        find: FindKey,
        *,
        admin_key: str | None,
        workspace_id: str,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._find = find
        self._admin_digest = _digest(admin_key) if admin_key else None
        self.admin_issuer = admin_issuer(admin_key) if admin_key else None
        """What vouches for sessions of the administrator's key."""
        self._admin = administrator(workspace_id)
        self._clock = clock
        self._now = now
        self._known: OrderedDict[str, tuple[KeyHolder, float]] = OrderedDict()
        self._generation = 0
        self._failures = failed_authentications(clock)
        self._suspect = asyncio.Lock()
        """One lookup at a time for all addresses with too many invalid keys."""

    async def authenticate(self, authorization: str | None, address: str) -> KeyHolder:
        """Return the holder of the key in an Authorization header.

        UnauthenticatedError without a valid key; RateLimitedError for an invalid one after too many from
        `address`. A valid one is never refused for what others of its address send: they may share a proxy.
        """
        if authorization is None:
            raise UnauthenticatedError("a key is required: send the header 'Authorization: Bearer KEY'")
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN_CHARS:
            raise UnauthenticatedError("the Authorization header must read 'Bearer KEY'")
        digest = _digest(token)
        if self._admin_digest is not None and hmac.compare_digest(digest, self._admin_digest):
            return self._admin
        holder = self._cached(digest)
        if holder is None:
            holder = await self._look_up(token, digest, address)
        if holder.expires_at is not None and holder.expires_at <= self._now() * 1000:
            self._known.pop(digest, None)
            raise UnauthenticatedError("this key is not valid: it is unknown, expired or revoked")
        return holder

    def forget(self, key_id: str) -> None:
        """Drop a revoked key from the cache, or all keys of a member."""
        self._generation += 1  # a lookup in progress may have read the row before the revocation
        for digest in [d for d, (holder, _) in self._known.items() if is_of(holder.caller, key_id)]:
            del self._known[digest]

    def _cached(self, digest: str) -> KeyHolder | None:
        known = self._known.get(digest)
        if known is None:
            return None
        holder, until = known
        if until <= self._clock():
            del self._known[digest]
            return None
        return holder

    async def _look_up(self, token: str, digest: str, address: str) -> KeyHolder:
        generation, origin = self._generation, rate_key(address)
        if self._failures.wait(origin):
            async with self._suspect:  # a valid key waits for a few lookups, and is not refused
                holder = await self._find(token)
        else:
            holder = await self._find(token)
        if holder is None:
            wait = self._failures.take(origin)
            if wait:
                raise RateLimitedError("too many invalid keys from this address", wait)
            raise UnauthenticatedError("this key is not valid: it is unknown, expired or revoked")
        if generation == self._generation:
            self._known[digest] = (holder, self._clock() + KEY_CACHE_SECONDS)
            if len(self._known) > MAX_CACHED_KEYS:
                self._known.popitem(last=False)
        return holder
