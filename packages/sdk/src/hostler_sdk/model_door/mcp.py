"""The run's own MCP server: its tools, for programs that take tools from such servers.

Tools are listed under names that model services accept, since programs offer them to models unchanged.

A `tools/call` is a call of the run, like `ctx.tools.call`: it may wait for people, and a resumed program gets
the outcome that is recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from hostler_protocol.calls import ToolCallReply, ToolDetail
from hostler_protocol.grants import ToolResource
from hostler_sdk.errors import HostError
from hostler_sdk.function_names import function_names
from hostler_sdk.host_api.port import HostCalls
from hostler_sdk.model_door.exchange import JSON_TYPE, STREAM_TYPE, DoorAnswer, DoorRequest
from hostler_sdk.model_door.limits import COMMENT_SECONDS, QUICK_SECONDS
from hostler_sdk.model_door.mcp_messages import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RpcError,
    RpcMessage,
    discovered,
    initialized,
    read_message,
    tool_failed,
    tool_listed,
    tool_result,
)
from hostler_sdk.model_door.reading import Json

PATH = "/mcp"


class RunTools:
    """Answers the MCP messages of a run."""

    def __init__(self, granted: Sequence[ToolResource], host: HostCalls) -> None:
        self._granted = granted
        self._host = host
        self._listed: list[Json] | None = None
        self._names = function_names([tool.tool_name for tool in granted if "call" in tool.operations])
        self._tools = {listed: name for name, listed in self._names.items()}
        self._calls: dict[str | int, asyncio.Task[Any]] = {}
        """By the id of the request, so that a client can give one up."""

    async def answer(self, request: DoorRequest) -> DoorAnswer:
        """Answer a message."""
        try:
            message = read_message(request.body, request.headers)
            if message is None or message.id is None:
                self._note(message)
                return DoorAnswer(202)
            return await self._answer(message)
        except RpcError as error:
            return error.answer

    def _note(self, message: RpcMessage | None) -> None:
        if message is not None and message.method == "notifications/cancelled":
            call = self._calls.get(message.params.get("requestId", ""))
            if call is not None:
                call.cancel()

    async def _answer(self, message: RpcMessage) -> DoorAnswer:
        match message.method:
            case "initialize":
                return _json(message.result(initialized(message)))
            case "server/discover":
                return _json(message.result(discovered(), is_list=True))
            case "ping":
                return _json(message.result({}))
            case "tools/list":
                return _json(message.result({"tools": await self._list()}, is_list=True))
            case "tools/call":
                return await self._call(message)
            case method:
                known = "initialize, ping, tools/list, tools/call"
                raise RpcError(
                    METHOD_NOT_FOUND, f"there is no {method!r:.100}; there are {known}", id_=message.id
                )

    async def _list(self) -> list[Json]:
        """Return the tools with their parameters, which are asked for once in the run."""
        if self._listed is None:
            callable_ = [tool for tool in self._granted if tool.tool_name in self._names]
            self._listed = [
                tool_listed(await self._detail(tool), self._names[tool.tool_name]) for tool in callable_
            ]
        return self._listed

    async def _detail(self, tool: ToolResource) -> ToolDetail:
        if "detail" not in tool.operations:
            return ToolDetail(name=tool.tool_name, description=tool.description, parameters={})
        detail: ToolDetail = await self._host.call("tool.detail", {"tool_name": tool.tool_name})
        return detail

    async def _call(self, message: RpcMessage) -> DoorAnswer:
        name, arguments = message.params.get("name"), message.params.get("arguments")
        arguments = {} if arguments is None else arguments
        if not isinstance(name, str) or not isinstance(arguments, dict) or message.id is None:
            raise RpcError(
                INVALID_PARAMS, "tools/call takes a name, and arguments as an object", id_=message.id
            )
        params = {"tool_name": self._tools.get(name, name), "parameters": arguments}
        call = asyncio.ensure_future(self._host.call("tool.call", params))
        self._calls[message.id] = call
        call.add_done_callback(lambda _: self._calls.pop(message.id or "", None))
        try:
            await asyncio.wait([call], timeout=QUICK_SECONDS)
        except asyncio.CancelledError:
            call.cancel()
            raise
        if call.done():
            return _json(message.result(_outcome(call)))
        return DoorAnswer(headers=[STREAM_TYPE], pieces=_slow(message, call))


async def _slow(message: RpcMessage, call: asyncio.Task[Any]) -> AsyncGenerator[bytes]:
    """Yield comments until a call is over, then its outcome: clients give up what is silent for long."""
    try:
        while not call.done():
            yield b": \n\n"
            await asyncio.wait([call], timeout=COMMENT_SECONDS)
        yield b"event: message\ndata: " + message.result(_outcome(call)) + b"\n\n"
    finally:
        call.cancel()


def _outcome(call: asyncio.Task[Any]) -> Json:
    if call.cancelled():
        return {
            "content": [{"type": "text", "text": "cancelled: the client gave the call up"}],
            "isError": True,
        }
    try:
        reply: ToolCallReply = call.result()
    except HostError as error:
        return tool_failed(error)
    return tool_result(reply.result)


def _json(body: bytes) -> DoorAnswer:
    return DoorAnswer(headers=[JSON_TYPE], body=body)
