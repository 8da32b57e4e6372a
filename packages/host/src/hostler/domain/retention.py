"""How long things are kept."""

from __future__ import annotations

from hostler_protocol._base import Strict

MAX_DAYS = 36_500
"""A hundred years."""


class RetentionPolicy(Strict):
    """How many days things are kept; None: for ever.

    `deltas`: the pieces of streamed messages in journals (whole messages stay); `journals`: all of what ended
    runs did; `states`: state of conversations that nobody has touched.
    """

    events: float | None = None
    transcripts: float | None = None
    journals: float | None = None
    deltas: float | None = None
    artifacts: float | None = None
    states: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            days = getattr(self, name)
            if days is not None and not 0 <= days < MAX_DAYS:
                raise ValueError(f"{name} is {days:g} days; expected 0 to {MAX_DAYS:,}")
