"""Watchers that are programs of their own: the clients of the AI SDK and AG-UI in Node.js, and an editor."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp import RequestError

from support.databases import TEST_SECONDS
from support.dialects.ag_ui import ag_ui_client
from support.dialects.ai_sdk import AI, CLIENT
from support.dialects.transcripts import Shown, Transcript, Watch
from support.editors import Editing, Person, editing
from support.node_clients import node_clients

INTERRUPTED = "The answer was interrupted here."
MOST_EDITORS = 4
"""How often an editor is closed and another opened; each is a process."""


# -- the AI SDK ----------------------------------------------------------------------------------------------


@dataclass
class ChatPage:
    """The AI SDK's client, which follows one message of the agent."""

    process: asyncio.subprocess.Process

    async def line(self) -> dict[str, Any]:
        """What it is shown next."""
        assert self.process.stdout is not None
        async with asyncio.timeout(2 * TEST_SECONDS):
            line = await self.process.stdout.readline()
        assert line, "the client ended"
        value: dict[str, Any] = json.loads(line)
        return value

    def say(self, word: str) -> None:
        """Go on where an answer is awaited: `approve`, `deny`, or `decided` by somebody else."""
        assert self.process.stdin is not None
        self.process.stdin.write(word.encode() + b"\n")


@contextlib.asynccontextmanager
async def chat_page(watch: Watch) -> AsyncIterator[ChatPage]:
    """A page that follows the run's message. Skips the test where Node.js cannot be had."""
    node = await asyncio.to_thread(node_clients, AI)
    plan = {
        "api": f"{watch.url}/ai-sdk/player",
        "key": watch.key,
        "id": watch.conversation_id,
        "messages": [{"id": f"msg_{watch.run_id}", "role": "assistant", "parts": []}],
        "late": True,
        "watch": True,
        "cuts": watch.bytes(2_500),
        "steps": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        node.lend_to(Path(folder))
        Path(folder, CLIENT.name).write_text(CLIENT.read_text())
        process = await asyncio.create_subprocess_exec(
            str(node.program),
            CLIENT.name,
            json.dumps(plan),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            limit=16 * 1024 * 1024,
        )
        try:
            yield ChatPage(process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def ai_sdk(watch: Watch) -> Shown:
    """AI SDK: a message is replayed from its start, however often; nothing of it is incomplete."""
    async with chat_page(watch) as page:
        while True:
            seen = await page.line()
            if "text" in seen:
                watch.tell(seen["text"])
            elif "asked" in seen:
                await watch.wait_decided()
                page.say("decided")
            else:
                break
    (message,) = seen["messages"]
    transcript = Transcript()
    for part in message["parts"]:
        match part["type"]:
            case "text":
                assert part["state"] == "done"
                transcript.say(part["text"])
            case "dynamic-tool":
                outcome = part["errorText"] if part["state"] == "output-error" else part["output"]
                transcript.call(part["toolCallId"], part["toolName"], part["input"])
                transcript.answer(part["toolCallId"], outcome)
    return Shown(transcript.entries, [])


# -- AG-UI ---------------------------------------------------------------------------------------------------


async def ag_ui(watch: Watch) -> Shown:
    """AG-UI: a thread is connected to, again where the run went on after a decision."""
    thread, cuts = watch.conversation_id, watch.bytes(2_500)
    async with ag_ui_client(watch.url, watch.key, thread=thread, cuts=cuts, resuming=True) as client:
        while True:
            client.send(connect=True)
            while (value := await client.line()).keys().isdisjoint({"done", "failed"}):
                watch.tell(value.get("event", {}).get("delta", ""))
            if "failed" in value:  # there was no host to connect to
                await watch.lost()
            elif value["done"]["interrupts"]:
                await watch.wait_decided()
                client.send(forget=True)  # the client connects to no thread that waits for its answer
            else:
                break
        assert client.warnings == []
    return folded_messages(value["done"]["messages"])


def folded_messages(messages: list[dict[str, Any]]) -> Shown:
    """Messages of AG-UI as a transcript."""
    transcript, withdrawn = Transcript(), list[str]()
    for message in messages:
        match message["role"]:
            case "assistant":
                text, own = message.get("content"), message.get("metadata", {}).get("hostler", {})
                if text and own.get("incomplete"):
                    withdrawn.append(text)
                elif text:
                    transcript.say(text, message["id"])
                for call in message.get("toolCalls", []):
                    function = call["function"]
                    transcript.call(call["id"], function["name"], json.loads(function["arguments"]))
            case "tool":
                transcript.answer(message["toolCallId"], message["content"])
    return Shown(transcript.entries, withdrawn)


# -- ACP -----------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def editor_at(watch: Watch, person: Person) -> AsyncIterator[Editing]:
    """An editor that has loaded the conversation as its session."""
    with tempfile.TemporaryDirectory() as folder:
        where = ("player", "--url", watch.url, "--key", watch.key)
        async with editing(*where, folder=Path(folder), person=person) as editor:
            await editor.connection.load_session(cwd=folder, session_id=watch.conversation_id, mcp_servers=[])
            yield editor


async def acp(watch: Watch) -> Shown:
    """ACP: an editor whose session is the conversation; another one loads it after the first was killed.

    The protocol says nothing of the end of a run that another client began: what is said last tells it.
    """
    opened = 0
    while True:
        person, left = Person(), watch.room() if opened < MOST_EDITORS - 1 else 10**9
        try:
            async with editor_at(watch, person):
                opened += 1
                await _watched(person, watch, left)
        except RequestError:  # there was no host to load it from
            await watch.lost()
            continue
        if left == 10**9:
            break
    return session_transcript(person)


async def _watched(person: Person, watch: Watch, left: int) -> None:
    """Look at what an editor shows until it was shown so many updates, or all of the run."""
    taken = 0
    while len(person.updates) < left and not (watch.over.is_set() and person.text().endswith(watch.last)):
        text = person.text()
        watch.tell(text[taken:])
        taken = len(text)
        if person.asked:
            watch.ask()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await person.changed.wait()
        person.changed.clear()


def session_transcript(person: Person) -> Shown:
    """What an editor shows of a session, as a transcript."""
    transcript, withdrawn = Transcript(), list[str]()
    texts: dict[str, str] = {}
    calls = person.tool_calls()
    open_message = ""

    def close() -> None:
        nonlocal open_message
        if open_message:
            transcript.say(texts[open_message].removeprefix("\n\n"), open_message)
            open_message = ""

    for _, update in person.updates:
        match update["sessionUpdate"]:
            case "agent_message_chunk":
                if open_message != update["messageId"]:
                    close()
                open_message = update["messageId"]
                texts[open_message] = texts.get(open_message, "") + update["content"]["text"]
            case "agent_thought_chunk" if update["content"]["text"].startswith(INTERRUPTED):
                withdrawn.append(texts[open_message])
                open_message = ""
            case "tool_call":
                close()
                call = calls[update["toolCallId"]]
                transcript.call(call["toolCallId"], call["title"].partition(" ")[0], call["rawInput"])
                if "rawOutput" in call:
                    transcript.answer(call["toolCallId"], call["rawOutput"])
    close()
    return Shown(transcript.entries, withdrawn)
