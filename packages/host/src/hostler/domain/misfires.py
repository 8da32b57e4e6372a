"""What a schedule does at a moment: fire, catch up on what it has missed, leave it out, or wait. Pure."""

from __future__ import annotations

import itertools
from typing import Literal

from hostler.domain.firing_times import Timing, offset_of
from hostler.domain.record import Record

Misfire = Literal["skip", "once", "all"]
MAX_CATCH_UP = 100
"""Missed firings that `all` makes up for; earlier ones are left out."""
MAX_COUNTED = 1_000
"""Left out firings are counted up to this number."""


class MisfirePolicy(Record):
    """`grace`: how late a firing may be before it counts as missed; `jitter`: the most that it may be later
    than planned. Both in milliseconds.
    """

    misfire: Misfire
    grace: int
    jitter: int = 0


class Step(Record):
    """What a schedule does next. `fire`: the planned time to fire for; None: nothing fires.

    `left_out`: missed firings that do not happen, at most MAX_COUNTED. `next`: the planned time after that;
    None: the schedule has ended. `late`: by how much `fire` is late, in milliseconds.
    """

    fire: int | None
    next: int | None
    left_out: int = 0
    late: int = 0


def next_step(timing: Timing, policy: MisfirePolicy, schedule_id: str, planned: int, now: int) -> Step | None:
    """Decide at `now` about a schedule whose next planned time is `planned`; None: it is not due."""
    late = now - planned - offset_of(schedule_id, planned, policy.jitter)
    if late < 0:
        return None
    if late <= policy.grace:
        return Step(planned, timing.next(planned), late=late)
    # all that is planned until here is missed, whatever its jitter
    until = max(planned, now - policy.grace - policy.jitter - 1)
    recent = timing.latest(planned, until, MAX_CATCH_UP if policy.misfire == "all" else 1)
    if not recent:  # the timing has changed since it was planned
        recent = [planned]
    if policy.misfire == "skip":
        return Step(None, timing.next(recent[-1]), left_out=_count(timing, planned, recent[-1]) + 1)
    first = recent[0]
    late = now - first - offset_of(schedule_id, first, policy.jitter)
    return Step(first, timing.next(first), left_out=_count(timing, planned, first), late=late)


def _count(timing: Timing, first: int, last: int) -> int:
    """Count the planned times from `first` to before `last`, up to MAX_COUNTED."""
    return sum(1 for _ in itertools.islice(timing.between(first, last - 1), MAX_COUNTED))
