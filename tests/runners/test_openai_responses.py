"""What is the Responses API's own."""

from __future__ import annotations

from typing import Any

import pytest
from hostler_openai_responses.runner import OpenAIResponses

from hostler_protocol.content import Usage
from hostler_sdk.testing import Driven, ScriptedHost
from support.local_agents import deltas
from support.services.openai_responses import (
    FIRST,
    KEY,
    MODEL,
    USAGE,
    FakeOpenAI,
    approval,
    completed,
    created,
    item,
    message,
    numbered,
    response,
    text,
)
from support.services.pausing import RUN, decision, go_on, pending
from support.services.server import Answer, reply

FIRST_TRY = {"run_id": RUN}


def settings(fake: FakeOpenAI, **config: Any) -> dict[str, Any]:
    return {"base-url": fake.address, "api-key": KEY, "model": MODEL, **config}


async def ask(fake: FakeOpenAI, given: Any = "Hi", host: ScriptedHost | None = None, **config: Any) -> Driven:
    driver = host or ScriptedHost()
    return await driver.drive(OpenAIResponses, given, config=settings(fake, **config), context=FIRST_TRY)


def events(*sent: dict[str, Any]) -> Answer:
    return Answer(numbered(created(), *sent), content_type="text/event-stream")


async def test_tools_of_the_service_are_in_the_journal() -> None:
    search = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"query": "天气"}}
    broken = {"id": "mcp_1", "type": "mcp_call", "server_label": "s", "name": "look", "error": "no network"}
    async with FakeOpenAI() as fake:
        fake.next(
            events(
                item("added", search),
                item("done", search),
                item("added", broken),
                item("done", broken),
                text("Sunny."),
                text("And warm.", 3),
                completed(),
            )
        )
        driven = await ask(fake, tools=[{"type": "web_search"}])
        assert (driven.text, deltas(driven)) == ("Sunny.\n\nAnd warm.", ["Sunny.", "\n\n", "And warm."])
        tools = [r.data for r in driven.results if r.type == "tool.call.completed"]
        assert [(t.tool_name, t.result, t.error) for t in tools] == [  # type: ignore[union-attr]
            ("web_search", '{"query":"天气"}', None),
            ("mcp.look", None, "no network"),
        ]
        assert fake.messages[0]["tools"] == [{"type": "web_search"}]


async def test_a_tool_waits_for_an_approval_and_the_decision_goes_to_the_service() -> None:
    host = ScriptedHost()
    async with FakeOpenAI() as fake:
        fake.next(events(text("Shall I?"), item("done", approval()), completed(approval())))
        paused = await ask(fake, "Delete it", host)
        (call,) = pending(paused)
        assert (call.tool_name, call.arguments, call.kind) == ("files.delete", {"path": "文件"}, "approval")
        assert (call.executor, paused.text) == ("runner", "Shall I?")
        assert paused.results[-1].usage == Usage(
            input_tokens=11, output_tokens=7, total_tokens=18, cached_tokens=3, reasoning_tokens=2
        )
        for outcome, approved in (("approved", True), ("denied", False), ("expired", False)):
            again = ScriptedHost()
            driven = await go_on(
                OpenAIResponses, settings(fake), paused, decision("mcpr_1", outcome), host=again
            )
            assert driven.text == "ok"
            (said,) = fake.messages[-1]["input"]
            assert (said["approval_request_id"], said["approve"]) == ("mcpr_1", approved)
            assert said.get("reason") == (None if approved else f"The approval was {outcome}.")
            assert fake.messages[-1]["previous_response_id"] == FIRST


async def test_a_decision_is_not_sent_twice() -> None:
    host = ScriptedHost()
    async with FakeOpenAI() as fake:
        fake.next(events(item("done", approval()), completed(approval())))
        paused = await ask(fake, "Delete it", host)
        yes = decision("mcpr_1", "approved")
        assert (await go_on(OpenAIResponses, settings(fake), paused, yes, host=host)).text == "ok"
        driven = await go_on(OpenAIResponses, settings(fake), paused, yes, host=host, attempt=3)
        assert driven.code == "openai-responses.already_sent"
        assert len(fake.messages) == 2


