"""What is DeerFlow's own."""

from __future__ import annotations

from typing import Any

import pytest
from hostler_deerflow.runner import DeerFlow
from hostler_deerflow.stream import DeerFlowStream

from hostler_protocol.content import Usage
from hostler_sdk.services import Done, ServiceFailure, Whole
from hostler_sdk.testing import Driven, ScriptedHost
from support.local_agents import deltas, logs
from support.services.deerflow import KEY, THREAD, FakeDeerFlow
from support.services.langgraph_wire import ai, chunk, event, human, message, metadata, values
from support.services.server import Answer, reply

END = event("end", None)


async def ask(
    fake: FakeDeerFlow, given: Any = "Hi", host: ScriptedHost | None = None, **config: Any
) -> Driven:
    whole = {"api-base": fake.address, "api-key": KEY}
    return await (host or ScriptedHost()).drive(DeerFlow, given, config=whole | config)


def events(*pieces: bytes) -> Answer:
    return Answer([metadata(), *pieces], content_type="text/event-stream")


def failed(task: str, why: str = "boom", kind: str = "task_failed") -> bytes:
    return event("custom", {"type": kind, "task_id": task, "error": why})


async def test_the_answer_is_the_last_message_and_what_was_there_before_is_not_said_again() -> None:
    call = {"name": "web_search", "args": {"query": "天气"}, "id": "t-1", "type": "tool_call"}
    before = [human("Hi"), ai("Old answer", "a-0"), human("And now?", "h-2")]
    looks = ai("Let me look.", "a-1", tool_calls=[call])
    found = message("tool", "晴, 25°C", id="m-1", name="web_search", tool_call_id="t-1", status="success")
    async with FakeDeerFlow() as fake:
        fake.next(
            events(
                values(*before),
                chunk("Let me look."),
                values(*before, looks),
                values(*before, looks, found),
                chunk([{"type": "text", "text": "Sunny", "index": 0}], "a-2"),
                chunk([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "."}], "a-2"),
                values(*before, looks, found, ai([{"type": "text", "text": "Sunny."}], "a-2")),
                END,
            )
        )
        driven = await ask(fake)
        assert (driven.status, driven.text) == ("completed", "Sunny.")
        assert deltas(driven) == ["Let me look.", "\n\n", "Sunny", "."]
        tools = [r.data for r in driven.results if r.type.startswith("tool.call")]
        assert [(t.tool_call_id, t.tool_name) for t in tools] == [("t-1", "web_search")] * 2  # type: ignore[union-attr]
        assert tools[1].result == "晴, 25°C"  # type: ignore[union-attr]
        assert driven.usage == Usage(input_tokens=22, output_tokens=14, total_tokens=36)


async def test_a_question_of_the_agent_is_its_answer_and_the_reply_goes_to_the_same_thread() -> None:
    call = {"name": "ask_clarification", "args": {"question": "哪个城市?"}, "id": "t-1", "type": "tool_call"}
    asked = message("tool", "❓ 哪个城市?", id="m-1", name="ask_clarification", tool_call_id="t-1")
    host = ScriptedHost()
    async with FakeDeerFlow() as fake:
        fake.next(events(values(human()), values(human(), ai("", tool_calls=[call]), asked), END))
        assert (await ask(fake, host=host)).text == "❓ 哪个城市?"
        assert (await ask(fake, "Lisbon", host)).text == "ok"
        assert [one["thread"] for one in fake.messages] == [THREAD, THREAD]


async def test_tasks_that_fail() -> None:
    tasks = [failed(f"t{n}") for n in (1, 1, 2, 3, 4, 5, 6)]
    async with FakeDeerFlow() as fake:
        fake.next(events(values(human()), *tasks, failed("t7", kind="task_timed_out"), END))
        driven = await ask(fake)
        assert driven.code == "deerflow.service_error"
        tasks_named = "t1: boom; t2: boom; t3: boom; t4: boom; t5: boom"
        assert driven.error == (
            f"DeerFlow gave no answer, since its tasks failed ({tasks_named}); look at this run there"
        )
        fake.next(events(values(human()), failed("t1", ""), values(human(), ai("Anyway.")), END))
        driven = await ask(fake)
        assert driven.text == "Anyway."
        assert "a task of DeerFlow failed: t1: no reason" in logs(driven)


