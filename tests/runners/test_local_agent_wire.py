"""local-agent through the host's own provider against a service on a socket: what goes over the wire."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from local_agent.agent import LocalAgent

from hostler_sdk.errors import Denied, RuntimeFailure
from hostler_sdk.testing import ScriptedHost
from support.local_agents import BOTH, MAIN, deltas, logs, made, served
from support.model_answers import Answer
from support.model_server import ModelServer

Call = dict[str, Any]


def call(id_: str | None, name: str, arguments: Any = None) -> Call:
    """A tool call as the service writes it; arguments that are text go as they are."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {"id": id_, "name": name, "arguments": text}


def calls(*of: Call, **more: Any) -> Answer:
    return Answer(tool_calls=list(of), finish_reason="tool_calls", **more)


def add(a: int, b: int) -> int:
    return a + b


@pytest.mark.parametrize("mode", ["parallel", "serial"])
@pytest.mark.parametrize("split", [None, 1])
def test_a_round_of_tools(monkeypatch: pytest.MonkeyPatch, mode: str, split: int | None) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.add(
            calls(
                call("c1", "math_add", {"a": 1, "b": 2}),
                call("c2", "math_add", {"a": 3, "b": 4}),
                pieces=["Let me see."],
                split=split,
            )
        )
        server.say("3 and 7.")
        config = MAIN | {"tool-execution-mode": mode}
        driven = await host.drive(LocalAgent, "add", config=config, tools={"math.add": add})
        assert driven.text == "Let me see.\n3 and 7."
        offered = server.requests[0].json["tools"]
        assert [tool["function"]["name"] for tool in offered] == ["math_add"]
        assert server.requests[1].json["tools"] == offered
        assert server.sent()[2:] == [
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {
                        "id": id_,
                        "type": "function",
                        "function": {"name": "math_add", "arguments": arguments},
                    }
                    for id_, arguments in (("c1", '{"a":1,"b":2}'), ("c2", '{"a":3,"b":4}'))
                ],
            },
            {"role": "tool", "content": "3", "tool_call_id": "c1"},
            {"role": "tool", "content": "7", "tool_call_id": "c2"},
        ]

    served(monkeypatch, test)


def test_a_failing_tool_and_one_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.add(calls(call("c1", "broken"), call("c2", "asked")))
        server.say("Neither worked.")
        tools = {"broken": RuntimeFailure("the printer is on fire"), "asked": Denied("no")}
        driven = await host.drive(LocalAgent, "print", config=MAIN, tools=tools)
        assert driven.text == "Neither worked."
        first, second = server.sent()[3:]
        assert first["content"] == "Error (runtime_error): the printer is on fire"
        assert "a person refused" in second["content"]
        assert [first["tool_call_id"], second["tool_call_id"]] == ["c1", "c2"]

    served(monkeypatch, test)


def test_a_message_between_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.add(calls(call("c1", "look")))
        server.say("Noted.")
        host.world.script(tools={"look": lambda: host.world.arrive("stop looking")})
        await host.drive(LocalAgent, "look", config=MAIN)
        assert [m["role"] for m in server.sent()] == ["system", "user", "assistant", "tool", "user"]
        assert server.sent()[-1]["content"] == "stop looking"

    served(monkeypatch, test)


@pytest.mark.parametrize(
    ("asked", "made_calls", "ids"),
    [
        ([call(None, "add", {"a": 1, "b": 1})], 1, ["call_0"]),
        ([call("x", "add", {"a": 1, "b": 1}), call("x", "add", {"a": 2, "b": 1})], 2, ["x", "call_1_2"]),
        ([call("x", "nothing")], 0, ["x"]),
        ([call("x", "add", '{"a": 1')], 0, ["x"]),
        ([call("x", "add", '{"a": "' + "y" * 300_000 + '"}')], 0, ["x"]),
        ([call("x", "", {})], 0, ["x"]),
    ],
)
def test_calls_that_a_model_writes_badly(
    monkeypatch: pytest.MonkeyPatch, asked: list[Call], made_calls: int, ids: list[str]
) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.add(calls(*asked))
        server.say("ok")
        driven = await host.drive(LocalAgent, "go", config=MAIN, tools={"add": add})
        assert (driven.status, driven.text) == ("completed", "ok")
        assert len(made(driven)) == made_calls
        assistant, *results = server.sent()[2:]
        assert [c["id"] for c in assistant["tool_calls"]] == ids
        assert [m["tool_call_id"] for m in results] == ids
        assert all(json.loads(c["function"]["arguments"]) is not None for c in assistant["tool_calls"])
        assert len(server.requests[1].body) < 10_000

    served(monkeypatch, test)


