"""The wire between LangBot's runtime and one plugin, on the runtime's side: requests, answers, streams.

Both sides make requests, each with its own numbers. It knows no process: bytes come in through `received`
and go out through a `Transport`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from typing import Any, Protocol

from hostler_langbot.framing import FrameReader, FramingError, MessageTooLarge, encode
from hostler_sdk import HostError, InvalidArgument, PayloadTooLarge, RateLimited, RuntimeFailure

WINDOW = 8
"""Items of a stream that may be sent before one is acknowledged; LangBot's SDK uses the same number."""
ACKNOWLEDGE_EVERY = WINDOW // 2
MAX_QUEUED = 128
"""Items of a stream without numbers, which older SDKs send, that may wait to be read."""
MAX_ACTIONS = 128
"""Actions of a plugin that are carried out at once; further ones are refused."""
MAX_REPLIES = 256
"""Short answers that may wait for a plugin that does not read; above it the connection is closed."""
MAX_ERROR_CHARS = 4_000
CONTROL_SECONDS = 5.0
"""Time for the plugin to confirm a cancellation."""

_log = logging.getLogger("hostler_langbot")


class ActionFailed(Exception):  # noqa: N818 - names the fact
    """The plugin answered a request with an error, or broke the rules of a stream. The text is for people."""


class PluginGone(ActionFailed):
    """The plugin's process has ended, or its connection broke."""


class Transport(Protocol):
    """Sends bytes."""

    def write(self, data: bytes) -> None:
        """Send the lines of one message."""
        ...

    async def drain(self) -> None:
        """Wait while the plugin does not read."""
        ...


