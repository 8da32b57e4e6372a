"""The state of a thread: its messages with those of its newest run, and what that waits for.

A checkpoint is named by the last message before it, by that one's place in the transcript: so it has the same
name in every later history. While a run works or waits, the newest state is named by the run instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hostler.domain.run_events import Asked
from hostler.http.dialects.answers import answer_id
from hostler.http.dialects.fold import Answer, Folding
from hostler.http.dialects.requests import requests_of
from hostler.http.langgraph import messages as wire
from hostler.http.langgraph.fold import RUN, Facts, RunFold
from hostler.http.langgraph.interrupts import interrupt_of
from hostler.http.langgraph.run_request import own_data, said_in
from hostler.http.langgraph.threads import (
    Thread,
    ThreadStatus,
    made_at,
    metadata_of,
    moment,
    read_thread,
    thread_status,
    waiting_ids,
)
from hostler.http.request import ApiRequest
from hostler.storage.port import Tx
from hostler.storage.stores import events, runs, transcripts
from hostler.storage.stores.events import StoredEvent
from hostler.storage.stores.run_rows import Run
from hostler.storage.stores.transcripts import StoredItem
from hostler_protocol.content import Message
from hostler_protocol.limits import MAX_PAGE_ITEMS

MAX_MESSAGES = MAX_PAGE_ITEMS
"""The newest messages of a thread that its state has; /v1 has all of them, in pages."""
MESSAGE_ID = "id"
"""In the metadata of a message that a client has added to a thread: its id there."""


@dataclass(slots=True)
class ThreadState:
    """The state of a thread. `values`: JSON. `waiting`: open requests of its newest run, by call id.

    `facts.messages` are those up to the one that the newest run answers; `last`: the place of the newest
    message in the transcript, 0 if there is none.
    """

    thread_id: str
    thread: Thread
    facts: Facts
    last: int = 0
    values: bytes = b'{"messages":[]}'
    waiting: dict[str, Asked] = field(default_factory=dict)

    @property
    def run(self) -> Run | None:
        """The newest run."""
        return self.thread.run

    @property
    def interrupts(self) -> list[dict[str, Any]]:
        """What it waits for."""
        run_id = "" if self.run is None else self.run.run_id
        return [interrupt_of(run_id, one) for one in self.waiting.values()]

    @property
    def status(self) -> ThreadStatus:
        """How the thread is, by its newest run."""
        return thread_status(self.run, waits=bool(self.waiting))

    @property
    def is_over(self) -> bool:
        """Whether the newest run neither works nor waits."""
        return self.status not in ("busy", "interrupted")

    @property
    def checkpoint_id(self) -> str:
        """The name of this state."""
        if self.run is None or self.is_over:
            return str(self.last)
        return f"{self.run.run_id}.{self.run.sequence}"


async def load_messages(request: ApiRequest, run_id: str, facts: Facts) -> None:
    """Read the messages of a run's thread, up to the one that it answers, into `facts`."""
    workspace = request.workspace_id
    facts.messages = await request.state.host.db.read(lambda tx: _up_to(tx, workspace, run_id))


async def load_state(request: ApiRequest, thread_id: str) -> ThreadState:
    """Read the state of a thread: its messages with those of its newest run, and what that waits for."""
    workspace, scope = request.workspace_id, request.caller.scope
    agent = None if scope is None else scope.agent
    state = await request.state.host.db.read(lambda tx: _stored_state(tx, workspace, thread_id, agent))
    run = state.run
    if run is None:
        state.values = RunFold(Answer(""), state.facts).values
        return state
    fold = RunFold(Answer(run.run_id), state.facts)
    folding = Folding(fold, Answer(run.run_id), through=True)
    folding.begin()
    async for result in request.state.host.runs.stored(run.run_id):
        folding.take(result)
    state.values = fold.values
    state.waiting = await waiting_of(request, run)
    return state


def _stored_state(tx: Tx, ws: str, thread_id: str, agent: str | None) -> ThreadState:
    thread = read_thread(tx, ws, thread_id, agent=agent)
    last = transcripts.latest_seq(tx, ws, conversation_id=thread_id)
    if thread.run is None:
        page = transcripts.page(tx, ws, conversation_id=thread_id, limit=MAX_MESSAGES)
        facts = Facts(thread_id, "", modes=(), messages=shown(tx, ws, page.items[::-1]))
    else:
        facts = Facts(thread_id, thread.run.agent_name, modes=())
        facts.messages = _up_to(tx, ws, thread.run.run_id)
        facts.later = _came_after(tx, ws, thread.run)
    return ThreadState(thread_id, thread, facts, last)


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
        found.append(wire.human(_human_id(event), said_in(event)))
    return found


