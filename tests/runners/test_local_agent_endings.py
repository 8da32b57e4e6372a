"""local-agent where a model says nothing, or is cut off: asked again, or ended with what to do."""

from __future__ import annotations

import json

import pytest
from local_agent.agent import LocalAgent

from hostler_sdk.testing import Driven, ScriptedHost
from support.local_agents import BOTH, MAIN, deltas, logs, made, served
from support.model_answers import Answer
from support.model_server import ModelServer

CALL = {"id": "c1", "name": "add", "arguments": '{"a": 1, "b": 2}'}


def add(a: int = 0, b: int = 0) -> int:
    return a + b


def models(server: ModelServer) -> list[str]:
    return [request.json["model"] for request in server.requests]


def retryable(driven: Driven) -> bool:
    return bool(driven.results[-1].data.retryable)  # type: ignore[union-attr]


NOTHING = [
    Answer(),
    Answer(pieces=[" \n", " "]),
    Answer(reasoning=["Hm."]),
    Answer(finish_reason="tool_calls"),
]


@pytest.mark.parametrize("nothing", NOTHING, ids=["nothing", "blank", "thoughts", "no call"])
def test_a_model_that_says_nothing_is_asked_once_more(
    monkeypatch: pytest.MonkeyPatch, nothing: Answer
) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.add(nothing)
        server.say("Here I am.")
        driven = await host.drive(LocalAgent, "go", config=BOTH)
        assert (driven.text, "".join(deltas(driven))) == ("Here I am.", "Here I am.")
        assert models(server) == ["main", "main"]
        assert server.sent(0) == server.sent(1)
        assert "asked once more" in logs(driven)
        assert driven.usage is not None
        assert driven.usage.input_tokens == 22  # both were paid

    served(monkeypatch, test)


@pytest.mark.parametrize("nothing", NOTHING, ids=["nothing", "blank", "thoughts", "no call"])
def test_after_nothing_twice_the_next_model_is_asked_and_then_the_run_ends(
    monkeypatch: pytest.MonkeyPatch, nothing: Answer
) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.add(nothing, model="main")
        server.add(nothing, model="main")
        server.say("From the spare one.", model="spare")
        driven = await host.drive(LocalAgent, "go", config=BOTH)
        assert driven.text == "From the spare one."
        assert models(server) == ["main", "main", "spare"]
        server.requests.clear()
        server.always(lambda request: nothing)
        never = await host.drive(LocalAgent, "go", config=BOTH)
        assert (never.status, never.code) == ("failed", "local-agent.empty_answer")
        assert models(server) == ["main", "main", "spare", "spare"]
        assert "choose another model" in (never.error or "")
        assert retryable(never) == (nothing.finish_reason == "stop")
        assert not deltas(never)

    served(monkeypatch, test)


def test_a_model_that_says_nothing_about_its_tools_is_asked_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.add(Answer(tool_calls=[CALL], finish_reason="tool_calls"))
        server.add(Answer())
        server.say("It is 3.")
        driven = await host.drive(LocalAgent, "go", config=MAIN, tools={"add": add})
        assert driven.text == "It is 3."
        assert server.sent(1) == server.sent(2)
        assert server.sent()[-1] == {"role": "tool", "content": "3", "tool_call_id": "c1"}
        assert made(driven) == [("add", {"a": 1, "b": 2})]
        # what was said before the call is an answer too: then nothing more need come
        server.add(Answer(pieces=["I add them up."], tool_calls=[CALL], finish_reason="tool_calls"))
        server.add(Answer())
        server.add(Answer())
        driven = await host.drive(LocalAgent, "again", config=MAIN)
        assert (driven.status, driven.text) == ("completed", "I add them up.")

    served(monkeypatch, test)


def test_thoughts_that_used_up_all_tokens_are_the_next_model_s_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same model would run out of them again."""

    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.say("", reasoning=["On and on"], finish_reason="length", model="main")
        server.say("In short: yes.", model="spare")
        driven = await host.drive(LocalAgent, "go", config=BOTH)
        assert driven.text == "In short: yes."
        assert models(server) == ["main", "spare"]
        server.say("", reasoning=["On and on"], finish_reason="length")
        alone = await host.drive(LocalAgent, "go", config=MAIN)
        assert (alone.code, retryable(alone)) == ("local-agent.empty_answer", False)
        assert "raise its `max_tokens`" in (alone.error or "")
        assert len(server.requests) == 3

    served(monkeypatch, test)


def test_what_a_service_holds_back_is_not_asked_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.say("", finish_reason="content_filter")
        driven = await host.drive(LocalAgent, "go", config=BOTH)
        assert (driven.code, retryable(driven)) == ("local-agent.empty_answer", False)
        assert "content rules" in (driven.error or "")
        assert models(server) == ["main"]

    served(monkeypatch, test)


@pytest.mark.parametrize(("reason", "says"), [("length", "max_tokens"), ("content_filter", "content rules")])
def test_an_answer_that_was_cut_off_is_kept_and_says_so(
    monkeypatch: pytest.MonkeyPatch, reason: str, says: str
) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.say("The first half", finish_reason=reason)
        driven = await host.drive(LocalAgent, "go", config=BOTH)
        assert (driven.status, driven.text, driven.finish_reason) == ("completed", "The first half", reason)
        assert says in logs(driven)
        assert len(server.requests) == 1

    served(monkeypatch, test)


@pytest.mark.parametrize("arguments", ["", '{"a": 1, "b"'])
def test_a_call_that_was_cut_off_is_not_made(monkeypatch: pytest.MonkeyPatch, arguments: str) -> None:
    """No arguments yet is not the same as none: `add` would take none."""

    async def test(server: ModelServer, host: ScriptedHost) -> None:
        cut = {"id": "c2", "name": "add", "arguments": arguments}
        server.add(Answer(tool_calls=[CALL, cut], finish_reason="length"))
        server.say("Only one.")
        driven = await host.drive(LocalAgent, "go", config=MAIN, tools={"add": add})
        assert driven.text == "Only one."
        assert made(driven) == [("add", {"a": 1, "b": 2})]
        asked, first, second = server.sent()[-3:]
        assert [call["id"] for call in asked["tool_calls"]] == ["c1", "c2"]
        assert json.loads(asked["tool_calls"][1]["function"]["arguments"]) == {}
        assert first["content"] == "3"
        assert second["content"].startswith("Error (invalid_argument): your answer was cut off before")

    served(monkeypatch, test)