async def test_an_approval_of_what_the_service_does_not_keep() -> None:
    async with FakeOpenAI() as fake:
        fake.next(events(item("done", approval()), completed(approval())))
        config: dict[str, Any] = {"previous-response": False}
        driven = await ask(fake, **config)
        assert driven.code == "openai-responses.config_invalid"
        assert "switch config `previous-response` on" in str(driven.error)
        assert fake.messages[0]["store"] is False
        fake.next(events(item("done", approval(arguments="{")), completed()))
        assert (await ask(fake)).code == "openai-responses.response_invalid"


async def test_without_the_conversation_there_each_message_stands_alone() -> None:
    host = ScriptedHost()
    config: dict[str, Any] = {"previous-response": False}
    async with FakeOpenAI() as fake:
        await ask(fake, host=host, **config)
        await ask(fake, host=host, **config)
        assert [body.get("previous_response_id") for body in fake.messages] == [None, None]


async def test_a_response_that_is_gone_is_not_gone_on_with() -> None:
    host = ScriptedHost()
    async with FakeOpenAI() as fake:
        await ask(fake, host=host)
        fake.responses.clear()
        driven = await ask(fake, host=host)
        assert driven.code == "openai-responses.http_error"
        assert "Previous response with id 'resp_1' not found; " in str(driven.error)
        assert "the next message begins a new one" in str(driven.error)
        assert (await ask(fake, host=host)).text == "ok"


async def test_a_server_that_does_not_stream() -> None:
    async with FakeOpenAI() as fake:
        fake.next(reply(response("completed", message("So."), usage=USAGE)))
        driven = await ask(fake)
        assert (driven.text, deltas(driven)) == ("So.", [])
        fake.next(reply(response("incomplete", incomplete_details={"reason": "max_output_tokens"})))
        driven = await ask(fake)
        assert driven.code == "openai-responses.service_error"
        assert "incomplete (max_output_tokens)" in str(driven.error)


@pytest.mark.parametrize("code", ["server_error", "invalid_prompt"])
async def test_a_response_that_fails(code: str) -> None:
    async with FakeOpenAI() as fake:
        failed = response("failed", error={"code": code, "message": "no"})
        fake.next(events({"type": "response.failed", "response": failed}))
        driven = await ask(fake)
        assert driven.code == "openai-responses.service_error"
        assert driven.results[-1].data.retryable is (code == "server_error")  # type: ignore[union-attr]


async def test_a_tool_of_the_caller_is_none_of_this_runner() -> None:
    call = {"id": "fc_1", "type": "function_call", "name": "get_weather", "arguments": "{}"}
    async with FakeOpenAI() as fake:
        fake.next(events(item("added", call)))
        driven = await ask(fake)
        assert driven.code == "openai-responses.service_error"
        assert "(get_weather)" in str(driven.error)


async def test_what_is_sent() -> None:
    url = {"type": "file_url", "file_url": "https://x.example/a.pdf"}
    async with FakeOpenAI() as fake:
        config: dict[str, Any] = {"parameters": {"temperature": 0.1}, "instructions": "Be brief."}
        await ask(fake, {"text": "See", "contents": [url]}, **config)
        (body,) = fake.messages
        parts = [
            {"type": "input_text", "text": "See"},
            {"type": "input_file", "file_url": "https://x.example/a.pdf"},
        ]
        assert body == {
            "temperature": 0.1,
            "model": MODEL,
            "stream": True,
            "instructions": "Be brief.",
            "input": [{"role": "user", "content": parts}],
        }
        wrongs: list[dict[str, Any]] = [{"parameters": {"input": "x"}}, {"tools": "web_search"}]
        for wrong in wrongs:
            driven = await ask(fake, **wrong)
            assert driven.code == "openai-responses.config_invalid"
        assert len(fake.messages) == 1
