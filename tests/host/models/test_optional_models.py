"""The models of the optional extras, for real, where the extras are installed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hostler.domain.model_entries import ModelEntry
from hostler.models import errors
from hostler.models.catalog import build_catalog
from hostler.models.port import ModelProvider, ModelRequest, RerankRequest
from hostler_protocol.calls import ModelChunk, ModelReply
from hostler_protocol.content import FunctionSpec, ModelMessage
from hostler_protocol.errors import HostlerError, InvalidArgumentError, RateLimitedError
from support.gates import Gate
from support.model_answers import Answer, Recorded
from support.model_server import ModelServer
from support.thinking import refused

KEY = "sk-secret-0123456789"
needs_litellm = pytest.mark.skipif(
    importlib.util.find_spec("litellm") is None, reason="the extra litellm is not installed"
)
needs_demo_model = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None, reason="the extra demo-model is not installed"
)


def ask(text: str, **more: object) -> ModelRequest:
    return ModelRequest([ModelMessage(role="user", content=text)], **more)  # type: ignore[arg-type]


async def read(model: ModelProvider, request: ModelRequest) -> tuple[list[ModelChunk], ModelReply]:
    async with contextlib.aclosing(model.stream(request)) as answer:
        *chunks, reply = [piece async for piece in answer]
    assert isinstance(reply, ModelReply)
    return [chunk for chunk in chunks if isinstance(chunk, ModelChunk)], reply


@contextlib.asynccontextmanager
async def litellm_model(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, model: str = "openai/gpt-test"
) -> AsyncIterator[ModelProvider]:
    monkeypatch.setenv("TEST_MODEL_KEY", KEY)
    entry = ModelEntry(
        id="main",
        provider="litellm",
        model=model,
        base_url=server.base_url,
        api_key="env:TEST_MODEL_KEY",
        max_retries=1,
    )
    catalog = build_catalog([entry])
    yield catalog.get("main").provider
    await catalog.close()


@needs_litellm
@pytest.mark.filterwarnings("default")
async def test_litellm_answers_like_the_other_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    async with asyncio.timeout(110), ModelServer() as server, litellm_model(server, monkeypatch) as model:
        for _ in range(2):
            server.say(["Grüß ", "dich"], reasoning=["hm"])
        whole = await model.invoke(ask("hi", extra_args={"temperature": 0.5}))
        chunks, streamed = await read(model, ask("hi"))
        assert whole.message.content == streamed.message.content == "Grüß dich"
        assert "".join(str(chunk.delta.content or "") for chunk in chunks) == "Grüß dich"
        for reply in (whole, streamed):
            assert reply.finish_reason == "stop"
            assert reply.usage is not None
            assert (reply.usage.input_tokens, reply.usage.output_tokens) == (11, 7)
        assert server.requests[0].json["temperature"] == 0.5
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        server.call_tool("add", {"a": 1})
        _, called = await read(model, ask("hi", tools=[FunctionSpec(name="add")]))
        assert called.message.tool_calls[0].function.arguments == '{"a": 1}'


@needs_litellm
@pytest.mark.filterwarnings("default")
async def test_litellm_failures_are_ours_and_its_other_arguments_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hostler.models.retry_policy.FIRST_BACKOFF_SECONDS", 0.001)
    async with asyncio.timeout(110), ModelServer() as server, litellm_model(server, monkeypatch) as model:
        for status, kind in (
            (401, errors.ModelKeyError),
            (404, errors.ModelUnknownError),
            (400, InvalidArgumentError),
            (429, RateLimitedError),
            (503, errors.ModelFailedError),
        ):
            server.fail(status, f"no {KEY}", times=2)
            with pytest.raises(HostlerError) as caught:
                await model.invoke(ask("hi"))
            assert type(caught.value) is kind
            assert KEY not in caught.value.message
            server._queue.clear()
        with pytest.raises(InvalidArgumentError, match="api_base"):
            await model.invoke(ask("hi", extra_args={"api_base": "http://elsewhere"}))
        server.say(["first", Gate(), "never"])
        async with contextlib.aclosing(model.stream(ask("hi"))) as answer:
            async for _ in answer:
                break
        await server.disconnected()


THOUGHT: dict[str, Any] = {"type": "thinking", "thinking": "Two sums, I think.", "signature": "EqoBCkgIARAB"}
WISH: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}


def anthropic(request: Recorded) -> Answer:
    """Anthropic's own service: it refuses an answer with calls that lacks its signed thinking."""
    messages = request.json["messages"]
    if len(messages) > 1 and THOUGHT not in messages[1]["content"]:
        return refused("messages.1.content.0.type: Expected `thinking`, but found `tool_use`.")
    text: dict[str, Any] = {"type": "text", "text": "It is 7."}
    blocks = [text] if len(messages) > 1 else [THOUGHT, WISH]
    stop = "end_turn" if len(messages) > 1 else "tool_use"
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_sequence": None}
    usage = {"input_tokens": 1, "output_tokens": 1}
    if not request.json.get("stream"):
        whole = {**head, "content": blocks, "stop_reason": stop, "usage": usage}
        return Answer(body=json.dumps(whole).encode())
    start: dict[str, Any] = {**head, "content": [], "stop_reason": None, "usage": usage}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(blocks):
        events += _anthropic_block(index, block)
    end = {"stop_reason": stop, "stop_sequence": None}
    events += [{"type": "message_delta", "delta": end, "usage": usage}, {"type": "message_stop"}]
    lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Answer(body=lines.encode(), headers={"content-type": "text/event-stream"})


