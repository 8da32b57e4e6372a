"""The host's side of what a plugin asks for during a run: each action of LangBot by its Host API call."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from hostler_langbot import requests
from hostler_langbot.context import (
    event_record_of,
    page_of,
    plain,
    run_event_of,
    run_of,
    steering_of,
    transcript_of,
)
from hostler_langbot.messages import (
    ChunkWriter,
    functions_in,
    model_message_in,
    model_message_out,
    usage_out,
)
from hostler_sdk import DeadlineExceeded, InvalidArgument, NotFound, RunContext

T = TypeVar("T")
MAX_WAIT_SECONDS = 24 * 3600.0
"""The longest time that a plugin may state for a call; the run's own deadline holds besides."""
_OPEN_DEADLINE = 300.0
"""For a call whose plugin states no time."""


@dataclass(slots=True)
class ActiveRun:
    """A run that a plugin executes."""

    ctx: RunContext
    started_at: float = field(default_factory=time.time)
    cancel_requested_at: float | None = None
    acting: int = 0
    """Actions that are being carried out."""
    streams: int = 0
    """Streams of models so far, which give their messages the same ids whenever the run is replayed."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.ctx.run_id


def decoded(data: Mapping[str, Any], kind: type[T]) -> T:
    """Return an action's parameters. Raises InvalidArgument that names the wrong one."""
    try:
        return msgspec.convert(dict(data), kind)
    except msgspec.ValidationError as error:
        raise InvalidArgument(str(error)) from error


async def _run_get(run: ActiveRun, data: requests.RunGet) -> dict[str, Any]:
    if data.target_run_id not in (None, run.run_id):
        return run_of(await run.ctx.runs.get(data.target_run_id))
    # asked for very often, to look for a cancellation; nothing else of it changes while the run works
    cancelled = run.cancel_requested_at
    conversation = run.ctx.conversation
    return {
        "run_id": run.run_id,
        "event_id": run.ctx.event.event_id,
        "conversation_id": None if conversation is None else conversation.conversation_id,
        "status": "running",
        "started_at": int(run.started_at),
        "cancel_requested_at": None if cancelled is None else int(cancelled),
        "metadata": {"attempt": run.ctx.attempt},
    }


async def _run_list(run: ActiveRun, data: requests.RunList) -> dict[str, Any]:
    page = await run.ctx.runs.list(data.statuses, data.before_cursor, data.limit)
    return page_of(page, [run_of(record) for record in page.items]) | {"total_count": page.total_count or 0}


async def _run_events(run: ActiveRun, data: requests.RunEvents) -> dict[str, Any]:
    if data.direction != "forward" or data.before_cursor is not None:
        raise InvalidArgument("run_events_page: this host reads a run's entries forward, with after_cursor")
    try:
        after = int(data.after_cursor or 0)
    except ValueError:
        raise InvalidArgument("run_events_page: after_cursor is the next_cursor of the page before") from None
    target = data.target_run_id or run.run_id
    page = await run.ctx.runs.events(target, after, data.limit)
    last = page.items[-1].position if page.items else after
    found = page_of(page, [run_event_of(record, target) for record in page.items])
    return found | {"next_cursor": str(last) if page.has_more else None, "prev_cursor": None}


async def _run_cancel(run: ActiveRun, data: requests.RunCancel) -> dict[str, Any]:
    return run_of(await run.ctx.runs.cancel(data.target_run_id, data.reason))


async def _run_append(run: ActiveRun, data: requests.RunAppend) -> dict[str, Any]:
    target = data.target_run_id or run.run_id
    await run.ctx.call("run.append", target_run_id=target, result=data.result)
    kind, sequence = data.result.get("type", ""), data.result.get("sequence") or 0
    return {"run_id": target, "sequence": sequence, "type": kind, "data": data.result.get("data") or {}}


