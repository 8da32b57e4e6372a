"""Threads: create, get, update, copy, delete. A thread begins with its first run, or with its metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from hostler.domain.narrow_callers import check_conversation
from hostler.domain.quotas import QuotaExceeded, Quotas, quotas_of
from hostler.host import maintenance
from hostler.http.auth import has_right, require_right
from hostler.http.langgraph import agent_protocol
from hostler.http.langgraph.dialect import refused
from hostler.http.langgraph.messages import Said, wrong
from hostler.http.langgraph.routes import route
from hostler.http.langgraph.state_routes import StateQuery
from hostler.http.langgraph.state_update import StateUpdate, adding, read_update, read_values
from hostler.http.langgraph.thread_state import ThreadState, load_state
from hostler.http.langgraph.threads import (
    Thread,
    ThreadStatus,
    new_thread_id,
    read_thread,
    statuses_of,
    thread_of,
    thread_record,
)
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Json
from hostler.http.routes.conversation_changes import FORK_RIGHTS
from hostler.storage.port import Tx
from hostler.storage.stores import conversation_forks as forks
from hostler.storage.stores import conversation_metadata, conversations
from hostler_protocol._base import Lenient
from hostler_protocol.errors import ConflictError


class CreateThread(Lenient):
    """`thread_id`: the id that it shall have. `supersteps`: updates that add messages to it."""

    thread_id: str | None = None
    metadata: dict[str, Any] | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None
    supersteps: list[Any] | None = None
    ttl: Any = None


class UpdateThread(Lenient):
    """`metadata`: members that change; the others stay. Agent Protocol adds messages with it, too."""

    metadata: dict[str, Any] | None = None
    values: dict[str, Any] | None = None
    messages: list[Any] | None = None
    checkpoint: Any = None
    ttl: Any = None


@route("POST", "/threads", "events:write")
async def create_thread(request: ApiRequest, body: CreateThread) -> Json[dict[str, Any]]:
    """Create a thread. Without an id of its own, metadata or messages it begins with its first run."""
    _check_ttl(body.ttl)
    steps = body.supersteps or []
    added = [said for number, step in enumerate(steps) for said in _said_in(step, f"supersteps[{number}]")]
    name = new_thread_id(request) if body.thread_id is None else body.thread_id
    if not name or "\x00" in name or len(name) > 255:
        raise wrong("thread_id", "1 to 255 characters, none of them NUL")
    check_conversation(request.caller, name)
    is_named = body.thread_id is not None

    def is_wanted(found: Thread) -> bool:
        if found.known and is_named and body.if_exists != "do_nothing":
            raise ConflictError(f"the thread {name!r} is there already", reason="thread_exists")
        return not found.known

    thread = await _read(request, name)
    if is_wanted(thread):
        thread = await _change(
            request, name, body.metadata or {}, added, is_named=is_named, is_wanted=is_wanted
        )
    return Json(await _record(request, name, thread))


@route("GET", "/threads/{thread}", "conversations:read", narrow=True)
async def get_thread(request: ApiRequest, query: StateQuery) -> Json[dict[str, Any]]:
    """Get a thread, with its state and what it waits for; `messages` are those of Agent Protocol."""
    return Json(_whole_record(await load_state(request, await thread_of(request))))


@route("PATCH", "/threads/{thread}", "conversations:write", answer=(dict[str, Any], None))
async def update_thread(request: ApiRequest, body: UpdateThread) -> Json[dict[str, Any]] | Empty:
    """Change metadata of a thread: what is named is replaced, the rest stays. Messages go to its end.

    They are in the answer for a key with the right `conversations:read`.
    """
    _check_ttl(body.ttl)
    thread_id = await thread_of(request)
    values = [one for one in (body.values, {"messages": body.messages}) if one and any(one.values())]
    added: list[Said] = []
    if values:
        update = StateUpdate(values=values, checkpoint=body.checkpoint)
        added = read_update(update, await load_state(request, thread_id))
    thread = await _change(request, thread_id, body.metadata or {}, added)
    if request.headers.get("prefer") == "return=minimal":
        return Empty()
    if added and has_right(request.caller, "conversations:read"):
        return Json(_whole_record(await load_state(request, thread_id)))
    return Json(await _record(request, thread_id, thread))


@route("POST", "/threads/{thread}/copy", "conversations:write")
async def copy_thread(request: ApiRequest) -> Json[dict[str, Any]]:
    """Copy a thread: its messages, their files and its metadata, into a thread without runs."""
    workspace = request.workspace_id
    for right in FORK_RIGHTS:
        require_right(request.caller, right)
    thread_id = await thread_of(request)
    name, bounds = new_thread_id(request), _bounds(request)

    def copy(tx: Tx) -> Thread:
        if not conversations.known(tx, workspace, name):  # the same request may have been sent before
            done = forks.fork(tx, workspace, thread_id, name, before_seq=None, bounds=bounds)
            if isinstance(done, QuotaExceeded):
                raise done.error
            metadata = read_thread(tx, workspace, thread_id).all_metadata
            conversation_metadata.put(tx, workspace, name, metadata, bounds)
        return read_thread(tx, workspace, name)

    return Json(await _record(request, name, await request.state.host.db.write(copy)))


@route("DELETE", "/threads/{thread}", "conversations:write")
async def delete_thread(request: ApiRequest) -> Empty:
    """Delete all data of a thread. 409 while a run of it is active."""
    thread_id, data = await thread_of(request), request.state.host.data
    if (await _read(request, thread_id)).known:
        await maintenance.delete_conversation(
            data, request.workspace_id, thread_id, by=request.caller.subject
        )
    return Empty()


async def _read(request: ApiRequest, thread_id: str) -> Thread:
    return await request.state.host.db.read(lambda tx: read_thread(tx, request.workspace_id, thread_id))


async def _change(
    request: ApiRequest,
    thread_id: str,
    changes: Mapping[str, Any],
    added: Sequence[Said],
    *,
    is_named: bool = False,
    is_wanted: Callable[[Thread], bool] = lambda _: True,
) -> Thread:
    """Change metadata of a thread and add messages to its end, both or neither; return the thread.

    `is_named`: a client has chosen its id, so it is stored also if it has nothing else. `is_wanted`: whether
    the thread is to be changed as it is now.
    """
    workspace, bounds = request.workspace_id, _bounds(request)
    add = adding(request, thread_id, added) if added else None

    def write(tx: Tx) -> Thread:
        conversations.hold(tx, workspace, thread_id)
        found = read_thread(tx, workspace, thread_id)
        if not is_wanted(found):
            return found
        if add is not None:
            add(tx)
        if changes or is_named:
            metadata = {**conversation_metadata.get(tx, workspace, thread_id), **changes}
            conversation_metadata.describe(tx, workspace, thread_id, metadata, bounds)
        return read_thread(tx, workspace, thread_id)

    return await request.state.host.db.write(write)


def _whole_record(state: ThreadState) -> dict[str, Any]:
    """Return a thread with its messages: in its values as LangGraph has them, and beside them."""
    record = thread_record(
        state.thread_id, state.thread, state.status, values=state.values, interrupts=state.interrupts
    )
    return {**record, "messages": agent_protocol.messages_of(state.values)}


async def _record(request: ApiRequest, thread_id: str, thread: Thread) -> dict[str, Any]:
    return thread_record(thread_id, thread, await status_of(request, thread))


async def status_of(request: ApiRequest, thread: Thread) -> ThreadStatus:
    """Return how a thread is."""
    ws = request.workspace_id
    return (await request.state.host.db.read(lambda tx: statuses_of(tx, ws, [thread])))[0]


def _bounds(request: ApiRequest) -> Quotas:
    return quotas_of(request.state.host.allowances.of(request.workspace_id).quota)


def _said_in(step: Any, where: str) -> list[Said]:
    """Return the messages of a superstep. InvalidArgumentError if it is none."""
    match step:
        case {"updates": list(updates)} if all(isinstance(one, dict) for one in updates):
            return [said for one in updates for said in read_values(one.get("values"), f"{where}.values")]
        case _:
            raise wrong(where, 'an object like {"updates": [{"values": {"messages": [...]}}]}')


def _check_ttl(ttl: Any) -> None:
    if ttl is not None:
        raise refused("ttl", "how long conversations are kept is configured on the host: retention")