def test_a_stream_that_is_cut_in_the_middle_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was shown: the next model answers. No half call is made."""

    async def test(server: ModelServer, host: ScriptedHost) -> None:
        cut = calls(call("c1", "add", {"a": 1, "b": 2}), cut_after=600)
        server.add(cut, model="main")
        server.say("From the other.", model="spare")
        driven = await host.drive(LocalAgent, "go", config=BOTH, tools={"add": add})
        assert driven.text == "From the other."
        assert made(driven) == []
        assert "'main' failed" in logs(driven)

        server.add(
            calls(call("c2", "add", {"a": 1, "b": 2}), pieces=["I will "], cut_after=600), model="main"
        )
        shown = await host.drive(LocalAgent, "go", config=BOTH)
        assert (shown.status, shown.code) == ("failed", "local-agent.model_error")
        assert deltas(shown) == ["I will "]
        assert made(shown) == []

    served(monkeypatch, test)


def test_a_dead_model_is_not_asked_again_in_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.fail(401, "no such key", model="main")
        server.add(calls(call("c1", "add", {"a": 1, "b": 2})), model="spare")
        server.say("3", model="spare")
        driven = await host.drive(LocalAgent, "go", config=BOTH, tools={"add": add})
        assert driven.text == "3"
        assert [request.json["model"] for request in server.requests] == ["main", "spare", "spare"]

    served(monkeypatch, test)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "This model's maximum context length is 4096 tokens, however you requested 9000",
            "context_length_exceeded",
        ),
        ("prompt is too long: 9000 tokens > 4096 maximum", None),
        ("the input length exceeds the context length", None),
        ("The decoder prompt (length 9000) is longer than the maximum model length of 4096.", None),
    ],
)
def test_an_overflow_is_answered_with_less(
    monkeypatch: pytest.MonkeyPatch, text: str, code: str | None
) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        for number in range(40):
            host.world.remember("user" if number % 2 == 0 else "assistant", f"m{number} " + "word " * 200)
        server.fail(400, text, code=code)
        server.say("The notes.")
        server.say("Made it.")
        driven = await host.drive(LocalAgent, "go", config=MAIN)
        assert driven.text == "Made it."
        whole, notes, less = (request.json["messages"] for request in server.requests)
        assert len(whole) == 42
        assert notes[0]["content"].startswith("You keep the notes")
        assert len(str(less)) < len(str(whole)) * 0.7
        assert "The notes." in less[0]["content"]
        assert less[-1] == {"role": "user", "content": "go"}
        # the next turn stands on the notes from its beginning
        server.say("And again.")
        await host.drive(LocalAgent, "on", config=MAIN)
        assert "The notes." in server.sent()[0]["content"]
        assert len(server.requests) == 4

    served(monkeypatch, test)


def test_pictures_go_with_the_message_and_stay_in_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.always("A cat.")
        url = "https://pics.example/cat.png"
        given = {
            "text": "what is it?",
            "contents": [
                {"type": "text", "text": "what is it?"},
                {"type": "image_url", "image_url": {"url": url}},
            ],
        }
        await host.drive(LocalAgent, given, config=MAIN)
        parts = server.sent()[-1]["content"]
        assert parts == [
            {"type": "text", "text": "what is it?"},
            {"type": "image_url", "image_url": {"url": url}},
        ]

    served(monkeypatch, test)


def test_many_runs_at_once_keep_to_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        def reply(request: Any) -> Answer:
            last = request.json["messages"][-1]
            if last["role"] == "tool":
                return Answer(pieces=[f"It is {last['content']}."])
            return calls(call("c", "add", {"a": int(last["content"]), "b": 1}))

        server.always(reply)
        hosts = [ScriptedHost(models={"main": ""}, tools={"add": add}) for _ in range(12)]
        runs = [h.drive(LocalAgent, str(n), config=MAIN) for n, h in enumerate(hosts)]
        assert [d.text for d in await asyncio.gather(*runs)] == [f"It is {n + 1}." for n in range(12)]

    served(monkeypatch, test)
