"""One request, as routes see it: who asks, and path, query and body already decoded and checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from hostler.domain.config_mistakes import MAX_SHOWN, ConfigurationError, Mistake
from hostler.domain.events import Caller
from hostler.domain.type_fit import fit, misfit
from hostler.http.asgi import Receive, Scope
from hostler.http.auth import KeyHolder
from hostler.http.limits import (
    BODY_IDLE_SECONDS,
    JSON_BODY_SECONDS,
    MAX_BODY_BYTES,
    MAX_HEADER_BYTES,
    MAX_QUERY_BYTES,
    MAX_QUERY_FIELDS,
)
from hostler.http.problems import HeadersTooLargeError, RequestTimeoutError, UnsupportedMediaTypeError
from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.errors import CancelledCallError, InvalidArgumentError, PayloadTooLargeError

if TYPE_CHECKING:
    from hostler.http.state import AppState

T = TypeVar("T")
_JSON_TYPES = ("application/json", "text/json")
_lists: dict[type[Any], frozenset[str]] = {}
"""The list fields of the query types seen so far: as many as there are routes."""


@dataclass(frozen=True, slots=True)
class Fitted(Generic[T]):
    """A JSON body as far as it fits its type, and what does not, so that a route can add what else is wrong.

    `value` is None where nothing of the type is left.
    """

    value: T | None
    mistakes: Sequence[Mistake] = ()

    def get(self) -> T:
        """The value. ConfigurationError where there is none; the mistakes are still to be looked at."""
        if self.value is None:
            raise ConfigurationError(self.mistakes)
        return self.value


@dataclass(slots=True)
class ApiRequest:
    """One request. `path` is as it came, `parameters` are those in it, decoded."""

    state: AppState
    scope: Scope
    receive: Receive
    method: str
    path: str
    parameters: dict[str, str]
    headers: dict[str, str]
    holder: KeyHolder | None = None
    body: bytes = b""
    """Empty where the route reads the body itself."""
    body_read: bool = field(default=False)

    @property
    def caller(self) -> Caller:
        """Who asks. Only open routes have nobody."""
        if self.holder is None:
            raise RuntimeError("this route is open to everybody: there is no caller")
        return self.holder.caller

    @property
    def workspace_id(self) -> str:
        """The workspace of the caller's key: the only one this request can reach."""
        return self.caller.workspace_id

    @property
    def address(self) -> str:
        """Where the connection comes from; no header can change it."""
        client = self.scope.get("client")
        return client[0] if client else "local"


def check_headers(scope: Scope) -> None:
    """HeadersTooLargeError over MAX_HEADER_BYTES: a server's own bound may be softer."""
    size = len(scope["raw_path"]) + len(scope["query_string"])
    size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    if size > MAX_HEADER_BYTES:
        raise HeadersTooLargeError(f"path and headers have {size:,} bytes; at most {MAX_HEADER_BYTES:,}")


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers by lower-case name; one that came several times is joined with commas."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        text = value.decode("utf-8", "surrogateescape")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def path_segment(raw: str) -> str:
    """One path parameter, percent-decoded. InvalidArgumentError for what is no UTF-8, or holds NUL."""
    try:
        text = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidArgumentError(f"{raw!r} in the path is not UTF-8") from None
    if "\x00" in text:
        raise InvalidArgumentError("an id in the path holds a NUL character; ids may not")
    return text