def _came_after(tx: Tx, workspace: str, run: Run) -> list[dict[str, Any]]:
    """Return what came into the thread since the message that its newest run answers, and is not that run's.

    A run that is cancelled while it waits for its turn leaves its message in the middle of another one, and
    before those of runs that waited with it.
    """
    seq = None if run.event_id is None else transcripts.of_event(tx, workspace, run.event_id)
    if seq is None:
        return []
    page = transcripts.page(
        tx, workspace, conversation_id=run.conversation_id, after_seq=seq, limit=MAX_MESSAGES
    )
    others = [item for item in reversed(page.items) if _run_of(tx, workspace, item) != run.run_id]
    return shown(tx, workspace, others)


def _run_of(tx: Tx, workspace: str, item: StoredItem) -> str | None:
    """Return the run that said a message, or was given it: in its turn, or while it worked."""
    if item.event_id is None:
        return item.run_id
    event = events.find(tx, workspace, item.event_id)
    return None if event is None else event.run_id


def is_added(item: StoredItem) -> bool:
    """Whether a message is one that a client has added to its thread, or is copied from another."""
    return item.event_id is None and item.run_id is None


def shown(tx: Tx, workspace: str, items: Sequence[StoredItem]) -> list[dict[str, Any]]:
    """Return messages of a transcript, in their order. Those of a run have the ids of its stream."""
    return [message for _, message in placed(tx, workspace, items)]


def placed(tx: Tx, workspace: str, items: Sequence[StoredItem]) -> list[tuple[int, dict[str, Any]]]:
    """Return messages of a transcript as `shown`, each with its place there.

    Those of a run are numbered in the whole transcript, so that a message has the same id in every window.
    """
    found = []
    said: dict[str, int] = {}
    for item in items:
        name = item.transcript_id
        if item.role == "assistant" and item.run_id is not None:
            if item.run_id not in said:
                said[item.run_id] = transcripts.said_before(tx, workspace, item.run_id, item.seq)
            said[item.run_id] += 1
            name = f"{answer_id('msg', Answer(item.run_id))}_{said[item.run_id]}"
        elif item.role == "user" and item.event_id is not None:
            event = events.find(tx, workspace, item.event_id)
            if event is not None and transcripts.of_event(tx, workspace, item.event_id) == item.seq:
                name = _human_id(event)
        elif is_added(item) and isinstance(item.metadata.get(MESSAGE_ID), str):
            name = item.metadata[MESSAGE_ID]
        content = msgspec.convert(item.content_json, Message).content
        message = wire.of_role(item.role, name, content, item.artifact_refs)
        if message is not None:
            found.append((item.seq, message))
    return found


def _human_id(event: StoredEvent) -> str:
    ids = own_data(event).message_ids
    return ids[0] if len(ids) == 1 and ids[0] is not None else f"in_{event.event_id}"


async def waiting_of(request: ApiRequest, run: Run) -> dict[str, Asked]:
    """Return the requests of a run that still wait, by the host's id of the call, in their order."""
    still = await waiting_ids(request, run)
    if not still:
        return {}
    asked = await requests_of(request, run.run_id)
    return {call_id: one for call_id, one in asked.items() if call_id in still}


# -- as clients read it -------------------------------------------------------------------------------------


def state_record(state: ThreadState) -> dict[str, Any]:
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
    at = (made_at(state.thread_id) or 0) if run is None else run.finished_at or run.created_at
    metadata: dict[str, Any] = {} if run is None else {"run_id": f"{RUN}_{run.run_id}"}
    return {
        **past_record(state.thread_id, state.checkpoint_id, msgspec.Raw(state.values), at),
        "next": [] if state.is_over else ["agent"],
        "tasks": [] if state.is_over and state.status != "error" else [task],
        "interrupts": interrupts,
        "metadata": {
            **metadata_of(run),
            **metadata,
            **_metadata(state.thread_id, len(state.facts.messages)),
        },
    }


def past_record(thread_id: str, name: str, values: Any, at: int, step: int = 0) -> dict[str, Any]:
    """Return a state of a thread in which nothing works or waits. `at`: UTC epoch milliseconds."""
    return {
        "values": values,
        "next": [],
        "tasks": [],
        "metadata": _metadata(thread_id, step),
        "created_at": moment(at),
        "checkpoint": checkpoint(thread_id, name),
        "parent_checkpoint": None,
        "interrupts": [],
        "checkpoint_id": name,
        "parent_checkpoint_id": None,
    }


def _metadata(thread_id: str, step: int) -> dict[str, Any]:
    return {"thread_id": thread_id, "source": "loop", "step": step, "parents": {}}


def checkpoint(thread_id: str, name: str) -> dict[str, str]:
    """Return a place in the history of a thread."""
    return {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": name}
