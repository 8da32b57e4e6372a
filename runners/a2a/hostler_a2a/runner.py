"""The runner: reads the agent's card, sends the message or the answer, and passes the task's events on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.client.errors import A2AClientError
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
)
from a2a.utils.errors import A2AError, TaskNotFoundError
from google.protobuf.json_format import MessageToDict, ParseError

from hostler_a2a.card import BINDINGS, card_url, choose_endpoint, key_header
from hostler_a2a.stream import QUESTION, SESSION, TaskEvents
from hostler_sdk.services import (
    InputFile,
    Item,
    Request,
    ServiceFailure,
    ServiceRunner,
    Turn,
    answer_to,
    decision_on,
    object_in,
)
from hostler_sdk.services.answer import Answer
from hostler_sdk.services.http import ServiceHttp
from hostler_sdk.services.limits import STOP_SECONDS

LOOK_SECONDS = 1.0
"""Between looks at a task of an agent that does not stream and answers before it is done."""


class A2A(ServiceRunner):
    """A2A agent

    Answers with an agent that speaks A2A.
    """

    service = "a2a"
    title = "the agent"

    async def serve(self, turn: Turn) -> None:
        """Serve one message, or go on with the answer of a person."""
        form = turn.form
        place = card_url(form.url("agent-card-url"))
        endpoint = form.text("endpoint") and form.url("endpoint")
        key, header = form.header("api-key"), form.header("auth-header")
        question = turn.question
        files = await turn.files() if question is None else []
        text = await turn.text(form.text("base-prompt")) if question is None else ""
        http = await turn.http(
            place,
            headers={"authorization": header} if header else {},
            secrets=[key, header, header.partition(" ")[2]],
            setting="agent-card-url",
            key_setting="auth-header" if header and not key else "api-key",
        )
        card = choose_endpoint(await http.json(Request(method="GET")), place, endpoint)
        keys = ({"authorization": header} if header else {}) | (key_header(card, key) if key else {})
        async with http.client() as own:
            own.headers.update(keys)
            client = _client(card, own)
            if question is None:
                message = _message(text, files, turn, context_id=turn.session(SESSION) or "")
            else:
                message = await _reply(turn, client, question)
            events = TaskEvents(context_id=message.context_id if question is None else "")
            streams = object_in(card, "capabilities").get("streaming") is True
            source = _source(http, client, message, events, streams=streams)
            await turn.relay(http, source, stop=_stop(turn, client))


def _client(card: dict[str, Any], own: httpx.AsyncClient) -> Client:
    try:
        config = ClientConfig(httpx_client=own, supported_protocol_bindings=list(BINDINGS))
        return ClientFactory(config).create(parse_agent_card(card))
    except (ParseError, ValueError, TypeError) as error:
        raise ServiceFailure("response_invalid", f"the agent's card cannot be read: {error!s:.300}") from None


def _message(text: str, files: list[InputFile], turn: Turn, *, context_id: str, task_id: str = "") -> Message:
    message = Message(
        message_id=f"{turn.ctx.run_id}-{turn.ctx.attempt}",
        role=Role.ROLE_USER,
        context_id=context_id,
        task_id=task_id,
        parts=[Part(text=text), *map(_part, files)],
    )
    if assets := turn.assets():
        message.metadata.update(assets)
    return message


def _part(file: InputFile) -> Part:
    part = Part(filename=file.name, media_type=file.mime_type)
    if file.url is None:
        part.raw = file.data
    else:
        part.url = file.url
    return part


async def _reply(turn: Turn, client: Client, question: Any) -> Message:
    """Return the answer to a task that waits. A task that gets none is cancelled."""
    task_id = str(question.get("task_id") or "")
    try:
        text = str(answer_to(decision_on(turn.decisions, QUESTION), "the agent"))
    except ServiceFailure:
        await _cancelled(turn, client, task_id)
        raise
    return _message(text, [], turn, context_id=str(question.get(SESSION) or ""), task_id=task_id)


def _source(http: ServiceHttp, client: Client, message: Message, events: TaskEvents, *, streams: bool) -> Any:
    """Return the items of the answer. What an agent that does not stream sends is not always all of it."""

    async def source(_: Answer) -> AsyncGenerator[Item, None]:
        try:
            async with aclosing(_responses(client, message)) as responses:
                async for response in responses:
                    for item in events.take(response):
                        yield item
            if not events.is_done and not streams:
                async with aclosing(_looks(client, events)) as items:
                    async for item in items:
                        yield item
        except (A2AError, ParseError, ValueError, TypeError) as error:
            raise _failure(http, error, message) from None

    return source


async def _responses(client: Client, message: Message) -> AsyncGenerator[dict[str, Any], None]:
    sent = client.send_message(SendMessageRequest(message=message))
    async for response in sent:
        yield MessageToDict(response)


async def _looks(client: Client, events: TaskEvents) -> AsyncGenerator[Item, None]:
    while not events.is_done and events.task_id:
        await asyncio.sleep(LOOK_SECONDS)
        task = MessageToDict(await client.get_task(GetTaskRequest(id=events.task_id)))
        for item in events.take_task(task):
            yield item


def _stop(turn: Turn, client: Client) -> Any:
    async def stop(answer: Answer) -> None:
        await _cancelled(turn, client, answer.task or "")

    return stop


async def _cancelled(turn: Turn, client: Client, task_id: str) -> None:
    if not task_id:
        return
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await client.cancel_task(CancelTaskRequest(id=task_id))
    except (A2AError, ServiceFailure, ParseError, ValueError, TypeError, TimeoutError) as error:
        turn.ctx.log(f"the agent could not be told to stop: {error or 'no answer'}", "warning")


def _failure(http: ServiceHttp, error: Exception, message: Message) -> ServiceFailure:
    """Return what an error of the library means."""
    cause = next((one for one in _causes(error) if isinstance(one, httpx.HTTPError)), None)
    said = http.clean(str(error))
    match cause:
        case httpx.ReadError() | httpx.RemoteProtocolError() | httpx.StreamError():
            return http.broken()
        case httpx.HTTPError():
            return http.failure_of(cause)
        case _ if isinstance(error, TaskNotFoundError) and message.task_id:
            return ServiceFailure(
                "service_error", "the agent no longer has the task that had asked; ask again to begin anew"
            )
        case _ if isinstance(error, A2AError) and not _is_malformed(error):
            return ServiceFailure("service_error", f"the agent reported an error: {said}; look at it there")
        case _:
            return ServiceFailure("response_invalid", f"the agent's answer cannot be read: {said}")


def _is_malformed(error: Exception) -> bool:
    """Whether the library could not read an answer: it has no class of its own for that."""
    return type(error) is A2AClientError and not str(error).startswith(("JSON-RPC Error", "SSE stream error"))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
