"""Tries a request again while nothing of an answer has arrived, as the policy says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from hostler.models.call_timeouts import CallClock
from hostler.models.retry_policy import RetryPolicy
from hostler_protocol.errors import HostlerError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryLater:
    """A try that failed in a way that may pass. `retry_after` in seconds, where the service named it."""

    error: HostlerError
    retry_after: float | None = None


async def with_retries(
    attempt: Callable[[], Awaitable[T | RetryLater]], policy: RetryPolicy, clock: CallClock
) -> T:
    """What the first try that succeeds gives; raises the error of the last one."""
    tries = 0
    while True:
        outcome = await attempt()
        if not isinstance(outcome, RetryLater):
            return outcome
        tries += 1
        pause = policy.delay(
            tries,
            jitter=random.random(),  # noqa: S311 - spreads load, guards nothing
            retry_after=outcome.retry_after,
            time_left=clock.time_left(),
        )
        if pause is None:
            raise outcome.error
        await asyncio.sleep(pause)
