"""Threads: create, get, search, count, state, history, delete. A thread begins with its first run."""

from __future__ import annotations

from typing import Any, Literal

from hostler.domain.narrow_callers import check_conversation
from hostler.host import maintenance
from hostler.http.endpoint import endpoint
from hostler.http.langgraph.assistants import Anything, slice_of
from hostler.http.langgraph.dialect import LANGGRAPH, refused
from hostler.http.langgraph.messages import wrong
from hostler.http.langgraph.threads import (
    MAX_MESSAGES,
    ThreadState,
    ThreadStatus,
    check_thread,
    checkpoint,
    load_state,
    new_thread_id,
    shown,
    state_record,
    thread_record,
    thread_status,
    waiting_ids,
)
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Headers, Json
from hostler.storage.port import Tx
from hostler.storage.stores import conversations, runs, transcripts
from hostler.storage.stores.run_rows import Run
from hostler_protocol._base import Lenient
from hostler_protocol.errors import ConflictError

MAX_SEARCHED = 1_000
"""Threads that one search looks at, newest first."""
_DERIVED = frozenset({"graph_id", "assistant_id"})
"""Metadata that threads have: of the agent of their newest run."""
_WITHOUT_VALUES = frozenset({"thread_id", "created_at", "updated_at", "metadata", "status", "config"})


class CreateThread(Lenient):
    """`thread_id`: the id that it shall have."""

    thread_id: str | None = None
    metadata: dict[str, Any] | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    supersteps: list[Any] | None = None


class Wanted(Lenient):
    """Which threads are wanted, by their newest runs."""

    metadata: dict[str, Any] | None = None
    values: dict[str, Any] | None = None
    ids: list[str] | None = None
    status: ThreadStatus | None = None
    limit: int = 10
    offset: int = 0
    select: list[str] | None = None


class StateQuery(Lenient):
    """`subgraphs` is not looked at: an agent has none."""

    subgraphs: str | None = None


class HistoryWanted(Lenient):
    """`before`: a checkpoint, or the id of one."""

    limit: int = 10
    before: Any = None


@endpoint("POST", "/langgraph/threads", right="events:write", tag="langgraph", dialect=LANGGRAPH)
async def create_thread(request: ApiRequest, body: CreateThread) -> Json[dict[str, Any]]:
    """Name a thread. It begins with its first run."""
    if body.metadata:
        raise refused("metadata", "threads keep none of their own here; runs do, and search knows graph_id")
    if body.supersteps:
        raise refused("supersteps", "a thread has what its runs heard and said: send messages as input")
    name = body.thread_id
    if name is None:
        return Json(thread_record(new_thread_id(request), None))
    if not name or "\x00" in name or len(name) > 255:
        raise wrong("thread_id", "1 to 255 characters, none of them NUL")
    check_conversation(request.caller, name)
    newest, known = await _newest(request, name)
    if known and body.if_exists != "do_nothing":
        raise ConflictError(f"the thread {name!r} is there already", reason="thread_exists")
    return Json(thread_record(name, newest, await _status(request, newest)))


@endpoint(
    "GET",
    "/langgraph/threads/{thread}",
    right="conversations:read",
    tag="langgraph",
    dialect=LANGGRAPH,
    narrow=(),
)
async def get_thread(request: ApiRequest, query: StateQuery) -> Json[dict[str, Any]]:
    """Get a thread, with its state and what it waits for."""
    thread_id = request.parameters["thread"]
    await check_thread(request, thread_id)
    state = await load_state(request, thread_id)
    return Json(
        thread_record(thread_id, state.run, state.status, values=state.values, interrupts=state.interrupts)
    )


@endpoint(
    "PATCH",
    "/langgraph/threads/{thread}",
    right="conversations:write",
    tag="langgraph",
    dialect=LANGGRAPH,
)
async def update_thread(request: ApiRequest, body: Anything) -> Json[dict[str, Any]]:
    """Refuse to change a thread: it keeps no metadata of its own."""
    await check_thread(request, request.parameters["thread"])
    raise refused("metadata", "threads keep none of their own here; runs do")


