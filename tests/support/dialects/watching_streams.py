"""Watchers that read a run's results themselves, or messages as they are on the wire."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import httpx
from websockets.exceptions import WebSocketException

from support.databases import TEST_SECONDS
from support.dialects.mcp import Wire, wire
from support.dialects.transcripts import LOST, CutError, Entry, Shown, Transcript, Watch
from support.followed import Seen
from support.live_socket import LiveClient, live
from support.loopback import NO_CERTIFICATES


class Results:
    """Folds the results of one run, as whoever reads the native streams does."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._transcript = Transcript()
        self.over = False

    @property
    def shown(self) -> Shown:
        return Shown(self._transcript.entries)

    def take(self, kind: str, data: dict[str, Any]) -> None:
        """Add a result."""
        match kind:
            case "message.delta":
                self._watch.tell(data["chunk"]["content"])
            case "message.completed" if data["message"]["role"] == "assistant":
                self._transcript.say(data["message"]["content"], data["message"]["message_id"])
            case "tool.call.started":
                self._transcript.call(data["tool_call_id"], data["tool_name"], data["parameters"])
            case "tool.call.completed":
                outcome = data.get("result") if data.get("error") is None else data["error"]
                self._transcript.answer(data["tool_call_id"], outcome)
            case "interaction.requested":
                self._watch.ask()
            case "run.completed" | "run.failed":
                assert kind == "run.completed", data
                self.over = True

    def overhear(self, kind: str, data: dict[str, Any]) -> None:
        """Add an entry of a stream over many runs, if it is of this one."""
        if data.get("run_id") == self._watch.run_id and "sequence" in data:
            self.take(kind, data["data"])


async def lines(watch: Watch, path: str, headers: dict[str, str] | None = None) -> AsyncIterator[str]:
    """Yield the lines of one stream. Raises one of LOST where it breaks, or the watcher has had enough."""
    given = {"authorization": f"Bearer {watch.key}", "accept": "text/event-stream", **(headers or {})}
    left = watch.room()
    client = httpx.AsyncClient(base_url=watch.url, verify=NO_CERTIFICATES, timeout=TEST_SECONDS)
    async with client, client.stream("GET", path, headers=given) as answer:
        if answer.status_code >= 500:
            raise CutError
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            yield line
            left -= 1
            if left <= 0:
                raise CutError


async def events(watch: Watch, path: str) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the JSON of the events of a stream that goes on by Last-Event-ID, each once, to its end."""
    last: str | None = None
    while True:
        seen, data = None, ""
        try:
            async for line in lines(watch, path, {} if last is None else {"last-event-id": last}):
                if line.startswith("id: "):
                    seen = line.removeprefix("id: ")
                elif line.startswith("data: "):
                    data = line.removeprefix("data: ")
                elif not line and data:
                    last = seen or last
                    yield json.loads(data)
                    data = ""
        except LOST:
            await watch.lost()
        else:
            return


async def native(watch: Watch) -> Shown:
    """The run's own stream."""
    results = Results(watch)
    async for result in events(watch, f"/v1/runs/{watch.run_id}/stream"):
        results.take(result["type"], result["data"])
    return results.shown


async def conversation(watch: Watch) -> Shown:
    """The stream of the conversation, from its start."""
    results = Results(watch)
    path = f"/v1/conversations/{watch.conversation_id}/stream?from=start"
    async with contextlib.aclosing(events(watch, path)) as stream:
        async for data in stream:
            results.overhear(data.get("type", ""), data)
            if results.over:
                break
    return results.shown


async def web_socket(watch: Watch) -> Shown:
    """A subscription of the WebSocket, which goes on after the last cursor over another connection."""
    results = Results(watch)
    place: dict[str, str] = {"from": "start"}
    while not results.over:
        left = watch.room()
        try:
            async with live(watch.url, watch.key) as client:
                await client.follow("s", conversation_id=watch.conversation_id, **place)
                while not results.over and left > 0:
                    entry = await next_of(client)
                    results.overhear(entry.type, entry.data)
                    place, left = {"cursor": entry.cursor}, left - 1
        except (*LOST, WebSocketException, TimeoutError):
            await watch.lost()
    return results.shown


