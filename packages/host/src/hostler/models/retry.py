"""Retry a request, under a policy, until an answer begins."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from hostler.domain.record import Record
from hostler.models.call_timeouts import CallClock
from hostler.models.port import MayRepeat
from hostler.models.retry_policy import RetryPolicy
from hostler_protocol.errors import HostlerError

T = TypeVar("T")


class RetryLater(Record):
    """A temporary failure. `retry_after` in seconds, if the service asked for a pause."""

    error: HostlerError
    retry_after: float | None = None


async def with_retries(
    attempt: Callable[[], Awaitable[T | RetryLater]],
    policy: RetryPolicy,
    clock: CallClock,
    may_repeat: MayRepeat | None = None,
) -> T:
    """Return the result of the first successful attempt; raise the error of the last one if none succeeds."""
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
        if may_repeat is not None and not await may_repeat(outcome.error):
            raise outcome.error
