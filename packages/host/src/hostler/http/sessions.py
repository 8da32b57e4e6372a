"""Sessions of browsers: the cookie, its cache, and the protection of writes from other sites.

A browser signs in with an identity provider, as a member, or with a key (http/routes/key_sessions.py).

A browser sends the cookie with requests to this host whoever made them. So a request that changes something
also needs a header that no other site can send (`X-CSRF-Token`), and an `Origin` that is this host's.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from hostler.domain.clock import monotonic_clock, wall_clock
from hostler.domain.events import Caller
from hostler.domain.members import session_credential
from hostler.domain.sign_in import SignInEntry
from hostler.http.auth import KeyHolder, KeysUntil, ends_with, failed_authentications, key_caller
from hostler.http.limits import KEY_CACHE_SECONDS, MAX_CACHED_KEYS, MAX_TOKEN_CHARS
from hostler.http.problems import UnauthenticatedError
from hostler.http.proxies import rate_key
from hostler.storage.port import Database, Tx
from hostler.storage.stores import members, sessions
from hostler.storage.stores.sessions import SEEN_EVERY_MS, Session
from hostler_protocol.errors import RateLimitedError, UnauthorizedError

COOKIE = "hostler-session"
HOST_PREFIX = "__Host-"
"""Browsers take such a cookie only by https, from this very host, for all of its paths."""
CSRF_HEADER = "x-csrf-token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OVER = "this session is over: sign in again"


def present_caller(tx: Tx, session: Session, keys_until: KeysUntil) -> tuple[Caller, int | None] | None:
    """Return whose session it is with the present rights, and when the key of a session ends.

    None if the member was removed, or the key has ended.
    """
    credential = session_credential(session.session_id)
    if session.key_id is not None:
        found = key_caller(tx, session.workspace_id, session.key_id, keys_until)
        return None if found is None else (dataclasses.replace(found[0], credential=credential), found[1])
    member = members.find(tx, session.workspace_id, session.member_id)
    if member is None or member.removed_at is not None or member.subject is None:
        return None
    return member.caller(credential=credential), None


def cookie_name(name: str, *, secure: bool) -> str:
    """Return the name that a cookie of this host has."""
    return f"{HOST_PREFIX}{name}" if secure else name


def cookies_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the cookies of a request. One that is sent twice is left out: another site may have set it."""
    found: dict[str, str] = {}
    twice: set[str] = set()
    for part in headers.get("cookie", "").replace(",", ";").split(";"):
        name, equals, value = part.strip().partition("=")
        if equals and name:
            twice |= {name} & found.keys()
            found[name] = value
    return {name: value for name, value in found.items() if name not in twice}


def is_secure(origin: str) -> bool:
    """Whether pages of an origin come by https."""
    return origin.startswith("https://")


def _cookie_of(headers: Mapping[str, str]) -> tuple[str, bool] | None:
    """Return the token of a request's cookie, and whether the cookie is bound to this host."""
    if "cookie" not in headers:
        return None
    cookies = cookies_of(headers)
    for secure in (True, False):
        if (name := cookie_name(COOKIE, secure=secure)) in cookies:
            return cookies[name], secure
    return None


def csrf_token(token: str) -> str:
    """Return what a session's writes have to send along. It does not lead back to the session's token."""
    return hashlib.sha256(f"csrf {token}".encode()).hexdigest()


