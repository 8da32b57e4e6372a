"""Use over time, by agent, person, model or workspace."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from hostler.http.auth import has_right, require_right
from hostler.http.endpoint import endpoint
from hostler.http.pagination import Moment
from hostler.http.request import ApiRequest
from hostler.http.routes.budgets import Name
from hostler.storage.port import Tx
from hostler.storage.stores import members, usage_series
from hostler.storage.stores.retention import workspaces
from hostler.storage.stores.usage_series import Figures, Group, Period, Series
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError, UnauthorizedError

By = Literal["none", "agent", "person", "model", "workspace"]
Step = Literal["hour", "day", "week"]
HOUR, DAY = 3600, 86_400
STEPS: Mapping[Step, int] = {"hour": HOUR, "day": DAY, "week": 7 * DAY}
MAX_POINTS = 800
"""Steps of one period: a month of hours, two years of days."""
MAX_WORKSPACES = 100
_MONDAY = 3 * DAY
"""1970-01-01 was a Thursday: weeks begin this long before the epoch's."""


class SeriesQuery(Strict):
    """What is summed up. Times are UTC epoch seconds; the default is the last 30 days.

    `step`: of time; by default hours in up to three days, weeks in more than 200. `by`: what the figures are
    grouped by; `none`: only the total. `most`: groups that are named; all others are one without a name.
    `by=workspace`, and another `workspace_id`, take the right `installation`.
    """

    since: Moment | None = None
    until: Moment | None = None
    step: Step | None = None
    by: By = "agent"
    agent: Name | None = None
    most: Annotated[int, msgspec.Meta(ge=1, le=50)] = 7
    workspace_id: Name | None = None


class UsageFigures(Strict):
    """Runs, or with `by=model` calls of models and the runs that made them, and what they used.

    Unknown numbers are left out of the sums; null: all are unknown. `p50` and `p95`: half of them, and 95 %,
    took at most so many seconds, to about 3 %: runs from their start to their end, waiting for people
    included; calls that did not fail.
    """

    runs: int
    calls: int | None
    completed: int
    failed: int
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cached_tokens: int | None
    cost: float | None
    p50: float | None
    p95: float | None


class UsagePoint(UsageFigures):
    """The figures of one step that begins `at`."""

    at: float


class UsageGroup(Strict):
    """One agent, person, model or workspace; `name` null: all others together. `title`: a person's name.

    An empty name is that of runs that nobody asked for, or whose person was erased. Steps without anything
    are left out.
    """

    name: str | None
    title: str | None
    total: UsageFigures
    points: list[UsagePoint]


class UsageSeries(Strict):
    """Use over time. `step`: seconds. Without groups `points` and `total` are of all.

    `complete` is false if there is more than is counted at once, 200,000 runs or calls, of all workspaces
    together: those since `counted_since` are.
    """

    since: float
    until: float
    step: int
    by: By
    counted_since: float
    complete: bool
    total: UsageFigures
    points: list[UsagePoint]
    groups: list[UsageGroup]


@endpoint("GET", "/v1/usage/series", right="usage:read", tag="usage")
async def get_usage_series(request: ApiRequest, query: SeriesQuery) -> UsageSeries:
    """Sum up runs, tokens, cost, failures and latency over time, by agent, person, model or workspace.

    Runs count when they were created, calls of models when they ended.
    """
    workspace = _workspace(request, query.workspace_id)
    period = _period(query)
    if query.by == "workspace":
        require_right(request.caller, "installation")
        found, titles = await _by_workspace(request, period, query), dict[str, str]()
    else:
        by = query.by

        def read(tx: Tx) -> tuple[Series, dict[str, str]]:
            series = usage_series.read(tx, workspace, period, by=by, most=query.most, agent_name=query.agent)
            people = [name for name in series.groups if name] if by == "person" else []
            return series, members.names(tx, workspace, people)

        found, titles = await request.state.host.db.read(read)
    return _report(query, period, found, titles)


