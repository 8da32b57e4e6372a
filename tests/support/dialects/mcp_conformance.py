"""The protocol's own conformance tests against a host: they know neither keys nor that agents take a message.

A proxy adds both: the key to each request, and to each call the script of what the tests want to see; and to
the names of their prompts that of the agent that has them. Nothing else is changed, and nothing of an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from support.dialects.players import script

CONFORMANCE = "@modelcontextprotocol/conformance@0.1.16"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
IMAGE = {"type": "image_base64", "image_base64": PIXEL, "mime_type": "image/png"}
AUDIO = {"type": "file_base64", "file_base64": SOUND, "mime_type": "audio/wav"}
FILE = {"type": "file_base64", "file_base64": "e30=", "mime_type": "application/json", "file_name": "a.json"}
TEXT = {"type": "text", "text": "Several kinds:"}
PRICE = ["tool", "player.price", {"thing": "lamp"}]
SCRIPTS: Mapping[str, str] = {
    "test_simple_text": script(["say", "This is a simple text."]),
    "test_image_content": script(["parts", [IMAGE]]),
    "test_audio_content": script(["parts", [AUDIO]]),
    "test_embedded_resource": script(["parts", [FILE]]),
    "test_multiple_content_types": script(["parts", [TEXT, IMAGE, FILE]]),
    "test_tool_with_logging": script([*PRICE, "a"], [*PRICE, "b"]),
    "test_error_handling": script(["fail", "on purpose"]),
    "test_tool_with_progress": script(*(["delta", text] for text in ("one,", "two,", "three"))),
    "test_reconnection": script(["say", "here"]),
}
"""Names of the tests' tools, each an agent here -> what it is told to do."""
AGENT_OF_PROMPTS = "test_simple_text"
PROMPTS: list[dict[str, Any]] = [
    {"name": "test_simple_prompt", "text": "This is a simple prompt for testing."},
    {
        "name": "test_prompt_with_arguments",
        "text": "Prompt with arguments: arg1='{arg1}', arg2='{arg2}'",
        "arguments": [{"name": "arg1", "required": True}, {"name": "arg2", "required": True}],
    },
]
"""The tests' prompts, which one of the agents has."""
NOT_OURS: Mapping[str, str] = {
    "tools-call-sampling": "agents have models of their own: none asks its caller's",
    "tools-call-elicitation": "wants a form with fields of its own: forms are of approvals and questions",
    "elicitation-sep1034-defaults": "wants a form with fields of its own",
    "elicitation-sep1330-enums": "wants a form with fields of its own",
    "json-schema-2020-12": "wants a schema that defines an address",
    "resources-read-text": "wants test://static-text: resources are conversations, runs, artifacts",
    "resources-read-binary": "wants test://static-binary",
    "resources-templates-read": "wants test://template/{id}/data",
    "resources-subscribe": "there are no subscriptions: they would be state of a session",
    "resources-unsubscribe": "there are no subscriptions",
    "prompts-get-embedded-resource": "prompts are texts",
    "prompts-get-with-image": "prompts are texts",
}
"""Scenarios that do not apply, and why."""


def baseline() -> str:
    """The scenarios that are expected to fail, as the tests read them."""
    return "server:\n" + "".join(f"  - {name}\n" for name in NOT_OURS)


@contextlib.asynccontextmanager
async def with_key(port: int, key: str) -> AsyncIterator[str]:
    """A proxy in front of a host; its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
            given = {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines)}
            body = _filled_in(await reader.readexactly(int(given.get(b"content-length", b"0"))))
            given |= {b"authorization": f"Bearer {key}".encode(), b"connection": b"close"}
            if b"content-length" in given:
                given[b"content-length"] = b"%d" % len(body)
            from_host, to_host = await asyncio.open_connection("127.0.0.1", port)
            lines = [name + b": " + value for name, value in given.items()]
            to_host.write(b"\r\n".join([first, *lines]) + b"\r\n\r\n" + body)
            while data := await from_host.read(65536):
                writer.write(data)
                await writer.drain()
            to_host.close()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()


def _filled_in(body: bytes) -> bytes:
    try:
        message = json.loads(body)
    except ValueError:
        return body
    params = message.get("params") if isinstance(message, dict) else None
    if not isinstance(params, dict):
        return body
    for named in (params, params.get("ref", {})):
        if any(named.get("name") == prompt["name"] for prompt in PROMPTS):
            named["name"] = f"{AGENT_OF_PROMPTS}.{named['name']}"
    if (told := SCRIPTS.get(params.get("name", ""))) is not None:
        params["arguments"] = {"message": told}
    return json.dumps(message).encode()
