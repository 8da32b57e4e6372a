"""Pages of lists, with one query, one set of bounds and one kind of signed cursor for all routes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from hostler.calls.cursors import Cursors, Position, ScopedCursors
from hostler.http.responses import Listing
from hostler_protocol._base import Strict
from hostler_protocol.limits import DEFAULT_PAGE_ITEMS, MAX_INTEGER, MAX_PAGE_ITEMS

S = TypeVar("S")
T = TypeVar("T")
Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_INTEGER)]
Moment = Annotated[float, msgspec.Meta(ge=0, le=4_102_444_800)]
"""UTC epoch seconds, up to the year 2100."""


def page_size(limit: int) -> int:
    """Return the number of items of a page that a request limits so."""
    return min(limit, MAX_PAGE_ITEMS)


class PageQuery(Strict):
    """`limit`: items per page, capped at 100. `cursor`: `next_cursor` of the page before."""

    limit: Limit = DEFAULT_PAGE_ITEMS
    cursor: str | None = None

    @property
    def size(self) -> int:
        """The number of items of the page."""
        return page_size(self.limit)


def list_cursors(cursors: Cursors, name: str, workspace_id: str, query: Any) -> ScopedCursors:
    """Return the cursors of one list. They are bound to its workspace and filters, not to the page size."""
    filters = msgspec.to_builtins(query)
    for paging in ("limit", "cursor", "before", "after", "skip"):
        filters.pop(paging, None)
    return cursors.scoped(f"http {name}", [workspace_id, filters])


def listing(
    rows: Sequence[S],
    size: int,
    convert: Callable[[S], T],
    position: Callable[[S], Position],
    cursors: ScopedCursors,
) -> Listing[T]:
    """Return a page of `size` items. `rows` has up to `size + 1`: the extra one shows that more follow."""
    shown = rows[:size]
    more = len(rows) > size
    return Listing(
        items=[convert(row) for row in shown],
        next_cursor=cursors.issue(position(shown[-1])) if more and shown else None,
        has_more=more,
    )
