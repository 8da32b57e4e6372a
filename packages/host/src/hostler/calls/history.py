"""`history.*`: the transcript of the run's conversation and thread, up to its own triggering event.

With it goes that of the private chats of its person's other accounts, where its grant has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from hostler.calls.cursors import Cursors, ScopedCursors
from hostler.calls.pages import capped
from hostler.calls.scope import CallScope
from hostler.domain.grants import Grant
from hostler.domain.record import Record
from hostler.domain.same_fields import with_fields_of
from hostler.storage.stores import search as found
from hostler.storage.stores import transcripts
from hostler.storage.stores.filters import ANY, AnyOr
from hostler.storage.stores.transcripts import Span, StoredItem, TranscriptPage
from hostler_protocol.calls import HistoryPageParams, HistorySearchParams
from hostler_protocol.runs import HistorySearchResult, Page, TranscriptItem


class HistoryScope(Record):
    """The history that a call reads: a conversation, its thread, and the sequence that it ends before.

    `spans`: all that belongs to it, with the private chats of the person's other accounts.
    """

    conversation_id: str | None
    thread_id: AnyOr
    before_seq: int | None
    spans: Sequence[Span]


def history_spans(grant: Grant) -> list[Span]:
    """Return the history that is a run's own: its conversation and thread, and other chats of its grant."""
    if grant.conversation_id is None:
        return []
    chats = [] if grant.across is None else grant.across.chats
    others = [Span(one.conversation_id, bot_id=one.bot_id, after_seq=one.after_seq) for one in chats]
    return [Span(grant.conversation_id, grant.thread_id, grant.bot_id), *others]


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
        lambda tx: transcripts.page_across(
            tx,
            scope.workspace_id,
            history.spans,
            before_seq=before,
            after_seq=after,
            limit=capped(params.limit),
            direction=params.direction,
        )
    )
    return transcript_page(stored, cursors, artifacts=params.include_artifacts)


async def search(scope: CallScope, params: HistorySearchParams) -> HistorySearchResult:
    """`history.search`: items that hold the words of the query, newest first."""
    filters = params.filters
    history = _history(scope, None if filters is None else filters.conversation_id)
    if history.conversation_id is None:
        return HistorySearchResult(items=[], query=params.query, total_count=0)
    after, before = (None, None) if filters is None else (filters.after, filters.before)
    hits = await scope.services.db.read(
        lambda tx: found.search_across(
            tx,
            scope.workspace_id,
            params.query,
            history.spans,
            role=None if filters is None else filters.role,
            after=None if after is None else int(after * 1000),
            before=None if before is None else int(before * 1000),
            before_seq=history.before_seq,
            limit=capped(params.top_k),
        )
    )
    cursors = _cursors(scope.services.cursors, scope.grant, history.conversation_id, history.thread_id)
    items = [transcript_record(item, cursors) for item in hits.items]
    return HistorySearchResult(items=items, query=params.query, total_count=hits.total_count)


def transcript_record(item: StoredItem, cursors: ScopedCursors, *, artifacts: bool = True) -> TranscriptItem:
    """The item as runners and clients read it; its cursor is one of `history.page`."""
    return with_fields_of(
        item,
        TranscriptItem,
        artifact_refs=item.artifact_refs if artifacts else [],
        cursor=cursors.issue(item.seq),
        created_at=item.created_at / 1000,
    )


def transcript_page(
    page: TranscriptPage, cursors: ScopedCursors, *, artifacts: bool = True
) -> Page[TranscriptItem]:
    """The page as runners and clients read it.

    `next_cursor` continues in the page's direction, `prev_cursor` reverses it: it is for the opposite
    direction's parameter (a backward page's is an `after_cursor`).
    """
    items = [transcript_record(item, cursors, artifacts=artifacts) for item in page.items]
    return Page(
        items=items,
        next_cursor=items[-1].cursor if page.has_more else None,
        prev_cursor=items[0].cursor if items else None,
        has_more=page.has_more,
    )


def _history(scope: CallScope, conversation_id: str | None) -> HistoryScope:
    """The run's own history, or all threads of another, which the gate has let through."""
    grant = scope.grant
    if conversation_id is None or conversation_id == grant.conversation_id:
        before = scope.history_before
        return HistoryScope(grant.conversation_id, grant.thread_id, before, history_spans(grant))
    return HistoryScope(conversation_id, ANY, None, [Span(conversation_id, bot_id=grant.bot_id)])


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
