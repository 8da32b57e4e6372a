"""What OpenAI's interfaces have in common: keys as Bearer tokens, and errors in their shape.

Their clients repeat a request after 408, 409, 429 and 5xx, without an idempotency key. So each error says by
`x-should-retry`, which they follow, whether a repetition can help and does no harm.
"""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.http.dialects.dialect import Dialect, Refusal
from hostler.http.problems import PROBLEM_TYPE, Problem
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError

_WORTH_REPEATING = frozenset({408, 429, 503})
"""Nothing was started, and it may go better soon."""
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


class ErrorBody(Strict):
    """An error. `param`: the field of the request that is wrong; `code`: the reason, as the host names it."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorAnswer(Strict):
    """The body of a response that is an error."""

    error: ErrorBody


class ModelNotFoundError(NotFoundError):
    """No agent has the name that the request gives as its model."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"there is no model {model[:200]!r}: models are agents here, and GET /v1/models lists them",
            reason="model_not_found",
            param="model",
        )


class OpenAI(Dialect):
    """The habits of OpenAI's interfaces."""

    name = "openai"

    def refuse(self, problem: Problem) -> Refusal:
        """Return an error in the shape of OpenAI's, with whether its client shall repeat the request."""
        again = b"true" if problem.status in _WORTH_REPEATING else b"false"
        body: Any = msgspec.to_builtins(ErrorAnswer(error=error_of(problem)))
        return Refusal(problem.status, body, ((b"x-should-retry", again),))


class ModelProblem(Problem):
    """A problem document. `error`: the same to clients of OpenAI's interfaces."""

    error: ErrorBody


class Models(OpenAI):
    """The habits of the list of models, which clients of OpenAI's interfaces read, and those of this one."""

    problem = ModelProblem

    def refuse(self, problem: Problem) -> Refusal:
        """Return a problem document that has the error of OpenAI's interfaces, too."""
        refusal = super().refuse(problem)
        body = {**msgspec.structs.asdict(problem), **refusal.body}
        return Refusal(refusal.status, body, refusal.headers, PROBLEM_TYPE)


def error_of(problem: Problem) -> ErrorBody:
    """Return what is wrong, as OpenAI's interfaces say it."""
    default = "server_error" if problem.status >= 500 else "invalid_request_error"
    code = problem.details.get("reason") or _CODES.get(problem.status, problem.code)
    return ErrorBody(
        message=problem.detail,
        type=_TYPES.get(problem.status, default),
        param=_param_of(problem.details),
        code=str(code),
    )


def _param_of(details: dict[str, Any]) -> str | None:
    if isinstance(param := details.get("param"), str):
        return param
    match details.get("errors"):
        case [{"field": str(field)}, *_]:
            return field or None
    return None


OPENAI = OpenAI()
MODELS = Models()