def decode_query(raw: bytes, kind: type[T]) -> T:
    """The query string as a struct; a list's field may come several times, every other once."""
    if len(raw) > MAX_QUERY_BYTES:
        raise InvalidArgumentError(f"the query has {len(raw)} bytes; at most {MAX_QUERY_BYTES}")
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_QUERY_FIELDS
        )
    except (ValueError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"the query cannot be read: {error}") from None
    lists = _list_fields(kind)
    data: dict[str, Any] = {}
    for name, value in pairs:
        if "\x00" in value:
            raise _invalid("query", name, "a text without NUL characters")
        if name in lists:
            data.setdefault(name, []).append(value)
        elif name in data:
            raise _invalid("query", name, "to be given once")
        else:
            data[name] = value
    try:
        found = msgspec.convert(data, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _explained(error, kind, "query") from None
    for name in data:
        # msgspec reads the word "null" as None where a number or a choice is expected: no filter at all.
        if getattr(found, name) is None:
            raise _invalid("query", name, "a value: leave it out instead of sending null")
    return found


def decode_json(body: bytes, kind: type[T]) -> T:
    """A JSON body as `kind`. InvalidArgumentError names each wrong field, and what is expected there."""
    try:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.ValidationError as error:
            # what is no JSON at all is told as that
            mistakes = fit(msgspec.json.decode(body), kind)[1]
            if len(mistakes) > 1:
                raise _all_explained(mistakes) from None
            raise _explained(error, kind, "body") from None
    except DECODE_ERRORS as error:
        what = "the body is empty: JSON is expected" if not body else f"the body is not JSON: {error}"
        raise InvalidArgumentError(what) from None


def decode_fitted(body: bytes, kind: type[T]) -> Fitted[T]:
    """A JSON body as far as it fits. InvalidArgumentError for what is no JSON."""
    try:
        return Fitted(msgspec.json.decode(body, type=kind))
    except msgspec.ValidationError:
        return Fitted(*fit(decode_json(body, Any), kind))
    except DECODE_ERRORS:
        return Fitted(decode_json(body, kind))


def check_json_type(content_type: str | None) -> None:
    """UnsupportedMediaTypeError unless a body of this type is JSON. Without a type it is taken to be."""
    if content_type is None:
        return
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in _JSON_TYPES and not kind.endswith("+json"):
        raise UnsupportedMediaTypeError(f"the body is {kind or 'of no type'}; expected application/json")


async def read_body(request: ApiRequest, *, limit: int = MAX_BODY_BYTES) -> bytes:
    """The whole body. PayloadTooLargeError over `limit` bytes, RequestTimeoutError if it does not come."""
    try:
        async with asyncio.timeout(JSON_BODY_SECONDS):
            return b"".join([piece async for piece in body_pieces(request, limit=limit)])
    except TimeoutError:
        raise RequestTimeoutError(f"the body did not arrive within {JSON_BODY_SECONDS:g} seconds") from None


async def body_pieces(request: ApiRequest, *, limit: int) -> AsyncIterator[bytes]:
    """The body as it comes. Errors as `read_body`; CancelledCallError where the client goes away."""
    request.body_read = True
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated) > limit:
        raise PayloadTooLargeError(f"the body has {int(stated):,} bytes; at most {limit:,}", limit=limit)
    size = 0
    while True:
        try:
            async with asyncio.timeout(BODY_IDLE_SECONDS):
                message = await request.receive()
        except TimeoutError:
            raise RequestTimeoutError(
                f"nothing more of the body came for {BODY_IDLE_SECONDS:g} seconds"
            ) from None
        if message["type"] != "http.request":
            raise CancelledCallError("the client went away before its request was complete")
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise PayloadTooLargeError(f"the body has more than {limit:,} bytes", limit=limit)
        if piece:
            yield piece
        if not message.get("more_body", False):
            return


def _list_fields(kind: type[Any]) -> frozenset[str]:
    known = _lists.get(kind)
    if known is None:  # looking at a type costs more than the rest of a request
        info = msgspec.inspect.type_info(kind)
        if not isinstance(info, msgspec.inspect.StructType):
            raise TypeError(f"{kind!r} is no struct")
        known = frozenset(f.encode_name for f in info.fields if isinstance(f.type, msgspec.inspect.ListType))
        _lists[kind] = known
    return known


def _invalid(where: str, name: str, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{where}: {name}: expected {expected}", errors=[{"field": name, "expected": expected}]
    )


def _all_explained(mistakes: Sequence[Mistake]) -> InvalidArgumentError:
    sentences = [mistake.sentence for mistake in mistakes]
    more = f" (and {len(sentences) - MAX_SHOWN} more)" if len(sentences) > MAX_SHOWN else ""
    return InvalidArgumentError(
        f"body: {len(sentences)} mistakes: {'; '.join(sentences[:MAX_SHOWN])}{more}",
        errors=[{"field": mistake.place, "expected": mistake.text} for mistake in mistakes],
    )


def _explained(error: msgspec.ValidationError, kind: Any, where: str) -> InvalidArgumentError:
    found = misfit(error, kind)
    return InvalidArgumentError(
        f"{where}: {found.sentence}", errors=[{"field": found.place, "expected": found.expected}]
    )