async def next_of(client: LiveClient) -> Seen:
    """The next event of the subscription. CutError once the connection has ended without one."""
    waiting = asyncio.ensure_future(client.events["s"].get())
    closed = asyncio.ensure_future(client.socket.wait_closed())
    try:
        await asyncio.wait([waiting, closed], return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        raise CutError
    finally:
        waiting.cancel()
        closed.cancel()


async def mcp(watch: Watch) -> Shown:
    """MCP: the result of the run's task, whose stream goes on after its last event.

    The official client knows no tasks of sessions, so these are messages as they are on the wire.
    """
    heard = TaskHeard(watch)
    async with wire(watch.url, watch.key) as client:
        await follow_task(client, watch, heard)
    return heard.shown


class TaskHeard:
    """Folds the messages of a task: text is progress, calls are log messages, the result has the messages."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._calls = Transcript()
        self._text = ""
        self._places: list[int] = []
        """How much text there was before each call."""
        self._progress = 0
        self.forms: dict[str, dict[str, Any]] = {}
        """Id of a request for a decision -> its parameters."""
        self.withdrawn: list[str] = []
        self.result: dict[str, Any] | None = None

    def take(self, message: dict[str, Any]) -> None:
        """Add a message."""
        match message.get("method"):
            case "notifications/progress":
                params = message["params"]
                assert params["progress"] > self._progress, "a message came twice"
                self._progress = params["progress"]
                self._text += params["message"]
                self._watch.tell(params["message"])
            case "notifications/message":
                self._log(message["params"]["data"])
            case "elicitation/create":
                self.forms[message["id"]] = message["params"]
                self._watch.ask()
            case None:
                self.result = message["result"]

    def _log(self, data: dict[str, Any]) -> None:
        if "message_dropped" in data:
            self.withdrawn.append(data["message_dropped"])
            assert self._text.endswith(data["message_dropped"])
            self._text = self._text.removesuffix(data["message_dropped"])
        elif "tool_called" in data:
            self._places.append(len(self._text))
            self._calls.call(data["call"], data["tool_called"], data["arguments"])
        elif "tool_returned" in data or "tool_failed" in data:
            self._calls.answer(data["call"], data["result"] if "result" in data else data["error"])

    @property
    def shown(self) -> Shown:
        """The messages of the result, and the calls between them, where the text was when they were made."""
        assert self.result is not None
        structured = self.result["structuredContent"]
        assert structured["status"] == "completed"
        assert "".join(structured["messages"]) == self._text
        found: list[Entry] = []
        calls, place = list(zip(self._places, self._calls.entries, strict=True)), 0
        for text in structured["messages"]:
            while calls and calls[0][0] <= place:
                found.append(calls.pop(0)[1])
            found.append(("said", text))
            place += len(text)
        return Shown([*found, *(entry for _, entry in calls)], self.withdrawn)


async def follow_task(client: Wire, watch: Watch, heard: TaskHeard) -> None:
    """Take the messages of a task over broken connections: each once, to the response."""
    params = {"taskId": f"task_{watch.run_id}", "_meta": {"progressToken": "p"}}
    opened = {"jsonrpc": "2.0", "id": "t", "method": "tasks/result", "params": params}
    last: str | None = None
    while heard.result is None:
        try:
            if not client.session:
                await client.begin(elicits=True)
            if last is None:
                stream = client.http.stream("POST", "/mcp", json=opened, headers=client.headers())
            else:
                stream = client.http.stream("GET", "/mcp", headers=client.headers(last_event_id=last))
            async with stream as answer:
                if answer.status_code >= 500:
                    raise CutError
                assert answer.status_code == 200, await answer.aread()
                async for event_id, data in _task_events(answer, watch.room(12)):
                    last = event_id or last
                    if data:
                        heard.take(json.loads(data))
        except LOST:
            await watch.lost()


async def _task_events(answer: httpx.Response, left: int) -> AsyncIterator[tuple[str, str]]:
    """Yield id and data of so many events."""
    event_id = data = ""
    async for line in answer.aiter_lines():
        if line.startswith("id: "):
            event_id = line.removeprefix("id: ")
        elif line.startswith("data: "):
            data = line.removeprefix("data: ")
        elif not line:
            yield event_id, data
            event_id = data = ""
            left -= 1
            if left <= 0:
                return