async def _run_finalize(run: ActiveRun, data: requests.RunFinalize) -> dict[str, Any]:
    target = data.target_run_id or run.run_id
    reason = {} if data.reason is None else {"reason": data.reason}
    return run_of(
        await run.ctx.call("run.finalize", target_run_id=target, status=data.status or "completed", **reason)
    )


async def _get_prompt(run: ActiveRun, _: requests.Nothing) -> dict[str, Any]:
    reply = await run.ctx.call("prompt.get")
    return {"prompt": [model_message_out(message, remove_think=False) for message in reply.prompt]}


async def _tool_detail(run: ActiveRun, data: requests.ToolDetail) -> dict[str, Any]:
    found = await run.ctx.tools.detail(data.tool_name)
    return {
        "tool": {
            "name": found.name,
            "description": found.description,
            "human_desc": found.description,
            "parameters": found.parameters,
        }
    }


async def _call_tool(run: ActiveRun, data: requests.CallTool) -> dict[str, Any]:
    result = await run.ctx.tools.call(data.tool_name, data.parameters or {}, data.tool_call_id)
    return {"result": result if isinstance(result, dict) else {"result": result}}


async def _retrieve(run: ActiveRun, data: requests.Retrieve) -> dict[str, Any]:
    reply = await run.ctx.knowledge.retrieve(data.kb_id, data.query_text, data.top_k, data.filters or None)
    return {
        "results": [
            {
                "id": str(item.metadata.get("id", f"{data.kb_id}:{number}")),
                "content": [{"type": "text", "text": item.content}],
                "metadata": item.metadata,
                "distance": 1.0 - item.score,
                "score": item.score,
            }
            for number, item in enumerate(reply.items)
        ]
    }


async def _rerank(run: ActiveRun, data: requests.Rerank) -> dict[str, Any]:
    reply = await run.ctx.models.rerank(data.rerank_model_uuid, data.query, data.documents, data.top_k)
    return {"results": [{"index": item.index, "relevance_score": item.score} for item in reply.items]}


async def _embed(run: ActiveRun, data: requests.Embed) -> dict[str, Any]:
    reply = await run.ctx.models.embed(data.embedding_model_uuid, data.texts)
    return {"vectors": reply.embeddings}


def _model_call(data: requests.ModelCall) -> dict[str, Any]:
    messages = [model_message_in(message) for message in data.messages]
    call = {"model_id": data.llm_model_uuid, "messages": messages, "tools": functions_in(data.funcs)}
    return {name: value for name, value in call.items() if value is not None}


def _extra_args(data: requests.ModelCall) -> dict[str, Any]:
    """Return the options of a call. What `extra_args` says wins over the reasoning level."""
    match data.reasoning_level:
        case None | "provider_default" | "enabled":
            effort = {}
        case "disabled":
            effort = {"reasoning_effort": "none"}
        case level:
            effort = {"reasoning_effort": level}
    return {**effort, **(data.extra_args or {})}


async def _count_tokens(run: ActiveRun, data: requests.ModelCall) -> dict[str, Any]:
    async with _time_for(data):
        reply = await run.ctx.call("model.count_tokens", **_model_call(data))
    return {"tokens": reply.input_tokens}


async def _invoke_llm(run: ActiveRun, data: requests.ModelCall) -> dict[str, Any]:
    async with _time_for(data):
        reply = await run.ctx.call("model.invoke", **_model_call(data), extra_args=_extra_args(data))
    message = model_message_out(reply.message, remove_think=bool(data.remove_think))
    return {"message": message, "usage": usage_out(reply.usage)}


def _time_for(data: requests.ModelCall) -> asyncio.Timeout:
    """Return the time of a call: the plugin gives up on it by itself then, and the host should, too."""
    stated = data.timeout
    return asyncio.timeout(min(stated, MAX_WAIT_SECONDS) if stated and stated > 0 else _OPEN_DEADLINE)


