"""Choose the models to try, and decide when to try the next one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hostler_sdk.errors import HostError
from hostler_sdk.types import ErrorCode, ModelResource
from local_agent.run_errors import ENDS_THE_RUN


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model to ask: whether it streams and counts tokens, and its window in tokens if known."""

    model_id: str
    streams: bool
    counts: bool = False
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failed request to a model."""

    model_id: str
    code: ErrorCode
    message: str
    retryable: bool


class ModelsFailed(Exception):  # noqa: N818 - becomes the run's `failed` result
    """No model gave an answer. `code`, `text` and `retryable` are those of the run's failure."""

    def __init__(self, code: str, text: str, retryable: bool) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.retryable = retryable


def candidates(wanted: Sequence[str], granted: Sequence[ModelResource]) -> tuple[list[Candidate], list[str]]:
    """Return the models to try, in order, and those of `wanted` that the run may not use."""
    known = {model.model_id: model for model in granted}
    allowed = [
        Candidate(
            model_id,
            streams="stream" in known[model_id].operations,
            counts="count_tokens" in known[model_id].operations,
            window=known[model_id].context_window_tokens,
        )
        for model_id in wanted
        if model_id in known and {"stream", "invoke"} & set(known[model_id].operations)
    ]
    chosen = {candidate.model_id for candidate in allowed}
    return allowed, [model_id for model_id in wanted if model_id not in chosen]


def may_fall_back(failed: Attempt, *, shown: bool) -> bool:
    """Whether to try the next model: only if nothing of an answer was shown."""
    return not shown and failed.code not in ENDS_THE_RUN


def is_overflow(error: HostError) -> bool:
    """Whether the request was longer than the model's window."""
    return error.details.get("reason") == "context_overflow"


def failure(attempts: Sequence[Attempt], *, shown: bool) -> ModelsFailed:
    """Build the run's failure after the last attempt."""
    last = attempts[-1]
    if last.code == "deadline_exceeded":
        return out_of_time(last.message)
    if last.code == "cancelled":
        return ModelsFailed("cancelled", last.message, False)
    code = "local-agent.rate_limited" if last.code == "rate_limited" else "local-agent.model_error"
    if shown:
        return ModelsFailed(code, f"the answer broke off: {last.message}", last.retryable)
    if len(attempts) == 1:
        return ModelsFailed(code, last.message, last.retryable)
    models = len({attempt.model_id for attempt in attempts})
    reasons = "; ".join(dict.fromkeys(attempt.message for attempt in attempts))
    text = f"all {models} models failed: {reasons}" if models > 1 else reasons
    return ModelsFailed(code, text, any(attempt.retryable for attempt in attempts))


def out_of_time(message: str) -> ModelsFailed:
    """Build the failure of a run whose deadline has passed."""
    return ModelsFailed(
        "runner.timeout", f"{message}; raise config `timeout`, or choose a faster model", True
    )
