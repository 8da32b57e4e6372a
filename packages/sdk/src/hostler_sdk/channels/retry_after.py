"""How long a platform says to wait: in a `Retry-After`, or in a field of its answer."""

from __future__ import annotations

import math
import re
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from hostler_sdk.channels.channel import MAX_RETRY_SECONDS

MAX_CHARS = 64
"""Of a date; longer texts are none."""
_NUMBER = re.compile(r"([0-9]+)(?:\.[0-9]*)?", re.ASCII)
_WHOLE_DIGITS = 12
"""Of a number that is still to be read: one with more is over any wait."""


def wait_of(value: Any, *, unit: float = 1.0, now: float | None = None) -> float | None:
    """Return the seconds that a value says to wait: a number, as text or not, or an HTTP date.

    None if it says nothing of the kind, such as a missing header, a negative number or NaN. More than
    MAX_RETRY_SECONDS become that, a date that is over no wait. `unit`: of a number, in seconds; `now`: UTC
    epoch seconds, by default of the clock.
    """
    if isinstance(value, str):
        text = value.strip()
        if (number := _NUMBER.fullmatch(text)) is not None:
            return _bounded(math.inf if len(number[1]) > _WHOLE_DIGITS else float(text) * unit)
        until = _moment(text)
        return None if until is None else _bounded(until - (time.time() if now is None else now))
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return None
    return None if value == math.inf else _bounded(min(value, 10**_WHOLE_DIGITS) * unit)


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), MAX_RETRY_SECONDS)


def _moment(text: str) -> float | None:
    if not 0 < len(text) <= MAX_CHARS:
        return None
    try:
        moment = parsedate_to_datetime(text)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, LookupError, OverflowError):
        return None
