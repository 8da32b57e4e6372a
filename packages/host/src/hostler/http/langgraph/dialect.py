"""How the LangGraph server names its callers and refuses: a key as `x-api-key`, errors as `detail`."""

from __future__ import annotations

from typing import Any

from hostler.http.dialects.dialect import Dialect, Refusal
from hostler.http.problems import Problem
from hostler_protocol.errors import CallerError, InvalidArgumentError

KEY_HEADER = "x-api-key"


class LangGraph(Dialect):
    """The habits of the LangGraph server."""

    name = "langgraph"

    def authorization(self, headers: dict[str, str]) -> str | None:
        """Return the key of a request as a bearer token: `x-api-key` is what its clients send."""
        key = headers.get(KEY_HEADER)
        return headers.get("authorization") if key is None else f"Bearer {key}"

    def refuse(self, problem: Problem) -> Refusal:
        """Return an error as its clients read it: `detail` is the message of what they raise."""
        return Refusal(problem.status, error_body(problem))


def error_body(problem: Problem) -> dict[str, Any]:
    """Return an error. `code`: the reason, where there is one; `errors`: the fields that are wrong."""
    body: dict[str, Any] = {
        "detail": problem.detail,
        "code": str(problem.details.get("reason") or problem.code),
    }
    if "errors" in problem.details:
        body["errors"] = problem.details["errors"]
    return body


def refused(field: str, sentence: str, expected: str = "to be left out") -> CallerError:
    """Return the error of a field whose feature this host does not have, or whose value it cannot take."""
    return InvalidArgumentError(f"{field}: {sentence}", errors=[{"field": field, "expected": expected}])


LANGGRAPH = LangGraph()
