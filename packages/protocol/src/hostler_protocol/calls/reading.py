"""Calls that read the conversation: history, events and steering messages."""

from __future__ import annotations

from typing import Literal

from hostler_protocol._base import Lenient, Strict
from hostler_protocol.calls.params import CallParams
from hostler_protocol.limits import DEFAULT_PAGE_ITEMS, Count
from hostler_protocol.runs import SteeringInputItem


class HistoryPageParams(CallParams):
    """`history.page`: `backward` is newest first, `forward` oldest first, with or without a cursor."""

    conversation_id: str | None = None
    before_cursor: str | None = None
    after_cursor: str | None = None
    limit: Count = DEFAULT_PAGE_ITEMS
    direction: Literal["backward", "forward"] = "backward"
    include_artifacts: bool = False


class HistorySearchFilters(Lenient):
    """Conditions on the messages found; times are UTC epoch seconds."""

    role: str | None = None
    after: float | None = None
    before: float | None = None
    conversation_id: str | None = None


class HistorySearchParams(CallParams):
    """`history.search`: find words, in any script. The query is no pattern: it has no wildcards."""

    query: str
    filters: HistorySearchFilters | None = None
    top_k: Count = 10


class EventGetParams(CallParams):
    """`event.get`."""

    event_id: str


class EventPageParams(CallParams):
    """`event.page`, newest first."""

    before_cursor: str | None = None
    event_types: list[str] | None = None
    limit: Count = DEFAULT_PAGE_ITEMS


class SteeringPullParams(CallParams):
    """`steering.pull`."""

    mode: Literal["all", "one-at-a-time"] = "all"
    limit: Count | None = None


class SteeringPullReply(Strict):
    """The messages, in the order in which they arrived."""

    items: list[SteeringInputItem]
