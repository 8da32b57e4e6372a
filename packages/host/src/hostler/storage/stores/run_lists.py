"""Lists of runs by filters, newest first, and sums over them, at a cost that does not grow with the table.

A list walks one index, or the hits of the text index. The filters look at SCANNED_RUNS of it at once; a page
with fewer runs than it has room for may be followed by others.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hostler.domain.record import Record
from hostler.storage.port import Query, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import search
from hostler.storage.stores.filters import NEWEST
from hostler.storage.stores.run_rows import Run, run_of
from hostler.storage.stores.search_tokens import parse_query
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.runs import RunStatus

_q = load(__file__)

SCANNED_RUNS = 2_000
"""Runs that one page looks at, about 10 ms; with rare filters a page has few runs, or none."""
SUMMED_RUNS = 5_000
"""Runs that one part of the totals sums up, about 30 ms."""
_FIRST_KEYS = 4
"""Keys read first, for each run of the page: enough if one in four matches."""
_HITS = 100
"""Messages with the text that one page looks at."""
_LATER_ITEMS = 200
_MESSAGE_SLACK_MS = 300_000
"""How much older than its run a message may be: it waited, or another host's clock differs."""
_UNSUCCESSFUL: frozenset[RunStatus] = frozenset({"failed", "timeout", "cancelled"})


