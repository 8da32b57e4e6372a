"""Which violations of a sandbox are reported: each once, and of each group no more than so many in an hour.

So a program cannot hide what it tries behind many cheap refusals of another group or of an earlier hour. The
shim uses this, too: only the standard library.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

PERIOD_SECONDS = 3600.0
MAX_PER_GROUP = 100
MAX_GROUPS = 64
"""Groups with a budget of their own: verbs for files, and system calls. The rest share one."""
OTHERS = "others"


def group_of(kind: str, subject: str) -> str:
    """Return the group of a violation: its verb or system call, or its kind if that says enough."""
    return subject.partition(" ")[0] if kind == "refused" else kind


def _now() -> float:
    return time.monotonic()


class ReportBudget:
    """The violations reported in the current hour. `clock` is monotonic."""

    def __init__(self, clock: Callable[[], float] = _now) -> None:
        self._clock = clock
        self._since = clock()
        self._told: dict[str, set[str]] = {}

    def renew(self) -> bool:
        """Begin anew if the hour is over; return whether it was."""
        if self._clock() - self._since < PERIOD_SECONDS:
            return False
        self._since = self._clock()
        self._told.clear()
        return True

    def take(self, kind: str, subject: str) -> Literal["report", "last", "no"]:
        """Return whether to report a violation. `last`: say instead that there are more of its group."""
        self.renew()
        group = group_of(kind, subject)
        if group not in self._told and len(self._told) >= MAX_GROUPS:
            group = OTHERS
        told = self._told.setdefault(group, set())
        if subject in told or len(told) > MAX_PER_GROUP:
            return "no"
        told.add(subject)
        return "report" if len(told) <= MAX_PER_GROUP else "last"
