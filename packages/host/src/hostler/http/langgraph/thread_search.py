"""Find threads by their metadata, their status or their ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from hostler.http.langgraph.assistants import slice_of
from hostler.http.langgraph.conditions import Containment, check_conditions
from hostler.http.langgraph.dialect import refused
from hostler.http.langgraph.messages import wrong
from hostler.http.langgraph.routes import route
from hostler.http.langgraph.thread_state import MAX_MESSAGES, shown
from hostler.http.langgraph.threads import Thread, ThreadStatus, read_thread, statuses_of, thread_record
from hostler.http.request import ApiRequest
from hostler.http.responses import Headers, Json
from hostler.storage.port import Tx
from hostler.storage.stores import conversation_metadata, conversations, transcripts
from hostler_protocol._base import Lenient

MAX_SEARCHED = 1_000
"""Threads that one search looks at, newest first."""
STEP = 100
"""Threads that are read at once."""
_WITHOUT_VALUES = frozenset({"thread_id", "created_at", "updated_at", "metadata", "status", "config"})
SortBy = Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"]


class Wanted(Lenient):
    """Which threads are wanted. `metadata`: what theirs contain."""

    metadata: dict[str, Any] | None = None
    values: dict[str, Any] | None = None
    ids: list[str] | None = None
    status: ThreadStatus | None = None
    limit: int = 10
    offset: int = 0
    sort_by: SortBy | None = None
    sort_order: Literal["asc", "desc", "ASC", "DESC"] | None = None
    select: list[str] | None = None
    extract: Any = None


class Found(NamedTuple):
    """A thread that was found."""

    thread_id: str
    thread: Thread
    status: ThreadStatus


@route("POST", "/threads/search", "conversations:read")
async def search_threads(request: ApiRequest, body: Wanted) -> Json[list[dict[str, Any]]]:
    """List threads, latest change first, of the newest 1,000."""
    part = slice_of(body.offset, body.limit)
    found = await _search(request, body)
    headers: Headers = [(b"x-pagination-total", b"%d" % len(found))]
    if len(found) > part.stop:
        headers.append((b"x-pagination-next", b"%d" % part.stop))
    records = [thread_record(*one) for one in found]
    is_down = (body.sort_order or "desc").lower() == "desc"
    records.sort(key=lambda record: record[body.sort_by or "updated_at"], reverse=is_down)
    records = records[part]
    if body.select is None or not set(body.select) <= _WITHOUT_VALUES:
        for record in records:
            items = await request.state.host.db.read(
                lambda tx, name=record["thread_id"]: _messages(tx, request.workspace_id, name)  # type: ignore[misc]
            )
            record["values"] = {"messages": items} if items else None
    if body.select is not None:
        records = [{name: record.get(name) for name in body.select} for record in records]
    return Json(records, headers=headers)


@route("POST", "/threads/count", "conversations:read")
async def count_threads(request: ApiRequest, body: Wanted) -> Json[int]:
    """Count threads, of the newest 1,000."""
    return Json(len(await _search(request, body)))


async def _search(request: ApiRequest, wanted: Wanted) -> list[Found]:
    """Return the threads that are wanted, latest message first."""
    condition = Containment(check_conditions("metadata", wanted.metadata))
    if wanted.values:
        raise refused("values", "threads are not searched by their values: GET /v1/conversations searches")
    if wanted.extract:
        raise refused("extract", "a thread is its messages: read them from its values")
    names = await _names(request) if wanted.ids is None else list(dict.fromkeys(wanted.ids))[:MAX_SEARCHED]
    if any("\x00" in name for name in names):
        raise wrong("ids", "texts without NUL")
    found: list[Found] = []
    for start in range(0, len(names), STEP):
        part = names[start : start + STEP]
        read = await request.state.host.db.read(
            lambda tx, part=part: _read(tx, request.workspace_id, part, condition)  # type: ignore[misc]
        )
        found += [one for one in read if wanted.status in (None, one.status)]
    return found


def _read(tx: Tx, ws: str, names: Sequence[str], condition: Containment) -> list[Found]:
    """Return the threads that fit. They are compared here, in a thread of the database, not on the loop."""
    read = ((name, read_thread(tx, ws, name)) for name in names)
    fitting = [
        (name, thread) for name, thread in read if thread.known and condition.fits(thread.all_metadata)
    ]
    statuses = statuses_of(tx, ws, [thread for _, thread in fitting])
    return [Found(*one, status) for one, status in zip(fitting, statuses, strict=True)]


async def _names(request: ApiRequest) -> list[str]:
    """Return the newest threads, those that have only metadata yet included.

    Not those whose first message still waits for its run.
    """
    workspace = request.workspace_id
    names: list[str] = []
    before: int | None = None
    while len(names) < MAX_SEARCHED:
        page = await request.state.host.db.read(
            lambda tx, before=before: conversations.page(tx, workspace, before=before, limit=STEP)  # type: ignore[misc]
        )
        names += [one.conversation_id for one in page.items]
        before = page.before
        if before is None:
            break
    described = await request.state.host.db.read(
        lambda tx: conversation_metadata.latest(tx, workspace, limit=MAX_SEARCHED)
    )
    return list(dict.fromkeys([*names[:MAX_SEARCHED], *(one.conversation_id for one in described)]))


def _messages(tx: Tx, workspace: str, thread_id: str) -> list[dict[str, Any]]:
    page = transcripts.page(tx, workspace, conversation_id=thread_id, limit=MAX_MESSAGES)
    return shown(tx, workspace, page.items[::-1])
