"""The LangGraph interface with its official client: approvals, questions, tools of the client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk.errors import BadRequestError, ConflictError, NotFoundError

from hostler.tools.schema import ToolSchema
from hostler_protocol.errors import InvalidArgumentError
from support.dialects.langgraph import (
    AGENT,
    collect,
    interrupts_of,
    langgraph,
    last_values,
    plain,
    said,
    texts_of,
)
from support.http_host import WORKSPACE, Served

WEATHER = {
    "name": "weather",
    "description": "Tells the weather where the user is",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ORDER: list[Any] = ["tool", "player.order", {"thing": "茶", "count": 2}, "o"]


async def waiting(client: Any, thread_id: str, *steps: list[Any], **more: Any) -> list[dict[str, Any]]:
    """Take steps up to where the run waits; the interrupts."""
    modes = ["values", "updates"]
    parts = await collect(client.runs.stream(thread_id, AGENT, input=said(*steps, **more), stream_mode=modes))
    found = interrupts_of(parts)
    (update,) = [part.data for part in parts if part.event == "updates" and "__interrupt__" in part.data]
    assert update["__interrupt__"] == found
    run = await client.runs.get(thread_id, parts[0].data["run_id"])
    assert run["status"] == "success"
    thread = await client.threads.get(thread_id)
    assert thread["status"] == "interrupted"
    assert [one for task in thread["interrupts"].values() for one in task] == found
    state = await client.threads.get_state(thread_id)
    assert state["next"] == ["agent"]
    assert state["tasks"][0]["interrupts"] == found
    return found


async def resume(client: Any, thread_id: str, value: Any) -> Any:
    """Resume a thread; the state at the end."""
    return await client.runs.wait(thread_id, AGENT, command={"resume": value})


@pytest.mark.shows("langgraph", "approval", "unicode")
async def test_an_approval_in_the_words_of_its_middleware(served: Served) -> None:
    async with langgraph(served.url) as client:
        (interrupt,) = await waiting(client, "t", ["say", "One moment."], ORDER, ["say", "Bye."])
        (request,) = interrupt["value"]["action_requests"]
        assert request["name"] == "player.order"
        assert request["args"] == {"thing": "茶", "count": 2}
        assert interrupt["value"]["review_configs"][0]["allowed_decisions"] == ["approve", "reject"]
        assert len(interrupt["value"]["hostler"]["args_hash"]) == 64
        # while it waits a message is refused, and says what it waits for
        with pytest.raises(ConflictError, match=interrupt["id"]):
            await client.runs.create("t", AGENT, input=plain("and?"))
        answer = {"decisions": [{"type": "approve"}]}
        parts = await collect(
            client.runs.stream(
                "t", AGENT, command={"resume": answer}, stream_mode=["values", "messages-tuple"]
            )
        )
        assert parts[0].data["run_id"].endswith(tuple("0123456789"))
        assert texts_of(last_values(parts)) == ["One moment.", 'player.order: "ordered 2 茶"', "Bye."]
        # the same decision again, by the interrupt's id, changes nothing and shows the same
        again = await resume(client, "t", {interrupt["id"]: answer})
        assert again == last_values(parts)
        with pytest.raises(Exception, match="already"):
            await resume(client, "t", {interrupt["id"]: {"decisions": [{"type": "reject"}]}})
        assert (await client.threads.get("t"))["status"] == "idle"
        with pytest.raises(Exception, match="nothing waits"):
            await resume(client, "t", True)


async def test_denials(served: Served) -> None:
    denials: list[Any] = [
        {"decisions": [{"type": "reject", "message": "too much"}]},
        [{"type": "ignore"}],
        [{"type": "response", "args": "too much"}],
        {"approved": False},
        False,
    ]
    async with langgraph(served.url) as client:
        for place, value in enumerate(denials):
            await waiting(client, f"t{place}", ORDER)
            done = await resume(client, f"t{place}", value)
            assert "failed" in texts_of(done)[-1], value
            assert done["messages"][-2]["status"] == "error", value


async def test_what_decides_nothing_changes_nothing(served: Served) -> None:
    async with langgraph(served.url) as client:
        (interrupt,) = await waiting(client, "t", ORDER)
        stale = interrupt["id"].rpartition(".")[0] + "." + "0" * 16
        for value, words in (
            ("perhaps", "decides nothing"),
            ({"decisions": [{"type": "edit"}]}, "whole arguments"),
            ({stale: True}, "other arguments"),
            ({"call_x_y.0": True}, "no run"),
        ):
            with pytest.raises(Exception, match=words):
                await resume(client, "t", value)
        with pytest.raises(NotFoundError):
            await client.runs.create("other", AGENT, command={"resume": {interrupt["id"]: True}})
        reader = await served.key(WORKSPACE, "runs:read", "conversations:read", "events:write")
        async with langgraph(served.url, reader) as other:
            with pytest.raises(Exception, match="pauses:write"):
                await resume(other, "t", {interrupt["id"]: True})
        assert (await client.threads.get("t"))["status"] == "interrupted"
        await resume(client, "t", True)


@pytest.mark.shows("langgraph", "question")
async def test_a_question(served: Served) -> None:
    async with langgraph(served.url) as client:
        (interrupt,) = await waiting(client, "t", ["ask", "多大?"])
        assert interrupt["value"]["question"] == "多大?\nIt is cold."
        assert interrupt["response_schema"]["properties"]["size"]["enum"] == ["s", "xl"]
        with pytest.raises(Exception, match="size"):
            await resume(client, "t", {"size": "m"})
        done = await resume(client, "t", "xl")  # the only field
        assert texts_of(done) == ['answered: {"size": "xl"}']


@pytest.mark.shows("langgraph", "client-tools")
async def test_tools_of_the_client_several_at_once(served: Served) -> None:
    calls = [["tool", "weather", {"city": city}, "w"] for city in ("北京", "Paris")]
    async with langgraph(served.url) as client:
        steps = (["delta", "Let me "], ["together", calls], ["say", "Done."])
        first, second = await waiting(client, "t", *steps, tools=[WEATHER])
        assert first["value"]["type"] == "tool"
        assert first["value"]["toolCall"]["args"] == {"city": "北京"}
        with pytest.raises(Exception, match="key the values"):
            await resume(client, "t", "sun")
        # one is not enough: the run still waits for the other
        parts = await collect(
            client.runs.stream("t", AGENT, command={"resume": {first["id"]: {"sky": "晴"}}})
        )
        assert interrupts_of(parts) == [second]
        # a headless tool's answer, keyed by its call, with what went wrong
        call_id = second["value"]["toolCall"]["id"]
        done = await resume(client, "t", {call_id: {"error": "no such city"}})
        assert texts_of(done)[-1] == "Done."
        results = {one["tool_call_id"]: one for one in done["messages"] if one["type"] == "tool"}
        assert '{"sky":"晴"}' in results[first["value"]["toolCall"]["id"]]["content"]
        assert "no such city" in results[call_id]["content"]
        assert results[call_id]["status"] == "error"


async def test_tools_in_the_form_of_openai_and_bad_ones(served: Served) -> None:
    async with langgraph(served.url) as client:
        calls = [["tool", "weather", {"city": city}, city] for city in "ab"]
        tool = {"type": "function", "function": WEATHER}
        first, second = await waiting(client, "t", ["together", calls], tools=[tool])
        answers = {
            one["id"]: {one["value"]["toolCall"]["id"]: "sun"} for one in (first, second)
        }  # as headless tools of a page answer a batch
        done = await resume(client, "t", answers)
        assert [one["content"] for one in done["messages"] if one["type"] == "tool"] == ["sun", "sun"]
        bad: list[Any] = ["x", [{}], [{"name": 1}]]
        for tools in bad:
            with pytest.raises(BadRequestError, match=r"input\.tools"):
                await client.runs.create("u", AGENT, input=said(["say", "x"], tools=tools))


async def test_a_stateless_run_that_waits_goes_on_in_its_thread(served: Served) -> None:
    async with langgraph(served.url) as client:
        begun: list[Any] = []
        values = await client.runs.wait(None, AGENT, input=said(ORDER), on_run_created=begun.append)
        (interrupt,) = values["__interrupt__"]
        done = await resume(client, begun[0]["thread_id"], {interrupt["id"]: True})
        assert "ordered 2 茶" in texts_of(done)[-1]


async def test_a_call_in_doubt_offers_what_it_takes(served: Served, tmp_path: Path) -> None:
    made = {"path": str(tmp_path / "made")}
    async with langgraph(served.url) as client:
        (interrupt,) = await waiting(client, "t", ["tool", "player.vanish", made, "v"], ["say", "Bye."])
        value, schema = interrupt["value"], ToolSchema(interrupt["response_schema"])
        assert value.keys() == {"question", "response_schema", "tool", "hostler"}
        assert value["response_schema"] == interrupt["response_schema"]
        assert value["question"].startswith("Did player.vanish do its work?")
        assert value["tool"] == {"name": "player.vanish", "args": made}
        for refused in ({"decisions": [{"type": "approve"}]}, {"approved": True}, {"happened": "yes"}, True):
            with pytest.raises(InvalidArgumentError):
                schema.check(refused, "resume")
            with pytest.raises(Exception, match="may have been made"):
                await resume(client, "t", refused)
        answer = {"happened": True, "result": "as said"}
        schema.check(answer, "resume")
        done = await resume(client, "t", answer)
        assert texts_of(done) == ['player.vanish: "as said"', "Bye."]
