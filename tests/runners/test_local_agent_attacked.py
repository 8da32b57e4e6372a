"""local-agent and services that misbehave on the wire: streams cut and damaged, refusals, no word at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from local_agent.agent import LocalAgent

from hostler_sdk.testing import Driven, ScriptedHost
from support.local_agents import BOTH, MAIN, deltas, logs, made, served
from support.model_server import Answer, ModelServer

CALL = {"id": "c1", "name": "add", "arguments": '{"a": 1, "b": 2}'}


def add(a: int, b: int) -> int:
    return a + b


def fresh() -> ScriptedHost:
    """A host that remembers nothing."""
    return ScriptedHost(models={"main": "", "spare": ""})


def frames(text: str, calls: bool) -> bytes:
    """A whole streamed answer, as a service writes it."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in text.split()]
    if calls:
        head = {"index": 0, "id": CALL["id"], "type": "function"}
        deltas.append({"tool_calls": [{**head, "function": {"name": CALL["name"], "arguments": ""}}]})
        deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": CALL["arguments"]}}]})
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]}
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in [*chunks, last]]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


STREAM = {"content-type": "text/event-stream"}


@pytest.mark.parametrize("text", ["", "One moment."])
def test_a_stream_cut_at_any_byte_makes_no_half_call(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Nothing shown: the next model answers. Something shown: the run fails. No tool is called in either."""
    whole = frames(text, calls=True)
    finished = whole.index(b'"tool_calls"}')

    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.always("From the spare one.")
        for cut in range(1, finished, 29):
            server.add(Answer(body=whole, headers=STREAM, cut_after=cut), model="main")
            driven = await fresh().drive(LocalAgent, "go", config=BOTH, tools={"add": add})
            assert made(driven) == [], cut
            if driven.status == "completed":
                assert driven.text == "From the spare one."
                assert "'main' failed" in logs(driven)
            else:
                assert driven.code == "local-agent.model_error", cut
                assert "broke off" in (driven.error or "")
                assert text.startswith(deltas(driven)[0])
                assert not driven.messages

    served(monkeypatch, test)


def test_a_stream_damaged_anywhere_ends_in_an_answer_or_a_clear_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = frames("Hello there.", calls=False)

    async def test(server: ModelServer, host: ScriptedHost) -> None:
        for place in range(0, len(whole), 31):
            for damage in (b"\x00", b"\xff", b"\n\n", b'"', b"{"):
                server.add(Answer(body=whole[:place] + damage + whole[place + 1 :], headers=STREAM))
                driven = await fresh().drive(LocalAgent, "go", config=MAIN)
                assert_clear(driven)

    served(monkeypatch, test)


def assert_clear(driven: Driven) -> None:
    assert driven.warnings == []
    if driven.status == "completed":
        assert driven.text
    else:
        assert driven.code in ("local-agent.model_error", "local-agent.empty_answer")
        assert driven.error


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limited"), (529, "model_error")])
def test_what_passes_is_tried_again_and_what_does_not_is_told(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str
) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.fail(status, "not now", {"retry-after": "0"}, times=2)
        server.say("Now.")
        assert (await host.drive(LocalAgent, "go", config=MAIN)).text == "Now."
        assert len(server.requests) == 3
        server.fail(status, "not now", times=3)
        never = await host.drive(LocalAgent, "go", config=MAIN)
        assert (never.status, never.code) == ("failed", f"local-agent.{code}")
        assert never.results[-1].data.retryable  # type: ignore[union-attr]
        assert "not now" in (never.error or "")

    served(monkeypatch, test)


@pytest.mark.parametrize(("reason", "says"), [("stop", "try again"), ("length", "max_tokens")])
def test_an_answer_of_thoughts_alone_is_none(monkeypatch: pytest.MonkeyPatch, reason: str, says: str) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        for _ in range(2):
            server.say("", reasoning=["Let me ", "think."], finish_reason=reason)
        driven = await host.drive(LocalAgent, "go", config=MAIN)
        assert (driven.status, driven.code) == ("failed", "local-agent.empty_answer")
        assert says in (driven.error or "")
        assert not deltas(driven)

    served(monkeypatch, test)


def test_thinking_before_a_call_stays_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        thought = ["<think>I should ", "add.</think>"]
        server.add(Answer(pieces=list(thought), tool_calls=[CALL], finish_reason="tool_calls"))
        server.say("3")
        config = MAIN | {"remove-think": True}
        driven = await host.drive(LocalAgent, "go", config=config, tools={"add": add})
        assert (driven.text, deltas(driven)) == ("3", ["3"])
        assert server.requests[1].json["messages"][2]["content"] is None

    served(monkeypatch, test)
