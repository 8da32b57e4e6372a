"""What lists of runs and their totals are asked for, and the totals."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hostler.http.pagination import Limit, Moment, page_size
from hostler_protocol._base import Strict
from hostler_protocol.limits import DEFAULT_PAGE_ITEMS
from hostler_protocol.runs import RunStatus

MAX_SEARCH_CHARS = 200
MAX_SKIPPED = 5_000
"""Runs that a page leaves out: their keys are read from the index, in about 10 ms."""
Cost = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_SEARCH_CHARS)]


class TotalsQuery(Strict):
    """Filters of runs. Times are UTC epoch seconds of the run's creation. `cursor`: `next_cursor` of the part
    or page before.

    `min_cost`: only runs that cost at least so much. `tool`: only runs that used the tool of this name.
    `text`: only runs in which this was asked or answered, whole words, in order of the messages.
    """

    status: list[RunStatus] = []
    agent: str | None = None
    conversation_id: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    min_cost: Cost | None = None
    tool: str | None = None
    text: Text | None = None
    cursor: str | None = None


class RunsQuery(TotalsQuery):
    """The filters of the totals, and `limit`: runs per page, capped at 100.

    `dead`: only runs that the host gave up on and that were not retried; combines with agent and times only.
    `skip`: leave out so many runs first, to read from the middle of a long list, behind a cursor of its
    totals; goes with times and at most one of agent, conversation and tool.
    """

    limit: Limit = DEFAULT_PAGE_ITEMS
    dead: bool = False
    skip: Annotated[int, msgspec.Meta(ge=0, le=MAX_SKIPPED)] = 0

    @property
    def size(self) -> int:
        """The number of runs of the page."""
        return page_size(self.limit)


class RunTotals(Strict):
    """Sums over a part of the runs: add up the parts until `has_more` is false.

    `by_status`: numbers of runs. Tokens and cost are null if no run of the part has a value. `timed`: runs
    that began and ended, and `seconds` from the one to the other.
    """

    runs: int
    by_status: dict[str, int]
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    timed: int
    seconds: float
    next_cursor: str | None
    has_more: bool
