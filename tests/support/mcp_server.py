"""An MCP server on the official SDK, as a process: ordinary, or as bad as the test wants it.

`python mcp_server.py FOLDER [--http] [--old]`. What it is told and what it was asked stand in files of
FOLDER: `description` (of its tool `say`), `more` (further tool names), `endless` (its list never ends),
`journal` (a line for each call, and for each that was cancelled), `port` (where it serves HTTP, also when it
is started again), `answer` (status, headers and body of the answer to everything, over HTTP).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import ToolsListChanged

PIXEL = base64.b64encode(b"\x89PNG").decode()
NUMBERS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXTS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
ANYTHING = {"type": "object"}
TOOLS: dict[str, dict[str, Any]] = {
    "say": TEXTS,
    "double": NUMBERS,
    "fail": ANYTHING,
    "picture": ANYTHING,
    "wait": ANYTHING,
    "hang": ANYTHING,
    "die": ANYTHING,
    "large": NUMBERS,
    "chatter": NUMBERS,
    "ask": ANYTHING,
    "around": ANYTHING,
    "change": TEXTS,
}


class Behaviour:
    """What the server does, by the files of its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bus = InMemorySubscriptionBus()

    def note(self, *words: Any) -> None:
        with (self.folder / "journal").open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def _read(self, name: str, otherwise: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else otherwise

    async def list_tools(
        self, ctx: Any, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self.note("list")
        if (self.folder / "endless").exists():
            page = int((params.cursor if params else None) or 0)
            tools = [types.Tool(name=f"t{page}_{n}", input_schema=ANYTHING) for n in range(20)]
            return types.ListToolsResult(tools=tools, next_cursor=str(page + 1))
        names = {**TOOLS, **dict.fromkeys(self._read("more", "").split(), ANYTHING)}
        return types.ListToolsResult(tools=[self._tool(name, schema) for name, schema in names.items()])

    def _tool(self, name: str, schema: dict[str, Any]) -> types.Tool:
        described = self._read("description", "Says it.") if name == "say" else f"Does {name}."
        return types.Tool(
            name=name,
            description=described,
            input_schema=schema,
            output_schema=NUMBERS if name == "double" else None,
            annotations=types.ToolAnnotations(read_only_hint=name == "double"),
        )

    async def call_tool(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.note(
            "call", params.name, json.dumps(params.arguments), (ctx.meta or {}).get("hostler/effect-key")
        )
        try:
            found = await getattr(self, f"do_{params.name}")(ctx, params.arguments or {})
        except asyncio.CancelledError:
            self.note("cancelled", params.name)
            raise
        return result(found) if isinstance(found, str) else found

    async def do_say(self, ctx: Any, given: dict[str, Any]) -> str:
        return f"said {given['text']}"

    async def do_double(self, ctx: Any, given: dict[str, Any]) -> types.CallToolResult:
        structured = {"n": 2 * given["n"] if given["n"] < 1_000 else None}
        return types.CallToolResult(
            content=[types.TextContent(text=json.dumps(structured))], structured_content=structured
        )

    async def do_fail(self, ctx: Any, given: dict[str, Any]) -> types.CallToolResult:
        return result("no such seat", is_error=True)

    async def do_picture(self, ctx: Any, given: dict[str, Any]) -> types.CallToolResult:
        embedded = types.BlobResourceContents(uri="file:///a.bin", blob=PIXEL, mime_type="application/x-a")
        return types.CallToolResult(
            content=[
                types.TextContent(text="look"),
                types.ImageContent(data=PIXEL, mime_type="image/png"),
                types.AudioContent(data=PIXEL, mime_type="audio/wav"),
                types.EmbeddedResource(resource=embedded),
                types.ResourceLink(uri="https://example.org/a", name="a"),
            ]
        )

    async def do_wait(self, ctx: Any, given: dict[str, Any]) -> str:
        await ctx.session.report_progress(1, 3, "on the way")
        await asyncio.sleep(given.get("seconds", 600))
        return "waited"

    async def do_hang(self, ctx: Any, given: dict[str, Any]) -> str:
        time.sleep(given.get("seconds", 600))  # nothing else is answered either
        return "back"

    async def do_die(self, ctx: Any, given: dict[str, Any]) -> None:
        print("I die now", file=sys.stderr, flush=True)
        os._exit(9)

    async def do_large(self, ctx: Any, given: dict[str, Any]) -> Any:
        """So many characters: as text, said twice, as structured content alone, or as a resource."""
        text = given.get("of", "x") * int(given["n"])
        match given.get("as", "text"):
            case "twice":  # what the official SDK makes of a function that gives a text
                structured = {"result": text}
                return types.CallToolResult(
                    content=[types.TextContent(text=text)], structured_content=structured
                )
            case "json":
                rows = {"rows": [text]}
                return types.CallToolResult(
                    content=[types.TextContent(text=json.dumps(rows))], structured_content=rows
                )
            case "structured":
                return types.CallToolResult(content=[], structured_content={"result": text})
            case "resource":
                held = types.TextResourceContents(uri="file:///a.txt", text=text)
                return types.CallToolResult(content=[types.EmbeddedResource(resource=held)])
            case _:
                return text

    async def do_chatter(self, ctx: Any, given: dict[str, Any]) -> str:
        for n in range(given["n"]):
            await ctx.session.report_progress(n, None, "y" * given.get("size", 10))
        if given.get("errors"):
            sys.stderr.write("z" * given["errors"] + "\n")
        return "enough"

    async def do_ask(self, ctx: Any, given: dict[str, Any]) -> Any:
        if ctx.protocol_version >= "2026":
            form = types.ElicitRequestFormParams(
                message="who?", requested_schema={"type": "object", "properties": {}}
            )
            asked: Any = types.InputRequiredResult(input_requests={"a": types.ElicitRequest(params=form)})
            return asked
        try:
            await ctx.session.send_request(types.ListRootsRequest(), types.ListRootsResult)
        except MCPError as error:
            return f"refused: {error}"
        return "answered"

    async def do_around(self, ctx: Any, given: dict[str, Any]) -> str:
        headers = {} if ctx.request is None else dict(ctx.request.headers)
        return json.dumps({"environment": dict(os.environ), "cwd": os.getcwd(), "headers": headers})

    async def do_change(self, ctx: Any, given: dict[str, Any]) -> str:
        (self.folder / "description").write_text(given["text"])
        await self.bus.publish(ToolsListChanged())
        if ctx.protocol_version < "2026":
            await ctx.session.send_tool_list_changed()
        return "changed"


def result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=is_error)


def build(folder: Path) -> Server[Any]:
    doing = Behaviour(folder)
    return Server(
        "bench",
        version="1",
        on_list_tools=doing.list_tools,
        on_call_tool=doing.call_tool,
        on_subscriptions_listen=ListenHandler(doing.bus),
    )


def refusal(id_: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": id_,
        "error": {"code": types.METHOD_NOT_FOUND, "message": "no such method"},
    }


async def over_stdio(server: Server[Any], *, old: bool) -> None:
    async with stdio_server() as (read, write):
        sent, received = anyio.create_memory_object_stream[Any](0)

        async def pump() -> None:
            """Read on, as a server would that has never heard of the newer revision's first question."""
            async with sent:
                async for item in read:
                    message: Any = getattr(item, "message", None)
                    if old and getattr(message, "method", None) == "server/discover":
                        error = types.jsonrpc_message_adapter.validate_python(refusal(message.id))
                        await write.send(SessionMessage(error))
                    else:
                        await sent.send(item)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pump)
            await server.run(received, write, server.create_initialization_options())
            tasks.cancel_scope.cancel()


async def answer(send: Any, status: int, headers: dict[str, str], body: bytes) -> None:
    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": body})


def over_http(server: Server[Any], folder: Path, *, old: bool) -> None:
    import uvicorn

    app: Any = server.streamable_http_app(json_response=(folder / "json").exists())
    before = folder / "port"
    listening = socket.create_server(("127.0.0.1", int(before.read_text()) if before.exists() else 0))

    async def aged(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await app(scope, receive, send)
            return
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        asked = json.loads(body)
        if (folder / "answer").exists():
            status, headers, text = json.loads((folder / "answer").read_text())
            await answer(send, status, headers, text.encode())
        elif old and asked.get("method") == "server/discover":
            await answer(
                send, 404, {"content-type": "application/json"}, json.dumps(refusal(asked["id"])).encode()
            )
        else:
            parts = iter([{"type": "http.request", "body": body, "more_body": False}])

            async def again() -> Any:
                return next(parts, None) or await receive()

            await app(scope, again, send)

    uvicorn_server = uvicorn.Server(uvicorn.Config(aged, log_level="warning", timeout_graceful_shutdown=1))
    (folder / "port.new").write_text(str(listening.getsockname()[1]))
    (folder / "port.new").replace(folder / "port")
    asyncio.run(uvicorn_server.serve(sockets=[listening]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--old", action="store_true")
    given = parser.parse_args()
    server = build(given.folder)
    if given.http:
        over_http(server, given.folder, old=given.old)
    else:
        anyio.run(lambda: over_stdio(server, old=given.old))


if __name__ == "__main__":
    main()
