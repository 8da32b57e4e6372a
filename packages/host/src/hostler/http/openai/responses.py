"""`/v1/responses`: a run, or the part of one between two requests, as a response of OpenAI's."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from hostler.domain.narrow_callers import check_conversation, stored_event_id
from hostler.host import maintenance
from hostler.http.dialects import answers
from hostler.http.dialects.fold import Answer
from hostler.http.endpoint import endpoint
from hostler.http.event_stream import EventStream
from hostler.http.openai.dialect import OPENAI
from hostler.http.openai.items import ItemsQuery, page_of
from hostler.http.openai.models import check_model
from hostler.http.openai.responses_asked import input_items
from hostler.http.openai.responses_continue import go_on
from hostler.http.openai.responses_facts import echo_of, facts_of, is_stored
from hostler.http.openai.responses_fold import PREFIX, ResponseFold
from hostler.http.openai.responses_input import Turn, read_input
from hostler.http.openai.responses_request import CreateResponse, check, named_conversation, refused
from hostler.http.openai.responses_tools import read_tools
from hostler.http.openai.responses_types import Deleted, ItemList, Response
from hostler.http.openai.retries import event_id_of
from hostler.http.request import ApiRequest
from hostler.http.responses import Json
from hostler.storage.port import Tx
from hostler.storage.stores import events, runs
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.events import Actor, EventEnvelope, Input
from hostler_protocol.ids import digest
from hostler_protocol.limits import MAX_INTEGER

WHOLE_ANSWER_SECONDS = 540.0
"""A response that is not streamed is answered after this time, `in_progress`: the official clients give up
after 600 seconds, and send the request again."""
CANCEL_SECONDS = 10.0
"""How long the answer to a cancellation waits for the run to end."""
KIND = "openai.responses"


class RetrieveQuery(Strict):
    """`starting_after`: the number of the last event that the client has."""

    stream: bool = False
    starting_after: Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)] | None = None
    include: list[str] = []
    include_list: list[str] = msgspec.field(default=[], name="include[]")
    include_obfuscation: bool = False


@endpoint("POST", "/v1/responses", right="events:write", tag="openai", dialect=OPENAI, narrow=())
async def create_response(request: ApiRequest, body: CreateResponse) -> Json[Response] | EventStream:
    """Send a message to an agent, or the results and approvals that its run waits for."""
    check(body)
    await _check_narrow(request, body)
    turn = read_input(body.input)
    answer = await go_on(request, body, turn.decided) if turn.decided else await _begin(request, body, turn)
    if body.stream:
        return await _stream(request, answer)
    if body.background:
        return Json(await _so_far(request, answer))
    _, facts = await facts_of(request, answer)
    fold = ResponseFold(facts, whole=True)
    await answers.whole_answer(request, answer, fold, seconds=WHOLE_ANSWER_SECONDS)
    return Json(fold.response())


@endpoint(
    "GET",
    "/v1/responses/{response_id}",
    right="runs:read",
    tag="openai",
    dialect=OPENAI,
    narrow=(),
    checks=("response_id",),
)
async def get_response(request: ApiRequest, query: RetrieveQuery) -> Json[Response] | EventStream:
    """Get a response as it is now or, with `stream=true`, its events after `starting_after`."""
    answer = _answer_of(request)
    if query.stream:
        return await _stream(request, answer, after=query.starting_after)
    if query.starting_after is not None:
        raise refused("starting_after", "starting_after is for stream=true: it is the number of an event")
    return Json(await _so_far(request, answer))


@endpoint(
    "POST",
    "/v1/responses/{response_id}/cancel",
    right="runs:write",
    tag="openai",
    dialect=OPENAI,
    narrow=(),
    checks=("response_id",),
)
async def cancel_response(request: ApiRequest) -> Json[Response]:
    """Cancel the run of a response; nothing happens if it is over. Wait until it has ended, 10 seconds."""
    answer = _answer_of(request)
    await answers.check_answer(request, answer)
    if await answers.cancel_run(request, answer.run_id, "cancelled by the client") == "cancelled":
        await request.state.host.runs.wait(request.workspace_id, answer.run_id, CANCEL_SECONDS)
    return Json(await _so_far(request, answer))


@endpoint(
    "GET",
    "/v1/responses/{response_id}/input_items",
    right="runs:read",
    tag="openai",
    dialect=OPENAI,
    narrow=(),
    checks=("response_id",),
)
async def list_input_items(request: ApiRequest, query: ItemsQuery) -> Json[ItemList]:
    """List what a response was asked: a message, or the results and approvals that it goes on after."""
    answer = _answer_of(request)
    run = await answers.check_answer(request, answer)
    return Json(page_of(await input_items(request, run, answer), query))


@endpoint("DELETE", "/v1/responses/{response_id}", right="conversations:write", tag="openai", dialect=OPENAI)
async def delete_response(request: ApiRequest) -> Json[Deleted]:
    """Delete a response with its conversation, if that is all that is in it. 409 while it runs."""
    run, _ = await facts_of(request, _answer_of(request))
    place, workspace = run.conversation_id, request.workspace_id
    if place is None:
        raise InvalidArgumentError("this response is in no conversation: it goes when its retention ends")

    def alone(tx: Tx) -> bool:
        return len(runs.page(tx, workspace, conversation_id=place, limit=2)) == 1

    data = request.state.host.data
    if not await data.db.read(alone):
        raise InvalidArgumentError(
            f"the conversation of this response has others: delete it as a whole, which gives a receipt; it "
            f"is {place!r}"
        )
    await maintenance.delete_conversation(data, workspace, place, by=request.caller.subject)
    return Json(Deleted(request.parameters["response_id"], "response"))


async def _check_narrow(request: ApiRequest, body: CreateResponse) -> None:
    """Raise NotFoundError if the body names what a narrow caller does not reach.

    InvalidArgumentError for a response that is not stored: what it is sent belongs to its conversation.
    """
    if request.caller.scope is None:
        return
    await check_model(request, body.model)
    if (named := named_conversation(body)) is not None:
        check_conversation(request.caller, named)
    if body.store is False:
        raise refused("store", "store: what a front-end token sends is in its conversation: leave store out")


def _answer_of(request: ApiRequest) -> Answer:
    return answers.read_answer_id(PREFIX, request.parameters["response_id"])


async def _stream(request: ApiRequest, answer: Answer, *, after: int | None = None) -> EventStream:
    _, facts = await facts_of(request, answer)
    skip = 0 if after is None else after + 1
    return await answers.stream_answer(request, answer, lambda: ResponseFold(facts), KIND, skip=skip)


async def _so_far(request: ApiRequest, answer: Answer) -> Response:
    run, facts = await facts_of(request, answer)
    fold = await answers.answer_so_far(request, answer, ResponseFold(facts))
    waits = run.status in ("queued", "claimed") and not run.sequence
    return fold.response("queued" if waits and not fold.ended else None)


# -- a message ---------------------------------------------------------------------------------------------


async def _begin(request: ApiRequest, body: CreateResponse, turn: Turn) -> Answer:
    """Send a message; return its answer."""
    if not turn.contents:
        raise refused("input", "input has no message of the user, and no result that a run waits for")
    named = body.conversation is not None or body.previous_response_id is not None
    if turn.history and named:
        raise refused("input", "input has answers of the agent: in a conversation send only what is new")
    if body.store is False and named:
        raise refused("store", "store: what is said in a conversation is kept in it: leave store out")
    if turn.references and not named and request.caller.scope is None:
        raise refused(
            turn.references[0],
            f"{turn.references[0]}: a reference is to an item of a conversation, and the request names none: "
            "send previous_response_id or conversation, or the items themselves",
        )
    tools = read_tools(body.tools, body.tool_choice)
    event_id = await event_id_of(request, "response")
    place = await _place(request, body, event_id)
    instructions = "\n\n".join([*([body.instructions] if body.instructions else []), *turn.instructions])
    envelope = EventEnvelope(
        event_type="message.received",
        agent=body.model,
        event_id=event_id,
        input=Input(contents=turn.contents, tools=tools),
        actor=None if body.user is None else Actor(actor_id=body.user),
        data=echo_of(body, instructions or None),
        **place,
    )
    await check_model(request, body.model)
    return (await answers.send_message(request, envelope, history=turn.history)).answer


async def _place(request: ApiRequest, body: CreateResponse, event_id: str) -> dict[str, Any]:
    """Return where a message belongs: the ids of its conversation, bot and thread."""
    if (named := named_conversation(body)) is not None:
        return {"conversation_id": named}
    if body.previous_response_id is not None:
        return await _after(request, body.previous_response_id, event_id)
    if (scope := request.caller.scope) is not None:
        return {"conversation_id": scope.conversation_id}
    return {"conversation_id": f"conv_{digest(event_id)[:32]}"}  # the same for a repeated request


async def _after(request: ApiRequest, previous: str, event_id: str) -> dict[str, Any]:
    """Return the place of a response, which has to be the latest of its conversation."""
    param = "previous_response_id"
    scope = request.caller.scope

    def read(tx: Tx) -> tuple[runs.Run, str | None]:
        run = runs.get(tx, request.workspace_id, answers.read_answer_id(PREFIX, previous).run_id)
        if scope is not None and not scope.holds(run.agent_name, run.conversation_id):
            raise NotFoundError("another conversation's")
        if run.conversation_id is None or not is_stored(tx, run):
            return run, None
        if events.find(tx, request.workspace_id, stored_event_id(request.caller, event_id)) is not None:
            return run, run.run_id  # repeated
        latest = runs.page(tx, request.workspace_id, conversation_id=run.conversation_id, limit=1)
        return run, latest[0].run_id

    try:
        run, latest = await request.state.host.db.read(read)
    except NotFoundError:
        raise refused(param, f"{param}: there is no response {previous[:100]!r}") from None
    if latest is None:
        raise refused(
            param, f"{param}: {previous[:100]!r} was not stored in a conversation: send the whole history"
        )
    if latest != run.run_id:
        raise refused(
            param,
            f"{param}: {previous[:100]!r} is not the latest response of its conversation, which has no "
            f"branches; to go on at its end send conversation={run.conversation_id!r}",
        )
    if scope is not None:  # the bot is what servers say
        return {"conversation_id": run.conversation_id, "thread_id": run.thread_id}
    return {"conversation_id": run.conversation_id, "thread_id": run.thread_id, "bot_id": run.bot_id}
