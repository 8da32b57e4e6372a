"""One request as routes get it: the caller, and path, query and body, decoded and checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from hostler.domain.config_mistakes import MAX_SHOWN, ConfigurationError, Mistake
from hostler.domain.events import Caller
from hostler.domain.record import Record
from hostler.domain.type_fit import fit, misfit
from hostler.http.asgi import Receive, Scope
from hostler.http.auth import KeyHolder
from hostler.http.limits import (
    BODY_IDLE_SECONDS,
    JSON_BODY_SECONDS,
    MAX_BODY_BYTES,
    MAX_BODY_LOOKS,
    MAX_BODY_MISTAKES,
    MAX_HEADER_BYTES,
    MAX_IDEMPOTENCY_KEY_CHARS,
    MAX_MISTAKE_CHARS,
    MAX_QUERY_BYTES,
    MAX_QUERY_FIELDS,
)
from hostler.http.own_address import own_address
from hostler.http.problems import HeadersTooLargeError, RequestTimeoutError, UnsupportedMediaTypeError
from hostler_protocol._base import DECODE_ERRORS
from hostler_protocol.errors import CancelledCallError, InvalidArgumentError, PayloadTooLargeError

if TYPE_CHECKING:
    from hostler.http.state import AppState

T = TypeVar("T")
_JSON_TYPES = ("application/json", "text/json")
_lists: dict[type[Any], frozenset[str]] = {}
"""Query type -> names of its list fields. Grows to the number of query types at most."""


class LenientBody(Record, Generic[T]):
    """A JSON body decoded as far as it fits its type, and its mistakes, so that a route can report them all.

    `value` is None if too little fits to build the type.
    """

    value: T | None
    mistakes: Sequence[Mistake] = ()

    def get(self) -> T:
        """Return the value; `mistakes` may still hold errors. ConfigurationError if there is no value."""
        if self.value is None:
            raise ConfigurationError(self.mistakes)
        return self.value


@dataclass(slots=True)
class ApiRequest:
    """One request. `path` is still percent-encoded; `parameters` are the path parameters, decoded."""

    state: AppState
    scope: Scope
    receive: Receive
    method: str
    path: str
    parameters: dict[str, str]
    headers: dict[str, str]
    holder: KeyHolder | None = None
    body: bytes = b""
    """Empty if the route reads the body itself."""

    @property
    def caller(self) -> Caller:
        """The authenticated caller. RuntimeError on a route that needs no key."""
        if self.holder is None:
            raise RuntimeError("this route needs no key: there is no caller")
        return self.holder.caller

    @property
    def workspace_id(self) -> str:
        """The workspace of the caller's key: the only one that this request can reach."""
        return self.caller.workspace_id

    @property
    def base(self) -> str:
        """The address of this host, as the client may reach it."""
        return own_address(self.state.host.settings.public_url, self.scope)

    @property
    def addresses(self) -> tuple[str, str]:
        """The address of this host, and the one that the client sent the request to; "" if malformed."""
        return self.base, own_address(None, self.scope)

    @property
    def address(self) -> str:
        """The address of the client: the peer, unless that is a trusted proxy, which names it."""
        return self.state.address_of(self.scope, self.headers)

    def while_key_is_valid(self) -> AbstractAsyncContextManager[None]:
        """Raise UnauthenticatedError in a block that takes long, when the caller's key ends."""
        return self.state.open_keys.held(self.holder)

    def idempotency_key(self) -> str | None:
        """Return the Idempotency-Key, None if it is missing. InvalidArgumentError for an invalid one."""
        key = self.headers.get("idempotency-key")
        if key is None:
            return None
        if not key or len(key) > MAX_IDEMPOTENCY_KEY_CHARS or not key.isascii() or not key.isprintable():
            raise InvalidArgumentError(
                f"Idempotency-Key: expected 1 to {MAX_IDEMPOTENCY_KEY_CHARS} printable ASCII characters"
            )
        return key


def check_headers(scope: Scope) -> None:
    """Raise HeadersTooLargeError over MAX_HEADER_BYTES. The server's own limit may be less strict."""
    size = len(scope["raw_path"]) + len(scope["query_string"])
    size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    if size > MAX_HEADER_BYTES:
        raise HeadersTooLargeError(f"path and headers have {size:,} bytes; at most {MAX_HEADER_BYTES:,}")