class RunFilter(Record, kw_only=True):
    """What the runs of a list have in common. Times are UTC epoch milliseconds; `until` is included.

    `text`: words that were asked or answered. `tool`: its name. `min_cost`: the least cost.
    """

    statuses: Collection[RunStatus] | None = None
    agent_name: str | None = None
    conversation_id: str | None = None
    since: int = 0
    until: int = NEWEST
    min_cost: float | None = None
    tool: str | None = None
    text: str | None = None

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the statements that apply it."""
        return {
            "statuses": None if not self.statuses else f",{','.join(sorted(self.statuses))},",
            "agent_name": self.agent_name,
            "conversation_id": self.conversation_id,
            "since": self.since,
            "until": self.until,
            "min_cost": self.min_cost,
            "tool_name": self.tool,
        }

    @property
    def is_one_walk(self) -> bool:
        """Whether every run of its walk passes, so that runs of the list can be counted and left out."""
        if self.statuses or self.min_cost is not None or self.text is not None:
            return False
        walks = (self.agent_name, self.conversation_id, self.tool)
        return sum(one is not None for one in walks) <= 1

    @property
    def walk(self) -> Query:
        """The statement that reads the fewest keys."""
        if self.tool is not None:
            return _q.keys_of_tool
        if self.conversation_id is not None:
            return _q.keys_of_conversation
        if self.statuses and _UNSUCCESSFUL.issuperset(self.statuses):
            return _q.keys_unsuccessful
        return _q.keys if self.agent_name is None else _q.keys_of_agent


class Place(NamedTuple):
    """Where a list goes on: behind the run of this time and id; by text, before this message."""

    at: int
    run_id: str = ""


class RunPage(NamedTuple):
    """Runs, newest first. `after`: where the list goes on; None: it is at its end."""

    items: list[Run]
    after: Place | None


@dataclass(slots=True)
class RunTotals:
    """Sums over runs. None: no run has a value. `timed`: the runs that began and ended."""

    by_status: dict[str, int] = field(default_factory=dict)
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    timed: int = 0
    milliseconds: int = 0


class _Keys(NamedTuple):
    run_ids: list[str]
    after: Place | None


def page(
    tx: Tx, workspace_id: str, wanted: RunFilter, after: Place | None, limit: int, *, skip: int = 0
) -> RunPage:
    """Return at most `limit` runs, of the SCANNED_RUNS that follow `after`.

    `skip`: leave out so many first, which reads their keys alone. InvalidArgumentError if the filters do not
    name one walk.
    """
    if skip and not wanted.is_one_walk:
        raise InvalidArgumentError(
            "skip goes with times and at most one of agent, conversation_id and tool: leave the others out"
        )
    if wanted.text is not None:
        return _page_by_text(tx, workspace_id, wanted, after, limit)
    found: list[Run] = []
    looked_at, more = 0, limit * _FIRST_KEYS
    while looked_at < SCANNED_RUNS and len(found) < limit:
        keys = _keys(tx, workspace_id, wanted, after, min(more, SCANNED_RUNS - looked_at), skip)
        skip = 0
        room = limit - len(found)
        fitting = _matching(tx, workspace_id, wanted, keys.run_ids, room + 1)
        found += fitting[:room]
        if len(fitting) > room:
            return RunPage(found, Place(found[-1].created_at, found[-1].run_id))
        if keys.after is None:
            return RunPage(found, None)
        after, looked_at, more = keys.after, looked_at + len(keys.run_ids), SCANNED_RUNS
    return RunPage(found, after)


def totals(
    tx: Tx, workspace_id: str, wanted: RunFilter, after: Place | None
) -> tuple[RunTotals, Place | None]:
    """Sum up the matching ones of the SUMMED_RUNS that follow `after`; return too where to go on."""
    if wanted.text is not None:
        hits = _hits(tx, workspace_id, wanted, after)
        keys = _Keys(list(hits.seqs), hits.after)
    else:
        keys = _keys(tx, workspace_id, wanted, after, SUMMED_RUNS)
    found = RunTotals()
    ids = json.dumps(keys.run_ids)
    for row in tx.all(_q.totals, workspace_id=workspace_id, run_ids=ids, **wanted.params):
        found.by_status[row["status"]] = int(row["runs"])
        found.input_tokens = _sum(found.input_tokens, row["input_tokens"])
        found.output_tokens = _sum(found.output_tokens, row["output_tokens"])
        if row["cost"] is not None:
            found.cost = (found.cost or 0.0) + float(row["cost"])
        found.timed += int(row["timed"])
        found.milliseconds += int(row["milliseconds"] or 0)
    return found, keys.after


def _sum(before: int | None, more: float | None) -> int | None:
    return before if more is None else (before or 0) + int(more)


def _keys(  # noqa: PLR0917
    tx: Tx, workspace_id: str, wanted: RunFilter, after: Place | None, limit: int, skip: int = 0
) -> _Keys:
    """Return the next run ids of the walk, after the first `skip`."""
    place = after or Place(min(wanted.until, NEWEST - 1) + 1)
    rows = tx.all(
        wanted.walk,
        workspace_id=workspace_id,
        agent_name=wanted.agent_name,
        conversation_id=wanted.conversation_id,
        tool_name=wanted.tool,
        since=wanted.since,
        before_time=place.at,
        before_id=place.run_id,
        limit=limit + 1,
        skip=skip,
    )
    ids = [str(row["run_id"]) for row in rows[:limit]]
    ends = len(rows) <= limit
    return _Keys(ids, None if ends else Place(rows[limit - 1]["created_at"], ids[-1]))


def _matching(tx: Tx, workspace_id: str, wanted: RunFilter, run_ids: list[str], limit: int) -> list[Run]:
    if not run_ids:
        return []
    ids = json.dumps(run_ids)
    rows = tx.all(_q.matching, workspace_id=workspace_id, run_ids=ids, limit=limit, **wanted.params)
    return [run_of(row) for row in rows]


# -- by text ---------------------------------------------------------------------------------------


class _Hits(NamedTuple):
    """Runs by the sequence of their newest message with the text, the newest first."""

    seqs: dict[str, int]
    after: Place | None


def _page_by_text(tx: Tx, workspace_id: str, wanted: RunFilter, after: Place | None, limit: int) -> RunPage:
    hits = _hits(tx, workspace_id, wanted, after)
    found = _matching(tx, workspace_id, wanted, list(hits.seqs), _HITS)
    if len(found) <= limit:
        return RunPage(found, hits.after)
    fitting = {run.run_id for run in found}
    shown = [run_id for run_id in hits.seqs if run_id in fitting][:limit]
    return RunPage([run for run in found if run.run_id in shown], Place(hits.seqs[shown[-1]]))


def _hits(tx: Tx, workspace_id: str, wanted: RunFilter, after: Place | None) -> _Hits:
    """Return the runs of the next messages with the text. InvalidArgumentError for a text without words."""
    before_seq = None if after is None else after.at
    found = search.search(
        tx,
        workspace_id,
        wanted.text or "",
        after=None if wanted.since == 0 else wanted.since - _MESSAGE_SLACK_MS,
        before_seq=before_seq,
        limit=_HITS,
    )
    events = [item.event_id for item in found.items if item.run_id is None and item.event_id is not None]
    of_event: dict[str, str] = {}
    if events:
        ids = json.dumps(events)
        rows = tx.all(_q.runs_of_events, workspace_id=workspace_id, event_ids=ids)
        of_event = {row["event_id"]: row["run_id"] for row in rows}
    seqs: dict[str, int] = {}
    for item in found.items:
        run_id = item.run_id or of_event.get(item.event_id or "")
        if run_id is not None:
            seqs.setdefault(run_id, item.seq)
    kept = {
        run_id: seq
        for run_id, seq in seqs.items()
        if before_seq is None or not _was_found(tx, workspace_id, wanted, run_id, before_seq)
    }
    ends = found.complete and found.total_count <= len(found.items)
    return _Hits(kept, None if ends or not found.items else Place(found.items[-1].seq))


def _was_found(tx: Tx, workspace_id: str, wanted: RunFilter, run_id: str, seq: int) -> bool:
    """Whether a later message of a run has the text too, so that the run was on an earlier page."""
    asked = parse_query(wanted.text or "")
    rows = tx.all(_q.said_later, workspace_id=workspace_id, run_id=run_id, seq=seq, limit=_LATER_ITEMS)
    return any(asked.matches(row["search_text"]) for row in rows)
