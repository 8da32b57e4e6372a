"""Sums of token use and cost of runs, for reports and metrics."""

from __future__ import annotations

from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler_protocol.limits import MAX_INTEGER

MAX_ROWS = 10_000
"""Rows of one report: agents times days."""
_q = load(__file__)


class UsageRow(Record):
    """One agent on one day. `day`: days since 1970-01-01 UTC.

    Sums leave out unknown values; None if all are unknown.
    """

    agent_name: str
    day: int
    runs: int
    completed: int
    failed: int
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cached_tokens: int | None
    cost: float | None


def by_agent(
    tx: Tx, workspace_id: str, *, since: int, until: int, agent_name: str | None = None, limit: int = MAX_ROWS
) -> list[UsageRow]:
    """Sum runs created in [since, until) (UTC epoch ms) per agent and day, latest day first."""
    rows = tx.all(
        _q.by_agent, workspace_id=workspace_id, since=since, until=until, agent_name=agent_name, limit=limit
    )
    return [
        from_row(
            row,
            UsageRow,
            input_tokens=_tokens(row["input_tokens"]),
            output_tokens=_tokens(row["output_tokens"]),
            total_tokens=_tokens(row["total_tokens"]),
            cached_tokens=_tokens(row["cached_tokens"]),
        )
        for row in rows
    ]


def _tokens(total: float | None) -> int | None:
    """Return a sum of tokens, capped at the greatest integer of the protocol."""
    return None if total is None else int(min(total, MAX_INTEGER))


def open_runs(tx: Tx) -> dict[str, int]:
    """Count unfinished runs of all workspaces, by status."""
    return {row["status"]: row["runs"] for row in tx.all(_q.open_runs)}
