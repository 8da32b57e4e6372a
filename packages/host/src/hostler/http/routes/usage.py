"""Usage and cost."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from hostler.domain.same_fields import with_fields_of
from hostler.http.endpoint import endpoint
from hostler.http.pagination import Moment
from hostler.http.request import ApiRequest
from hostler.storage.stores import usage
from hostler.storage.stores.usage import UsageRow
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError

_DAY = 86_400.0
_MAX_DAYS = 366


class UsageQuery(Strict):
    """Times are UTC epoch seconds; the default is the last 30 days. At most 366 days."""

    since: Moment | None = None
    until: Moment | None = None
    agent: str | None = None


class UsageSum(Strict):
    """Runs and their usage. Unknown numbers are left out of the sums; null: all are unknown."""

    runs: int
    completed: int
    failed: int
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cached_tokens: int | None
    cost: float | None


class AgentDay(UsageSum):
    """One agent on one day (UTC)."""

    agent: str
    day: str


class UsageReport(Strict):
    """`complete` is false if there are more rows than fit: request a shorter period or one agent."""

    since: float
    until: float
    total: UsageSum
    items: list[AgentDay]
    complete: bool


@endpoint("GET", "/v1/usage", right="usage:read", tag="usage")
async def get_usage(request: ApiRequest, query: UsageQuery) -> UsageReport:
    """Sum up tokens and cost per agent and day, of runs created in a period."""
    until = time.time() if query.until is None else query.until
    since = max(0.0, until - 30 * _DAY) if query.since is None else query.since
    if not since <= until <= since + _MAX_DAYS * _DAY:
        raise InvalidArgumentError(f"since must be before until, by at most {_MAX_DAYS} days")
    rows = await request.state.host.db.read(
        lambda tx: usage.by_agent(
            tx,
            request.workspace_id,
            since=int(since * 1000),
            until=int(until * 1000) + 1,
            agent_name=query.agent,
            limit=usage.MAX_ROWS + 1,
        )
    )
    shown = rows[: usage.MAX_ROWS]
    return UsageReport(
        since=since,
        until=until,
        total=_total(shown),
        items=[_agent_day(row) for row in shown],
        complete=len(rows) == len(shown),
    )


def _agent_day(row: UsageRow) -> AgentDay:
    return with_fields_of(
        row,
        AgentDay,
        agent=row.agent_name,
        day=datetime.fromtimestamp(row.day * _DAY, UTC).date().isoformat(),
    )


def _total(rows: list[UsageRow]) -> UsageSum:
    def total(values: list[int | None]) -> int | None:
        numbers = [value for value in values if value is not None]
        return sum(numbers) if numbers else None

    costs = [row.cost for row in rows if row.cost is not None]
    return UsageSum(
        runs=sum(row.runs for row in rows),
        completed=sum(row.completed for row in rows),
        failed=sum(row.failed for row in rows),
        input_tokens=total([row.input_tokens for row in rows]),
        output_tokens=total([row.output_tokens for row in rows]),
        total_tokens=total([row.total_tokens for row in rows]),
        cached_tokens=total([row.cached_tokens for row in rows]),
        cost=sum(costs) if costs else None,
    )
