"""`history.*`: the transcript of the run's conversation and thread, up to its own triggering event."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.calls.pages import capped
from hostler.calls.scope import CallScope
from hostler.cursors import Cursors, ScopedCursors
from hostler.domain.grants import Grant
from hostler.stores import search as found
from hostler.stores import transcripts
from hostler.stores.unfiltered import ANY, AnyOr
from hostler_protocol.calls import HistoryPageParams, HistorySearchParams
from hostler_protocol.runs import HistorySearchResult, Page, TranscriptItem


@dataclass(frozen=True, slots=True)
class History:
    """What a call reads: a conversation, its thread, and the sequence that it ends before."""

    conversation_id: str | None
    thread_id: AnyOr
    before_seq: int | None


def history_cursors(cursors: Cursors, grant: Grant) -> ScopedCursors:
    """The cursors of a run's own history. They stay good for later runs of the conversation."""
    return _cursors(cursors, grant, grant.conversation_id, grant.thread_id)


async def page(scope: CallScope, params: HistoryPageParams) -> Page[TranscriptItem]:
    """`history.page`: backward newest first, forward oldest first."""
    history = _history(scope, params.conversation_id)
    if history.conversation_id is None:
        return Page(items=[])
    cursors = _cursors(scope.services.cursors, scope.grant, history.conversation_id, history.thread_id)
    before, after = history.before_seq, None
    if params.before_cursor is not None:
        asked = cursors.read_sequence(params.before_cursor, "before_cursor")
        before = asked if before is None else min(asked, before)
    if params.after_cursor is not None:
        after = cursors.read_sequence(params.after_cursor, "after_cursor")
    stored = await scope.services.db.read(
        lambda tx: transcripts.page(
            tx,
            scope.workspace_id,
            conversation_id=history.conversation_id,
            thread_id=history.thread_id,
            bot_id=scope.grant.bot_id,
            before_seq=before,
            after_seq=after,
            limit=capped(params.limit),
            direction=params.direction,
        )
    )
    return stored.record(cursors, artifacts=params.include_artifacts)


async def search(scope: CallScope, params: HistorySearchParams) -> HistorySearchResult:
    """`history.search`: items that hold the words of the query, newest first."""
    filters = params.filters
    history = _history(scope, None if filters is None else filters.conversation_id)
    if history.conversation_id is None:
        return HistorySearchResult(items=[], query=params.query, total_count=0)
    after, before = (None, None) if filters is None else (filters.after, filters.before)
    hits = await scope.services.db.read(
        lambda tx: found.search(
            tx,
            scope.workspace_id,
            params.query,
            conversation_id=history.conversation_id,
            thread_id=history.thread_id,
            bot_id=scope.grant.bot_id,
            role=None if filters is None else filters.role,
            after=None if after is None else int(after * 1000),
            before=None if before is None else int(before * 1000),
            before_seq=history.before_seq,
            limit=capped(params.top_k),
        )
    )
    cursors = _cursors(scope.services.cursors, scope.grant, history.conversation_id, history.thread_id)
    items = [item.record(cursors) for item in hits.items]
    return HistorySearchResult(items=items, query=params.query, total_count=hits.total_count)


def _history(scope: CallScope, conversation_id: str | None) -> History:
    """The run's own conversation and thread, or all threads of another, which the gate has let through."""
    grant = scope.grant
    if conversation_id is None or conversation_id == grant.conversation_id:
        return History(grant.conversation_id, grant.thread_id, scope.history_before)
    return History(conversation_id, ANY, None)


def _cursors(cursors: Cursors, grant: Grant, conversation_id: str | None, thread_id: AnyOr) -> ScopedCursors:
    threads = ["all"] if thread_id is ANY else ["one", thread_id]
    return cursors.scoped(
        "history.page",
        {
            "workspace": grant.workspace_id,
            "bot": grant.bot_id,
            "conversation": conversation_id,
            "threads": threads,
        },
    )
