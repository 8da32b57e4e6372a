"""What clients add to the state of a thread without a run: messages, which later runs read as its history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hostler.domain.caller_history import MAX_MESSAGES, METADATA, check_history
from hostler.domain.place import Place
from hostler.http.auth import require_right
from hostler.http.langgraph.dialect import refused
from hostler.http.langgraph.fold import AGENT_NODE, TOOLS_NODE
from hostler.http.langgraph.history import named
from hostler.http.langgraph.messages import Said, history_of, read_messages, wrong
from hostler.http.langgraph.thread_state import MESSAGE_ID, ThreadState
from hostler.http.langgraph.threads import NOT_OVER
from hostler.http.request import ApiRequest
from hostler.storage.port import Tx
from hostler.storage.stores import runs, transcripts
from hostler_protocol._base import Lenient
from hostler_protocol.content import TextElement
from hostler_protocol.errors import ConflictError
from hostler_protocol.events import EventEnvelope, Input

_NODES = frozenset({AGENT_NODE, TOOLS_NODE, "__start__", "__end__", "__input__", "__copy__"})


class StateUpdate(Lenient):
    """`values`: `{"messages": [...]}`, or a list of such. `as_node` is not needed: it changes nothing."""

    values: Any = None
    as_node: str | None = None
    checkpoint: Any = None
    checkpoint_id: str | None = None


def read_update(body: StateUpdate, state: ThreadState) -> list[Said]:
    """Return the messages that an update adds. InvalidArgumentError for what a thread does not have.

    ConflictError while a run of the thread works or waits.
    """
    place = body.checkpoint_id or named(body.checkpoint, "checkpoint")
    if place is not None and place != state.checkpoint_id:
        raise refused("checkpoint", "the past of a thread stays as it was: messages go to its end")
    if body.as_node is not None and body.as_node not in _NODES:
        raise refused("as_node", f"{body.as_node[:60]!r} is no node of an agent", f"{AGENT_NODE} or none")
    if not state.is_over:
        raise _busy()
    return read_values(body.values, "values")


def read_values(values: Any, where: str) -> list[Said]:
    """Return the messages of values of the state. InvalidArgumentError for anything else in them."""
    found: list[Said] = []
    for one in values if isinstance(values, list) else [values]:
        if one is None:
            continue
        if not isinstance(one, dict):
            raise wrong(where, 'an object with messages, like {"messages": [...]}')
        for name in one:
            if name != "messages":
                raise refused(f"{where}.{name[:60]}", "the state of a thread is its messages")
        found += read_messages(one.get("messages") or [])
    if len(found) > MAX_MESSAGES:
        raise wrong(f"{where}.messages", f"at most {MAX_MESSAGES:,} messages")
    for number, said in enumerate(found):
        _check(said, f"{where}.messages[{number}]")
    return found


def _check(said: Said, where: str) -> None:
    if said.kind not in ("human", "ai"):
        raise refused(f"{where}.type", f"a thread keeps no messages of the type {said.kind}", "human or ai")
    if said.calls:
        raise refused(f"{where}.tool_calls", "calls of tools are in the journals of the runs that made them")
    if not said.contents:
        raise refused(f"{where}.content", "a message without content says nothing", "text")
    if not all(isinstance(one, TextElement) for one in said.contents):
        raise refused(f"{where}.content", "files come in as input of a run", "text")


async def add_messages(request: ApiRequest, thread_id: str, added: Sequence[Said]) -> None:
    """Add messages to the end of a thread. ConflictError while a run of it works or waits."""
    await request.state.host.db.write(adding(request, thread_id, added))


def adding(request: ApiRequest, thread_id: str, added: Sequence[Said]) -> Callable[[Tx], None]:
    """Return what adds messages to the end of a thread, in a transaction. Raises as `add_messages`."""
    require_right(request.caller, "events:write")
    history = history_of(added)
    place = Place(conversation_id=thread_id)
    envelope = EventEnvelope(event_type="message.received", input=Input(), conversation_id=thread_id)
    check_history(history, envelope)
    items = [
        transcripts.item_of(
            message, place, metadata={**METADATA, **({} if said.id is None else {MESSAGE_ID: said.id})}
        )
        for said, message in zip(added, history, strict=True)
    ]
    return partial(_add, ws=request.workspace_id, items=items)


def _add(tx: Tx, ws: str, items: Sequence[transcripts.NewTranscriptItem]) -> None:
    place = items[0].conversation_id
    if runs.page(tx, ws, statuses=NOT_OVER | {"paused"}, conversation_id=place, limit=1):
        raise _busy()
    for item in items:
        transcripts.append(tx, ws, item)


def _busy() -> ConflictError:
    return ConflictError(
        "a run of this thread works or waits: messages are added once it has ended", reason="thread_busy"
    )
