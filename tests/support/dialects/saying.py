"""The request with which each standard interface over HTTP says a text to an agent, as it is on the wire."""

from __future__ import annotations

import itertools
from typing import Any

_numbers = itertools.count()
MCP_HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
}
A2A_HEADERS = {"a2a-version": "1.0"}


def request_of(
    name: str, text: str, *, place: str, agent: str = "player", whole: bool = False
) -> tuple[str, dict[str, Any], dict[str, str]]:
    """The path, body and headers with which a dialect says a text in a conversation.

    `whole`: it wants the whole answer, and no stream.
    """
    said, mark = {"role": "user", "content": text}, f"m-{next(_numbers)}"
    a2a = {"message": {"messageId": mark, "contextId": place, "role": "ROLE_USER", "parts": [{"text": text}]}}
    graph = {"assistant_id": agent, "input": {"messages": [{"type": "human", "content": text}]}}
    match name:
        case "openai-chat":
            body = {"model": agent, "messages": [said], "stream": not whole}
            body["metadata"] = {"conversation_id": place}
            return "/v1/chat/completions", body, {}
        case "openai-responses":
            body = {"model": agent, "input": text, "stream": not whole, "conversation": place}
            return "/v1/responses", body, {}
        case "a2a":
            return f"/a2a/{agent}/message:{'send' if whole else 'stream'}", a2a, A2A_HEADERS
        case "a2a-rpc":
            method = "SendMessage" if whole else "SendStreamingMessage"
            return f"/a2a/{agent}", {"jsonrpc": "2.0", "id": 1, "method": method, "params": a2a}, A2A_HEADERS
        case "langgraph":
            return f"/langgraph/threads/{place}/runs/{'wait' if whole else 'stream'}", graph, {}
        case "ag-ui":
            body = {"threadId": place, "runId": mark, "messages": [{"id": mark, **said}]}
            return f"/ag-ui/{agent}", body, {}
        case "ai-sdk":
            asked = {"id": mark, "role": "user", "parts": [{"type": "text", "text": text}]}
            return f"/ai-sdk/{agent}", {"id": place, "messages": [asked]}, {}
    meta: dict[str, Any] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    meta["io.modelcontextprotocol/clientCapabilities"] = {}
    given = {"message": text, "conversation_id": place}
    params = {"name": agent, "arguments": given, "_meta": {**meta, "progressToken": "p"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return "/mcp", body, {**MCP_HEADERS, "mcp-name": agent}
