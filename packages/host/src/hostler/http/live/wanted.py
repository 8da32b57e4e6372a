"""What a stream over many runs is asked for, and whether its caller may have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hostler.calls.cursors import ScopedCursors
from hostler.domain.events import Caller
from hostler.domain.narrow_callers import filled_in
from hostler.domain.suggestions import did_you_mean
from hostler.http.auth import require_right
from hostler.journal.timeline_entries import ENTRY_TYPES
from hostler.journal.timeline_feed import Everywhere, TimelineFeed, TimelineFilter
from hostler_protocol.errors import InvalidArgumentError, UnauthorizedError

From = Literal["now", "start"]
"""Where a stream without a cursor begins: with what comes, or with the first entry that is kept."""


def check_access(caller: Caller) -> None:
    """Raise UnauthorizedError unless the caller may read runs: their journals hold all that streams show.

    What a caller reaches is bounded here and in `wanted_by`, for event streams and WebSockets alike.
    """
    require_right(caller, "runs:read")


def wanted_by(
    caller: Caller,
    *,
    conversation_id: str | None = None,
    agent: str | None = None,
    bot_id: str | None = None,
    types: Sequence[str] = (),
    everywhere: Sequence[Everywhere] = (),
) -> TimelineFilter:
    """Return the filter of a stream in the caller's workspace.

    InvalidArgumentError for an unknown type. For a narrow caller the filter is that of its agent and
    conversation; NotFoundError for others, and UnauthorizedError for what is `everywhere`.
    """
    check_access(caller)
    if everywhere and caller.scope is not None:
        raise UnauthorizedError("this token reaches one conversation: leave out `everywhere`")
    own = filled_in(caller, {"agent": agent, "conversation_id": conversation_id})
    agent, conversation_id = own.get("agent", agent), own.get("conversation_id", conversation_id)
    for name in types:
        if name not in ENTRY_TYPES:
            raise InvalidArgumentError(
                f"there is no type of events {name!r}; {did_you_mean(name, ENTRY_TYPES)}",
                errors=[{"field": "type", "expected": "one of the types of events"}],
            )
    return TimelineFilter(
        workspace_id=caller.workspace_id,
        conversation_id=conversation_id,
        agent=agent,
        bot_id=bot_id,
        types=frozenset(types) or None,
        everywhere=frozenset(everywhere),
    )


async def place_of(
    feed: TimelineFeed, wanted: TimelineFilter, cursors: ScopedCursors, cursor: str | None, begin: From
) -> int:
    """Return the sequence after which a stream begins.

    InvalidArgumentError for a cursor of another workspace or installation; TimelineLostError for one whose
    following entries are no longer kept.
    """
    if cursor:
        after = cursors.read_sequence(cursor, "Last-Event-ID")
        await feed.check(wanted, after)
        return after
    return await (feed.head if begin == "now" else feed.start)(wanted.workspace_id)
