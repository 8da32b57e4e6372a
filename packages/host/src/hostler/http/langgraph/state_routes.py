"""States of threads: the newest, those of the past, and what clients add to it."""

from __future__ import annotations

from typing import Any

from hostler.http.langgraph.assistants import slice_of
from hostler.http.langgraph.conditions import check_conditions
from hostler.http.langgraph.history import history, named, state_at
from hostler.http.langgraph.routes import route
from hostler.http.langgraph.state_update import StateUpdate, add_messages, read_update
from hostler.http.langgraph.thread_state import checkpoint, load_state, state_record
from hostler.http.langgraph.threads import thread_of
from hostler.http.request import ApiRequest
from hostler.http.responses import Json
from hostler_protocol._base import Lenient


class StateQuery(Lenient):
    """`subgraphs` is not looked at: an agent has none."""

    subgraphs: str | None = None


class StateWanted(Lenient):
    """`checkpoint`: an object with `checkpoint_id`; the newest state without one."""

    checkpoint: Any = None


class HistoryQuery(Lenient):
    """`before`: the id of a checkpoint."""

    limit: int = 10
    before: str | None = None


class HistoryWanted(Lenient):
    """`before`: a checkpoint, or the id of one. `metadata`: what the states have there."""

    limit: int = 10
    before: Any = None
    checkpoint: Any = None
    metadata: dict[str, Any] | None = None


@route("GET", "/threads/{thread}/state", "conversations:read", narrow=True)
async def get_thread_state(request: ApiRequest, query: StateQuery) -> Json[dict[str, Any]]:
    """Get the messages of a thread, and what it waits for."""
    return Json(state_record(await load_state(request, await thread_of(request))))


@route("GET", "/threads/{thread}/state/{checkpoint}", "conversations:read")
async def get_thread_state_at(request: ApiRequest, query: StateQuery) -> Json[dict[str, Any]]:
    """Get the messages of a thread at a checkpoint of its history."""
    return Json(await _at(request, request.parameters["checkpoint"]))


@route("POST", "/threads/{thread}/state/checkpoint", "conversations:read")
async def get_thread_state_of(request: ApiRequest, body: StateWanted) -> Json[dict[str, Any]]:
    """Get the messages of a thread at a checkpoint of its history, which the body names."""
    return Json(await _at(request, named(body.checkpoint, "checkpoint")))


@route("GET", "/threads/{thread}/history", "conversations:read")
async def list_thread_history(request: ApiRequest, query: HistoryQuery) -> Json[list[dict[str, Any]]]:
    """Return the states of a thread, newest first: as it is now, and before each message of the user."""
    return Json(await _history(request, query.limit, query.before, {}))


@route("POST", "/threads/{thread}/history", "conversations:read", narrow=True)
async def get_thread_history(request: ApiRequest, body: HistoryWanted) -> Json[list[dict[str, Any]]]:
    """Return the states of a thread, newest first: as it is now, and before each message of the user."""
    before = named(body.before, "before")
    if (place := named(body.checkpoint, "checkpoint")) is not None:
        return Json([await _at(request, place)])
    wanted = check_conditions("metadata", body.metadata)
    return Json(await _history(request, body.limit, before, wanted))


@route("POST", "/threads/{thread}/state", "conversations:write")
async def update_thread_state(request: ApiRequest, body: StateUpdate) -> Json[dict[str, Any]]:
    """Add messages to a thread in which nothing works or waits, without a run. 409 while something does."""
    thread_id = await thread_of(request)
    state = await load_state(request, thread_id)
    added = read_update(body, state)
    if added:
        await add_messages(request, thread_id, added)
        state = await load_state(request, thread_id)
    place = checkpoint(thread_id, state.checkpoint_id)
    return Json({"checkpoint": place, "configurable": place, "checkpoint_id": state.checkpoint_id})


async def _at(request: ApiRequest, name: str | None) -> dict[str, Any]:
    state = await load_state(request, await thread_of(request))
    return state_record(state) if name is None else await state_at(request, state, name)


async def _history(
    request: ApiRequest, limit: int, before: str | None, wanted: dict[str, Any]
) -> list[dict[str, Any]]:
    state = await load_state(request, await thread_of(request))
    part = slice_of(0, limit)
    return await history(request, state, before=before or None, limit=part.stop, wanted=wanted)