class SessionRing:
    """Authenticates the cookies of sessions. `entries`: the present identity providers.

    `vouches`: whether sessions of an issuer are valid at all; `keys_until`: until when personal keys act.
    Valid ones are cached for KEY_CACHE_SECONDS. `clock` is monotonic, `now` gives UTC epoch seconds.
    """

    def __init__(
        self,
        db: Database,
        entries: Callable[[], list[SignInEntry]],
        *,
        vouches: Callable[[str], bool],
        keys_until: KeysUntil,
        clock: Callable[[], float] = monotonic_clock,
        now: Callable[[], float] = wall_clock,
    ) -> None:
        self._db = db
        self._entries = entries
        self._vouches = vouches
        self._keys_until = keys_until
        self._clock = clock
        self._now = now
        self._known: OrderedDict[str, tuple[KeyHolder, float]] = OrderedDict()
        self._generation = 0
        self._failures = failed_authentications(clock)
        self._suspect = asyncio.Lock()
        """One lookup at a time for all addresses with too many unknown sessions."""

    def token_of(self, headers: Mapping[str, str]) -> str | None:
        """Return the session's token that a request has, or None."""
        found = _cookie_of(headers)
        return None if found is None else found[0]

    async def authenticate(
        self, token: str, method: str, headers: Mapping[str, str], address: str
    ) -> KeyHolder:
        """Return the person of a session.

        UnauthenticatedError for a session that is over; UnauthorizedError for a write that another site may
        have sent; RateLimitedError after too many unknown sessions from `address`.
        """
        if not token or len(token) > MAX_TOKEN_CHARS or not token.isascii():
            raise UnauthenticatedError(_OVER)
        holder = self._cached(token)
        if holder is None:
            holder = await self._look_up(token, address)
        session, moment = holder.session, self._now() * 1000
        ends = holder.expires_at
        if session is None or not self._vouches(session.issuer) or session.ends_at() <= moment:
            self._known.pop(_digest(token), None)
            raise UnauthenticatedError(_OVER)
        if (ends is not None and ends <= moment) or not self._is_sent_rightly(session, headers):
            raise UnauthenticatedError(_OVER)
        if method not in SAFE_METHODS:
            self._check_source(session, token, headers)
        elif "origin" in headers and headers["origin"].lower() not in self._origins(session):
            raise UnauthorizedError(
                "sessions are for pages of this host: pages of other origins send a token"
            )
        return holder

    def forget(self, key_id: str) -> None:
        """Drop a session, or all sessions of a member, from the cache."""
        self._generation += 1
        for digest, (holder, _) in list(self._known.items()):
            if ends_with(holder, key_id):
                del self._known[digest]

    def _check_source(self, session: Session, token: str, headers: Mapping[str, str]) -> None:
        if headers.get("origin", "").lower() not in self._origins(session):
            raise UnauthorizedError(
                "this request may come from another site: with a session, writes need the Origin of this host"
            )
        sent = headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(sent.encode("utf-8", "replace"), csrf_token(token).encode()):
            raise UnauthorizedError(
                "this request may come from another site: with a session, writes need the csrf_token of "
                "/v1/auth/session in the header X-CSRF-Token"
            )

    def _origins(self, session: Session) -> set[str]:
        return {entry.origin for entry in self._entries()} if session.origin is None else {session.origin}

    def _is_sent_rightly(self, session: Session, headers: Mapping[str, str]) -> bool:
        """Whether the cookie has the session's name: one without the prefix may be of another site."""
        found = _cookie_of(headers)
        return found is not None and found[1] in {is_secure(origin) for origin in self._origins(session)}

    def _cached(self, token: str) -> KeyHolder | None:
        digest = _digest(token)
        known = self._known.get(digest)
        if known is None:
            return None
        holder, until = known
        if until <= self._clock():
            del self._known[digest]
            return None
        return holder

    async def _look_up(self, token: str, address: str) -> KeyHolder:
        generation, origin = self._generation, rate_key(address)
        if self._failures.wait(origin):
            async with self._suspect:  # a valid one waits for a few lookups, and is not refused
                holder = await self._db.read(lambda tx: _read(tx, token, self._keys_until))
        else:
            holder = await self._db.read(lambda tx: _read(tx, token, self._keys_until))
        if holder is None or holder.session is None:
            wait = self._failures.take(origin)
            if wait:
                raise RateLimitedError("too many unknown sessions from this address", wait)
            raise UnauthenticatedError(_OVER)
        session = holder.session
        if self._now() * 1000 - session.seen_at > SEEN_EVERY_MS:
            seen = await self._db.write(lambda tx: sessions.seen(tx, session), synced=False)
            holder = replace(holder, session=seen)
        if generation == self._generation:
            self._known[_digest(token)] = (holder, self._clock() + KEY_CACHE_SECONDS)
            if len(self._known) > MAX_CACHED_KEYS:
                self._known.popitem(last=False)
        return holder


def _read(tx: Tx, token: str, keys_until: KeysUntil) -> KeyHolder | None:
    session = sessions.find_by_token(tx, token)
    if session is None or not session.is_valid(tx.now):
        return None
    found = present_caller(tx, session, keys_until)
    if found is None:
        return None
    caller, ends = found
    expires_at = session.expires_at if ends is None else min(ends, session.expires_at)
    return KeyHolder(caller, expires_at=expires_at, session=session)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
