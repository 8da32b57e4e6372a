"""Call operations: guarded requests, retries of read-only ones, results in the host's format."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hostler.domain.back_off import back_off
from hostler.domain.clock import wall_clock
from hostler.domain.record import Record
from hostler.egress import Egress, EgressError, EgressRefusedError, ExchangeLimits, HttpAnswer
from hostler.tools.errors import OutcomeUnknownError, ToolFailedError
from hostler.tools.openapi.limits import (
    FIRST_WAIT_SECONDS,
    MAX_ERROR_CHARS,
    MAX_PREVIEW_BYTES,
    MAX_TRIES,
    MAX_WAIT_SECONDS,
)
from hostler.tools.openapi.parameters import is_json
from hostler.tools.openapi.requests import ServiceRequest
from hostler.tools.openapi.security import Credentials
from hostler.tools.port import ToolInvocation
from hostler.tools.untrusted import decoded, error_of, is_text, kind_of, retry_after, status_text
from hostler_protocol.errors import (
    DeadlineExceededError,
    HostlerError,
    InvalidArgumentError,
    UnavailableError,
)

_RETRIED_STATUSES = frozenset({429, 502, 503, 504})
_UNKNOWN_OUTCOME = frozenset({502, 504})
"""Statuses of a gateway without a response: the service behind it may have done its work."""


class ServiceClient(Record):
    """Calls the operations of one document. `sleep` waits between attempts."""

    owner: str
    egress: Egress
    seconds: float
    max_bytes: int
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    now: Callable[[], float] = wall_clock

    async def call(
        self, invocation: ToolInvocation, request: ServiceRequest, credentials: Credentials
    ) -> dict[str, Any]:
        """Return the result: `source`, `untrusted`, `status` and `body`. Errors as in `ToolService.call`."""
        seconds = self.seconds
        if invocation.deadline is not None:
            seconds = min(seconds, invocation.deadline - self.now())
        if seconds <= 0:
            raise DeadlineExceededError(f"the deadline passed before {invocation.tool_name} was called")
        ends_at = self.now() + seconds
        if invocation.confirm is not None:
            await invocation.confirm()
        tries = MAX_TRIES if invocation.pin.effect == "pure" else 1
        for tried in range(1, tries + 1):
            answer = await self._send(invocation, request, credentials, max(0.01, ends_at - self.now()))
            wait = _wait(answer, tried)
            if tried == tries or wait is None or self.now() + wait >= ends_at:
                break
            await self.sleep(wait)
        return await self._result(invocation, answer, credentials)

    async def _send(
        self, invocation: ToolInvocation, request: ServiceRequest, credentials: Credentials, seconds: float
    ) -> HttpAnswer:
        try:
            return await self.egress.request(
                request.method,
                request.url,
                headers=request.headers,
                content=request.content,
                limits=ExchangeLimits(seconds=seconds, max_bytes=self.max_bytes),
                redirects="same-origin",
            )
        except EgressRefusedError as error:
            raise InvalidArgumentError(f"{self.owner} can't be called: {error.message}") from None
        except EgressError as error:
            message = f"{self.owner}: {credentials.redacted(error.message)}"
            if error.sent:
                raise OutcomeUnknownError(message) from None
            raise UnavailableError(message) from None

    async def _result(
        self, invocation: ToolInvocation, answer: HttpAnswer, credentials: Credentials
    ) -> dict[str, Any]:
        outcome = f"the service answered {status_text(answer.status)}"
        if answer.status in _UNKNOWN_OUTCOME and invocation.pin.effect != "pure":
            raise OutcomeUnknownError(f"{self.owner}: {outcome}, so that it may have done its work or not")
        if 300 <= answer.status < 400 and answer.status != 304:
            raise ToolFailedError.of(HostlerError(f"{outcome}: it wants to be asked at another address"))
        if answer.status >= 400:
            text = _error_text(answer, credentials)
            message = f"{outcome}: {text}" if text else outcome
            raise ToolFailedError.of(error_of(answer.status, answer.headers, message))
        result: dict[str, Any] = {"source": self.owner, "untrusted": True, "status": answer.status}
        if answer.truncated:
            return result | _preview(answer, credentials, self.max_bytes)
        return result | await self._body(invocation, answer, credentials)

    async def _body(
        self, invocation: ToolInvocation, answer: HttpAnswer, credentials: Credentials
    ) -> dict[str, Any]:
        if not answer.body:
            return {}
        kind = kind_of(answer.headers)
        if is_json(kind):
            found = _json(answer.body, credentials)
            if found is not None:
                return {"body": found.value}
        if is_text(kind, answer.body):
            return {"body": credentials.redacted(decoded(answer.headers, answer.body))}
        if invocation.artifacts is None:
            return {"note": f"the body is {kind or 'of no stated type'}, which can't be kept here"}
        kept = await invocation.artifacts.keep(
            answer.body, name=invocation.tool_name.rpartition(".")[2], mime_type=kind or None
        )
        return {"artifact": msgspec.to_builtins(kept)}


class _Parsed(Record):
    value: Any


def _json(body: bytes, credentials: Credentials) -> _Parsed | None:
    """Return the value with secrets replaced, in any JSON spelling; None if it is not JSON."""
    try:
        value = msgspec.json.decode(body)
        if not credentials.secrets:
            return _Parsed(value)
        text = msgspec.json.encode(value).decode()
        for secret in credentials.secrets:
            text = text.replace(msgspec.json.encode(secret).decode()[1:-1], "[secret]")
        return _Parsed(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _wait(answer: HttpAnswer, tried: int) -> float | None:
    """Return the seconds before a retry, or None for no retry."""
    if answer.status not in _RETRIED_STATUSES:
        return None
    asked = retry_after(answer.headers)
    if asked is not None:
        return asked if asked <= MAX_WAIT_SECONDS else None
    return back_off(tried, FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS)


def _error_text(answer: HttpAnswer, credentials: Credentials) -> str:
    kind = kind_of(answer.headers)
    if not answer.body or not is_text(kind, answer.body):
        return ""
    text = decoded(answer.headers, answer.body[: 4 * MAX_ERROR_CHARS])
    if is_json(kind) and (found := _json(answer.body, credentials)) is not None:
        text = msgspec.json.encode(found.value).decode()
    text = credentials.redacted(text).strip()
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[:MAX_ERROR_CHARS]}..."


def _preview(answer: HttpAnswer, credentials: Credentials, limit: int) -> dict[str, Any]:
    result: dict[str, Any] = {"truncated": True, "note": f"the body has over {limit:,} bytes"}
    if is_text(kind_of(answer.headers), answer.body):
        whole = credentials.redacted(decoded(answer.headers, answer.body))
        result["preview"] = whole[:MAX_PREVIEW_BYTES]
    return result
