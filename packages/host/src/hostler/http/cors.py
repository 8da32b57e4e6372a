"""Cross-origin resource sharing: which pages' scripts may read what this host answers.

It covers every path, those of dialects and errors too, because it is added to each response as it is sent.
Cookies are never taken from other origins, so no response allows credentials.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Callable

from hostler.domain.cors import ANY_ORIGIN, CorsEntry, origin_mistake
from hostler.domain.token_bucket import TokenBuckets
from hostler.http.asgi import Message, Scope, Send
from hostler.http.limits import (
    CORS_CACHE_SECONDS,
    CORS_UNKNOWN_SECONDS,
    MAX_CACHED_ORIGINS,
    MAX_CORS_HEADERS,
    MAX_RATE_BUCKETS,
    ORIGIN_LOOKUP_BURST,
    ORIGIN_LOOKUPS_PER_SECOND,
)
from hostler.http.proxies import rate_key
from hostler.http.responses import Headers
from hostler.storage.port import Database
from hostler.storage.stores import tokens
from hostler_protocol.errors import InvalidArgumentError, StorageError, UnauthorizedError

log = logging.getLogger("hostler.http")
EXPOSED_HEADERS = (
    "Content-Disposition",
    "Content-Location",
    "Content-Range",
    "ETag",
    "Idempotent-Replay",
    "Location",
    "Retry-After",
    "WWW-Authenticate",
    # A2A
    "A2A-Version",
    # AI SDK
    "x-vercel-ai-ui-message-stream",
    # MCP
    "Mcp-Session-Id",
    "MCP-Protocol-Version",
    # of all dialects
    "Hostler-Code",
    "Hostler-Run",
    # OpenAI
    "x-request-id",
    "x-should-retry",
)
"""Headers of responses that scripts of other origins may read, beside those that browsers always show. A
dialect that answers with a header of its own adds it here."""
METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VARY = (b"vary", b"Origin")
_VARY_PREFLIGHT = (
    b"vary",
    b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers, "
    b"Access-Control-Request-Private-Network",
)
_EXPOSE = (b"access-control-expose-headers", ", ".join(EXPOSED_HEADERS).encode())


def origin_of(scope: Scope) -> str | None:
    """Return the Origin of a request; None without one. Several are `null`, which is no origin."""
    found = [value for name, value in scope["headers"] if name == b"origin"]
    if not found:
        return None
    return found[0].decode("latin-1") if len(found) == 1 else "null"


class Cors:
    """Decides about origins. `entry` returns the active entry of the configuration; `clock` is monotonic;
    `widgets` returns whether pages of an origin may show a widget.

    Beside its origins those count that tokens name which have not expired: the browser asks before it sends a
    token. They are looked up in the database, and cached for some seconds.
    """

    def __init__(
        self,
        db: Database,
        entry: Callable[[], CorsEntry],
        *,
        clock: Callable[[], float],
        widgets: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._db = db
        self._entry = entry
        self._shows_widget = widgets
        self._clock = clock
        self._known: OrderedDict[str, tuple[bool, float]] = OrderedDict()
        self._lookups = TokenBuckets(
            ORIGIN_LOOKUPS_PER_SECOND, ORIGIN_LOOKUP_BURST, clock=clock, max_buckets=MAX_RATE_BUCKETS
        )

    async def allowed(self, origin: str | None, address: str) -> str | None:
        """Return the value of Access-Control-Allow-Origin for pages of this origin; None: none is sent."""
        if origin is None:
            return None
        listed = self._entry().origins
        if ANY_ORIGIN in listed:
            return ANY_ORIGIN
        if origin in listed:
            return origin
        if origin_mistake(origin) is not None:
            return None
        return origin if self._shows_widget(origin) or await self._named(origin, address) else None

    def learn(self, origins: tuple[str, ...]) -> None:
        """Forget what is cached about these origins: a new token names them."""
        for origin in origins:
            self._known.pop(origin, None)

    async def _named(self, origin: str, address: str) -> bool:
        """Whether a valid token names the origin."""
        known = self._known.get(origin)
        if known is not None and known[1] > self._clock():
            return known[0]
        if self._lookups.take(rate_key(address)):
            return False
        try:
            found = await self._db.read(lambda tx: tokens.knows_origin(tx, origin))
        except StorageError as error:  # the request itself says so, too
            log.warning("the origins of tokens cannot be read: %s", error.message)
            return False
        seconds = CORS_CACHE_SECONDS if found else CORS_UNKNOWN_SECONDS
        self._known[origin] = (found, self._clock() + seconds)
        self._known.move_to_end(origin)
        if len(self._known) > MAX_CACHED_ORIGINS:
            self._known.popitem(last=False)
        return found

    def sending(self, allowed: str | None, send: Send) -> Send:
        """Return a `send` that adds the headers to the response."""
        own: Headers = [_VARY]
        if allowed is not None:
            own += [(b"access-control-allow-origin", allowed.encode("ascii")), _EXPOSE]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        return send_with_headers

    def preflight(self, scope: Scope, origin: str, allowed: str | None) -> Headers:
        """Return the headers that answer a preflight, but for those that `sending` adds.

        UnauthorizedError for an origin that may not call this host; InvalidArgumentError for a method or
        header that cannot be one.
        """
        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name.startswith(b"access-control-request-")
        }
        method = headers.get("access-control-request-method", "")
        if method not in METHODS:
            raise InvalidArgumentError(f"Access-Control-Request-Method: expected one of {', '.join(METHODS)}")
        wanted = _header_names(headers.get("access-control-request-headers", ""))
        if allowed is None:
            raise UnauthorizedError(
                f"pages of {origin!r:.100} may not call this host: list the origin in cors.origins of the "
                "configuration, or in the origins of a token"
            )
        entry = self._entry()
        found: Headers = [
            _VARY_PREFLIGHT,
            (b"access-control-allow-methods", ", ".join(METHODS).encode()),
            (b"access-control-max-age", str(entry.max_age).encode()),
        ]
        if wanted:
            found.append((b"access-control-allow-headers", ", ".join(wanted).encode("ascii")))
        if entry.private_network and headers.get("access-control-request-private-network") == "true":
            found.append((b"access-control-allow-private-network", b"true"))
        return found


def is_preflight(scope: Scope) -> bool:
    """Whether a browser asks whether a page of another origin may make a request."""
    return scope["method"] == "OPTIONS" and any(
        name == b"access-control-request-method" for name, _ in scope["headers"]
    )


def _header_names(text: str) -> list[str]:
    """Return the headers that a preflight asks for. All are allowed to an origin that is.

    A page can send no header that it does not know, and no cookie counts here.
    """
    names = [name for part in text.split(",") if (name := part.strip().lower())]
    if len(names) > MAX_CORS_HEADERS or not all(_HEADER_NAME.fullmatch(name) for name in names):
        raise InvalidArgumentError(
            f"Access-Control-Request-Headers: expected at most {MAX_CORS_HEADERS} names of headers"
        )
    return sorted(set(names))
