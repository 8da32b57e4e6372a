"""Events as a LangGraph server writes them (captured from langgraph-api 0.16.7)."""

from __future__ import annotations

from typing import Any

from support.services.server import sse

RUN = "task-1"


def event(name: str, data: Any) -> bytes:
    return sse(data, f" {name}")


def metadata() -> bytes:
    return event("metadata", {"run_id": RUN, "attempt": 1})


def message(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"additional_kwargs": {}, "response_metadata": {}, "name": None}
    return {"content": content, "type": kind, **empty, **more}


def human(text: str = "Hello", id_: str = "h-1") -> dict[str, Any]:
    return message("human", text, id=id_)


def ai(content: Any, id_: str = "a-1", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
    return message(
        "ai", content, id=id_, **{"tool_calls": [], "invalid_tool_calls": [], "usage_metadata": usage, **more}
    )


def chunk(content: Any, id_: str = "a-1", *, node: str = "agent") -> bytes:
    piece = message(
        "AIMessageChunk",
        content,
        id=id_,
        tool_calls=[],
        invalid_tool_calls=[],
        usage_metadata=None,
        tool_call_chunks=[],
        chunk_position=None,
    )
    return event("messages", [piece, {"run_id": RUN, "langgraph_step": 1, "langgraph_node": node}])


def values(*messages: dict[str, Any], **more: Any) -> bytes:
    return event("values", {"messages": [*messages], **more})
