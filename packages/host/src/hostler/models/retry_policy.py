"""Decide whether and when to retry a request that has no answer yet. Pure."""

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping
from datetime import UTC

from hostler.domain.back_off import back_off
from hostler.domain.record import Record
from hostler.models.limits import FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, MAX_RETRY_AFTER_SECONDS

RETRIED_STATUSES = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Statuses of temporary failures. Some services use 529 for overload."""


class RetryPolicy(Record):
    """At most `max_retries` retries, with a back-off that doubles and is reduced by up to half at random."""

    max_retries: int = 2

    def delay(
        self, attempt: int, *, jitter: float, retry_after: float | None, time_left: float | None
    ) -> float | None:
        """Return the seconds to wait after failed attempt `attempt` (from 1); None: give up.

        `jitter` is a random number in [0, 1). A pause that the service asks for is kept; if it is longer than
        30 s, the policy gives up. No attempt starts after the deadline, `time_left` seconds away.
        """
        if attempt > self.max_retries:
            return None
        if retry_after is not None and retry_after > MAX_RETRY_AFTER_SECONDS:
            return None
        wait = back_off(attempt, FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)
        pause = max(wait * (0.5 + jitter / 2), retry_after or 0.0)
        return None if time_left is not None and pause >= time_left else pause


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the pause that a service asks for, in seconds, from `retry-after-ms` or `retry-after`.

    `headers` has lower-case names; `now` is UTC epoch seconds. None if it is missing or malformed.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or not value:
        return seconds
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - now)


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
