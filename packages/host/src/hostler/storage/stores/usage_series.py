"""Use over time: runs, or calls of models, by name and step of time, with sums and percentiles.

The work of one report is bounded by `MAX_COUNTED`: of more runs, or calls, only the newest are counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec

from hostler.domain.record import Record
from hostler.storage.port import Query, Row, Tx
from hostler.storage.sql.statements import load
from hostler_protocol.limits import MAX_INTEGER

By: TypeAlias = Literal["none", "agent", "person", "model"]
MAX_COUNTED = 200_000
"""Runs, or calls of models, of one report, of however many workspaces: about a second's work."""
_HALVINGS = 10
"""Times that are tried for the begin of a report of several workspaces: to a thousandth of its period."""
_SUMS = (
    "runs",
    "calls",
    "completed",
    "failed",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cached_tokens",
)
_q = load(__file__)


class Period(Record):
    """Times in [since, until), UTC epoch ms, in steps of `step` ms.

    `shift`: how long before the epoch a step begins.
    """

    since: int
    until: int
    step: int
    shift: int = 0

    def begin_of(self, place: int) -> int:
        """Return when a step begins."""
        return place * self.step - self.shift


@dataclass(slots=True)
class Figures:
    """Sums of runs or calls, and how long they took. None: unknown of all."""

    sums: dict[str, float] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    """How many took about so many milliseconds."""

    def add(self, row: Row) -> None:
        """Add what a row of sums holds."""
        for name in (*_SUMS, "cost"):
            if row[name] is not None:
                self.sums[name] = self.sums.get(name, 0) + row[name]

    def merge(self, other: Figures) -> None:
        """Add another's figures."""
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0) + value
        for about, many in other.times.items():
            self.times[about] = self.times.get(about, 0) + many

    def whole(self, name: str) -> int | None:
        """Return a sum as an integer, at most the greatest of the protocol."""
        value = self.sums.get(name)
        return None if value is None else int(min(value, MAX_INTEGER))

    def percentile(self, percent: int) -> float | None:
        """Return the seconds within which so many percent were done, to about 3 %; None: unknown."""
        place = -(-sum(self.times.values()) * percent // 100)
        for about in sorted(self.times):
            place -= self.times[about]
            if place <= 0:
                return about / 1000
        return None


@dataclass(slots=True)
class Group:
    """The figures of one name: of the whole period, and of each step that has any."""

    total: Figures = field(default_factory=Figures)
    points: dict[int, Figures] = field(default_factory=lambda: defaultdict(Figures))

    def merge(self, other: Group) -> None:
        """Add another's figures."""
        self.total.merge(other.total)
        for place, figures in other.points.items():
            self.points[place].merge(figures)


class Series(Record):
    """Groups by name, those with the most first; None: all others together. `since`: counted from (ms)."""

    groups: Mapping[str | None, Group]
    since: int
    complete: bool


class _Source(Record):
    begin: Query
    names: Query
    sums: Query
    times: Query


_RUNS = _Source(_q.begin_of_newest, _q.run_names, _q.run_sums, _q.run_times)
_CALLS = _Source(_q.begin_of_newest_calls, _q.model_names, _q.model_sums, _q.model_times)


def read(
    tx: Tx, workspace_id: str, period: Period, *, by: By, most: int, agent_name: str | None = None
) -> Series:
    """Read the series of a workspace, of at most `most` names and all others as one."""
    source = _CALLS if by == "model" else _RUNS
    span: dict[str, Any] = {"workspace_id": workspace_id, "since": period.since, "until": period.until}
    cut = tx.one(source.begin, **span, most=MAX_COUNTED)
    if cut is not None:
        span["since"] = cut["created_at"] + 1
    chosen = {**span, "agent_name": agent_name, **({} if by == "model" else {"by": by})}
    names = [row["name"] for row in tx.all(source.names, **chosen, limit=most)]
    placed = {
        **chosen,
        "names": msgspec.json.encode(names).decode(),
        "step": period.step,
        "shift": period.shift,
    }
    found = _grouped(names, tx.all(source.sums, **placed), tx.all(source.times, **placed))
    return Series(found, int(span["since"]), cut is None)


def begin_of_runs(tx: Tx, workspace_ids: Collection[str], period: Period) -> int:
    """Return since when (ms) workspaces together have at most MAX_COUNTED runs of a period; about, at a cost.

    It is the begin of the period if that has no more. Looks at MAX_COUNTED keys of the index for each time.
    """
    if _fits(tx, workspace_ids, period, period.since):
        return period.since
    share = MAX_COUNTED // len(workspace_ids)
    too_early, found = period.since, period.since
    for ws in workspace_ids:  # together they have no more than this since the latest of these times
        cut = tx.one(_q.begin_of_newest, workspace_id=ws, since=period.since, until=period.until, most=share)
        found = max(found, period.since if cut is None else cut["created_at"] + 1)
    for _ in range(_HALVINGS):
        middle = (too_early + found) // 2
        if _fits(tx, workspace_ids, period, middle):
            found = middle
        else:
            too_early = middle
    return found


def _fits(tx: Tx, workspace_ids: Iterable[str], period: Period, since: int) -> bool:
    room = MAX_COUNTED
    for ws in workspace_ids:
        counted = tx.one(_q.count_runs, workspace_id=ws, since=since, until=period.until, limit=room + 1)
        room -= 0 if counted is None else counted["runs"]
        if room < 0:
            return False
    return True


def _grouped(names: Iterable[str], sums: Iterable[Row], times: Iterable[Row]) -> dict[str | None, Group]:
    groups: dict[str | None, Group] = {name: Group() for name in names}
    for row in sums:
        group = groups.setdefault(row["name"], Group())
        group.total.add(row)
        group.points[int(row["place"])].add(row)
    for row in times:
        group = groups.setdefault(row["name"], Group())
        about, many = max(0, int(row["about"])), int(row["many"])
        for figures in (group.total, group.points[int(row["place"])]):
            figures.times[about] = figures.times.get(about, 0) + many
    return groups
