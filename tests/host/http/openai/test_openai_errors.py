"""Errors in the shape of OpenAI's: what is wrong, where, and whether a client shall repeat its request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostler.http.openai.dialect import OPENAI, ModelNotFoundError
from hostler.http.problems import UnauthenticatedError, problem_of
from hostler_protocol.errors import (
    ConflictError,
    DeniedError,
    HostError,
    HostlerError,
    InvalidArgumentError,
    RateLimitedError,
    UnauthorizedError,
    UnavailableError,
)


def refused(error: HostlerError) -> tuple[int, dict[str, Any], str]:
    refusal = OPENAI.refuse(problem_of(error))
    body = json.loads(refusal.encode())
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return refusal.status, body["error"], dict(refusal.headers)[b"x-should-retry"].decode()


@pytest.mark.parametrize(
    ("error", "status", "kind", "code", "again"),
    [
        (UnauthenticatedError("no"), 401, "authentication_error", "invalid_api_key", "false"),
        (UnauthorizedError("no"), 403, "permission_error", "unauthorized", "false"),
        (DeniedError("no"), 403, "permission_error", "denied", "false"),
        (ModelNotFoundError("gpt"), 404, "invalid_request_error", "model_not_found", "false"),
        (ConflictError("no"), 409, "invalid_request_error", "conflict", "false"),
        (ConflictError("no", reason="stale_view"), 409, "invalid_request_error", "stale_view", "false"),
        (RateLimitedError("no", 2.0), 429, "rate_limit_error", "rate_limit_exceeded", "true"),
        (HostError("no"), 500, "server_error", "runtime_error", "false"),
        (UnavailableError("no"), 503, "server_error", "runtime_error", "true"),
    ],
)
def test_an_error_has_its_status_and_says_whether_to_repeat(
    error: HostlerError, status: int, kind: str, code: str, again: str
) -> None:
    found, body, should_retry = refused(error)
    assert (found, body["type"], body["code"], should_retry) == (status, kind, code, again)
    assert body["message"] == error.message


def test_an_error_names_the_field_that_is_wrong() -> None:
    wrong = InvalidArgumentError("no", errors=[{"field": "messages[0].role", "expected": "a role"}])
    assert refused(wrong)[1]["param"] == "messages[0].role"
    assert refused(ModelNotFoundError("gpt"))[1]["param"] == "model"
    assert refused(InvalidArgumentError("no", errors=[]))[1]["param"] is None
