"""A thread is a conversation: its runs, its messages, and what it waits for."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from hostler.domain.narrow_callers import check_conversation
from hostler.domain.run_events import Asked
from hostler.http.dialects.answers import answer_id, keyed_event_id, waiting_calls
from hostler.http.dialects.fold import Answer, Folding
from hostler.http.dialects.requests import requests_of
from hostler.http.langgraph import messages as wire
from hostler.http.langgraph.fold import RUN, Facts, RunFold
from hostler.http.langgraph.interrupts import interrupt_of
from hostler.http.langgraph.run_request import input_of, own_data
from hostler.http.request import ApiRequest
from hostler.storage.port import Tx
from hostler.storage.stores import conversations, events, runs, transcripts
from hostler.storage.stores.events import StoredEvent
from hostler.storage.stores.run_rows import Run
from hostler.storage.stores.transcripts import StoredItem
from hostler_protocol.content import Message
from hostler_protocol.errors import NotFoundError
from hostler_protocol.ids import new_id
from hostler_protocol.limits import MAX_PAGE_ITEMS
from hostler_protocol.runs import ACTIVE_STATUSES, TERMINAL_STATUSES, RunStatus

MAX_MESSAGES = MAX_PAGE_ITEMS
"""The newest messages of a thread that its state has; /v1 has all of them, in pages."""
MAX_ACTIVE_RUNS = 100
"""Runs of a thread that are not over and are looked at: those that wait for each other."""
_NOT_OVER: frozenset[RunStatus] = frozenset({*ACTIVE_STATUSES, "queued"})
ThreadStatus = Literal["idle", "busy", "interrupted", "error"]


@dataclass(slots=True)
class ThreadState:
    """The state of a thread. `run`: its newest run. `values`: JSON. `waiting`: open requests, by call id."""

    run: Run | None
    values: bytes = b'{"messages":[]}'
    waiting: dict[str, Asked] = field(default_factory=dict)
    earlier: list[dict[str, Any]] = field(default_factory=list)

    @property
    def interrupts(self) -> list[dict[str, Any]]:
        """What it waits for."""
        run_id = "" if self.run is None else self.run.run_id
        return [interrupt_of(run_id, one) for one in self.waiting.values()]

    @property
    def status(self) -> ThreadStatus:
        """How the thread is, by its newest run."""
        return thread_status(self.run, waits=bool(self.waiting))


def thread_status(run: Run | None, *, waits: bool) -> ThreadStatus:
    """Return how a thread is, by its newest run, and whether that waits, perhaps with its process."""
    if run is None:
        return "idle"
    if waits:
        return "interrupted"
    if run.status in _NOT_OVER:
        return "busy"
    if run.status == "paused":
        return "interrupted"
    return "error" if run.status in ("failed", "timeout") else "idle"


def moment(milliseconds: int) -> str:
    """Return a time as the LangGraph server writes it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def new_thread_id(request: ApiRequest) -> str:
    """Return the id of a thread that has nothing yet: it says when it was made, and is stored nowhere.

    The same for requests with the same Idempotency-Key.
    """
    name = keyed_event_id(request)
    return new_id() if name is None else f"thread-{name}"


def made_at(thread_id: str) -> int | None:
    """Return when a host made the id of a thread, in UTC epoch milliseconds; None for any other id."""
    try:
        name = uuid.UUID(thread_id)
    except ValueError:
        return None
    return name.int >> 80 if name.version == 7 and str(name) == thread_id else None


async def check_thread(request: ApiRequest, thread_id: str) -> None:
    """Raise NotFoundError for a thread that has nothing, unless its id is one that a host has made."""
    check_conversation(request.caller, thread_id)
    if made_at(thread_id) is not None:
        return
    if not await request.state.host.db.read(
        lambda tx: conversations.known(tx, request.workspace_id, thread_id)
    ):
        raise no_thread(thread_id)


def no_thread(thread_id: str) -> NotFoundError:
    """Return the error of a thread that is not there."""
    return NotFoundError(f"there is no thread {thread_id[:200]!r}")


async def latest_run(request: ApiRequest, thread_id: str) -> Run | None:
    """Return the newest run of a thread, if it has one."""
    found = await runs_of(request, thread_id, limit=1)
    return found[0] if found else None


async def runs_of(
    request: ApiRequest, thread_id: str, *, limit: int, statuses: frozenset[RunStatus] | None = None
) -> list[Run]:
    """Return runs of a thread, newest first; of a narrow caller's agent only."""
    scope = request.caller.scope
    return await request.state.host.db.read(
        lambda tx: runs.page(
            tx,
            request.workspace_id,
            statuses=statuses,
            agent_name=None if scope is None else scope.agent,
            conversation_id=thread_id,
            limit=limit,
        )
    )


async def active_runs(request: ApiRequest, thread_id: str) -> list[Run]:
    """Return the runs of a thread that work or wait for their turn, newest first."""
    return await runs_of(request, thread_id, limit=MAX_ACTIVE_RUNS, statuses=_NOT_OVER)


async def load_messages(request: ApiRequest, run_id: str, facts: Facts) -> None:
    """Read the messages of a run's thread, up to the one that it answers, into `facts`."""
    facts.messages = await request.state.host.db.read(lambda tx: _up_to(tx, request.workspace_id, run_id))


def _up_to(tx: Tx, workspace: str, run_id: str) -> list[dict[str, Any]]:
    run = runs.get(tx, workspace, run_id)
    event = None if run.event_id is None else events.find(tx, workspace, run.event_id)
    seq = None if run.event_id is None else transcripts.of_event(tx, workspace, run.event_id)
    page = transcripts.page(
        tx, workspace, conversation_id=run.conversation_id, before_seq=seq, limit=MAX_MESSAGES
    )
    earlier = [item for item in reversed(page.items) if item.run_id != run_id or item.role != "assistant"]
    found = shown(tx, workspace, earlier)
    if event is not None and event.envelope is not None:
        found.append(wire.human(_human_id(event), input_of(event)))
    return found


