"""Decisions about what a watched run waits for, each made in one dialect by its own means.

A decider is a coroutine function `(watch, approve)`. It may go on reading after it has decided, until it is
cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
from a2a.types import SendMessageRequest

from support.databases import TEST_SECONDS
from support.dialects.a2a import BINDINGS, a2a_client, got, message
from support.dialects.ag_ui import ag_ui_client
from support.dialects.langgraph import AGENT, langgraph
from support.dialects.mcp import wire
from support.dialects.transcripts import Watch
from support.dialects.watching_clients import openai_of
from support.dialects.watching_programs import chat_page, editor_at
from support.dialects.watching_streams import TaskHeard, follow_task
from support.editors import Person
from support.live_socket import live

Decider = Callable[[Watch, bool], Coroutine[Any, Any, None]]


async def pause_of(client: httpx.AsyncClient, watch: Watch) -> dict[str, Any]:
    """The run's pause."""
    found: list[dict[str, Any]] = (await client.get(f"/v1/pauses?run_id={watch.run_id}")).json()["items"]
    (pause,) = found
    return pause


def actions_of(pause: dict[str, Any], approve: bool) -> dict[str, Any]:
    """What decides a pause with one call."""
    (call,) = pause["calls"]
    action = {
        "call_id": call["call_id"],
        "type": "approve" if approve else "deny",
        "args_hash": call["args_hash"],
    }
    return {"revision": pause["revision"], "actions": [action]}


async def native(watch: Watch, approve: bool) -> None:
    """The host's own API."""
    async with watch.client() as client:
        pause = await pause_of(client, watch)
        answer = await client.post(f"/v1/pauses/{pause['id']}/actions", json=actions_of(pause, approve))
        assert answer.is_success, answer.text


async def web_socket(watch: Watch, approve: bool) -> None:
    """A command of the WebSocket."""
    async with watch.client() as client:
        pause = await pause_of(client, watch)
    async with live(watch.url, watch.key) as socket:
        await socket.ask("decide", pause_id=pause["id"], **actions_of(pause, approve))


async def responses(watch: Watch, approve: bool) -> None:
    """OpenAI Responses: an item of the next request."""
    first = f"resp_{watch.run_id}"
    async with openai_of(watch) as client:
        asked: Any = await client.responses.retrieve(first)
        (request,) = [item for item in asked.output if item.type == "mcp_approval_request"]
        reply: Any = {
            "type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve
        }  # fmt: skip
        stream = await client.responses.create(
            model="player", previous_response_id=first, input=[reply], stream=True
        )
        async with stream:
            async for _ in stream:
                break


async def ai_sdk(watch: Watch, approve: bool) -> None:
    """AI SDK: an approval inside of the message, which the client sends by itself."""
    async with chat_page(watch) as page:
        while "asked" not in await page.line():
            pass
        page.say("approve" if approve else "deny")
        await asyncio.Event().wait()


async def ag_ui(watch: Watch, approve: bool) -> None:
    """AG-UI: a run that resumes an interrupt."""
    async with ag_ui_client(watch.url, watch.key, thread=watch.conversation_id, resuming=True) as client:
        (interrupt,) = (await client.command(connect=True))["interrupts"]
        payload = {"approved": approve}
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": payload}]
        await client.command(run={"resume": resume})


async def langgraph_command(watch: Watch, approve: bool) -> None:
    """LangGraph: a run with a command."""
    async with langgraph(watch.url, watch.key) as client:
        state = await client.threads.get_state(watch.conversation_id)
        (interrupt,) = state["interrupts"]
        resume = {interrupt["id"]: {"decisions": [{"type": "approve" if approve else "reject"}]}}
        await client.runs.create(watch.conversation_id, AGENT, command={"resume": resume})


async def mcp(watch: Watch, approve: bool) -> None:
    """MCP: the answer to a form of the server."""
    heard = TaskHeard(watch)
    async with wire(watch.url, watch.key) as client:
        await client.begin(elicits=True)
        following = asyncio.create_task(follow_task(client, watch, heard))
        try:
            async with asyncio.timeout(TEST_SECONDS):
                while not heard.forms:
                    await asyncio.sleep(0.02)
            (form_id,) = heard.forms
            result = {"action": "accept", "content": {"approved": approve}}
            answer = await client.post({"jsonrpc": "2.0", "id": form_id, "result": result})
            assert answer.status_code == 202, answer.text
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def a2a(watch: Watch, approve: bool) -> None:
    """A2A: a message with a data part."""
    async with a2a_client(watch.url, watch.key, binding=BINDINGS[approve], polling=True) as client:
        task = await got(client, watch.run_id)
        (asked,) = [part["data"] for part in task["status"]["message"]["parts"] if "data" in part]
        said = message({"id": asked["id"], "approved": approve}, task_id=watch.run_id)
        async for _ in client.send_message(SendMessageRequest(message=said)):
            break


async def acp(watch: Watch, approve: bool) -> None:
    """ACP: the answer to the agent's request for permission."""
    person = Person()
    async with editor_at(watch, person):
        await person.until(lambda: person.asked)
        person.choose("allow" if approve else "reject")
        await asyncio.Event().wait()


DECIDERS: dict[str, Decider] = {
    "native": native,
    "web-socket": web_socket,
    "responses": responses,
    "ai-sdk": ai_sdk,
    "ag-ui": ag_ui,
    "langgraph": langgraph_command,
    "mcp": mcp,
    "a2a": a2a,
    "acp": acp,
}
"""Chat Completions has no word for a decision: it says where to decide."""


async def decide(watch: Watch, dialect: str, approve: bool) -> None:
    """Have the run's pause decided in a dialect. AssertionError if it was decided otherwise."""
    deciding = asyncio.create_task(DECIDERS[dialect](watch, approve), name=f"decide in {dialect}")
    try:
        async with asyncio.timeout(TEST_SECONDS), watch.client() as client:
            while (decision := (await pause_of(client, watch))["calls"][0]["decision"]) == "undecided":
                if deciding.done():
                    deciding.result()
                await asyncio.sleep(0.02)
    finally:
        deciding.cancel()
        await asyncio.gather(deciding, return_exceptions=True)
    assert decision == ("approved" if approve else "denied"), decision
