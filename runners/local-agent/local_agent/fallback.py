"""Which models are tried, and when the next one may be. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hostler_sdk.types import ErrorCode, ModelResource

_ENDS_THE_RUN: frozenset[ErrorCode] = frozenset({"deadline_exceeded", "cancelled"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may be asked; `streams`: whether it may be asked for a stream."""

    model_id: str
    streams: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """A try that failed."""

    model_id: str
    code: ErrorCode
    message: str
    retryable: bool


def candidates(wanted: Sequence[str], granted: Sequence[ModelResource]) -> tuple[list[Candidate], list[str]]:
    """The models to try in their order, and those of `wanted` that the run may not ask."""
    operations = {model.model_id: model.operations for model in granted}
    allowed = [
        Candidate(model_id, streams="stream" in operations[model_id])
        for model_id in wanted
        if {"stream", "invoke"} & set(operations.get(model_id, ()))
    ]
    chosen = {candidate.model_id for candidate in allowed}
    return allowed, [model_id for model_id in wanted if model_id not in chosen]


def may_fall_back(failed: Attempt, *, shown: bool) -> bool:
    """Whether the next model may be asked: only before anything of an answer was shown."""
    return not shown and failed.code not in _ENDS_THE_RUN


def failure(attempts: Sequence[Attempt], *, shown: bool) -> tuple[str, str, bool]:
    """Code, text and `retryable` of the run's failure after the last attempt."""
    last = attempts[-1]
    if last.code == "deadline_exceeded":
        return "runner.timeout", f"{last.message}; raise config `timeout`, or choose a faster model", True
    if last.code == "cancelled":
        return "cancelled", last.message, False
    code = "local-agent.rate_limited" if last.code == "rate_limited" else "local-agent.model_error"
    if shown:
        return code, f"the answer broke off: {last.message}", last.retryable
    if len(attempts) == 1:
        return code, last.message, last.retryable
    told = "; ".join(attempt.message for attempt in attempts)
    return code, f"all {len(attempts)} models failed: {told}", any(a.retryable for a in attempts)
