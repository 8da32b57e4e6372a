"""What a response says besides the results of its run: from the run and the request that began it."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.http.dialects.answers import check_answer
from hostler.http.dialects.fold import Answer
from hostler.http.openai.responses_fold import ResponseFacts
from hostler.http.openai.responses_request import CreateResponse
from hostler.http.openai.responses_tools import tools_shown
from hostler.http.openai.responses_types import ConversationRef, Response
from hostler.http.request import ApiRequest
from hostler.storage.port import Tx
from hostler.storage.stores import events
from hostler.storage.stores.run_rows import Run
from hostler_protocol._base import Lenient
from hostler_protocol.errors import NotFoundError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.runs import TERMINAL_STATUSES

ECHO = "openai"
"""The field of an event's `data` with what its request said of itself."""


class Echo(Lenient):
    """What a response repeats of its request. Stored with its event, where runners read it, too."""

    instructions: str | None = None
    metadata: dict[str, str] = {}
    background: bool = False
    store: bool = True
    previous_response_id: str | None = None
    tool_choice: str = "auto"
    user: str | None = None
    temperature: float | None = None
    top_p: float | None = None


def echo_of(body: CreateResponse, instructions: str | None) -> dict[str, Any]:
    """Return the `data` of the event of a request."""
    echo = Echo(
        instructions=instructions,
        metadata=body.metadata or {},
        background=bool(body.background),
        store=body.store is not False,
        previous_response_id=body.previous_response_id,
        tool_choice=body.tool_choice or "auto",
        user=body.user,
        temperature=body.temperature,
        top_p=body.top_p,
    )
    defaults = Echo()
    changed = {
        name: value
        for name in Echo.__struct_fields__
        if (value := getattr(echo, name)) != getattr(defaults, name)
    }
    return {ECHO: changed} if changed else {}


async def facts_of(request: ApiRequest, answer: Answer) -> tuple[Run, ResponseFacts]:
    """Return the run of a response, and its facts.

    Raises as `check_answer`, and NotFoundError for a response that was deleted: its run remains.
    """
    run = await check_answer(request, answer)
    envelope = await request.state.host.db.read(lambda tx: _envelope(tx, run))
    if envelope is None and run.event_id is not None and run.status in TERMINAL_STATUSES:
        raise NotFoundError("this response was deleted, or is no longer kept")
    return run, facts_from(answer, run, envelope)


def is_stored(tx: Tx, run: Run) -> bool:
    """Whether the request of a run wanted its response to be stored: only then its conversation goes on."""
    return _echo(_envelope(tx, run)).store


def _envelope(tx: Tx, run: Run) -> EventEnvelope | None:
    """Return the event of a run; None if it has none, or it was deleted."""
    found = None if run.event_id is None else events.find(tx, run.workspace_id, run.event_id)
    return None if found is None else found.envelope


def facts_from(answer: Answer, run: Run, envelope: EventEnvelope | None) -> ResponseFacts:
    """Return the facts of a response. `envelope`: its event, None if that has none or was deleted."""
    echo = _echo(envelope)
    tools = [] if envelope is None else envelope.input.tools
    place = run.conversation_id if echo.store else None
    response = Response(
        id="",
        created_at=run.created_at // 1000,
        background=echo.background,
        conversation=None if place is None else ConversationRef(place),
        instructions=echo.instructions,
        metadata=echo.metadata,
        model=run.agent_name,
        previous_response_id=None if answer.after else echo.previous_response_id,
        store=echo.store,
        temperature=echo.temperature,
        tool_choice=echo.tool_choice,
        tools=tools_shown(tools),
        top_p=echo.top_p,
        user=echo.user,
    )
    return ResponseFacts(answer, response, frozenset(tool.name for tool in tools))


def _echo(envelope: EventEnvelope | None) -> Echo:
    if envelope is None:
        return Echo()
    try:
        return msgspec.convert(envelope.data.get(ECHO, {}), Echo)
    except msgspec.ValidationError:
        return Echo()  # an event of another source, which has other data of this name
