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

CONFORMANCE = {
    "2025-11-25": "@modelcontextprotocol/conformance@0.1.16",
    "2026-07-28": "@modelcontextprotocol/conformance@0.2.0-alpha.12",
}
"""The tests of a revision."""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
IMAGE = {"type": "image_base64", "image_base64": PIXEL, "mime_type": "image/png"}
AUDIO = {"type": "file_base64", "file_base64": SOUND, "mime_type": "audio/wav"}
FILE = {"type": "file_base64", "file_base64": "e30=", "mime_type": "application/json", "file_name": "a.json"}
TEXT = {"type": "text", "text": "Several kinds:"}
PRICE = ["tool", "player.price", {"thing": "lamp"}]


def _asking(*fields: tuple[str, str]) -> str:
    """Ask for one field after the other: of a name and a type."""
    return script(
        *(["ask", "Which?", [{"name": name, "type": kind, "required": True}]] for name, kind in fields)
    )


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
    "test_logging_tool": script([*PRICE, "a"]),
    "test_streaming_elicitation": _asking(("name", "text")),
    "test_input_required_result_elicitation": _asking(("name", "text")),
    "test_input_required_result_request_state": _asking(("ok", "boolean")),
    "test_input_required_result_multi_round": _asking(("name", "text"), ("color", "text")),
    "test_input_required_result_tampered_state": _asking(("ok", "boolean")),
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
_OF_BOTH: Mapping[str, str] = {
    "json-schema-2020-12": "wants a schema that defines an address",
    "resources-read-text": "wants test://static-text: resources are conversations, runs, artifacts",
    "resources-read-binary": "wants test://static-binary",
    "resources-templates-read": "wants test://template/{id}/data",
    "prompts-get-embedded-resource": "prompts are texts",
    "prompts-get-with-image": "prompts are texts",
}
NOT_OURS: Mapping[str, Mapping[str, str]] = {
    "2025-11-25": {
        **_OF_BOTH,
        "tools-call-sampling": "agents have models of their own: none asks its caller's",
        "tools-call-elicitation": "wants a form with fields of its own: forms are of approvals and questions",
        "elicitation-sep1034-defaults": "wants a form with fields of its own",
        "elicitation-sep1330-enums": "wants a form with fields of its own",
        "resources-subscribe": "there are no subscriptions: they would be state of a session",
        "resources-unsubscribe": "there are no subscriptions",
    },
    "2026-07-28": {
        **_OF_BOTH,
        "server-stateless": "two of its checks want a tool that samples",
        "http-custom-header-server-validation": "wants a tool with x-mcp-header: none has it",
        "input-required-result-basic-elicitation": "wants a request under a name of its own",
        "input-required-result-ignore-extra-params": "answers a request under a name of its own",
        "input-required-result-basic-sampling": "agents have models of their own",
        "input-required-result-basic-list-roots": "agents have no use for roots",
        "input-required-result-multiple-input-requests": "wants sampling and roots beside a form",
        "input-required-result-non-tool-request": "prompts are texts: they ask nothing",
        "input-required-result-capability-check": "wants a tool that samples",
    },
}
"""Scenarios of a revision that do not apply, and why."""
SCENARIOS = {"2025-11-25": 32, "2026-07-28": 40}
STATELESS = "server-stateless"
MAY_FAIL = frozenset(
    {
        "sep-2575-server-rejects-undeclared-capability",
        "sep-2575-missing-capability-http-400",
        # these two wait half a second for an answer, which a busy machine may not give in time
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-server-no-log-without-loglevel",
    }
)
"""The only checks of `STATELESS` that may fail."""


def baseline(revision: str) -> str:
    """The scenarios that are expected to fail, as the tests read them."""
    return "server:\n" + "".join(f"  - {name}\n" for name in NOT_OURS[revision])


@contextlib.asynccontextmanager
async def with_key(port: int, key: str) -> AsyncIterator[str]:
    """A proxy in front of a host; its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
            given = {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines)}
            if any(given.get(b"mcp-name") == prompt["name"].encode() for prompt in PROMPTS):
                given[b"mcp-name"] = f"{AGENT_OF_PROMPTS}.".encode() + given[b"mcp-name"]
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
