"""Sign-ins under way: what a browser keeps while its person is with the identity provider.

It is kept in a cookie with a signature, not in the database, which strangers could fill. The cookie binds the
answer of the provider to the browser that asked, and holds the secrets of that one sign-in.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from hostler.domain.clock import monotonic_clock, wall_clock
from hostler.domain.token_bucket import TokenBuckets
from hostler.http.limits import MAX_RATE_BUCKETS, SIGN_IN_BURST, SIGN_IN_SECONDS, SIGN_INS_PER_SECOND
from hostler.http.proxies import rate_key
from hostler.http.sessions import cookie_name, cookies_of
from hostler.storage.port import Database
from hostler.storage.stores import installation
from hostler_protocol.errors import RateLimitedError

COOKIE = "hostler-sign-in"
SECRET_BYTES = 32
"""Of state, nonce and verifier: 256 bits, as RFC 7636 recommends for the verifier."""
MAX_COOKIE_CHARS = 4_000
"""Browsers keep cookies of up to 4,096 bytes."""


class SignIn(msgspec.Struct, frozen=True):
    """One sign-in. `begun_at` in UTC epoch seconds; `next`: where the browser goes afterwards."""

    provider: str
    state: str
    nonce: str
    verifier: str
    next: str
    begun_at: float
    workspace_id: str | None = None

    @classmethod
    def begin(cls, provider: str, next_path: str, workspace_id: str | None, now: float) -> SignIn:
        """Return a new one."""
        state, nonce, verifier = (_secret() for _ in range(3))
        return cls(provider, state, nonce, verifier, next_path, now, workspace_id)


_sign_ins = msgspec.json.Decoder(SignIn)


class SignIns:
    """Signs and reads the cookies of sign-ins, and limits their number. `now` gives UTC epoch seconds."""

    def __init__(
        self,
        db: Database,
        *,
        clock: Callable[[], float] = monotonic_clock,
        now: Callable[[], float] = wall_clock,
    ) -> None:
        self._db = db
        self.now = now
        self._rates = TokenBuckets(
            SIGN_INS_PER_SECOND, SIGN_IN_BURST, clock=clock, max_buckets=MAX_RATE_BUCKETS
        )
        self._key: bytes | None = None

    def take(self, address: str) -> None:
        """Count one step of a sign-in from this address. RateLimitedError after too many."""
        wait = self._rates.take(rate_key(address))
        if wait:
            raise RateLimitedError("too many sign-ins from this address", round(wait, 3))

    async def seal(self, sign_in: SignIn) -> str:
        """Return the value of the cookie."""
        body = _encode(msgspec.json.encode(sign_in))
        return f"{body}.{await self._signature(body)}"

    async def open(self, headers: Mapping[str, str], *, secure: bool) -> SignIn | None:
        """Return the sign-in of a request's cookie; None if there is none, or not a valid one."""
        value = cookies_of(headers).get(cookie_name(COOKIE, secure=secure))
        if value is None or len(value) > MAX_COOKIE_CHARS or not value.isascii():
            return None
        body, _, signature = value.partition(".")
        if not hmac.compare_digest(signature, await self._signature(body)):
            return None
        sign_in = _sign_ins.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return sign_in if self.now() - sign_in.begun_at < SIGN_IN_SECONDS else None

    async def _signature(self, body: str) -> str:
        if self._key is None:
            self._key = await self._db.write(lambda tx: installation.key(tx, "sign-ins"))
        return _encode(hmac.new(self._key, body.encode(), hashlib.sha256).digest())


SameSite = Literal["Lax", "Strict"]


def set_cookie(
    name: str, value: str, *, secure: bool, max_age: float, same_site: SameSite = "Lax"
) -> tuple[bytes, bytes]:
    """Return the header that sets a cookie of this host, which no script can read.

    `same_site`: Lax where the browser comes from an identity provider, with whose answer it is sent.
    """
    parts = [f"{cookie_name(name, secure=secure)}={value}", "Path=/", f"Max-Age={int(max_age)}", "HttpOnly"]
    parts += [f"SameSite={same_site}", *(["Secure"] if secure else [])]
    return b"set-cookie", "; ".join(parts).encode("ascii")


def drop_cookie(name: str, *, secure: bool) -> tuple[bytes, bytes]:
    """Return the header that removes a cookie."""
    return set_cookie(name, "", secure=secure, max_age=0)


def _secret() -> str:
    return secrets.token_urlsafe(SECRET_BYTES)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