async def stream_llm(run: ActiveRun, data: requests.ModelCall) -> AsyncIterator[dict[str, Any]]:
    """Yield a model's answer as chunks, then its usage. Raises HostError."""
    call, extra = _model_call(data), _extra_args(data)
    if taken := sorted({"model_id", "messages", "tools"} & extra.keys()):
        raise InvalidArgument(f"extra_args may not hold {taken[0]!r}, which the call states itself")
    run.streams += 1
    writer = ChunkWriter(f"stream-{run.streams}", remove_think=bool(data.remove_think))
    stream = run.ctx.models.stream(call["model_id"], call["messages"], call.get("tools"), **extra)
    async with _time_for(data):
        async for piece in stream:
            if (chunk := writer.piece(piece.delta)) is not None:
                yield {"chunk": chunk}
    if stream.reply is not None:
        yield {"chunk": writer.end(stream.reply.message, stream.reply.finish_reason)}
        if (usage := usage_out(stream.reply.usage)) is not None:
            yield {"usage": usage}


async def _history_page(run: ActiveRun, data: requests.HistoryPage) -> dict[str, Any]:
    page = await run.ctx.history.page(
        before_cursor=data.before_cursor,
        after_cursor=data.after_cursor,
        limit=data.limit,
        direction=data.direction,
        conversation_id=data.conversation_id,
        include_artifacts=data.include_attachments,
    )
    return page_of(page, [transcript_of(item) for item in page.items])


async def _history_search(run: ActiveRun, data: requests.HistorySearch) -> dict[str, Any]:
    found = await run.ctx.history.search(data.query, data.top_k, data.filters or None)
    items = [transcript_of(item) for item in found.items]
    return {"items": items, "query": found.query, "total_count": found.total_count}


async def _event_get(run: ActiveRun, data: requests.EventGet) -> dict[str, Any]:
    return event_record_of(await run.ctx.events.get(data.event_id))


async def _event_page(run: ActiveRun, data: requests.EventPage) -> dict[str, Any]:
    stated = {"before_cursor": data.before_cursor, "event_types": data.event_types}
    known = {name: value for name, value in stated.items() if value is not None}
    page = await run.ctx.call("event.page", limit=data.limit, **known)
    return page_of(page, [event_record_of(item) for item in page.items])


async def _state_get(run: ActiveRun, data: requests.StateKey) -> dict[str, Any]:
    return {"value": await run.ctx.states.get(data.scope, data.key)}


async def _state_set(run: ActiveRun, data: requests.StateSet) -> dict[str, Any]:
    version = await run.ctx.states.set(data.scope, data.key, data.value)
    return {"success": True, "version": version}


async def _state_delete(run: ActiveRun, data: requests.StateKey) -> dict[str, Any]:
    return {"success": await run.ctx.states.delete(data.scope, data.key)}


async def _state_list(run: ActiveRun, data: requests.StateList) -> dict[str, Any]:
    prefix = {} if data.prefix is None else {"prefix": data.prefix}
    page = await run.ctx.call("state.list", scope=data.scope, limit=data.limit, **prefix)
    return {"keys": page.items, "has_more": page.has_more}


async def _steering_pull(run: ActiveRun, data: requests.SteeringPull) -> dict[str, Any]:
    mode = "one-at-a-time" if data.mode in ("one", "one-at-a-time") else data.mode
    limit = {} if data.limit is None else {"limit": data.limit}
    reply = await run.ctx.call("steering.pull", mode=mode, **limit)
    return {"items": [steering_of(item) for item in reply.items]}


