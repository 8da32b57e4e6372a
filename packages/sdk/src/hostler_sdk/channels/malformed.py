"""Events that have another shape than expected: what reading them raises, and how that is said."""

from __future__ import annotations

MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading an event raises whose shape is another than expected, as from a newer version of a platform.

Such an event is delivered all the same, as `platform.unreadable` or by the parts that can be read.
"""

MAX_REASON = 500


def reason_of(error: BaseException) -> str:
    """Return why an event could not be read, as its data say it under `unreadable`."""
    return f"{type(error).__name__}: {error}"[:MAX_REASON]