class Actions(Protocol):
    """Carries out what the plugin asks for."""

    async def call(self, name: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out an action. Raises HostError."""
        ...

    def stream(self, name: str, data: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]] | None:
        """Return the answers of a streaming action; None for another one. Raises HostError."""
        ...


class _Incoming:
    """A stream that the plugin sends."""

    def __init__(self) -> None:
        self.items: asyncio.Queue[dict[str, Any] | ActionFailed | None] = asyncio.Queue()
        self._last_index = 0
        self.over = False

    def take(self, answer: Mapping[str, Any]) -> None:
        """Queue one answer of the plugin."""
        if self.over:
            return
        index = answer.get("stream_index")
        if answer.get("code") != 0:
            self.end(ActionFailed(_error_text(answer)))
        elif answer.get("chunk_status") == "end":
            self.end(None)
        elif index is not None and index != self._last_index + 1:
            self.end(
                ActionFailed(f"it sent item {str(index)[:20]} of a stream after item {self._last_index}")
            )
        elif self.items.qsize() >= (MAX_QUEUED if index is None else WINDOW):
            self.end(ActionFailed("it sent more of a stream than was asked for"))
        else:
            self._last_index += 1
            data = answer.get("data")
            self.items.put_nowait(data if isinstance(data, dict) else {})

    def end(self, how: ActionFailed | None) -> None:
        """End the stream, with an error or without."""
        if not self.over:
            self.over = True
            self.items.put_nowait(how)


class _Outgoing:
    """A stream that the plugin reads."""

    def __init__(self) -> None:
        self.sent = 0
        self._acknowledged = 0
        self._room = asyncio.Event()

    def acknowledge(self, index: int) -> None:
        """Note what the plugin has read."""
        self._acknowledged = max(self._acknowledged, min(index, self.sent))
        self._room.set()

    async def wait(self) -> None:
        """Wait until another item may be sent."""
        while self.sent - self._acknowledged >= WINDOW:
            self._room.clear()
            await self._room.wait()


class Peer:
    """One connection to a plugin's process. Its tasks belong to the group that it is given."""

    def __init__(self, transport: Transport, actions: Actions, tasks: asyncio.TaskGroup) -> None:
        self.ignored = 0
        """Answers to requests that were never made, or are long over."""
        self.lost = asyncio.Event()
        """Set when nothing more can be sent or received; `reason` says why."""
        self.reason = ""
        self._transport = transport
        self._actions = actions
        self._tasks = tasks
        self._frames = FrameReader()
        self._writing = asyncio.Lock()
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._incoming: dict[int, _Incoming] = {}
        self._outgoing: dict[int, _Outgoing] = {}
        self._acting: dict[int, asyncio.Task[None]] = {}
        self._replies = 0

    # -- bytes ---------------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        """Take bytes of the plugin, cut anywhere."""
        if self.lost.is_set():
            return
        try:
            for message in self._frames.feed(data):
                self._take(message)
        except FramingError as error:
            self.close(f"it broke the wire of LangBot's runtime: {error}")

    def close(self, reason: str) -> None:
        """End the connection: all requests fail with the reason."""
        if self.lost.is_set():
            return
        self.reason = reason
        self.lost.set()
        gone = PluginGone(reason)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(gone)
        for stream in self._incoming.values():
            stream.end(gone)
        for task in self._acting.values():
            task.cancel()

    async def _send(self, message: dict[str, Any]) -> None:
        """Send one message at a time, so that what waits for a plugin that does not read is bounded."""
        lines = encode(message)
        async with self._writing:
            if self.lost.is_set():
                raise PluginGone(self.reason)
            try:
                self._transport.write(lines)
                await self._transport.drain()
            except (ConnectionError, RuntimeError) as error:  # RuntimeError: the pipe is closed
                self.close("it no longer reads")
                raise PluginGone(self.reason) from error

    # -- requests to the plugin -----------------------------------------------------------------------

    async def request(self, action: str, data: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """Make a request and return the answer. Raises ActionFailed, and TimeoutError."""
        number = self._next()
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            async with asyncio.timeout(seconds):
                await self._send({"seq_id": number, "action": action, "data": dict(data)})
                return await answer
        finally:
            del self._answers[number]

    async def stream(self, action: str, data: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """Make a request and yield the items of its answer. Leaving early cancels it in the plugin.

        Raises ActionFailed, and PayloadTooLarge if the request is too large for the wire.
        """
        number = self._next()
        stream = self._incoming[number] = _Incoming()
        read = 0
        try:
            request = {"seq_id": number, "action": action, "data": dict(data), "stream_flow_control": 1}
            try:
                await self._send(request)
            except MessageTooLarge as error:
                stream.over = True
                raise PayloadTooLarge(f"{action}: {error}") from error
            while True:
                item = await stream.items.get()
                if item is None:
                    return
                if isinstance(item, ActionFailed):
                    raise item
                yield item
                read += 1
                if read % ACKNOWLEDGE_EVERY == 0 and not stream.over:
                    self._control("__stream_ack", {"seq_id": number, "index": read})
        finally:
            del self._incoming[number]
            if not stream.over and not self.lost.is_set():
                self._control("__cancel_action", {"seq_id": number})

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _control(self, action: str, data: dict[str, Any]) -> None:
        self._tasks.create_task(self._controlled(action, data))

    async def _controlled(self, action: str, data: dict[str, Any]) -> None:
        try:
            await self.request(action, data, CONTROL_SECONDS)
        except (ActionFailed, TimeoutError) as error:
            if not self.lost.is_set():
                _log.warning("%s was not confirmed: %s", action, error or "no answer")

    # -- messages of the plugin -----------------------------------------------------------------------

    def _take(self, message: dict[str, Any]) -> None:
        number = message.get("seq_id")
        if not isinstance(number, int) or isinstance(number, bool):
            self._ignore("a message without a number (seq_id)")
        elif "code" in message:
            self._take_answer(number, message)
        else:
            self._take_request(number, message)

    def _ignore(self, what: str) -> None:
        self.ignored += 1
        if self.ignored == 1:
            _log.warning("%s is ignored; further ones are only counted", what)

    def _take_answer(self, number: int, message: dict[str, Any]) -> None:
        if (stream := self._incoming.get(number)) is not None:
            stream.take(message)
        elif (answer := self._answers.get(number)) is not None:
            if answer.done():
                return
            data = message.get("data")
            if message.get("code") == 0:
                answer.set_result(data if isinstance(data, dict) else {})
            else:
                answer.set_exception(ActionFailed(_error_text(message)))
        elif not 0 < number <= self._number:
            self._ignore(f"an answer to request {number}, which was never made,")

    def _take_request(self, number: int, message: dict[str, Any]) -> None:
        action, data = message.get("action"), message.get("data")
        if not isinstance(action, str) or not isinstance(data, dict):
            wrong = InvalidArgument("a request has an action, a text, and data, an object")
            self._reply(self._refuse(number, wrong))
        elif action.startswith("__"):
            self._reply(self._answer(number, self._controls(action, data)))
        elif number in self._acting:
            wrong = InvalidArgument(f"seq_id {number} is the number of a request at work")
            self._reply(self._refuse(number, wrong))
        elif len(self._acting) >= MAX_ACTIONS:
            busy = RateLimited(f"{MAX_ACTIONS} actions are carried out already", details={"retry_after": 1.0})
            self._reply(self._refuse(number, busy))
        else:
            flows = message.get("stream_flow_control") == 1
            task = self._tasks.create_task(self._act(number, action, data, flows=flows))
            self._acting[number] = task
            task.add_done_callback(lambda _: self._acting.pop(number, None))

    def _reply(self, sending: Coroutine[Any, Any, None]) -> None:
        if self._replies >= MAX_REPLIES:
            sending.close()
            self.close("it makes requests and does not read the answers")
            return
        self._replies += 1
        self._tasks.create_task(sending).add_done_callback(self._replied)

    def _replied(self, _: asyncio.Task[None]) -> None:
        self._replies -= 1

    def _controls(self, action: str, data: dict[str, Any]) -> dict[str, Any]:
        target = data.get("seq_id")
        match action:
            case "__stream_ack":
                stream, index = (
                    self._outgoing.get(target) if isinstance(target, int) else None,
                    data.get("index"),
                )
                if stream is not None and isinstance(index, int):
                    stream.acknowledge(index)
                return {"acknowledged": stream is not None}
            case "__cancel_action":
                task = self._acting.get(target) if isinstance(target, int) else None
                return {"cancelled": task is not None and task.cancel()}
            case _:
                return {"alive": True}

    async def _act(self, number: int, action: str, data: dict[str, Any], *, flows: bool) -> None:
        try:
            items = self._actions.stream(action, data)
            if items is None:
                await self._answer(number, await self._actions.call(action, data))
            else:
                await self._answer_stream(number, items, flows=flows)
        except MessageTooLarge as error:
            await self._refuse(number, PayloadTooLarge(f"{action}: the answer is too large: {error}"))
        except TimeoutError:
            await self._refuse(number, RuntimeFailure(f"{action}: it took longer than the plugin allowed"))
        except HostError as error:
            await self._refuse(number, error)
        except PluginGone:
            return
        except Exception as error:  # noqa: BLE001 - the top of a worker: it is logged, and the plugin gets an answer
            _log.exception("the action %s failed", action)
            await self._refuse(number, RuntimeFailure(f"{action}: {type(error).__name__}: {error}"))

    async def _answer_stream(self, number: int, items: AsyncIterator[dict[str, Any]], *, flows: bool) -> None:
        stream = self._outgoing[number] = _Outgoing()
        try:
            async for item in items:
                if flows:
                    await stream.wait()
                stream.sent += 1
                await self._answer(number, item, {"stream_index": stream.sent} if flows else {})
            await self._answer(number, {}, {"chunk_status": "end"})
        finally:
            del self._outgoing[number]
            if isinstance(items, AsyncGenerator):
                await items.aclose()

    async def _answer(self, number: int, data: dict[str, Any], more: Mapping[str, Any] | None = None) -> None:
        answer = {"seq_id": number, "code": 0, "message": "success", "data": data, "chunk_status": "continue"}
        with contextlib.suppress(PluginGone):
            await self._send(answer | dict(more or {}))

    async def _refuse(self, number: int, error: HostError) -> None:
        fault = error.fault()
        details = {
            "code": fault.code,
            "message": fault.message[:MAX_ERROR_CHARS],
            "retryable": fault.retryable,
        }
        data = {"error": {**details, "details": fault.details}}
        refusal = {"seq_id": number, "code": 1, "message": details["message"], "data": data}
        with contextlib.suppress(PluginGone, MessageTooLarge):
            await self._send({**refusal, "chunk_status": "continue"})


def _error_text(answer: Mapping[str, Any]) -> str:
    return str(answer.get("message") or "it answered with an error that says nothing")[:MAX_ERROR_CHARS]