@endpoint(
    "DELETE",
    "/langgraph/threads/{thread}",
    right="conversations:write",
    tag="langgraph",
    dialect=LANGGRAPH,
)
async def delete_thread(request: ApiRequest) -> Empty:
    """Delete all data of a thread. 409 while a run of it is active."""
    thread_id, data = request.parameters["thread"], request.state.host.data
    await check_thread(request, thread_id)
    if await data.db.read(lambda tx: conversations.known(tx, request.workspace_id, thread_id)):
        await maintenance.delete_conversation(
            data, request.workspace_id, thread_id, by=request.caller.subject
        )
    return Empty()


@endpoint("POST", "/langgraph/threads/search", right="conversations:read", tag="langgraph", dialect=LANGGRAPH)
async def search_threads(request: ApiRequest, body: Wanted) -> Json[list[dict[str, Any]]]:
    """List threads by their latest message, newest first, of the newest 1,000."""
    part = slice_of(body.offset, body.limit)
    found = await _search(request, body)
    headers: Headers = [(b"x-pagination-total", b"%d" % len(found))]
    if len(found) > part.stop:
        headers.append((b"x-pagination-next", b"%d" % part.stop))
    records = [thread_record(name, run, status) for name, run, status in found[part]]
    if body.select is None or not set(body.select) <= _WITHOUT_VALUES:
        for record in records:
            items = await request.state.host.db.read(
                lambda tx, name=record["thread_id"]: _messages(tx, request.workspace_id, name)  # type: ignore[misc]
            )
            record["values"] = {"messages": items} if items else None
    if body.select is not None:
        records = [{name: record.get(name) for name in body.select} for record in records]
    return Json(records, headers=headers)


@endpoint("POST", "/langgraph/threads/count", right="conversations:read", tag="langgraph", dialect=LANGGRAPH)
async def count_threads(request: ApiRequest, body: Wanted) -> Json[int]:
    """Count threads, of the newest 1,000."""
    return Json(len(await _search(request, body)))


@endpoint(
    "GET",
    "/langgraph/threads/{thread}/state",
    right="conversations:read",
    tag="langgraph",
    dialect=LANGGRAPH,
    narrow=(),
)
async def get_thread_state(request: ApiRequest, query: StateQuery) -> Json[dict[str, Any]]:
    """Get the messages of a thread, and what it waits for."""
    thread_id = request.parameters["thread"]
    await check_thread(request, thread_id)
    return Json(state_record(thread_id, await load_state(request, thread_id)))


@endpoint(
    "POST",
    "/langgraph/threads/{thread}/history",
    right="conversations:read",
    tag="langgraph",
    dialect=LANGGRAPH,
    narrow=(),
)
async def get_thread_history(request: ApiRequest, body: HistoryWanted) -> Json[list[dict[str, Any]]]:
    """Return the states of a thread, newest first: as it is now, and before each message of the user.

    It goes back as far as the messages of the state.
    """
    thread_id = request.parameters["thread"]
    await check_thread(request, thread_id)
    state = await load_state(request, thread_id)
    if state.run is None and not state.earlier:
        return Json([])
    found = _history(thread_id, state)
    if body.before is not None:
        names = [one["checkpoint_id"] for one in found]
        name = _named(body.before)
        found = found[names.index(name) + 1 :] if name in names else []
    return Json(found[slice_of(0, body.limit)])


@endpoint(
    "POST",
    "/langgraph/threads/{thread}/state",
    right="conversations:write",
    tag="langgraph",
    dialect=LANGGRAPH,
)
async def update_thread_state(request: ApiRequest, body: Anything) -> Json[dict[str, Any]]:
    """Refuse to change the state of a thread."""
    await check_thread(request, request.parameters["thread"])
    raise refused("values", "a thread has what its runs heard and said: send messages as input of a run")


