"""Every error is a problem document with one of our codes."""

from __future__ import annotations

import json

import pytest

from hostler.domain import pause_actions
from hostler.domain.channel_requests import SilentHostError
from hostler.domain.hook_signatures import HookRefusedError
from hostler.domain.pause_actions import (
    AlreadyDecidedError,
    BlindDecisionError,
    NotApproverError,
    PauseExpiredError,
    StaleViewError,
    SupersededError,
    UnprocessableError,
)
from hostler.domain.retention import CursorLostError
from hostler.http import problems
from hostler.http.problems import (
    STATUS_OF_CLASS,
    STATUS_OF_CODE,
    HeadersTooLargeError,
    KeyReusedError,
    MethodNotAllowedError,
    RangeNotSatisfiableError,
    RequestTimeoutError,
    UnauthenticatedError,
    UnsupportedMediaTypeError,
    UpgradeRequiredError,
    encode_problem,
    headers_of,
    problem_of,
    status_of,
)
from hostler_protocol import errors
from hostler_protocol.errors import (
    ERROR_CODES,
    CancelledCallError,
    ConflictError,
    DeadlineExceededError,
    DeniedError,
    ExpiredError,
    HostError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    PayloadTooLargeError,
    PluginCrashedError,
    PluginProtocolError,
    PluginStartError,
    RateLimitedError,
    StorageError,
    UnauthorizedError,
    UnavailableError,
)

pytestmark = pytest.mark.gate("http-bounds")

CASES: list[tuple[HostlerError, int, str]] = [
    (InvalidArgumentError("x"), 400, "invalid_argument"),
    (UnauthenticatedError("x"), 401, "unauthorized"),
    (HookRefusedError("wrong", "x"), 401, "unauthorized"),
    (UnauthorizedError("x"), 403, "unauthorized"),
    (DeniedError("x"), 403, "denied"),
    (NotFoundError("x"), 404, "not_found"),
    (MethodNotAllowedError("PUT", ["GET"]), 405, "invalid_argument"),
    (RequestTimeoutError("x"), 408, "deadline_exceeded"),
    (ConflictError("x"), 409, "conflict"),
    (CancelledCallError("x"), 409, "cancelled"),
    (ExpiredError("x"), 410, "expired"),
    (PayloadTooLargeError("x"), 413, "payload_too_large"),
    (UnsupportedMediaTypeError("x"), 415, "invalid_argument"),
    (RangeNotSatisfiableError(3), 416, "invalid_argument"),
    (KeyReusedError("x"), 422, "conflict"),
    (UnprocessableError("x", reason="wrong_kind"), 422, "invalid_argument"),
    (NotApproverError("x"), 403, "unauthorized"),
    (BlindDecisionError("k1"), 403, "unauthorized"),
    (AlreadyDecidedError("x"), 409, "conflict"),
    (StaleViewError("x"), 409, "conflict"),
    (SupersededError("x"), 409, "conflict"),
    (PauseExpiredError("x"), 410, "expired"),
    (CursorLostError("r1", "sequence", 3), 410, "expired"),
    (UpgradeRequiredError("x"), 426, "invalid_argument"),
    (HeadersTooLargeError("x"), 431, "payload_too_large"),
    (RateLimitedError("x", 2.5), 429, "rate_limited"),
    (HostError("x"), 500, "runtime_error"),
    (PluginCrashedError("x"), 502, "runtime_error"),
    (PluginProtocolError("x"), 502, "runtime_error"),
    (PluginStartError("x"), 502, "runtime_error"),
    (StorageError("x"), 503, "runtime_error"),
    (UnavailableError("x"), 503, "runtime_error"),
    (SilentHostError("x"), 504, "runtime_error"),
    (DeadlineExceededError("x"), 504, "deadline_exceeded"),
]


def test_every_code_has_its_status() -> None:
    assert set(STATUS_OF_CODE) == ERROR_CODES
    assert {code for _, _, code in CASES} == ERROR_CODES


def test_every_error_class_has_a_case() -> None:
    def all_of(kind: type[HostlerError]) -> set[type[HostlerError]]:
        return {kind}.union(*(all_of(below) for below in kind.__subclasses__()))

    here = {errors.__name__, problems.__name__, pause_actions.__name__}
    classes = {kind for kind in all_of(HostlerError) if kind.__module__ in here}
    known = {kind for kind in classes if classes.isdisjoint(kind.__subclasses__())}
    assert known - {type(error) for error, _, _ in CASES} == {errors.RemoteFaultError}
    assert set(STATUS_OF_CLASS) - {kind for error, _, _ in CASES for kind in type(error).__mro__} == set()


@pytest.mark.parametrize(("error", "status", "code"), CASES, ids=lambda value: str(value)[:30])
def test_the_document_of_an_error(error: HostlerError, status: int, code: str) -> None:
    assert status_of(error) == status
    document = json.loads(encode_problem(problem_of(error)))
    assert document == {
        "type": f"urn:hostler:problem:{error.details.get('reason', code)}",
        "title": document["title"],
        "status": status,
        "detail": error.message,
        "code": code,
        "retryable": error.retryable,
        "details": error.details,
    }
    assert document["title"]


def test_headers_that_a_status_demands() -> None:
    assert dict(headers_of(UnauthenticatedError("x"), 401)) == {
        b"www-authenticate": b'Bearer realm="hostler"'
    }
    assert dict(headers_of(MethodNotAllowedError("PUT", ["GET", "HEAD"]), 405)) == {b"allow": b"GET, HEAD"}
    assert dict(headers_of(RangeNotSatisfiableError(7), 416)) == {b"content-range": b"bytes */7"}
    assert dict(headers_of(RateLimitedError("x", 0.2), 429)) == {b"retry-after": b"1"}
    assert dict(headers_of(RateLimitedError("x", 2.1), 429)) == {b"retry-after": b"3"}
    assert dict(headers_of(UnavailableError("x"), 503)) == {b"retry-after": b"1"}
    assert headers_of(NotFoundError("x"), 404) == []


def test_details_that_json_does_not_know_are_written_as_text() -> None:
    document = json.loads(encode_problem(problem_of(NotFoundError("x", place=complex(1, 2)))))
    assert document["details"] == {"place": "(1+2j)"}
