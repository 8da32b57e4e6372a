"""The models of the optional extras, for real, where the extras are installed."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from hostler.config import ModelEntry
from hostler.models import errors
from hostler.models.catalog import build_catalog
from hostler.models.port import ModelProvider, ModelRequest, RerankRequest
from hostler_protocol.calls import ModelChunk, ModelReply
from hostler_protocol.content import FunctionSpec, ModelMessage
from hostler_protocol.errors import HostlerError, InvalidArgumentError, RateLimitedError
from support.model_server import Gate, ModelServer

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
async def litellm_model(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ModelProvider]:
    monkeypatch.setenv("TEST_MODEL_KEY", KEY)
    entry = ModelEntry(
        id="main",
        provider="litellm",
        model="openai/gpt-test",
        base_url=server.base_url,
        api_key="env:TEST_MODEL_KEY",
        max_retries=1,
    )
    catalog = build_catalog([entry])
    yield catalog.get("main").provider
    await catalog.close()


@needs_litellm
@pytest.mark.filterwarnings("default")
def test_litellm_answers_like_the_other_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
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

    asyncio.run(main())


@needs_litellm
@pytest.mark.filterwarnings("default")
def test_litellm_failures_are_ours_and_its_other_arguments_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hostler.models.retrying.FIRST_BACKOFF_SECONDS", 0.001)

    async def main() -> None:
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

    asyncio.run(main())


@needs_demo_model
def test_the_demo_model_answers_offline_and_ends_with_its_host() -> None:
    async def main() -> None:
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

    asyncio.run(main())


@needs_demo_model
def test_the_demo_model_can_be_checked_by_hand() -> None:
    command = [sys.executable, "-m", "hostler.models.demo_server", "--check"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=110, check=True)
    assert "answered at http://127.0.0.1" in found.stderr
