"""How long things are kept."""

from __future__ import annotations

from typing import Literal

from hostler_protocol._base import Strict
from hostler_protocol.errors import ExpiredError, InvalidArgumentError

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


def check_retention(policy: RetentionPolicy) -> None:
    """Refuse days that no operator can mean. InvalidArgumentError names the kind."""
    for name in policy.__struct_fields__:
        days = getattr(policy, name)
        if days is not None and not 0 <= days < MAX_DAYS:
            raise InvalidArgumentError(f"retention: {name} is {days:g} days; expected 0 to {MAX_DAYS:,}")


class CursorLostError(ExpiredError):
    """What a cursor points at was dropped. `snapshot`: the address of the run as it stands."""

    def __init__(self, run_id: str, counted: Literal["sequence", "position"], after: int) -> None:
        snapshot = f"/v1/runs/{run_id}"
        super().__init__(
            f"{counted} {after} of run {run_id} is no longer kept: read the run at {snapshot}, which has its"
            " messages, and follow its stream from the sequence that stands there",
            run_id=run_id,
            snapshot=snapshot,
        )
