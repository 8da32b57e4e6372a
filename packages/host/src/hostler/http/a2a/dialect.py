"""Errors of A2A: by JSON-RPC a code and by HTTP+JSON a status, both with a reason that clients know.

Clients of JSON-RPC read the error of a response only if its status is 200; so what is wrong with a key, with
the size of a request or with the host has its own status, and everything else is a 200.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hostler.http.dialects.dialect import Dialect, Refusal
from hostler.http.dialects.placeholders import Placeholder
from hostler.http.problems import Problem
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError

NAME = "a2a"
"""The detail of an error that holds its reason in A2A, where that is decided with the error."""
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
DOMAIN = "a2a-protocol.org"
MAX_METADATA_CHARS = 2_000
"""Of one detail of an error, which is text there."""


class Meaning(NamedTuple):
    """What an error is called. `status`: of HTTP; `name`: of the canonical code."""

    reason: str
    code: int
    status: int
    name: str


MEANINGS: Mapping[str, Meaning] = {
    one.reason: one
    for one in (
        Meaning("TASK_NOT_FOUND", -32001, 404, "NOT_FOUND"),
        Meaning("TASK_NOT_CANCELABLE", -32002, 400, "FAILED_PRECONDITION"),
        Meaning("UNSUPPORTED_OPERATION", -32004, 400, "FAILED_PRECONDITION"),
        Meaning("CONTENT_TYPE_NOT_SUPPORTED", -32005, 415, "INVALID_ARGUMENT"),
        Meaning("VERSION_NOT_SUPPORTED", -32009, 400, "FAILED_PRECONDITION"),
        Meaning("INVALID_REQUEST", -32600, 400, "INVALID_ARGUMENT"),
        Meaning("METHOD_NOT_FOUND", -32601, 404, "NOT_FOUND"),
        Meaning("INVALID_PARAMS", -32602, 400, "INVALID_ARGUMENT"),
        Meaning("INTERNAL_ERROR", -32603, 500, "INTERNAL"),
        Meaning("PARSE_ERROR", -32700, 400, "INVALID_ARGUMENT"),
    )
}
_REFUSED = -32000
"""Of JSON-RPC: what the protocol has no code for."""
_BY_STATUS: Mapping[int, tuple[str, str]] = {
    401: ("UNAUTHENTICATED", "UNAUTHENTICATED"),
    403: ("PERMISSION_DENIED", "PERMISSION_DENIED"),
    408: ("TIMEOUT", "DEADLINE_EXCEEDED"),
    429: ("RATE_LIMITED", "RESOURCE_EXHAUSTED"),
    503: ("UNAVAILABLE", "UNAVAILABLE"),
    504: ("TIMEOUT", "DEADLINE_EXCEEDED"),
}
_SHOWN_STATUSES = frozenset({401, 403, 405, 408, 413, 429, 431})
"""Those of JSON-RPC, beside 5xx."""


class TaskNotFoundError(NotFoundError):
    """No such task, or none that the caller may see."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"there is no task {task_id[:200]!r} of this agent", a2a="TASK_NOT_FOUND")


class AgentNotFoundError(NotFoundError):
    """No agent has the name in the path."""

    def __init__(self, agent: str) -> None:
        super().__init__(f"there is no agent {agent[:200]!r}", a2a="METHOD_NOT_FOUND")


class PushConfigNotFoundError(NotFoundError):
    """A task has no such configuration of notifications."""

    def __init__(self, config_id: str) -> None:
        super().__init__(
            f"the task has no push notification configuration {config_id[:200]!r}", a2a="TASK_NOT_FOUND"
        )


class TaskNotCancelableError(ConflictError):
    """A task that is over."""

    def __init__(self, state: str) -> None:
        super().__init__(f"the task is over ({state}): it cannot be cancelled", a2a="TASK_NOT_CANCELABLE")


class UnsupportedOperationError(ConflictError):
    """A task does not take this now."""

    def __init__(self, message: str) -> None:
        super().__init__(message, a2a="UNSUPPORTED_OPERATION")


class VersionNotSupportedError(InvalidArgumentError):
    """A client of another version of the protocol."""

    def __init__(self, version: str) -> None:
        super().__init__(
            f"A2A version {version[:40]!r} is not supported: send the header A2A-Version: 1.0",
            a2a="VERSION_NOT_SUPPORTED",
            supported="1.0",
        )


class MethodNotFoundError(NotFoundError):
    """A2A has no such method."""

    def __init__(self, method: str) -> None:
        super().__init__(f"A2A 1.0 has no method {method[:100]!r} here", a2a="METHOD_NOT_FOUND")


def meaning_of(problem: Problem) -> Meaning:
    """Return what an error is called in A2A."""
    if (known := MEANINGS.get(str(problem.details.get(NAME)))) is not None:
        return known
    status = problem.status
    if status in _BY_STATUS:
        reason, name = _BY_STATUS[status]
        return Meaning(reason, _REFUSED, status, name)
    if status >= 500:
        return MEANINGS["INTERNAL_ERROR"]._replace(status=status)
    found = {
        404: "TASK_NOT_FOUND",
        409: "UNSUPPORTED_OPERATION",
        410: "UNSUPPORTED_OPERATION",
        415: "CONTENT_TYPE_NOT_SUPPORTED",
    }.get(status, "INVALID_PARAMS")
    known = MEANINGS[found]
    return known if found == "TASK_NOT_FOUND" else known._replace(status=status)


def details_of(problem: Problem, meaning: Meaning) -> list[dict[str, Any]]:
    """Return the details of an error: its reason, with what the host knows of it as text."""
    metadata = {
        name: str(value)[:MAX_METADATA_CHARS]
        for name, value in {"code": problem.code, **problem.details}.items()
        if name != NAME
    }
    return [{"@type": ERROR_INFO, "reason": meaning.reason, "domain": DOMAIN, "metadata": metadata}]


def rpc_error(problem: Problem, request_id: str | int | Placeholder | None) -> dict[str, Any]:
    """Return an error as a response of JSON-RPC."""
    meaning = meaning_of(problem)
    error = {"code": meaning.code, "message": problem.detail, "data": details_of(problem, meaning)}
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def rest_error(problem: Problem) -> dict[str, Any]:
    """Return an error as the body of a response of HTTP+JSON."""
    meaning = meaning_of(problem)
    return {
        "error": {
            "code": meaning.status,
            "status": meaning.name,
            "message": problem.detail,
            "details": details_of(problem, meaning),
        }
    }


def rpc_status(problem: Problem) -> int:
    """Return the status of a response of JSON-RPC with an error."""
    if problem.status in _SHOWN_STATUSES or problem.status >= 500:
        return problem.status
    return 200


class JsonRpc(Dialect):
    """A2A by JSON-RPC. `refuse` is for what is wrong before the request is read."""

    name = "a2a"

    def refuse(self, problem: Problem) -> Refusal:
        """Return an error as a response to an unknown request."""
        if problem.status == 400 and "reason" not in problem.details and NAME not in problem.details:
            problem.details[NAME] = "INVALID_REQUEST" if "errors" in problem.details else "PARSE_ERROR"
        return Refusal(rpc_status(problem), rpc_error(problem, None))


class HttpJson(Dialect):
    """A2A by HTTP+JSON."""

    name = "a2a"

    def refuse(self, problem: Problem) -> Refusal:
        """Return an error as a `google.rpc.Status`."""
        return Refusal(meaning_of(problem).status, rest_error(problem))


JSON_RPC = JsonRpc()
HTTP_JSON = HttpJson()