@endpoint(
    "POST",
    "/langgraph/threads/{thread}/copy",
    right="conversations:write",
    tag="langgraph",
    dialect=LANGGRAPH,
)
async def copy_thread(request: ApiRequest) -> Json[dict[str, Any]]:
    """Refuse to copy a thread."""
    await check_thread(request, request.parameters["thread"])
    raise refused(
        "thread_id", "threads are not copied: begin a run of a new thread with the messages as its input"
    )


def _named(before: Any) -> str:
    """Return the id of the checkpoint that a request names, by itself, its checkpoint, or a configuration."""
    match before:
        case str(name) | {"checkpoint_id": str(name)} | {"configurable": {"checkpoint_id": str(name)}}:
            return name
        case _:
            raise wrong("before", "the id of a checkpoint, or an object with checkpoint_id")


def _history(thread_id: str, state: ThreadState) -> list[dict[str, Any]]:
    newest = state_record(thread_id, state)
    found = [newest]
    for place in range(len(state.earlier) - 1, 0, -1):
        if state.earlier[place]["type"] != "human":
            continue
        before = state.earlier[:place]
        name = checkpoint(thread_id, before[-1]["id"])
        older = {
            **newest,
            "values": {"messages": before},
            "next": [],
            "tasks": [],
            "interrupts": [],
            "checkpoint": name,
            "checkpoint_id": name["checkpoint_id"],
            "metadata": {"thread_id": thread_id, "source": "loop", "step": place, "parents": {}},
        }
        found[-1].update(parent_checkpoint=name, parent_checkpoint_id=name["checkpoint_id"])
        found.append(older)
    return found


def _messages(tx: Tx, workspace: str, thread_id: str) -> list[dict[str, Any]]:
    page = transcripts.page(tx, workspace, conversation_id=thread_id, limit=MAX_MESSAGES)
    return shown(tx, workspace, page.items[::-1])


async def _newest(request: ApiRequest, thread_id: str) -> tuple[Run | None, bool]:
    def read(tx: Tx) -> tuple[Run | None, bool]:
        found = runs.page(tx, request.workspace_id, conversation_id=thread_id, limit=1)
        return found[0] if found else None, conversations.known(tx, request.workspace_id, thread_id)

    return await request.state.host.db.read(read)


async def _status(request: ApiRequest, run: Run | None) -> ThreadStatus:
    waits = run is not None and bool(await waiting_ids(request, run))
    return thread_status(run, waits=waits)


async def _search(request: ApiRequest, wanted: Wanted) -> list[tuple[str, Run | None, ThreadStatus]]:
    """Return the threads that are wanted, with their newest run, latest message first."""
    if wanted.values:
        raise refused("values", "threads are not searched by their values: GET /v1/conversations searches")
    asked = wanted.metadata or {}
    if not set(asked) <= _DERIVED:
        return []  # no thread has other metadata
    names = wanted.ids if wanted.ids is not None else await _names(request)
    found: list[tuple[str, Run | None, ThreadStatus]] = []
    for name in dict.fromkeys(names[:MAX_SEARCHED]):
        if "\x00" in name:
            raise wrong("ids", "texts without NUL")
        run, known = await _newest(request, name)
        if not known:
            continue
        if asked and (run is None or any(value != run.agent_name for value in asked.values())):
            continue
        status = await _status(request, run)
        if wanted.status is None or status == wanted.status:
            found.append((name, run, status))
    return found


async def _names(request: ApiRequest) -> list[str]:
    """Return the newest threads. Those whose first message still waits for its run have none yet."""
    names: list[str] = []
    before: int | None = None
    while len(names) < MAX_SEARCHED:
        page = await request.state.host.db.read(
            lambda tx, before=before: conversations.page(  # type: ignore[misc]
                tx, request.workspace_id, before=before, limit=100
            )
        )
        names += [one.conversation_id for one in page.items]
        before = page.before
        if before is None:
            break
    return names[:MAX_SEARCHED]