def _storage_set(area: Literal["plugin", "workspace"]) -> Action:
    async def act(run: ActiveRun, data: requests.StorageSet) -> dict[str, Any]:
        try:
            content = base64.b64decode(data.value_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidArgument(f"value_base64 is no base64: {error}") from error
        await getattr(run.ctx.storage, area).set(data.key, content)
        return {"success": True}

    return act


def _storage_get(area: Literal["plugin", "workspace"]) -> Action:
    async def act(run: ActiveRun, data: requests.StorageKey) -> dict[str, Any]:
        content = await getattr(run.ctx.storage, area).get(data.key)
        if content is None:
            raise NotFound(f"{area} storage has no key {data.key[:100]!r}")
        return {"value_base64": base64.b64encode(content).decode()}

    return act


def _storage_delete(area: Literal["plugin", "workspace"]) -> Action:
    async def act(run: ActiveRun, data: requests.StorageKey) -> dict[str, Any]:
        return {"success": await getattr(run.ctx.storage, area).delete(data.key)}

    return act


def _storage_keys(area: Literal["plugin", "workspace"]) -> Action:
    async def act(run: ActiveRun, _: requests.Nothing) -> dict[str, Any]:
        return {"keys": await getattr(run.ctx.storage, area).keys()}

    return act


async def _version(run: ActiveRun, _: requests.Nothing) -> dict[str, Any]:
    return version_of(run.ctx.runtime.host_version)


def version_of(host_version: str) -> dict[str, Any]:
    """Return the answer to `get_langbot_version`: the host's version, and features the SDK asks for."""
    return {"version": host_version or "unknown", "api_features": ["llm.reasoning_level"]}


Action = Callable[[ActiveRun, Any], Awaitable[dict[str, Any]]]

ACTIONS: dict[str, tuple[type[msgspec.Struct], Action]] = {
    "run_get": (requests.RunGet, _run_get),
    "run_list": (requests.RunList, _run_list),
    "run_events_page": (requests.RunEvents, _run_events),
    "run_cancel": (requests.RunCancel, _run_cancel),
    "run_append_result": (requests.RunAppend, _run_append),
    "run_finalize": (requests.RunFinalize, _run_finalize),
    "get_prompt": (requests.Nothing, _get_prompt),
    "get_tool_detail": (requests.ToolDetail, _tool_detail),
    "call_tool": (requests.CallTool, _call_tool),
    "retrieve_knowledge_base": (requests.Retrieve, _retrieve),
    "invoke_rerank": (requests.Rerank, _rerank),
    "invoke_embedding": (requests.Embed, _embed),
    "count_tokens": (requests.ModelCall, _count_tokens),
    "invoke_llm": (requests.ModelCall, _invoke_llm),
    "history_page": (requests.HistoryPage, _history_page),
    "history_search": (requests.HistorySearch, _history_search),
    "event_get": (requests.EventGet, _event_get),
    "event_page": (requests.EventPage, _event_page),
    "state_get": (requests.StateKey, _state_get),
    "state_set": (requests.StateSet, _state_set),
    "state_delete": (requests.StateKey, _state_delete),
    "state_list": (requests.StateList, _state_list),
    "steering_pull": (requests.SteeringPull, _steering_pull),
    "set_plugin_storage": (requests.StorageSet, _storage_set("plugin")),
    "get_plugin_storage": (requests.StorageKey, _storage_get("plugin")),
    "delete_plugin_storage": (requests.StorageKey, _storage_delete("plugin")),
    "get_plugin_storage_keys": (requests.Nothing, _storage_keys("plugin")),
    "set_workspace_storage": (requests.StorageSet, _storage_set("workspace")),
    "get_workspace_storage": (requests.StorageKey, _storage_get("workspace")),
    "delete_workspace_storage": (requests.StorageKey, _storage_delete("workspace")),
    "get_workspace_storage_keys": (requests.Nothing, _storage_keys("workspace")),
    "get_langbot_version": (requests.Nothing, _version),
}
"""Each action with its parameters. `invoke_llm_stream`, the only one with a stream, is `stream_llm`."""
STREAMS = frozenset({"invoke_llm_stream"})


async def act(run: ActiveRun, name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out an action and return its answer. Raises HostError."""
    if name not in ACTIONS:
        raise InvalidArgument(f"this host has no action {name[:100]!r}; it has {', '.join(sorted(ACTIONS))}")
    kind, action = ACTIONS[name]
    try:
        return plain(await action(run, decoded(data, kind)))  # type: ignore[no-any-return]
    except TimeoutError:
        raise DeadlineExceeded(f"{name}: it took longer than the plugin allowed") from None
