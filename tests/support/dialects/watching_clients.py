"""Watchers that read a run with official clients for Python."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import httpx
import openai
from a2a.client.client import Client
from a2a.client.errors import A2AClientError
from a2a.types import SubscribeToTaskRequest
from a2a.utils.errors import UnsupportedOperationError
from openai import AsyncOpenAI, AsyncStream
from openai.types.chat import ChatCompletionChunk

from support.databases import TEST_SECONDS
from support.dialects.a2a import BINDINGS, OVER, a2a_client, got
from support.dialects.a2a import Told as TaskTold
from support.dialects.langgraph import langgraph
from support.dialects.openai_chat import Told
from support.dialects.openai_responses import Reading
from support.dialects.transcripts import LOST, Shown, Transcript, Watch

OPENAI_LOST = (openai.APIConnectionError, openai.InternalServerError, *LOST)
LOST_OF_LANGGRAPH = (httpx.HTTPError, *LOST)


def openai_of(watch: Watch) -> AsyncOpenAI:
    """OpenAI's client of the watched host; it repeats nothing by itself."""
    return AsyncOpenAI(
        base_url=f"{watch.url}/v1", api_key=watch.key, max_retries=0, timeout=float(TEST_SECONDS)
    )


async def chat_completions(watch: Watch) -> Shown:
    """OpenAI Chat Completions: text, and of what is asked a text that says where to decide.

    The client does not show the ids of events; there is one event to each chunk, so it counts them.
    """
    told, seen, length = Told(), 0, 0
    async with openai_of(watch) as client:
        while told.finish_reason is None:
            left = watch.room()
            try:
                stream = await client.get(
                    f"/chat/completions/chatcmpl_{watch.run_id}",
                    cast_to=ChatCompletionChunk,
                    stream=True,
                    stream_cls=AsyncStream[ChatCompletionChunk],
                    options={"params": {"stream": True}, "headers": {"Last-Event-ID": str(seen)}},
                )
                async with stream:
                    async for chunk in stream:
                        told.take(chunk)
                        seen, left = seen + 1, left - 1
                        watch.tell(told.content[length:])
                        length = len(told.content)
                        if told.notes:
                            watch.ask()
                        if left <= 0:
                            break
            except OPENAI_LOST:
                await watch.lost()
    assert len(told.notes) == 1, told.notes
    withdrawn = [text for key, text in told.texts.items() if key in told.incomplete]
    return Shown([("said", text) for text in told.messages], withdrawn)


async def responses(watch: Watch) -> Shown:
    """OpenAI Responses: the request for an approval ends a response, and another goes on after it."""
    transcript, withdrawn = Transcript(), list[str]()
    async with openai_of(watch) as client:
        first = await _read_response(client, f"resp_{watch.run_id}", watch)
        asked = [item for item in first.output if item.type == "mcp_approval_request"]
        outputs = list(first.output)
        if asked:
            await watch.wait_decided()
            after = await watch.place_of_request()
            outputs += (await _read_response(client, f"resp_{watch.run_id}_{after}", watch)).output
    for item in outputs:
        match item.type:
            case "message" if not item.phase and item.status == "completed":
                transcript.say(item.content[0].text)
            case "message" if not item.phase:
                withdrawn.append(item.content[0].text)
            case "mcp_call" if item.status != "incomplete":
                outcome = item.output if item.error is None else item.error["content"]
                transcript.call(item.id, f"{item.server_label}.{item.name}", json.loads(item.arguments))
                transcript.answer(item.id, outcome)
    return Shown(transcript.entries, withdrawn)


async def _read_response(client: AsyncOpenAI, response_id: str, watch: Watch) -> Any:
    """Read a response to its end."""
    reading = Reading()
    while reading.final is None:
        left = watch.room(40)
        after: dict[str, Any] = {} if reading.last < 0 else {"starting_after": reading.last}
        try:
            stream = await client.responses.retrieve(response_id, stream=True, **after)
            async with stream:
                async for event in stream:
                    reading.take(event)
                    if event.type == "response.output_text.delta":
                        watch.tell(event.delta)
                    if (left := left - 1) <= 0:
                        break
        except OPENAI_LOST:
            await watch.lost()
    return reading.final