def _anthropic_block(index: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    kinds: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
        "thinking": (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": "Two sums,"},
                {"type": "thinking_delta", "thinking": " I think."},
                {"type": "signature_delta", "signature": THOUGHT["signature"]},
            ],
        ),
        "tool_use": (
            {**WISH, "input": {}},
            [
                {"type": "input_json_delta", "partial_json": '{"a":'},
                {"type": "input_json_delta", "partial_json": " 1}"},
            ],
        ),
        "text": ({"type": "text", "text": ""}, [{"type": "text_delta", "text": block.get("text")}]),
    }
    empty, deltas = kinds[block["type"]]
    return [
        {"type": "content_block_start", "index": index, "content_block": empty},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


@needs_litellm
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_signed_thinking_goes_back_through_litellm(
    monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    async with asyncio.timeout(110), ModelServer() as server:
        server.always(anthropic)
        async with litellm_model(server, monkeypatch, "anthropic/claude-sonnet-4-5") as provider:
            extra = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
            messages = [ModelMessage(role="user", content="sums")]
            for _ in range(2):
                request = ModelRequest(messages, tools=[FunctionSpec(name="add")], extra_args=extra)
                reply = (await read(provider, request))[1] if streamed else await provider.invoke(request)
                results = [
                    ModelMessage(role="tool", content="3", tool_call_id=call.id)
                    for call in reply.message.tool_calls
                ]
                messages = [*messages, reply.message, *results]
        assert messages[1].reasoning == THOUGHT["thinking"]
        assert reply.message.content == "It is 7."
        assert len(server.requests) == 2


@needs_litellm
@pytest.mark.filterwarnings("default")
async def test_a_service_behind_litellm_that_refuses_its_own_fields_is_asked_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def strict(request: Recorded) -> str | Answer:
        messages = request.json["messages"]
        if len(messages) > 1 and "reasoning_content" in messages[1]:
            return refused("'messages.1' : property 'reasoning_content' is unsupported")
        return "ok" if len(messages) > 1 else Answer(pieces=["hm"], reasoning=["Let me see."])

    async with asyncio.timeout(110), ModelServer() as server, litellm_model(server, monkeypatch) as model:
        server.always(strict)
        first = await model.invoke(ask("hi"))
        assert first.message.reasoning == "Let me see."
        for _ in range(2):
            messages = [ModelMessage(role="user", content="hi"), first.message]
            reply = await model.invoke(ModelRequest([*messages, ModelMessage(role="user", content="?")]))
            assert reply.message.content == "ok"


@needs_demo_model
async def test_the_demo_model_answers_offline_and_ends_with_its_host() -> None:
    catalog = build_catalog([ModelEntry(id="demo", provider="demo")])
    model = catalog.get("demo").provider
    async with asyncio.timeout(110):
        chunks, reply = await read(
            model, ask("What is the capital of France?", extra_args={"temperature": 0})
        )
        assert str(reply.message.content).strip()
        assert len(chunks) > 2
        assert reply.usage is not None
        with pytest.raises(InvalidArgumentError) as caught:
            await model.invoke(ask("too long " * 4000))
        assert caught.value.details == {"reason": errors.CONTEXT_OVERFLOW}
        with pytest.raises(HostlerError, match="cannot rerank"):
            await model.rerank(RerankRequest("q", ["a"]))
        await catalog.close()
        _, again = await read(model, ask("Hi", extra_args={"max_tokens": 2}))  # it starts anew
        assert again.finish_reason == "length"
        await catalog.close()


@needs_demo_model
def test_the_demo_model_can_be_checked_by_hand() -> None:
    command = [sys.executable, "-m", "hostler.models.demo_server", "--check"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=110, check=True)
    assert "answered at http://127.0.0.1" in found.stderr
