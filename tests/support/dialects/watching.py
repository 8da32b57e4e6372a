"""Watchers of a run: each follows it in one dialect, with random disconnects, over kills of the host."""

from __future__ import annotations

from support.dialects.transcripts import Watcher
from support.dialects.watching_clients import a2a, chat_completions, langgraph_stream, responses
from support.dialects.watching_programs import acp, ag_ui, ai_sdk
from support.dialects.watching_streams import conversation, mcp, native, web_socket

WATCHERS: dict[str, Watcher] = {
    "native": native,
    "conversation": conversation,
    "web-socket": web_socket,
    "chat-completions": chat_completions,
    "responses": responses,
    "ai-sdk": ai_sdk,
    "ag-ui": ag_ui,
    "langgraph": langgraph_stream,
    "mcp": mcp,
    "a2a": a2a,
    "acp": acp,
}
TEXT_ALONE = frozenset({"chat-completions", "a2a"})
"""Dialects whose transcript has no calls of the host's tools."""
KEEPS_WITHDRAWN = frozenset({"chat-completions", "responses", "ag-ui", "langgraph", "mcp", "acp"})
"""Dialects that mark text of a superseded attempt as incomplete, whenever their clients read it."""