def headers_of(scope: Scope) -> dict[str, str]:
    """Return the headers by lower-case name; repeated ones are joined with commas."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        text = value.decode("utf-8", "surrogateescape")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def path_segment(raw: str) -> str:
    """Percent-decode one path parameter. InvalidArgumentError if it is not UTF-8 or contains NUL."""
    try:
        text = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidArgumentError(f"{raw!r} in the path is not UTF-8") from None
    if "\x00" in text:
        raise InvalidArgumentError("an id in the path contains a NUL character; ids must not")
    return text


def decode_query(raw: bytes, kind: type[T]) -> T:
    """Decode a query string as the struct `kind`. A list field may be repeated, any other may not.

    InvalidArgumentError if it does not fit.
    """
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
        # msgspec reads the text "null" as None for a number or a choice, which would drop the filter.
        if getattr(found, name, "") is None:
            raise _invalid("query", name, "a value: leave it out instead of sending null")
    return found


def decode_json(body: bytes, kind: type[T]) -> T:
    """Decode a JSON body as `kind`. InvalidArgumentError names each wrong field and the expected value."""
    try:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.ValidationError as error:
            # decoding without a type raises DecodeError, reported below, if the body is not JSON
            mistakes = fit(msgspec.json.decode(body), kind, most=MAX_BODY_MISTAKES, looks=MAX_BODY_LOOKS)[1]
            if len(mistakes) > 1:
                raise _all_explained(mistakes) from None
            raise _explained(error, kind, "body") from None
    except DECODE_ERRORS as error:
        what = "the body is empty: JSON is expected" if not body else f"the body is not JSON: {error}"
        raise InvalidArgumentError(what) from None


def decode_lenient(body: bytes, kind: type[T]) -> LenientBody[T]:
    """Decode a JSON body as far as it fits `kind`. InvalidArgumentError if it is not JSON."""
    try:
        return LenientBody(msgspec.json.decode(body, type=kind))
    except msgspec.ValidationError:
        return LenientBody(*fit(decode_json(body, Any), kind))
    except DECODE_ERRORS:
        return LenientBody(decode_json(body, kind))


def check_json_type(content_type: str | None) -> None:
    """Raise UnsupportedMediaTypeError unless the type is JSON. A missing type counts as JSON."""
    if content_type is None:
        return
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in _JSON_TYPES and not kind.endswith("+json"):
        raise UnsupportedMediaTypeError(f"the body is {kind or 'untyped'}; expected application/json")


def check_not_encoded(content_encoding: str | None) -> None:
    """Raise UnsupportedMediaTypeError for a body that is compressed: few bytes could be any number."""
    if content_encoding is not None and content_encoding.strip().lower() not in ("", "identity"):
        raise UnsupportedMediaTypeError(
            f"the body is encoded ({content_encoding[:40]!r}); send it without Content-Encoding"
        )


async def read_body(request: ApiRequest, *, limit: int = MAX_BODY_BYTES) -> bytes:
    """Read the whole body. PayloadTooLargeError over `limit` bytes, RequestTimeoutError if it is too slow."""
    try:
        async with asyncio.timeout(JSON_BODY_SECONDS):
            return b"".join([chunk async for chunk in body_chunks(request, limit=limit)])
    except TimeoutError:
        raise RequestTimeoutError(f"the body did not arrive within {JSON_BODY_SECONDS:g} seconds") from None


async def body_chunks(request: ApiRequest, *, limit: int) -> AsyncIterator[bytes]:
    """Yield the body as it arrives. Errors as `read_body`; CancelledCallError if the client disconnects."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise PayloadTooLargeError(f"the body has {int(declared):,} bytes; at most {limit:,}", limit=limit)
    size = 0
    while True:
        try:
            async with asyncio.timeout(BODY_IDLE_SECONDS):
                message = await request.receive()
        except TimeoutError:
            raise RequestTimeoutError(
                f"no part of the body arrived for {BODY_IDLE_SECONDS:g} seconds"
            ) from None
        if message["type"] != "http.request":
            raise CancelledCallError("the client disconnected before its request was complete")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise PayloadTooLargeError(f"the body has more than {limit:,} bytes", limit=limit)
        if chunk:
            yield chunk
        if not message.get("more_body", False):
            return


def _list_fields(kind: type[Any]) -> frozenset[str]:
    known = _lists.get(kind)
    if known is None:  # inspecting a type costs more than the rest of a request
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
    sentences = [mistake.sentence[:MAX_MISTAKE_CHARS] for mistake in mistakes]
    more = f" (and {len(sentences) - MAX_SHOWN} more)" if len(sentences) > MAX_SHOWN else ""
    return InvalidArgumentError(
        f"body: {len(sentences)} mistakes: {'; '.join(sentences[:MAX_SHOWN])}{more}",
        errors=[
            {"field": mistake.place[:MAX_MISTAKE_CHARS], "expected": mistake.text[:MAX_MISTAKE_CHARS]}
            for mistake in mistakes
        ],
    )


def _explained(error: msgspec.ValidationError, kind: Any, where: str) -> InvalidArgumentError:
    found = misfit(error, kind)
    return InvalidArgumentError(
        f"{where}: {found.sentence}", errors=[{"field": found.place, "expected": found.expected}]
    )