def test_several_texts_in_one_event() -> None:
    parser = DeerFlowStream()
    two = b'event: values\ndata: {"messages": []}\ndata: {"messages": [{"type": "ai", "content": "x"}]}\n\n'
    assert list(parser.feed(two)) == []
    assert list(parser.feed(b"event: end\ndata: null\n\n")) == [Whole("x"), Done()]


@pytest.mark.parametrize("data", [b'data: {"a":\ndata: {}', b"data: oops", b"data: 7"])
def test_an_event_that_is_not_known_to_be_like_that(data: bytes) -> None:
    with pytest.raises(ServiceFailure) as caught:
        list(DeerFlowStream().feed(b"event: values\n" + data + b"\n\n"))
    assert caught.value.what == "response_invalid"


async def test_what_is_sent() -> None:
    async with FakeDeerFlow() as fake:
        config: dict[str, Any] = {
            "subagent-enabled": True,
            "model-name": "m",
            "plan-mode": True,
            "recursion-limit": 7,
        }
        await ask(fake, **config)
        (body,) = fake.messages
        settings = {
            "thread_id": THREAD,
            "thinking_enabled": False,
            "is_plan_mode": True,
            "subagent_enabled": True,
            "max_concurrent_subagents": 3,
            "model_name": "m",
        }
        assert body["config"] == {"recursion_limit": 7, "configurable": settings}
        assert body["context"] == settings


async def test_files_are_uploaded_and_pictures_elsewhere_are_named() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://x.example/cat.png"}}
    pdf = {"type": "file_base64", "file_base64": "AAE=", "file_name": "a.pdf"}
    async with FakeDeerFlow() as fake:
        await ask(fake, {"text": "See", "contents": [picture, pdf]})
        (message_,) = fake.messages[0]["input"]["messages"]
        assert message_["content"] == [{"type": "text", "text": "See"}, picture]
        (file,) = message_["additional_kwargs"]["files"]
        assert file == {
            "filename": "a.pdf",
            "size": 2,
            "path": "/mnt/user-data/uploads/a.pdf",
            "status": "uploaded",
        }
        elsewhere = {"text": "See", "contents": [{"type": "file_url", "file_url": "https://x.example/a.pdf"}]}
        assert (await ask(fake, elsewhere)).code == "deerflow.file_invalid"
        taken = fake._upload
        fake._upload = lambda asked: reply({"success": True, "files": [], "message": "a.pdf: too large"})  # type: ignore[method-assign]
        driven = await ask(fake, {"text": "See", "contents": [pdf]})
        assert driven.error == "DeerFlow did not take all files: a.pdf: too large"
        fake._upload = taken  # type: ignore[method-assign]


async def test_a_whole_header_goes_before_the_token() -> None:
    async with FakeDeerFlow() as fake:
        header: dict[str, Any] = {"auth-header": f"Bearer {KEY}", "api-key": "another"}
        assert (await ask(fake, **header)).text == "ok"
        driven = await ask(fake, **header | {"auth-header": "Bearer mistyped-token"})
        assert driven.code == "deerflow.auth_error"
        assert "check config `auth-header`" in str(driven.error)


async def test_a_thread_that_is_gone_is_begun_anew() -> None:
    host = ScriptedHost()
    async with FakeDeerFlow() as fake:
        await ask(fake, host=host)
        fake.threads.clear()
        driven = await ask(fake, host=host)
        assert driven.code == "deerflow.http_error"
        assert "the next message begins a new one" in str(driven.error)
        assert (await ask(fake, host=host)).text == "ok"
