"""local-agent and one run that does a great deal: many calls in an answer, many rounds in a small window."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from local_agent.agent import MAX_CALLS_OF_MESSAGE, LocalAgent
from local_agent.truncation import short_message

from hostler_protocol.content import FunctionCall, ModelMessage, ToolCall
from hostler_sdk.testing import ScriptedHost
from support.local_agents import MAIN, made, served
from support.model_answers import Answer, Recorded
from support.model_server import ModelServer

SMALL: dict[str, Any] = MAIN | {"context-window-tokens": 2_400, "context-reserve-tokens": 400}
LONG = "word " * 600


def write(path: str, content: str = "") -> str:
    return f"wrote {path}: {content}"


def calling(id_: str, **arguments: Any) -> dict[str, Any]:
    return {"id": id_, "name": "write", "arguments": json.dumps(arguments)}


def assert_paired(messages: list[dict[str, Any]]) -> None:
    """Each call has its result right behind it, in order, as services demand it."""
    open_: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_.pop(0)
            continue
        assert open_ == []
        open_ = [call["id"] for call in message.get("tool_calls", [])]
        assert len(open_) <= MAX_CALLS_OF_MESSAGE
        for call in message.get("tool_calls", []):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert open_ == []


def test_two_hundred_calls_of_one_answer_are_made_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services take 128 calls of one message back: what is over goes as a second message."""

    async def test(server: ModelServer, host: ScriptedHost) -> None:
        calls = [calling(f"c{n}", path=f"f{n}") for n in range(200)]
        server.add(Answer(pieces=["All of them."], tool_calls=calls, finish_reason="tool_calls"))
        server.say("Done.")
        driven = await host.drive(LocalAgent, "go", config=MAIN, tools={"write": write})
        assert driven.text == "All of them.\nDone."
        assert [parameters["path"] for _, parameters in made(driven)] == [f"f{n}" for n in range(200)]
        assert_paired(server.sent())
        asked = [m for m in server.sent() if m.get("tool_calls")]
        assert [(m["content"], len(m["tool_calls"])) for m in asked] == [("All of them.", 128), (None, 72)]
        told = {m["tool_call_id"]: m["content"] for m in server.sent() if m["role"] == "tool"}
        assert told == {f"c{n}": f"wrote f{n}: " for n in range(200)}

    served(monkeypatch, test)


def test_more_calls_than_anybody_means_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        calls = [calling(f"c{n}", path="f") for n in range(1_100)]
        server.add(Answer(tool_calls=calls, finish_reason="tool_calls"))
        driven = await host.drive(LocalAgent, "go", config=MAIN, tools={"write": write})
        assert (driven.status, driven.code) == ("failed", "local-agent.model_error")
        assert "asks for more than 1,024 tool calls" in (driven.error or "")
        assert made(driven) == []

    served(monkeypatch, test)


def test_a_run_of_many_rounds_stays_within_a_small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """First what calls were given and gave is shortened, then the earliest rounds are left out."""
    rounds = 40

    def reply(request: Recorded) -> Answer:
        done = max(
            (int(c["id"][1:]) for m in request.json["messages"] for c in m.get("tool_calls", [])), default=0
        )
        if done == rounds:
            return Answer(pieces=["All written."])
        return Answer(
            tool_calls=[calling(f"c{done + 1}", path="f", content=LONG)], finish_reason="tool_calls"
        )

    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.always(reply)
        driven = await host.drive(LocalAgent, "go", config=SMALL, tools={"write": write})
        assert (driven.status, driven.text) == ("completed", "All written.")
        assert [parameters["content"] for _, parameters in made(driven)] == [LONG] * rounds
        for number in range(len(server.requests)):
            assert_paired(server.sent(number))
            assert len(server.requests[number].body) < 14_000  # of 2,000 tokens, with what JSON adds
        last = server.sent()
        kept = sum(bool(m.get("tool_calls")) for m in last)
        assert 1 < kept < rounds
        assert last[0]["content"].endswith(
            f"the first {rounds - kept} rounds of tool calls are not repeated below."
        )
        assert last[1] == {"role": "user", "content": "go"}
        assert "left out" in last[2]["tool_calls"][0]["function"]["arguments"]
        assert "left out" in last[3]["content"]

    served(monkeypatch, test)


@settings(max_examples=40)
@given(
    st.recursive(
        st.one_of(st.integers(), st.none(), st.text(max_size=80)),
        lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(max_size=9), inner)),
        max_leaves=8,
    ),
    st.integers(20, 200),
)
def test_arguments_stay_json_however_short_they_get(value: Any, most: int) -> None:
    arguments = json.dumps({"a": value})
    call = ToolCall(id="c", function=FunctionCall(name="f", arguments=arguments))
    short = short_message(ModelMessage(role="assistant", content="x", tool_calls=[call]), most)
    (kept,) = short.tool_calls
    assert isinstance(json.loads(kept.function.arguments), dict)
    assert kept == call or len(arguments) > most
    assert short.content == "x"