def shown(tx: Tx, workspace: str, items: Sequence[StoredItem]) -> list[dict[str, Any]]:
    """Return messages of a transcript, in their order. Those of a run have the ids of its stream."""
    found = []
    counts: dict[str, int] = {}
    for item in items:
        name = item.transcript_id
        if item.role == "assistant" and item.run_id is not None:
            counts[item.run_id] = counts.get(item.run_id, 0) + 1
            name = f"{answer_id('msg', Answer(item.run_id))}_{counts[item.run_id]}"
        elif item.role == "user" and item.event_id is not None:
            event = events.find(tx, workspace, item.event_id)
            if event is not None and transcripts.of_event(tx, workspace, item.event_id) == item.seq:
                name = _human_id(event)
        content = msgspec.convert(item.content_json, Message).content
        message = wire.of_role(item.role, name, content, item.artifact_refs)
        if message is not None:
            found.append(message)
    return found


def _human_id(event: StoredEvent) -> str:
    ids = own_data(event).message_ids
    return ids[0] if len(ids) == 1 and ids[0] is not None else f"in_{event.event_id}"


async def load_state(request: ApiRequest, thread_id: str) -> ThreadState:
    """Read the state of a thread: its messages with those of its newest run, and what that waits for."""
    run = await latest_run(request, thread_id)
    if run is None:
        items = await request.state.host.db.read(lambda tx: _all_of(tx, request.workspace_id, thread_id))
        facts = Facts(thread_id, "", messages=items)
        return ThreadState(None, RunFold(Answer(""), facts).values, earlier=items)
    facts = Facts(thread_id, run.agent_name, modes=())
    await load_messages(request, run.run_id, facts)
    fold = RunFold(Answer(run.run_id), facts)
    folding = Folding(fold, Answer(run.run_id), through=True)
    folding.begin()
    async for result in request.state.host.runs.stored(run.run_id):
        folding.take(result)
    waiting = await waiting_of(request, run)
    return ThreadState(run, fold.values, waiting, facts.messages)


def _all_of(tx: Tx, workspace: str, thread_id: str) -> list[dict[str, Any]]:
    page = transcripts.page(tx, workspace, conversation_id=thread_id, limit=MAX_MESSAGES)
    return shown(tx, workspace, page.items[::-1])


async def waiting_of(request: ApiRequest, run: Run) -> dict[str, Asked]:
    """Return the requests of a run that still wait, by the host's id of the call, in their order."""
    still = await waiting_ids(request, run)
    if not still:
        return {}
    asked = await requests_of(request, run.run_id)
    return {call_id: one for call_id, one in asked.items() if call_id in still}


async def waiting_ids(request: ApiRequest, run: Run) -> set[str]:
    """Return the host's ids of the calls of a run that still wait."""
    if run.status in TERMINAL_STATUSES:
        return set()
    page = await request.state.host.pauses.page(request.caller, run_id=run.run_id, statuses=["open"], limit=1)
    return {call.call_id for pause in page.items for call in waiting_calls(pause)}


def thread_record(
    thread_id: str,
    run: Run | None,
    status: ThreadStatus = "idle",
    *,
    values: bytes | None = None,
    interrupts: Sequence[Any] = (),
) -> dict[str, Any]:
    """Return a thread as its clients read it."""
    made = made_at(thread_id)
    if made is None:
        made = run.created_at if run is not None else 0
    changed = made if run is None else max(made, run.finished_at or run.created_at)
    metadata = {} if run is None else {"graph_id": run.agent_name, "assistant_id": run.agent_name}
    return {
        "thread_id": thread_id,
        "created_at": moment(made),
        "updated_at": moment(changed),
        "state_updated_at": moment(changed),
        "metadata": metadata,
        "status": status,
        "config": {},
        "values": None if values is None else msgspec.Raw(values),
        "interrupts": {f"{RUN}_{run.run_id}": list(interrupts)} if run is not None and interrupts else {},
        "error": None,
    }


def state_record(thread_id: str, state: ThreadState) -> dict[str, Any]:
    """Return the state of a thread as its clients read it."""
    run = state.run
    interrupts = state.interrupts
    task = {
        "id": "" if run is None else f"{RUN}_{run.run_id}",
        "name": "agent",
        "path": ["__pregel_pull", "agent"],
        "error": run.status_code if run is not None and state.status == "error" else None,
        "interrupts": interrupts,
        "checkpoint": None,
        "state": None,
        "result": None,
    }
    busy = state.status in ("busy", "interrupted")
    place = checkpoint(thread_id, "0" if run is None else f"{run.run_id}.{run.sequence}")
    return {
        "values": msgspec.Raw(state.values),
        "next": ["agent"] if busy else [],
        "tasks": [task] if busy or state.status == "error" else [],
        "metadata": {
            **({} if run is None else {"graph_id": run.agent_name, "assistant_id": run.agent_name}),
            **({} if run is None else {"run_id": f"{RUN}_{run.run_id}"}),
            "thread_id": thread_id,
            "source": "loop",
            "step": len(state.earlier),
            "parents": {},
        },
        "created_at": moment((made_at(thread_id) or 0) if run is None else run.finished_at or run.created_at),
        "checkpoint": place,
        "parent_checkpoint": None,
        "interrupts": interrupts,
        "checkpoint_id": place["checkpoint_id"],
        "parent_checkpoint_id": None,
    }


def checkpoint(thread_id: str, name: str) -> dict[str, str]:
    """Return a place in the history of a thread."""
    return {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": name}