async def _by_workspace(request: ApiRequest, period: Period, query: SeriesQuery) -> Series:
    """Read each workspace for itself: their sums are small, and no statement crosses workspaces.

    All are counted since the same time, from which on they have no more runs together than one report counts.
    """
    db = request.state.host.db
    names = await workspaces(db)
    if len(names) > MAX_WORKSPACES:
        raise InvalidArgumentError(
            f"there are more than {MAX_WORKSPACES} workspaces: name one with workspace_id"
        )
    since = await db.read(lambda tx: usage_series.begin_of_runs(tx, names, period))
    groups: dict[str, Group] = {}
    counted = replace(period, since=since)
    for name in names:
        one = await db.read(
            lambda tx, name=name: usage_series.read(  # type: ignore[misc]
                tx, name, counted, by="none", most=1, agent_name=query.agent
            )
        )
        if one.groups:
            groups[name] = next(iter(one.groups.values()))
    ranked = sorted(groups, key=lambda name: (-(groups[name].total.whole("runs") or 0), name))
    shown: dict[str | None, Group] = {name: groups[name] for name in ranked[: query.most]}
    for name in ranked[query.most :]:
        shown.setdefault(None, Group()).merge(groups[name])
    return Series(shown, since, since == period.since)


def _workspace(request: ApiRequest, named: str | None) -> str:
    if named is None or named == request.workspace_id:
        return request.workspace_id
    if not has_right(request.caller, "installation"):
        raise UnauthorizedError("only the installation's administrator sees the use of another workspace")
    return named


def _period(query: SeriesQuery) -> Period:
    until = time.time() if query.until is None else query.until
    since = max(0.0, until - 30 * DAY) if query.since is None else query.since
    if not since <= until:
        raise InvalidArgumentError("since must be before until")
    span = until - since
    step = query.step or ("hour" if span <= 3 * DAY else "day" if span <= 200 * DAY else "week")
    if span > MAX_POINTS * STEPS[step]:
        raise InvalidArgumentError(
            f"the period has more than {MAX_POINTS} steps of a {step}: name a shorter one, or a longer step"
        )
    shift = _MONDAY if step == "week" else 0
    return Period(int(since * 1000), int(until * 1000) + 1, STEPS[step] * 1000, shift * 1000)


def _report(query: SeriesQuery, period: Period, found: Series, titles: Mapping[str, str]) -> UsageSeries:
    whole = Group()
    for group in found.groups.values():
        whole.merge(group)
    by_model = query.by == "model"
    ranked = sorted(found.groups.items(), key=lambda one: one[0] is None)  # the others come last
    return UsageSeries(
        since=period.since / 1000,
        until=(period.until - 1) / 1000,
        step=period.step // 1000,
        by=query.by,
        counted_since=found.since / 1000,
        complete=found.complete,
        total=_figures(whole.total, by_model),
        points=_points(whole, period, by_model),
        groups=[
            UsageGroup(
                name=name,
                title=None if name is None else titles.get(name),
                total=_figures(group.total, by_model),
                points=_points(group, period, by_model),
            )
            for name, group in (() if query.by == "none" else ranked)
        ],
    )


def _points(group: Group, period: Period, by_model: bool) -> list[UsagePoint]:
    return [
        UsagePoint(
            at=period.begin_of(place) / 1000,
            **msgspec.structs.asdict(_figures(group.points[place], by_model)),
        )
        for place in sorted(group.points)
    ]


def _figures(figures: Figures, by_model: bool) -> UsageFigures:
    whole = figures.whole
    return UsageFigures(
        runs=whole("runs") or 0,
        calls=(whole("calls") or 0) if by_model else None,
        completed=whole("completed") or 0,
        failed=whole("failed") or 0,
        input_tokens=whole("input_tokens"),
        output_tokens=whole("output_tokens"),
        total_tokens=whole("total_tokens"),
        cached_tokens=whole("cached_tokens"),
        cost=figures.sums.get("cost"),
        p50=figures.percentile(50),
        p95=figures.percentile(95),
    )
