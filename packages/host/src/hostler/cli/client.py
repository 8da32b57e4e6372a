"""The HTTP API as the command line uses it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
import msgspec

from hostler.cli.routes import route
from hostler.feed import StoredResult
from hostler_protocol.errors import (
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
)
from hostler_protocol.limits import MAX_PAGE_ITEMS

MAX_PORT = 65_535
REQUEST_SECONDS = 60.0
"""A whole answer of the server, streams and waits aside."""
RECONNECT_SECONDS = 30.0
"""How long a stream that was cut off is asked for again: a server needs a moment to restart."""
RECONNECT_PAUSE_SECONDS = 0.2
STREAM_SILENCE_SECONDS = 60.0
"""A stream sends a comment every 15 s; after this silence the connection counts as lost."""


PLAIN_ERRORS: dict[int, type[HostlerError]] = {
    httpx.codes.BAD_REQUEST: InvalidArgumentError,
    httpx.codes.NOT_FOUND: NotFoundError,
    httpx.codes.SERVICE_UNAVAILABLE: UnavailableError,
}


def _say_nothing(last: int, why: str) -> None:
    pass


class AnswerError(HostlerError):
    """The server refused; the message is its own. `code` and `status` as it gave them."""

    def __init__(self, message: str, *, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.answer_code = code


class Api:
    """One server, spoken to with one key. Errors are HostlerErrors whose message says what to do."""

    def __init__(self, client: httpx.AsyncClient, url: str, *, in_process: bool = False) -> None:
        self._client = client
        self.url = url
        self.in_process = in_process
        """Whether it is a data directory opened for one command: no run goes on there, no stream waits."""

    @classmethod
    def at(cls, url: str, key: str) -> Api:
        """Speak with the server at `url`."""
        base = url.rstrip("/").removesuffix("/v1")
        if not (key.isascii() and key.isprintable()):
            raise InvalidArgumentError("the key holds characters that no key has: give it with --key again")
        try:
            parsed = httpx.URL(base)
        except (httpx.InvalidURL, UnicodeError):
            parsed = httpx.URL()
        if parsed.scheme not in ("http", "https") or not parsed.host or (parsed.port or 1) > MAX_PORT:
            raise InvalidArgumentError(f"{url!r} is no address of a server: write http://HOST:PORT")
        headers = {"authorization": f"Bearer {key}"}
        return cls(httpx.AsyncClient(base_url=base, headers=headers, timeout=REQUEST_SECONDS), base)

    async def close(self) -> None:
        """End all connections."""
        await self._client.aclose()

    async def get(self, path: str, **query: Any) -> Any:
        """Read something."""
        return await self._json("GET", path, query)

    async def post(self, path: str, body: Any = None, *, seconds: float | None = None, **query: Any) -> Any:
        """Send something; `seconds` is how long the answer may take."""
        return await self._json("POST", path, query, {} if body is None else body, seconds)

    async def put(self, path: str, body: Any, *, seconds: float | None = None) -> Any:
        """Make or change something; `seconds` is how long the answer may take."""
        return await self._json("PUT", path, {}, body, seconds)

    async def delete(self, path: str) -> Any:
        """Delete something; what the server says of it, where it says anything."""
        return await self._json("DELETE", path, {})

    async def text(self, path: str) -> str:
        """Read something that is not JSON."""
        return (await self._answer("GET", path, {})).text

    async def items(self, path: str, *, limit: int, cursor: str = "cursor", **query: Any) -> list[Any]:
        """Read a list, page by page, up to `limit` items. `cursor` is the name of the paging parameter."""
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
        on_lost: Callable[[int, str], object] = _say_nothing,
    ) -> AsyncIterator[StoredResult]:
        """The results of a run until the terminal one, each once, also over a restart of the server.

        `on_lost` is told when a connection breaks: the last sequence that came, and why.
        """
        last, lost_since = after, None
        while True:
            try:
                async for result in self._stream(run_id, last):
                    last, lost_since = result.sequence, None
                    yield result
                    if result.terminal:
                        return
            except UnavailableError as error:
                now = time.monotonic()
                if lost_since is None:
                    lost_since = now
                    on_lost(last, error.message)
                if now - lost_since > RECONNECT_SECONDS:
                    raise UnavailableError(
                        f"the connection to {self.url} was lost, and could not be made again for "
                        f"{RECONNECT_SECONDS:.0f} s; the run is {run_id}"
                    ) from error
            await asyncio.sleep(RECONNECT_PAUSE_SECONDS)

    async def _stream(self, run_id: str, after: int) -> AsyncIterator[StoredResult]:
        headers = {"accept": "text/event-stream"}
        if after:
            headers["last-event-id"] = str(after)
        timeout = httpx.Timeout(REQUEST_SECONDS, read=STREAM_SILENCE_SECONDS)
        request = self._client.build_request(
            "GET", route("runs", run_id, "stream"), headers=headers, timeout=timeout
        )
        try:
            answer = await self._client.send(request, stream=True)
            try:
                if answer.status_code != httpx.codes.OK:
                    await answer.aread()
                    raise self._refusal(answer)
                async for result in _events(answer):
                    yield result
            finally:
                await answer.aclose()
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    async def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: Any = None,
        seconds: float | None = None,
    ) -> Any:
        answer = await self._answer(method, path, query, body, seconds)
        if not answer.content:
            return None
        try:
            return msgspec.json.decode(answer.content)
        except msgspec.DecodeError as error:
            raise UnavailableError(
                f"{self.url} answered something that is no JSON: is it the address of a hostler server?"
            ) from error

    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: Any = None,
        seconds: float | None = None,
    ) -> httpx.Response:
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"content-type": "application/json"}
        params = {name: _plain(value) for name, value in query.items() if value is not None}
        try:
            answer = await self._client.request(
                method,
                path,
                params=params,
                content=content,
                headers=headers,
                timeout=seconds or REQUEST_SECONDS,
            )
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        if answer.is_success:
            return answer
        raise self._refusal(answer)

    def _unreachable(self, error: Exception) -> UnavailableError:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return UnavailableError(
                f"no server answers at {self.url}: start one with `hostler serve`, or correct --url"
            )
        why = str(error) or type(error).__name__
        return UnavailableError(f"the connection to {self.url} broke: {why}")

    def _refusal(self, answer: httpx.Response) -> HostlerError:
        try:
            problem = msgspec.json.decode(answer.content)
            detail, code = str(problem["detail"]), str(problem["code"])
        except (msgspec.DecodeError, KeyError, TypeError):
            detail = f"it answered {answer.status_code} {answer.reason_phrase}: is it a hostler server?"
            return AnswerError(f"{self.url}: {detail}", status=answer.status_code, code="runtime_error")
        match answer.status_code:
            case httpx.codes.UNAUTHORIZED:
                return UnauthorizedError(
                    f"{self.url} refused the key: {detail}; give a valid one with --key or HOSTLER_KEY "
                    "(a server keeps its admin key in admin.key of its data directory)"
                )
            case httpx.codes.FORBIDDEN:
                return UnauthorizedError(f"{detail}; use a key that has it")
        if (plain := PLAIN_ERRORS.get(answer.status_code)) is not None:
            return plain(detail.removeprefix("query: ").removeprefix("body: "))  # here, both are options
        return AnswerError(detail, status=answer.status_code, code=code)


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


async def _events(answer: httpx.Response) -> AsyncIterator[StoredResult]:
    sequence, kind, data = 0, "", b""
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "id":
            sequence = int(value)
        elif name == "event":
            kind = value
        elif name == "data":
            data = value.encode()
        elif not line and data:
            yield StoredResult(sequence, kind, data)
            data = b""
