"""local-agent and services that misbehave on the wire: streams cut and damaged, refusals, no word at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from local_agent.agent import LocalAgent

from hostler_sdk.testing import Driven, ScriptedHost
from support.local_agents import BOTH, MAIN, deltas, logs, made, served
from support.model_answers import Answer
from support.model_server import ModelServer

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


def streamed(*deltas: dict[str, Any], reason: str = "tool_calls") -> Answer:
    """A stream whose pieces the test writes itself."""
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in [*chunks, last]]
    return Answer(body="".join([*lines, "data: [DONE]\n\n"]).encode(), headers=STREAM)


def piece(index: int | None, id_: str | None = None, name: str | None = None, arguments: Any = None) -> Any:
    call: dict[str, Any] = {"type": "function", "function": {"name": name, "arguments": arguments}}
    call |= {} if index is None else {"index": index}
    call |= {} if id_ is None else {"id": id_}
    return {"tool_calls": [call]}


A, B = '{"a": 1, "b": 1}', '{"a": 2, "b": 2}'
GAPS = [piece(5, "x", "add", ""), piece(9, "y", "add", B), piece(5, None, None, A)]
SAME_INDEX = [piece(0, "x", "add", A), piece(0, "y", "add", B)]
NO_INDEX = [
    {"tool_calls": [*piece(None, "x", "add", A)["tool_calls"], *piece(None, "y", "add", B)["tool_calls"]]}
]
SAME_ID = [piece(0, "x", "add", A), piece(1, "x", "add", B)]
NO_ID = [piece(0, None, "add", A), piece(1, None, "add", B)]
OBJECTS = [piece(0, "x", "add", json.loads(A)), piece(1, "y", "add", json.loads(B))]


@pytest.mark.parametrize(
    ("pieces", "ids"),
    [
        (GAPS, ["x", "y"]),
        (SAME_INDEX, ["x", "y"]),
        (NO_INDEX, ["x", "y"]),
        (SAME_ID, ["x", "call_1_2"]),
        (NO_ID, ["call_0", "call_1"]),
        (OBJECTS, ["x", "y"]),
    ],
    ids=["gaps", "one index", "no index", "one id", "no id", "objects"],
)
def test_calls_are_put_together_however_a_service_numbers_them(
    monkeypatch: pytest.MonkeyPatch, pieces: list[dict[str, Any]], ids: list[str]
) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.add(streamed(*pieces))
        server.say("2 and 4.")
        driven = await host.drive(LocalAgent, "go", config=MAIN, tools={"add": add})
        assert (driven.status, driven.text) == ("completed", "2 and 4.")
        assert made(driven) == [("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2})]
        asked, *results = server.requests[1].json["messages"][2:]
        assert [call["id"] for call in asked["tool_calls"]] == ids
        assert [(m["tool_call_id"], m["content"]) for m in results] == list(zip(ids, "24", strict=True))

    served(monkeypatch, test)


@pytest.mark.parametrize(
    "garbage", ['{"a": 1, "b": 1', '{"a": 1}{"b": 1}', "a=1, b=1", "[1, 1]", '"{"', "\x00"]
)
def test_arguments_that_are_garbage_are_told_and_not_sent_back(
    monkeypatch: pytest.MonkeyPatch, garbage: str
) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.add(streamed(piece(0, "x", "add", garbage[:3]), piece(0, None, None, garbage[3:])))
        server.add(streamed(piece(0, "y", "add", A)))
        server.say("2.")
        driven = await host.drive(LocalAgent, "go", config=MAIN, tools={"add": add})
        assert (driven.status, driven.text) == ("completed", "2.")
        assert made(driven) == [("add", {"a": 1, "b": 1})]
        asked, told = server.requests[1].json["messages"][-2:]
        assert asked["tool_calls"][0]["function"]["arguments"] == "{}"
        assert told["content"].startswith("Error (invalid_argument): the arguments")

    served(monkeypatch, test)


def test_a_service_that_asks_for_a_long_pause_makes_room_for_the_next_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.fail(429, "slow down", {"retry-after": "90"}, model="main")
        server.say("At once.", model="spare")
        driven = await host.drive(LocalAgent, "go", config=BOTH)
        assert driven.text == "At once."
        assert [request.json["model"] for request in server.requests] == ["main", "spare"]
        server.fail(429, "slow down", {"retry-after": "90"})
        alone = await host.drive(LocalAgent, "go", config=MAIN)
        assert (alone.status, alone.code) == ("failed", "local-agent.rate_limited")
        assert len(server.requests) == 3

    served(monkeypatch, test)


def test_what_a_service_does_not_tell_of_its_tokens_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.say("Free of charge?", usage=None)
        driven = await host.drive(LocalAgent, "go", config=MAIN)
        assert (driven.text, driven.usage) == ("Free of charge?", None)
        server.add(Answer(tool_calls=[CALL], finish_reason="tool_calls", usage={"prompt_tokens": 5}))
        server.say("3")
        driven = await host.drive(LocalAgent, "go", config=MAIN, tools={"add": add})
        assert driven.usage is not None
        assert (driven.usage.input_tokens, driven.usage.output_tokens) == (16, None)

    served(monkeypatch, test)


def test_an_answer_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.say(["ab" * 60_000] * 20)
        driven = await host.drive(LocalAgent, "go", config=BOTH)
        assert (driven.status, driven.code) == ("failed", "local-agent.model_error")
        assert "more than 786,432 bytes in one answer; set its `max_tokens`" in (driven.error or "")
        assert not driven.messages
        assert len(server.requests) == 1

    served(monkeypatch, test)


def test_a_model_that_never_stops_calling_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last round it is told so and may not call; what it wishes for all the same is not made."""

    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.always(lambda request: Answer(tool_calls=[CALL], finish_reason="tool_calls"))
        config = MAIN | {"max-tool-iterations": 3}
        driven = await host.drive(LocalAgent, "go", config=config, tools={"add": add})
        assert (driven.status, driven.code) == ("failed", "local-agent.tool_limit")
        assert "raise config `max-tool-iterations`" in (driven.error or "")
        assert len(made(driven)) == 3
        choices = [request.json.get("tool_choice") for request in server.requests]
        assert choices == [None, None, None, "none", "none"]
        assert "`max-tool-iterations` of this run is reached" in server.requests[-1].last_text

    served(monkeypatch, test)
