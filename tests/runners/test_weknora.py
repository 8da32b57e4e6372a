"""What is WeKnora's own."""

from __future__ import annotations

from typing import Any

from hostler_weknora.runner import WeKnora

from hostler_sdk.testing import Driven, ScriptedHost
from support.local_agents import deltas, logs
from support.services.server import Answer, reply
from support.services.weknora import KEY, FakeWeKnora, complete, said


async def ask(
    fake: FakeWeKnora, given: Any = "Hi", host: ScriptedHost | None = None, **config: Any
) -> Driven:
    whole = {"base-url": fake.address, "api-key": KEY}
    return await (host or ScriptedHost()).drive(WeKnora, given, config=whole | config)


def events(*pieces: bytes) -> Answer:
    return Answer([*pieces], content_type="text/event-stream")


async def test_what_an_agent_says_before_it_uses_a_tool_is_no_part_of_its_answer() -> None:
    call = {"tool_name": "web_search", "arguments": {"query": "天气"}, "tool_call_id": "t-1"}
    async with FakeWeKnora() as fake:
        fake.next(
            events(
                said("thinking", "they want the weather"),
                said("answer", "Let me look."),
                said("answer", done=True),
                said("tool_call", "Calling tool: web_search", data=call),
                said("tool_result", "晴, 25°C", data=call | {"success": True}),
                said("answer", "It is sunny."),
                said("answer", done=True),
                complete("It is sunny."),
            )
        )
        driven = await ask(fake)
        assert (driven.status, driven.text) == ("completed", "It is sunny.")
        assert deltas(driven) == ["Let me look.", "It is sunny."]
        tools = [r.data for r in driven.results if r.type.startswith("tool.call")]
        assert [(t.tool_call_id, t.tool_name) for t in tools] == [("t-1", "web_search")] * 2  # type: ignore[union-attr]
        assert tools[1].result == "晴, 25°C"  # type: ignore[union-attr]


async def test_a_tool_that_fails_does_not_end_the_answer() -> None:
    call = {"tool_name": "web_search", "tool_call_id": "t-1", "success": False, "error": "no network"}
    async with FakeWeKnora() as fake:
        fake.next(events(said("error", "no network", data=call), said("answer", "I cannot."), complete("")))
        driven = await ask(fake)
        assert (driven.status, driven.text) == ("completed", "I cannot.")
        (tool,) = [r.data for r in driven.results if r.type == "tool.call.completed"]
        assert tool.error == "no network"  # type: ignore[union-attr]


async def test_the_end_of_older_versions_and_an_answer_that_only_the_end_has() -> None:
    async with FakeWeKnora() as fake:
        fake.next(events(said("answer", "So."), said("answer", done=True)))
        assert (await ask(fake)).text == "So."
        fake.next(events(said("answer", "Wait."), said("answer", done=True), said("tool_call", data={})))
        assert (await ask(fake)).code == "weknora.stream_broken"
        fake.next(events(complete("All at once.")))
        driven = await ask(fake)
        assert (driven.text, deltas(driven)) == ("All at once.", [])


async def test_that_it_waits_for_somebody_there_is_in_the_journal() -> None:
    async with FakeWeKnora() as fake:
        fake.next(events(said("tool_approval_required", done=True), said("answer", "ok"), complete("ok")))
        driven = await ask(fake)
        assert "WeKnora waits until somebody approves a tool there" in logs(driven)


async def test_what_is_sent() -> None:
    async with FakeWeKnora() as fake:
        config: dict[str, Any] = {"knowledge-base-ids": ["kb-1"], "web-search-enabled": True, "agent-id": ""}
        await ask(fake, **config)
        assert fake.messages == [
            {
                "query": "Hi",
                "agent_enabled": True,
                "web_search_enabled": True,
                "channel": "im",
                "disable_title": True,
                "knowledge_base_ids": ["kb-1"],
                "session": "weknora-session-1",
            }
        ]


async def test_a_session_that_is_gone_is_begun_anew() -> None:
    host = ScriptedHost()
    async with FakeWeKnora() as fake:
        await ask(fake, host=host)
        fake.sessions.clear()
        driven = await ask(fake, host=host)
        assert driven.code == "weknora.http_error"
        assert "Session not found; " in str(driven.error)
        assert "the next message begins a new one" in str(driven.error)
        assert (await ask(fake, host=host)).text == "ok"


async def test_a_session_without_an_id_and_a_file_by_its_address() -> None:
    given = {"text": "See", "contents": [{"type": "file_url", "file_url": "https://x.example/a.pdf"}]}
    async with FakeWeKnora() as fake:
        driven = await ask(fake, given)
        assert (driven.code, fake.asked) == ("weknora.file_invalid", [])
        fake.respond = lambda asked: reply({"success": True, "data": {}}, 201)  # type: ignore[method-assign]
        assert (await ask(fake)).code == "weknora.response_invalid"
