"""The HTTP API client of the command line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from hostler.cli.routes import route
from hostler.cli.transport import (
    BrokenError,
    HttpReply,
    HttpRequest,
    NotConnectedError,
    ServerTransport,
    ignore_sent,
    needs_library,
)
from hostler_protocol.errors import (
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from hostler_protocol.limits import MAX_PAGE_ITEMS

if TYPE_CHECKING:
    from hostler.journal.feed import StoredResult

REQUEST_SECONDS = 60.0
"""The most that an answer may take, except streams and long requests."""
LARGE_SECONDS = 300.0
"""The most that sending or reading a file may take."""
RECONNECT_SECONDS = 30.0
"""How long to try to resume a stream that broke: a server that restarts needs a few seconds."""
RECONNECT_PAUSE_SECONDS = 0.2
STREAM_SILENCE_SECONDS = 60.0
"""A stream sends a comment every 15 s; after this silence the connection counts as lost."""


PLAIN_ERRORS: Mapping[int, type[HostlerError]] = {
    HTTPStatus.BAD_REQUEST: InvalidArgumentError,
    HTTPStatus.NOT_FOUND: NotFoundError,
    HTTPStatus.SERVICE_UNAVAILABLE: UnavailableError,
}


class StreamEvent(NamedTuple):
    """One event of a stream. `data`: its JSON; empty if it only says how far the stream has come."""

    cursor: str
    type: str
    data: bytes


def _ignore(last: Any, why: str) -> None:
    pass


def _sequence_lost(on_lost: Callable[[int, str], object], last: str | None, why: str) -> None:
    on_lost(int(last or 0), why)


class AnswerError(HostlerError):
    """The server refused a request; message, status and code are from its answer."""

    def __init__(self, message: str, *, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.answer_code = code


class Api:
    """The API of one server, with one key. All errors are HostlerErrors whose message says what to do."""

    def __init__(self, wire: ServerTransport, url: str, key: str, *, in_process: bool = False) -> None:
        self._wire = wire
        self._headers = {"authorization": f"Bearer {key}", "accept": "*/*", "user-agent": "hostler"}
        self.url = url
        self.in_process = in_process
        """Whether it is a data directory opened for one command, in which no runs are carried out."""

    @classmethod
    def at(cls, url: str, key: str) -> Api:
        """Return the API of the server at `url`. InvalidArgumentError if the URL or the key is malformed."""
        base = url.rstrip("/").removesuffix("/v1")
        if not (key.isascii() and key.isprintable()):
            raise InvalidArgumentError("the key has characters that no key has: check --key or HOSTLER_KEY")
        if not _is_address(base):
            raise InvalidArgumentError(f"{url!r} is not the address of a server: write http://HOST:PORT")
        if needs_library(base):
            from hostler.cli.tls_transport import TlsTransport

            return cls(TlsTransport(base), base, key)
        from hostler.cli.http_transport import HttpTransport

        return cls(HttpTransport(base), base, key)

    async def close(self) -> None:
        """Close all connections."""
        await self._wire.close()

    async def get(self, path: str, **query: Any) -> Any:
        """Send a GET request and return the decoded answer."""
        return await self._json("GET", path, query)

    async def post(self, path: str, body: Any = None, *, seconds: float | None = None, **query: Any) -> Any:
        """Send a POST request and return the decoded answer, which may take `seconds`."""
        return await self._json("POST", path, query, {} if body is None else body, seconds)

    async def put(self, path: str, body: Any, *, seconds: float | None = None, **query: Any) -> Any:
        """Send a PUT request and return the decoded answer, which may take `seconds`."""
        return await self._json("PUT", path, query, body, seconds)

    async def delete(self, path: str, **query: Any) -> Any:
        """Send a DELETE request and return the decoded answer, None if it is empty."""
        return await self._json("DELETE", path, query)

    async def upload(self, path: str, content: bytes, media_type: str, **query: Any) -> Any:
        """Send a POST request with bytes as its body, and return the decoded answer."""
        headers = {**self._headers, "content-type": media_type}
        reply = await self._reply(HttpRequest("POST", _target(path, query), headers, content, LARGE_SECONDS))
        return self._decoded(reply)

    async def put_content(
        self,
        path: str,
        content: bytes,
        media_type: str,
        *,
        on_sent: Callable[[int], None] = ignore_sent,
        **query: Any,
    ) -> Any:
        """Send a PUT request with bytes as its body, and return the decoded answer. See `HttpRequest`."""
        headers = {**self._headers, "content-type": media_type}
        reply = await self._reply(
            HttpRequest("PUT", _target(path, query), headers, content, LARGE_SECONDS, on_sent)
        )
        return self._decoded(reply)

    async def deliver(self, target: str, headers: Mapping[str, str], content: bytes) -> HttpReply:
        """Send a POST request with these headers alone, without the key, and return the answer as it is."""
        return await self._send(HttpRequest("POST", target, headers, content, REQUEST_SECONDS))

    async def content(self, path: str) -> bytes:
        """Send a GET request and return the body of the answer."""
        return (await self._answer("GET", path, {}, seconds=LARGE_SECONDS)).body

    async def text(self, path: str) -> str:
        """Send a GET request and return the answer as text."""
        return (await self._answer("GET", path, {})).body.decode("utf-8", "replace")

    async def items(self, path: str, *, limit: int, cursor: str = "cursor", **query: Any) -> list[Any]:
        """Return up to `limit` items of a list, read page by page. `cursor` names the paging parameter."""
        found: list[Any] = []
        while len(found) < limit:
            page = await self.get(path, limit=min(MAX_PAGE_ITEMS, limit - len(found)), **query)
            found += page["items"]
            if not page.get("has_more") or page.get("next_cursor") is None:
                break
            query[cursor] = page["next_cursor"]
        return found[:limit]

    async def results(
        self,
        run_id: str,
        after: int = 0,
        *,
        on_lost: Callable[[int, str], object] = _ignore,
        patience: float = RECONNECT_SECONDS,
    ) -> AsyncIterator[StoredResult]:
        """Yield the results of a run until the terminal one, each once, also over a restart of the server.

        When a connection breaks, `on_lost` is called with the last sequence received and the reason.
        UnavailableError if it cannot be resumed within `patience` seconds; with 0 it is not tried.
        """
        from hostler.journal.feed import StoredResult

        cursor = str(after) if after else None
        lost = partial(_sequence_lost, on_lost)
        path = route("runs", run_id, "stream")
        async for event in self.follow(path, cursor, on_lost=lost, patience=patience):
            result = StoredResult(int(event.cursor), event.type, event.data)
            yield result
            if result.terminal:
                return

    async def follow(
        self,
        path: str,
        cursor: str | None = None,
        *,
        on_lost: Callable[[str | None, str], object] = _ignore,
        patience: float = RECONNECT_SECONDS,
        **query: Any,
    ) -> AsyncIterator[StreamEvent]:
        """Yield the events of a stream for ever, each once, also over a restart of the server.

        When a connection breaks, `on_lost` is called with the last cursor received and the reason.
        UnavailableError if it cannot be resumed within `patience` seconds; with 0 it is not tried.
        """
        last, lost_since = cursor, None
        while True:
            try:
                async for event in self._stream(path, last, query):
                    last, lost_since = event.cursor, None
                    if event.data:
                        yield event
            except UnavailableError as error:
                now = time.monotonic()
                if lost_since is None:
                    lost_since = now
                    on_lost(last, error.message)
                if patience == 0.0:
                    raise
                if now - lost_since > patience:
                    raise UnavailableError(
                        f"the connection to {self.url} was lost, and could not be restored within "
                        f"{patience:.0f} s; what was followed may still be active"
                    ) from error
            await asyncio.sleep(RECONNECT_PAUSE_SECONDS)

    async def _stream(
        self, path: str, cursor: str | None, query: Mapping[str, Any]
    ) -> AsyncIterator[StreamEvent]:
        headers = {**self._headers, "accept": "text/event-stream"}
        if cursor:
            headers["last-event-id"] = cursor
        target = _target(path, query)
        request = HttpRequest("GET", target, headers, b"", STREAM_SILENCE_SECONDS)
        try:
            async with self._wire.stream(request) as answer:
                if answer.status != HTTPStatus.OK:
                    body = b"\n".join([line async for line in answer.lines])
                    raise self._refusal(HttpReply(answer.status, answer.reason, body))
                async for result in _events(answer.lines):
                    yield result
        except (NotConnectedError, BrokenError) as error:
            raise self._unreachable(error) from error

    async def _json(
        self, method: str, path: str, query: Mapping[str, Any], body: Any = None, seconds: float | None = None
    ) -> Any:
        return self._decoded(await self._answer(method, path, query, body, seconds))

    def _decoded(self, answer: HttpReply) -> Any:
        if not answer.body:
            return None
        try:
            return msgspec.json.decode(answer.body)
        except msgspec.DecodeError as error:
            raise UnavailableError(
                f"the answer of {self.url} is not JSON: is it the address of a hostler server?"
            ) from error

    async def _answer(
        self, method: str, path: str, query: Mapping[str, Any], body: Any = None, seconds: float | None = None
    ) -> HttpReply:
        headers, content = self._headers, b""
        if body is not None:
            headers, content = {**headers, "content-type": "application/json"}, msgspec.json.encode(body)
        target, wait = _target(path, query), seconds or REQUEST_SECONDS
        return await self._reply(HttpRequest(method, target, headers, content, wait))

    async def _reply(self, request: HttpRequest) -> HttpReply:
        reply = await self._send(request)
        if HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
            return reply
        raise self._refusal(reply)

    async def _send(self, request: HttpRequest) -> HttpReply:
        try:
            return await self._wire.send(request)
        except (NotConnectedError, BrokenError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: NotConnectedError | BrokenError) -> UnavailableError:
        if isinstance(error, NotConnectedError):
            return UnavailableError(
                f"no server answers at {self.url}: start one with `hostler serve`, or correct --url"
            )
        return UnavailableError(f"the connection to {self.url} broke: {error}")

    def _refusal(self, answer: HttpReply) -> HostlerError:
        try:
            problem = msgspec.json.decode(answer.body)
            detail, code = str(problem["detail"]), str(problem["code"])
        except (msgspec.DecodeError, KeyError, TypeError):
            detail = f"it answered {answer.status} {answer.reason}: is it a hostler server?"
            return AnswerError(f"{self.url}: {detail}", status=answer.status, code="runtime_error")
        match answer.status:
            case HTTPStatus.UNAUTHORIZED:
                return UnauthorizedError(
                    f"{self.url} refused the key: {detail}; give a valid one with --key or HOSTLER_KEY "
                    "(a server keeps its admin key in admin.key of its data directory)",
                    status=answer.status,
                )
            case HTTPStatus.FORBIDDEN:
                return UnauthorizedError(f"{detail}; use a key that has this right", status=answer.status)
        if (plain := PLAIN_ERRORS.get(answer.status)) is not None:
            details = problem.get("details") or {}
            mistakes = {name: details[name] for name in ("errors", "warnings") if name in details}
            # on a command line there are only options
            return plain(detail.removeprefix("query: ").removeprefix("body: "), **mistakes)
        return AnswerError(detail, status=answer.status, code=code)


def _target(path: str, query: Mapping[str, Any]) -> str:
    parameters = {name: _plain(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(parameters, doseq=True)}" if parameters else path


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # also UnicodeError, for a name that is too long
        return False


async def _events(lines: AsyncIterator[bytes]) -> AsyncIterator[StreamEvent]:
    cursor, kind, data = "", "", b""
    async for line in lines:
        name, _, value = line.partition(b": ")
        if name == b"id":
            cursor = value.decode()
        elif name == b"event":
            kind = value.decode()
        elif name == b"data":
            data = value
        elif not line and cursor:
            yield StreamEvent(cursor, kind, data)
            kind, data = "", b""