async def langgraph_stream(watch: Watch) -> Shown:
    """LangGraph: a run that waits has ended as interrupted, and a further run of the thread goes on."""
    tokens: dict[str, str] = {}
    withdrawn: list[str] = []
    values = await _join(watch, f"run_{watch.run_id}", tokens, withdrawn)
    while "__interrupt__" in values:
        await watch.wait_decided()
        values = await _join(watch, f"run_{watch.run_id}_{await watch.place_of_request()}", tokens, withdrawn)
    transcript = Transcript()
    for message in values["messages"]:
        match message["type"]:
            case "ai" if message["tool_calls"]:
                for call in message["tool_calls"]:
                    transcript.call(call["id"], call["name"], call["args"])
            case "ai":
                transcript.say(message["content"], message["id"])
            case "tool":
                transcript.answer(message["tool_call_id"], message["content"])
    return Shown(transcript.entries, withdrawn)


async def _join(watch: Watch, run_id: str, tokens: dict[str, str], withdrawn: list[str]) -> dict[str, Any]:
    """Join a run until its stream ends; the last state of the thread."""
    last, parts = "-1", list[Any]()
    while True:
        left = watch.room(40)
        try:
            async with langgraph(watch.url, watch.key) as client:
                stream = client.runs.join_stream(
                    watch.conversation_id,
                    run_id,
                    stream_mode=["values", "messages-tuple"],
                    last_event_id=last,
                )
                async with contextlib.aclosing(stream):
                    async for part in stream:
                        last = part.id or last
                        parts.append(part)
                        if part.event == "messages":
                            _take_token(watch, part.data[0], tokens, withdrawn)
                        if (left := left - 1) <= 0:
                            break
                    else:
                        break
        except LOST_OF_LANGGRAPH:
            await watch.lost()
    values: dict[str, Any] = [part.data for part in parts if part.event == "values"][-1]
    return values


def _take_token(watch: Watch, chunk: dict[str, Any], tokens: dict[str, str], withdrawn: list[str]) -> None:
    if chunk["type"] != "AIMessageChunk":
        return
    watch.tell(chunk["content"])
    tokens[chunk["id"]] = tokens.get(chunk["id"], "") + chunk["content"]
    if chunk["response_metadata"].get("hostler", {}).get("incomplete"):
        withdrawn.append(tokens[chunk["id"]])


async def a2a(watch: Watch) -> Shown:
    """A2A: a task is subscribed to, and subscribed to again; it has no calls of tools.

    Only who was connected when a message was withdrawn is told so: a task is then without it.
    """
    binding = BINDINGS[0] if watch.dice is None else watch.dice.choice(BINDINGS)
    while True:
        try:
            async with a2a_client(watch.url, watch.key, binding=binding) as client:
                told = await _subscribed(client, watch)
                assert told.state == "COMPLETED"
                return Shown([("said", text) for text in told.texts])
        except (A2AClientError, *LOST):
            await watch.lost()


async def _subscribed(client: Client, watch: Watch) -> TaskTold:
    """Subscribe to the task until it is over; get it then. Raises what is lost."""
    while True:
        told, left = TaskTold(), watch.room(8)
        try:
            stream = client.subscribe(SubscribeToTaskRequest(id=watch.run_id))
            async with contextlib.aclosing(stream):  # type: ignore[type-var]
                async for response in stream:
                    told.take(response)
                    watch.tell("".join(_texts(told)))
                    if told.state == "INPUT_REQUIRED":
                        watch.ask()
                    if told.state in OVER:
                        return told
                    if (left := left - 1) <= 0:
                        break
        except UnsupportedOperationError:
            told = TaskTold()
            told.take_task(await got(client, watch.run_id))
            return told


def _texts(told: TaskTold) -> list[str]:
    return [part.get("text", "") for parts in told.parts.values() for part in parts]
