"""OpenAIModel against a service on a real socket: answers, failures, time-outs, cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hostler.models import errors
from hostler.models.limits import MAX_ANSWER_BYTES
from hostler.models.port import Attachment, ModelRequest
from hostler.models.retry_policy import RetryPolicy
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    FunctionSpec,
    ImageBase64Element,
    ImageUrl,
    ImageUrlElement,
    ModelMessage,
    TextElement,
    Usage,
)
from hostler_protocol.errors import (
    DeadlineExceededError,
    HostlerError,
    InvalidArgumentError,
    RateLimitedError,
)
from support.gates import Gate
from support.model_answers import Answer
from support.model_server import ModelServer
from support.openai_models import KEY, model_at, read

PNG = b"\x89PNG\r\n\x1a\n rest"


def ask(text: str = "hi", **more: Any) -> ModelRequest:
    return ModelRequest([ModelMessage(role="user", content=text)], **more)


async def test_an_answer_comes_whole_and_streamed_alike() -> None:
    async with ModelServer(api_key=KEY) as server:
        usage = {
            "prompt_tokens": 11,
            "completion_tokens": 7,
            "total_tokens": 18,
            "prompt_tokens_details": {"cached_tokens": 5},
            "completion_tokens_details": {"reasoning_tokens": 3},
        }
        for field in ("reasoning_content", "reasoning"):
            for _ in range(2):
                server.say(
                    ["Gr", "üß ", "dich"], reasoning=["let ", "me"], reasoning_field=field, usage=usage
                )
        async with model_at(server.base_url, defaults={"temperature": 0.1, "top_p": 0.5}) as model:
            for _ in range(2):
                whole = await model.invoke(ask(extra_args={"temperature": 0.9}))
                chunks, streamed = await read(model, ask())
                assert whole == streamed
                assert whole.message.content == "Grüß dich"
                assert whole.message.reasoning == "let me"
                assert whole.finish_reason == "stop"
                assert whole.usage == Usage(
                    input_tokens=11, output_tokens=7, total_tokens=18, cached_tokens=5, reasoning_tokens=3
                )
                assert [c.delta.content for c in chunks if c.delta.content] == ["Gr", "üß ", "dich"]
        first, second = server.requests[0], server.requests[1]
        assert first.path == "/v1/chat/completions"
        assert first.headers["authorization"] == f"Bearer {KEY}"
        assert first.json == {
            "model": "gpt-test",
            "messages": [{"role": "user", "content": "hi"}],
            "temperature": 0.9,
            "top_p": 0.5,
        }
        assert second.json["stream_options"] == {"include_usage": True}
        assert second.json["temperature"] == 0.1
        assert server.connections == 1, "connections are used again"


async def test_tool_calls_go_both_ways() -> None:
    async with ModelServer() as server:
        calls = [
            {"id": "a", "name": "add", "arguments": '{"x": 1}'},
            {"id": "b", "name": "find", "arguments": '{"q": "ü"}'},
        ]
        for _ in range(2):
            server.add(Answer(tool_calls=calls, finish_reason="tool_calls"))
        server.say("3")
        tool = FunctionSpec(name="add", description="Adds.", parameters={"type": "object"})
        async with model_at(server.base_url) as model:
            whole = await model.invoke(ask(tools=[tool]))
            chunks, streamed = await read(model, ask(tools=[tool]))
            assert whole == streamed
            assert [(c.id, c.function.name, c.function.arguments) for c in whole.message.tool_calls] == [
                ("a", "add", '{"x": 1}'),
                ("b", "find", '{"q": "ü"}'),
            ]
            assert whole.finish_reason == "tool_calls"
            assert {d.index for c in chunks for d in c.delta.tool_calls} == {0, 1}
            answered = ModelMessage(role="tool", content="3", tool_call_id="a")
            await model.invoke(ModelRequest([*ask().messages, whole.message, answered]))
            server.say("strictly")
            await model.invoke(ask(tools=[tool, msgspec.structs.replace(tool, strict=True)]))
        sent = server.requests[2].json["messages"]
        assert sent[1]["content"] is None
        assert sent[1]["tool_calls"][0] == {
            "id": "a",
            "type": "function",
            "function": {"name": "add", "arguments": '{"x": 1}'},
        }
        assert sent[2] == {"role": "tool", "content": "3", "tool_call_id": "a"}
        assert server.requests[0].json["tools"][0]["function"]["name"] == "add"
        strict = [tool["function"].get("strict") for tool in server.requests[3].json["tools"]]
        assert strict == [None, True]


async def test_pictures_and_files_reach_the_service() -> None:
    async def artifact(element: ArtifactElement) -> Attachment | None:
        return Attachment(PNG, name="shot.png") if element.artifact_id == "kept" else None

    async with ModelServer() as server:
        server.always("seen")
        contents: list[ContentElement] = [
            TextElement(text="look"),
            ImageUrlElement(image_url=ImageUrl(url="http://pics/1.png", detail="low")),
            ImageBase64Element(image_base64="iVBORw0KGgo="),
            FileBase64Element(file_base64="aGVsbG8=", file_name="a.txt", mime_type="text/plain"),
            FileBase64Element(file_base64="JVBERi0x", file_name="b.pdf"),
            ArtifactElement(artifact_id="kept"),
            ArtifactElement(artifact_id="gone", file_name="old.png"),
        ]
        async with model_at(server.base_url) as model:
            await model.invoke(
                ModelRequest(
                    [
                        ModelMessage(role="system", content=[TextElement(text="a"), TextElement(text="b")]),
                        ModelMessage(role="user", content=contents),
                    ],
                    read_artifact=artifact,
                )
            )
        system, user = server.requests[0].json["messages"]
        assert system["content"] == "a\nb"
        text, by_url, inline, plain, pdf, kept, gone = user["content"]
        assert text == {"type": "text", "text": "look"}
        assert by_url == {"type": "image_url", "image_url": {"url": "http://pics/1.png", "detail": "low"}}
        assert inline["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="
        assert plain == {"type": "text", "text": "[file a.txt]\nhello"}
        assert pdf["type"] == "file"
        assert pdf["file"] == {"filename": "b.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"}
        assert kept["image_url"]["url"].startswith("data:image/png;base64,")
        assert gone == {"type": "text", "text": "[attachment old.png is no longer available]"}


BROKEN = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'
FAILURES: list[tuple[str, Callable[[ModelServer], object], type[HostlerError], bool, str, int]] = [
    ("wrong key", lambda s: s.fail(401, f"bad key {KEY}"), errors.ModelKeyError, False, "env:TEST_KEY", 1),
    ("forbidden", lambda s: s.fail(403), errors.ModelKeyError, False, "API key", 1),
    (
        "unknown model",
        lambda s: s.fail(404, code="model_not_found"),
        errors.ModelUnknownError,
        False,
        "gpt-test",
        1,
    ),
    ("rate", lambda s: s.fail(429, "slow", times=9), RateLimitedError, True, "rate limit", 3),
    (
        "long rate",
        lambda s: s.fail(429, "slow", {"retry-after": "90"}),
        RateLimitedError,
        True,
        "rate limit",
        1,
    ),
    ("quota", lambda s: s.fail(429, code="insufficient_quota"), errors.ModelQuotaError, False, "quota", 1),
    ("down", lambda s: s.fail(503, "overloaded", times=9), errors.ModelFailedError, True, "overloaded", 3),
    ("bug", lambda s: s.fail(500, times=9), errors.ModelFailedError, True, "500", 3),
    ("bad request", lambda s: s.fail(400, "bad tool"), InvalidArgumentError, False, "bad tool", 1),
    (
        "redirect",
        lambda s: s.fail(307, "", {"location": "http://x/"}),
        errors.ModelAnswerError,
        False,
        "http://x/",
        1,
    ),
    ("hangs up", lambda s: s.refuse_connection(times=9), errors.ModelBrokenStreamError, True, "broke off", 3),
    ("html", lambda s: s.raw(b"<html>"), errors.ModelAnswerError, False, "/v1", 1),
    ("no choices", lambda s: s.raw(b"{}"), errors.ModelAnswerError, False, "choices", 1),
    ("wrong shape", lambda s: s.raw(b'{"choices": 3}'), errors.ModelAnswerError, False, "choices", 1),
    ("not utf-8", lambda s: s.raw(b'{"choices": "\xff"}'), errors.ModelAnswerError, False, "/v1", 1),
    (
        "cut",
        lambda s: s.say("long answer", cut_after=10),
        errors.ModelBrokenStreamError,
        True,
        "broke off",
        1,
    ),
]


@pytest.mark.parametrize("streamed", [False, True], ids=["invoke", "stream"])
@pytest.mark.parametrize(
    ("script", "kind", "retryable", "says", "tries"), [f[1:] for f in FAILURES], ids=[f[0] for f in FAILURES]
)
async def test_failures_say_what_to_do(
    script: Callable[[ModelServer], object],
    kind: type[HostlerError],
    retryable: bool,
    says: str,
    tries: int,
    streamed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hostler.models.retry_policy.FIRST_BACKOFF_SECONDS", 0.001)
    async with ModelServer() as server:
        script(server)
        async with model_at(server.base_url, retries=RetryPolicy(2)) as model:
            with pytest.raises(HostlerError) as caught:
                await (read(model, ask()) if streamed else model.invoke(ask()))
        assert type(caught.value) is kind
        assert caught.value.retryable is retryable
        assert says in caught.value.message
        assert "main" in caught.value.message
        assert KEY not in caught.value.message + repr(caught.value.details)
        assert len(server.requests) == tries


def sse(*events: str) -> bytes:
    return "".join(f"data: {event}\n\n" for event in events).encode()


BAD_STREAMS: list[tuple[str, bytes, type[HostlerError], str]] = [
    ("ends early", BROKEN, errors.ModelBrokenStreamError, "ended before"),
    ("bad json", BROKEN + sse('{"choices": ['), errors.ModelAnswerError, "OpenAI-compatible"),
    ("not utf-8", BROKEN + b"data: \xff\n\n", errors.ModelAnswerError, "UTF-8"),
    (
        "reported overflow",
        BROKEN + sse('{"error": {"code": 400, "message": "exceeds the available context size"}}'),
        InvalidArgumentError,
        "context window",
    ),
    ("reported failure", sse('{"error": {"message": "boom"}}'), errors.ModelFailedError, "boom"),
    ("reported rate", sse('{"error": {"code": "rate_limit_exceeded"}}'), RateLimitedError, "rate limit"),
]


@pytest.mark.parametrize(
    ("body", "kind", "says"), [b[1:] for b in BAD_STREAMS], ids=[b[0] for b in BAD_STREAMS]
)
async def test_a_bad_stream_is_never_tried_again(body: bytes, kind: type[HostlerError], says: str) -> None:
    async with ModelServer() as server:
        server.raw(body, content_type="text/event-stream")
        async with model_at(server.base_url) as model:
            with pytest.raises(kind, match=says):
                await read(model, ask())
        assert len(server.requests) == 1


async def test_what_services_do_differently_is_understood() -> None:
    async with ModelServer() as server:
        async with model_at(server.base_url) as model:
            server.say("no end mark", done=False)
            server.say("no usage", usage=None)
            server.raw(json.dumps({"choices": [{"message": {"content": "not streamed"}}]}).encode())
            parts = [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "ok"},
            ]
            server.raw(json.dumps({"choices": [{"message": {"content": parts}}]}).encode())
            call = '{"index": 0, "id": "%s", "function": {"name": "f", "arguments": {}}}'
            piece = '{"choices": [{"delta": {"tool_calls": [' + call + "]}}]}"
            server.raw(sse(piece % "a", piece % "b", "[DONE]"), content_type="text/event-stream")
            replies = [(await read(model, ask()))[1] for _ in range(5)]
        assert replies[0].message.content == "no end mark"
        assert replies[1].usage is None
        assert replies[2].message.content == "not streamed"
        assert (replies[3].message.content, replies[3].message.reasoning) == ("ok", "hm")
        assert [call.id for call in replies[4].message.tool_calls] == ["a", "b"]
        assert replies[4].finish_reason == "tool_calls"


async def test_a_service_that_knows_no_stream_options_is_asked_without_them() -> None:
    async with ModelServer() as server:
        server.fail(400, "unknown field: stream_options")
        server.always("ok")
        async with model_at(server.base_url) as model:
            for _ in range(2):
                assert (await read(model, ask()))[1].message.content == "ok"
        assert ["stream_options" in r.json for r in server.requests] == [True, False, False]


async def test_a_retry_after_is_kept_to_and_a_later_try_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.models.retry_policy.FIRST_BACKOFF_SECONDS", 0.001)
    async with ModelServer() as server:
        server.fail(429, "slow down", {"retry-after-ms": "300"})
        server.refuse_connection()
        server.say("at last")
        async with model_at(server.base_url) as model:
            started = time.monotonic()
            assert (await model.invoke(ask())).message.content == "at last"
            assert time.monotonic() - started >= 0.3
        assert len(server.requests) == 3


async def test_an_endpoint_that_is_not_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        async with asyncio.timeout(110), model_at(url, retries=RetryPolicy(0)) as model:
            with pytest.raises(errors.ModelUnreachableError, match="connection refused") as caught:
                await model.invoke(ask())
    assert url in caught.value.message
    assert "base_url" in caught.value.message
    assert caught.value.retryable


@pytest.mark.parametrize("where", ["before the answer", "within the answer"])
@pytest.mark.parametrize("what", ["silence", "deadline", "cancelled", "cancelled twice"])
async def test_a_call_that_ends_early_closes_its_connection(what: str, where: str) -> None:
    async with ModelServer() as server:
        gate = Gate()
        if where == "before the answer":
            server.say("late", hold=gate)
        else:
            server.say(["first", gate, "late"])
        soon = 1.0  # time enough for the request to get there
        silence = soon if what == "silence" else 30.0
        async with model_at(server.base_url, silence_seconds=silence) as model:
            deadline = time.time() + soon if what == "deadline" else None
            call = asyncio.create_task(read(model, ask(deadline=deadline)))
            await gate.reached()
            if what.startswith("cancelled"):
                call.cancel()
                if what == "cancelled twice":  # while the first one is closing the connection
                    await asyncio.sleep(0)
                    call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
            else:
                kind = errors.ModelSilentError if what == "silence" else DeadlineExceededError
                with pytest.raises(kind):
                    await call
            await server.disconnected()


async def test_a_reader_that_stops_early_closes_the_connection() -> None:
    async with ModelServer() as server:
        server.say(["first", Gate(), "never"])
        async with model_at(server.base_url) as model:
            async with contextlib.aclosing(model.stream(ask())) as answer:
                async for _ in answer:
                    break
            await server.disconnected()


async def test_no_try_begins_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_BACKOFF_SECONDS", "MAX_BACKOFF_SECONDS"):
        monkeypatch.setattr(f"hostler.models.retry_policy.{name}", 600.0)
    async with ModelServer() as server:
        server.fail(503, times=9)
        async with model_at(server.base_url, retries=RetryPolicy(8)) as model:
            with pytest.raises(errors.ModelFailedError):
                await model.invoke(ask(deadline=time.time() + 60))
        assert len(server.requests) == 1


async def test_an_endless_answer_is_refused() -> None:
    async with ModelServer() as server:
        piece = "x" * 300_000
        server.say([piece] * (MAX_ANSWER_BYTES // len(piece) + 1))
        server.raw(b" " * (17 * 1024 * 1024))
        async with model_at(server.base_url) as model:
            with pytest.raises(errors.ModelAnswerError, match="larger than"):
                await read(model, ask())
            with pytest.raises(errors.ModelAnswerError, match="larger than"):
                await model.invoke(ask())


@pytest.mark.parametrize("name", ["model", "models", "stream", "messages", "fallbacks"])
async def test_extra_args_cannot_reach_beyond_the_call(name: str) -> None:
    async with ModelServer() as server:
        async with model_at(server.base_url) as model:
            with pytest.raises(InvalidArgumentError, match=name):
                await model.invoke(ask(extra_args={name: "other"}))
        assert not server.requests
