"""A thread of AG-UI is a conversation: its runs, its messages, and the state its agent began with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hostler.domain.narrow_callers import within_scope
from hostler.http.ag_ui.fold import STATE_SCOPE, Facts
from hostler.http.ag_ui.run_input import DATA_KEY, Message, event_id_of
from hostler.http.auth import require_right
from hostler.http.request import ApiRequest
from hostler.storage.port import Tx
from hostler.storage.stores import agents, events, journal, runs, transcripts
from hostler.storage.stores.events import StoredEvent
from hostler.storage.stores.run_rows import Run
from hostler.storage.stores.transcripts import StoredItem
from hostler_protocol._base import Lenient
from hostler_protocol.errors import NotFoundError
from hostler_protocol.events import EventEnvelope, Input
from hostler_protocol.limits import MAX_PAGE_ITEMS
from hostler_protocol.runs import RunStatus

MAX_SNAPSHOT_MESSAGES = MAX_PAGE_ITEMS
"""The newest messages of a thread that a client is told when it connects; /v1 has all of them, in pages."""
MAX_STOPPED_RUNS = 100
"""Runs of a thread that one request stops: those that wait for each other, of one agent."""
MAX_EARLIER_EVENTS = 20
"""Events of a thread, newest first, in which messages of a client are looked for: so many runs in a row that
said nothing.
"""
_ACTIVE: frozenset[RunStatus] = frozenset({"queued", "claimed", "running", "paused"})
_SHOWN_ROLES = frozenset({"user", "assistant", "system", "developer"})


class _State(Lenient):
    conversation: dict[str, Any] = {}


class _Context(Lenient):
    state: _State = _State()


_contexts = msgspec.json.Decoder(_Context)


async def find_event(request: ApiRequest, agent: str, thread_id: str, run_id: str) -> StoredEvent | None:
    """Return the event that a client's request has sent, by its id of the run; None if there is none."""
    sent = EventEnvelope(
        event_type="message.received",
        input=Input(),
        event_id=event_id_of(agent, thread_id, run_id),
        agent=agent,
        conversation_id=thread_id,
    )
    event_id = within_scope(sent, request.caller).event_id or ""
    return await request.state.host.db.read(lambda tx: events.find(tx, request.workspace_id, event_id))


async def unsent(
    request: ApiRequest, thread_id: str, said: Sequence[Message], event: StoredEvent | None
) -> list[Message]:
    """Return the messages that were not sent in this thread before, the last one in any case.

    A run that said nothing, as one that failed, leaves its user's message at the end of what its client has.
    Of a request that was sent before, these are those of its `event`.
    """
    if len(said) < 2:
        return list(said)
    if event is not None:
        own = set(_own_data(event).message_ids)
        return [message for message in said[:-1] if message.id in own] + [said[-1]]

    def read(tx: Tx) -> set[str]:
        earlier = events.page(tx, request.workspace_id, conversation_id=thread_id, limit=MAX_EARLIER_EVENTS)
        return {name for one in earlier for name in _own_data(one).message_ids}

    known = await request.state.host.db.read(read)
    return [message for message in said[:-1] if message.id not in known] + [said[-1]]


async def brings_history(request: ApiRequest, thread_id: str, event: StoredEvent | None) -> bool:
    """Whether a request brings the history of its thread, which is new, or was when it was first sent."""
    if event is not None:
        return _own_data(event).history > 0
    newest = await request.state.host.db.read(
        lambda tx: transcripts.latest_seq(tx, request.workspace_id, conversation_id=thread_id)
    )
    return newest == 0


async def latest_run(request: ApiRequest, agent: str, thread_id: str) -> Run:
    """Return the newest run of an agent in a thread. NotFoundError if there is none, or no such agent."""

    def read(tx: Tx) -> Run:
        agents.get(tx, request.workspace_id, agent)
        found = runs.page(tx, request.workspace_id, agent_name=agent, conversation_id=thread_id, limit=1)
        if not found:
            raise NotFoundError(f"the agent {agent!r} has no run in a thread {thread_id[:200]!r}")
        return found[0]

    return await request.state.host.db.read(read)


async def active_runs(request: ApiRequest, agent: str, thread_id: str) -> list[Run]:
    """Return the runs of an agent in a thread that are not over, newest first. NotFoundError for no agent."""

    def read(tx: Tx) -> list[Run]:
        agents.get(tx, request.workspace_id, agent)
        return runs.page(
            tx,
            request.workspace_id,
            statuses=_ACTIVE,
            agent_name=agent,
            conversation_id=thread_id,
            limit=MAX_STOPPED_RUNS,
        )

    return await request.state.host.db.read(read)


async def load_state(request: ApiRequest, run_id: str, facts: Facts) -> None:
    """Read the state that a run began with into `facts`. It stays empty if the run never began."""
    text = await request.state.host.db.read(lambda tx: journal.first_context(tx, run_id))
    if text is not None:
        facts.stored = getattr(_contexts.decode(text).state, STATE_SCOPE)


async def facts_of_run(request: ApiRequest, run_id: str, facts: Facts) -> Facts:
    """Complete facts for a client that has nothing of the run: its thread's messages, and what was sent."""
    require_right(request.caller, "conversations:read")
    workspace = request.workspace_id

    def read(tx: Tx) -> tuple[_OwnData, list[dict[str, Any]]]:
        run = runs.get(tx, workspace, run_id)
        event = None if run.event_id is None else events.find(tx, workspace, run.event_id)
        page = transcripts.page(
            tx, workspace, conversation_id=run.conversation_id, limit=MAX_SNAPSHOT_MESSAGES
        )
        shown = [
            _message_of(tx, workspace, item)
            for item in reversed(page.items)
            if item.role in _SHOWN_ROLES and not (item.run_id == run_id and item.role == "assistant")
        ]
        return _own_data(event), shown

    own, facts.messages = await request.state.host.db.read(read)
    facts.sent = own.state
    facts.run_id = facts.run_id or own.run_id or run_id
    return facts


class _OwnData(Lenient):
    """What was kept of the request that a run answers."""

    run_id: str | None = None
    message_ids: list[str] = []
    state: dict[str, Any] = {}
    history: int = 0


def _own_data(event: StoredEvent | None) -> _OwnData:
    if event is None or event.envelope is None or not isinstance(event.envelope.data.get(DATA_KEY), dict):
        return _OwnData()
    try:
        return msgspec.convert(event.envelope.data[DATA_KEY], _OwnData)
    except msgspec.ValidationError:  # it was sent by another interface
        return _OwnData()


def _message_of(tx: Tx, workspace_id: str, item: StoredItem) -> dict[str, Any]:
    """Return a message of the transcript as AG-UI has it: the client's own under the id that it gave them."""
    own_id = item.transcript_id
    if item.role == "user" and item.event_id is not None:
        ids = _own_data(events.find(tx, workspace_id, item.event_id)).message_ids
        own_id = ids[0] if len(ids) == 1 else own_id
    return {
        "id": own_id,
        "role": item.role,
        "content": _text_of(item.content_json.get("content", item.content)),
    }


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(
        part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
    )
