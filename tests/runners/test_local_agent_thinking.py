"""local-agent with thinking models: each round gives back what they gave, and people see none of it."""

from __future__ import annotations

import msgspec
import pytest
from local_agent.agent import LocalAgent

from hostler_sdk.testing import Driven, ScriptedHost
from support.local_agents import BOTH, MAIN, served
from support.model_answers import Answer, Recorded
from support.model_server import ModelServer
from support.thinking import ANTHROPIC, DEEPSEEK, FINAL, GEMINI, SERVICES, Service, of, refused, spoken


def add(a: int, b: int) -> int:
    return a + b


def shown(driven: Driven) -> str:
    """Everything that people may see of a run."""
    return msgspec.json.encode([result.data for result in driven.results]).decode()


@pytest.mark.parametrize("mode", ["parallel", "serial"])
@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_a_loop_of_tools(monkeypatch: pytest.MonkeyPatch, service: Service, mode: str) -> None:
    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.always(of(service))
        config = MAIN | {"tool-execution-mode": mode}
        driven = await host.drive(LocalAgent, "sums", config=config, tools={"add": add})
        assert (driven.status, driven.error) == ("completed", None)
        assert driven.text == FINAL
        assert len(server.requests) == 3
        for hidden in ("Two sums", "signature", "thinking", "EjQK", "EqoB", "reasoning"):
            assert hidden not in shown(driven)
        assert [item.message.content for item in host.world.history] == ["sums", FINAL]

    served(monkeypatch, test)


def test_it_goes_back_with_what_arrives_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer that was meant to be the last one keeps its thinking too."""

    async def test(server: ModelServer, host: ScriptedHost) -> None:
        thought = {"role": "assistant", "content": "7.", "reasoning_content": "Easy."}
        server.add(Answer(deltas=[{**thought, "odd": {"signature": "S"}}]))
        server.say("8.")
        host.world.arrive("and one more?")
        driven = await host.drive(LocalAgent, "sums", config=MAIN)
        assert driven.text == "7.\n8."
        assert server.sent()[2] == {**thought, "odd": {"signature": "S"}}

    served(monkeypatch, test)


def test_every_part_of_an_answer_with_many_calls_says_that_it_was_thought(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More calls than one message may hold are several messages, and DeepSeek wants thinking with each."""

    async def test(server: ModelServer, host: ScriptedHost) -> None:
        call = DEEPSEEK.rounds[0].message["tool_calls"][0]
        many = [{**call, "index": n, "id": f"c{n}"} for n in range(130)]
        server.add(Answer(deltas=[{"reasoning_content": "Many."}, {"tool_calls": many}]))
        server.say("ok")
        await host.drive(LocalAgent, "sums", config=MAIN, tools={"add": add})
        said = [m["reasoning_content"] for m in server.sent() if m["role"] == "assistant"]
        assert said == ["Many.", ""]

    served(monkeypatch, test)


def test_the_next_model_gets_nothing_of_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(request: Recorded) -> str | Answer:
        if request.json["model"] == "main":
            messages = request.json["messages"]
            return spoken(GEMINI.rounds[0]) if len(messages) == 2 else Answer(status=500, body=b"{}")
        return "It is 7."

    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.always(failing)
        driven = await host.drive(LocalAgent, "sums", config=BOTH, tools={"add": add})
        assert driven.text == "It is 7."
        assert "extra_content" not in str(server.sent())
        assert "extra_content" in str(server.sent(1))

    served(monkeypatch, test)


def test_the_next_model_may_think_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(request: Recorded) -> str | Answer:
        messages = request.json["messages"]
        if request.json["model"] == "main":
            return spoken(ANTHROPIC.rounds[0]) if len(messages) == 2 else Answer(status=500, body=b"{}")
        if any(m.get("tool_calls") and not m.get("reasoning_content") for m in messages):
            return refused(DEEPSEEK.refusal)
        return "It is 7."

    async def test(server: ModelServer, host: ScriptedHost) -> None:
        server.always(failing)
        driven = await host.drive(LocalAgent, "sums", config=BOTH, tools={"add": add})
        assert driven.text == "It is 7."

    served(monkeypatch, test)


def test_what_goes_back_counts_against_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thinking of earlier rounds takes room; where there is none, whole rounds are left out, never parts."""
    long = "thought " * 2_000

    def endless(request: Recorded) -> str | Answer:
        messages = request.json["messages"]
        asked = [m for m in messages if m.get("tool_calls")]
        assert all(m["reasoning_content"] == long for m in asked)
        assert len(str(messages)) < 60_000
        if "The end" in str(messages):
            return FINAL
        call = DEEPSEEK.rounds[0].message["tool_calls"][0]
        number = len(server_.requests)
        named = {**call, "index": 0, "id": f"c{number}"}
        return Answer(deltas=[{"reasoning_content": long}, {"tool_calls": [named]}])

    server_: ModelServer

    async def test(server: ModelServer, host: ScriptedHost) -> None:
        nonlocal server_
        server_ = server
        server.always(endless)
        config = MAIN | {"context-window-tokens": 12_000, "context-reserve-tokens": 2_000}
        tools = {"add": lambda a, b: "The end" if len(server.requests) == 8 else "on"}
        driven = await host.drive(LocalAgent, "sums", config=config, tools=tools)
        assert (driven.text, driven.error) == (FINAL, None)
        assert "rounds of tool calls are not repeated" in server.sent()[0]["content"]

    served(monkeypatch, test)
