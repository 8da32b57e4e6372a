"""What is the LangGraph server's own: graphs that ask, and streams that end without an event for it."""

from __future__ import annotations

from typing import Any

import pytest
from hostler_langgraph.runner import LangGraph

from hostler_sdk.testing import Driven, ScriptedHost
from support.local_agents import deltas, logs
from support.services.langgraph import (
    GRAPH,
    KEY,
    THREAD,
    FakeLangGraph,
    events,
    interrupted,
    updates,
)
from support.services.langgraph_wire import ai, chunk, event, message, metadata, values
from support.services.pausing import RUN, answered, decision, go_on, pending
from support.services.server import Answer

FIRST, SECOND = f"{1:032x}", f"{2:032x}"
CALL = {"name": "web_search", "args": {"query": "天气"}, "id": "t-1", "type": "tool_call"}


def settings(fake: FakeLangGraph, **config: Any) -> dict[str, Any]:
    return {"base-url": fake.address, "api-key": KEY, "assistant-id": GRAPH, **config}


async def ask(
    fake: FakeLangGraph, given: Any = "Hi", host: ScriptedHost | None = None, **config: Any
) -> Driven:
    driver = host or ScriptedHost()
    return await driver.drive(LangGraph, given, config=settings(fake, **config), context={"run_id": RUN})


def review(name: str, *allowed: str) -> dict[str, Any]:
    return {"action_name": name, "allowed_decisions": [*allowed]}


# -- questions ---------------------------------------------------------------------------------------


async def test_a_question_pauses_the_run_and_its_answer_resumes_the_thread() -> None:
    host = ScriptedHost()
    async with FakeLangGraph() as fake:
        question = {"question": "哪个城市?", "why": "there are two"}
        fake.next(events(metadata(), chunk("Wait."), interrupted(question)))
        paused = await ask(fake, "Book a room", host)
        (call,) = pending(paused)
        assert (call.kind, call.title, call.description) == (
            "question",
            "哪个城市?",
            '{\n "why": "there are two"\n}',
        )
        assert [(field.name, field.type) for field in call.schema] == [("answer", "textarea")]
        assert paused.text == "Wait."
        fake.next(events(metadata(), chunk("Booked."), updates(messages=[ai("Booked.")])))
        driven = await go_on(LangGraph, settings(fake), paused, answered(FIRST, "里斯本"), host=host)
        assert (driven.status, driven.text) == ("completed", "Booked.")
        first, second = fake.messages
        assert "command" not in first
        assert (second["command"], second["thread"]) == ({"resume": {FIRST: "里斯本"}}, THREAD)
        assert "input" not in second


async def test_questions_one_after_the_other_and_beside_each_other() -> None:
    host = ScriptedHost()
    async with FakeLangGraph() as fake:
        fake.next(events(metadata(), interrupted("Where?", {"title": "When?", "actions": ["now", "later"]})))
        paused = await ask(fake, host=host)
        where, when = pending(paused)
        assert (where.title, when.schema[0].type, when.schema[0].options) == (
            "Where?",
            "select",
            ["now", "later"],
        )
        fake.next(events(metadata(), interrupted("Sure?")))
        both = answered(FIRST, "there"), answered(SECOND, "now")
        again = await go_on(LangGraph, settings(fake), paused, *both, host=host)
        assert fake.messages[1]["command"] == {"resume": {FIRST: "there", SECOND: "now"}}
        (sure,) = pending(again)
        driven = await go_on(
            LangGraph, settings(fake), again, answered(sure.call_id, "yes"), host=host, attempt=3
        )
        assert driven.text == "ok"
        assert len(fake.messages) == 3


@pytest.mark.parametrize("outcome", ["expired", "denied", "cancelled"])
async def test_a_question_that_nobody_answers_ends_the_run_and_nothing_is_sent(outcome: str) -> None:
    async with FakeLangGraph() as fake:
        fake.next(events(metadata(), interrupted("Where?")))
        paused = await ask(fake)
        no = decision(FIRST, outcome, comment="not today")
        driven = await go_on(LangGraph, settings(fake), paused, no)
        assert driven.code == "langgraph.unanswered"
        assert f"it was {outcome}: not today. Ask again" in str(driven.error)
        assert len(fake.messages) == 1


async def test_an_answer_is_sent_once_whatever_dies() -> None:
    host = ScriptedHost()
    async with FakeLangGraph() as fake:
        fake.next(events(metadata(), interrupted("Where?")))
        paused = await ask(fake, host=host)
        yes = answered(FIRST, "there")
        late = await go_on(LangGraph, settings(fake), paused, yes, host=host, attempt=3)
        assert late.text == "ok"  # an attempt before it was lost, but had not sent it
        driven = await go_on(LangGraph, settings(fake), paused, yes, host=host, attempt=4)
        assert driven.code == "langgraph.already_sent"
        assert len(fake.messages) == 2


async def test_a_question_without_a_conversation() -> None:
    nowhere = {"conversation": None}
    async with FakeLangGraph() as fake:
        fake.next(events(metadata(), interrupted("Where?")))
        paused = await ScriptedHost().drive(
            LangGraph, "Hi", config=settings(fake), context={"run_id": RUN, **nowhere}
        )
        assert pending(paused)
        assert fake.threads == {THREAD}  # it is gone on with
        driven = await go_on(LangGraph, settings(fake), paused, answered(FIRST, "there"), context=nowhere)
        assert (driven.text, fake.threads) == ("ok", set())
        assert fake.messages[1]["thread"] == THREAD


async def test_an_older_server_gives_no_ids() -> None:
    async with FakeLangGraph() as fake:
        waits = event("updates", {"__interrupt__": [{"value": "Where?", "resumable": True, "ns": ["a:1"]}]})
        fake.next(events(metadata(), waits))
        paused = await ask(fake)
        (call,) = pending(paused)
        assert (await go_on(LangGraph, settings(fake), paused, answered(call.call_id, "there"))).text == "ok"
        assert fake.messages[1]["command"] == {"resume": "there"}


async def test_a_state_of_another_version_is_told() -> None:
    async with FakeLangGraph() as fake:
        context = {"attempt": 2, "continuation": {"state": {"old": 1}, "decisions": []}}
        driven = await ScriptedHost().drive(LangGraph, "Hi", config=settings(fake), context=context)
        assert (driven.code, fake.asked) == ("langgraph.unanswered", [])


# -- tools that wait for approvals -------------------------------------------------------------------


async def test_tools_wait_for_approvals() -> None:
    mail = {"name": "mail", "args": {"to": "ada"}, "description": "Send a mail"}
    drop = {"name": "drop", "args": {"table": "t"}}
    wait = {"name": "wait", "args": {"days": 1}}
    reviews = [
        review("mail", "approve", "edit"),
        review("drop", "approve", "reject"),
        review("wait", "approve"),
    ]
    async with FakeLangGraph() as fake:
        fake.next(
            events(
                metadata(), interrupted({"action_requests": [mail, drop, wait], "review_configs": reviews})
            )
        )
        paused = await ask(fake)
        calls = pending(paused)
        assert [(c.tool_name, c.kind, c.editable, c.executor) for c in calls] == [
            ("mail", "approval", True, "runner"),
            ("drop", "approval", False, "runner"),
            ("wait", "approval", False, "runner"),
        ]
        assert calls[0].description == "Send a mail"
        decisions = [
            decision(calls[0].call_id, "approved", arguments={"to": "bob"}),
            decision(calls[1].call_id, "expired"),
            decision(calls[2].call_id, "approved", arguments={"days": 1}),
        ]
        assert (await go_on(LangGraph, settings(fake), paused, *decisions)).text == "ok"
        assert fake.messages[1]["command"]["resume"] == {
            FIRST: {
                "decisions": [
                    {"type": "edit", "edited_action": {"name": "mail", "args": {"to": "bob"}}},
                    {"type": "reject", "message": "The approval was expired."},
                    {"type": "approve"},
                ]
            }
        }


async def test_people_answer_in_the_place_of_a_tool() -> None:
    request = {"name": "ask_user", "args": {"hint": "城市"}, "description": "Where?"}
    value = {"action_requests": [request], "review_configs": [review("ask_user", "respond")]}
    async with FakeLangGraph() as fake:
        fake.next(events(metadata(), interrupted(value)))
        paused = await ask(fake)
        (call,) = pending(paused)
        assert (call.kind, call.title) == ("question", "Where?")
        await go_on(LangGraph, settings(fake), paused, answered(call.call_id, "there"))
        told = {"decisions": [{"type": "respond", "message": "there"}]}
        assert fake.messages[1]["command"]["resume"] == {FIRST: told}


# -- the end of a stream, and what is the answer -----------------------------------------------------


async def test_a_stream_that_ends_is_complete_only_if_the_run_is() -> None:
    sent = metadata(), chunk("So.")
    async with FakeLangGraph() as fake:
        fake.statuses = ["running", "success"]
        fake.next(events(*sent))
        assert (await ask(fake)).text == "So."
        for status in ("error", "timeout", "interrupted"):
            fake.statuses = [status]
            fake.next(events(*sent))
            driven = await ask(fake)
            assert driven.code == "langgraph.stream_broken"
            assert f"the run ended there as {status}" in logs(driven)
        fake.statuses = ["success"]
        fake.next(events(chunk("nobody knows of which run")))
        assert (await ask(fake)).code == "langgraph.stream_broken"
        fake.next(events(*sent, event("end", None)))  # an older server
        assert (await ask(fake)).text == "So."


async def test_the_answer_is_the_last_message_of_the_graph() -> None:
    found = message("tool", "晴", id="m-1", name="web_search", tool_call_id="t-1", status="error")
    async with FakeLangGraph() as fake:
        fake.next(
            events(
                metadata(),
                updates(messages=[ai("Let me look.", "a-1", tool_calls=[CALL])]),
                updates("tools", messages=[found]),
                updates("trim", messages=[message("remove", "", id="all"), ai("Old.", "a-0")]),
                updates("agent", messages=ai([{"type": "text", "text": "Sunny."}], "a-2")),
                event("updates", {"quiet": None, "twice": [{"x": 1}, {"messages": []}]}),
            )
        )
        driven = await ask(fake)
        assert (driven.text, deltas(driven)) == ("Sunny.", [])
        assert driven.usage is not None
        assert driven.usage.total_tokens == 36
        (tool,) = [r.data for r in driven.results if r.type == "tool.call.completed"]
        assert (tool.tool_name, tool.error) == ("web_search", "晴")  # type: ignore[union-attr]


async def test_a_graph_without_messages() -> None:
    config: dict[str, Any] = {"input-key": "topic", "output-key": "report"}
    async with FakeLangGraph() as fake:
        fake.next(events(metadata(), updates(messages=[ai("thinking")]), updates("w", report="Short.")))
        assert (await ask(fake, "Lisbon", **config)).text == "Short."
        assert fake.messages[0]["input"] == {"topic": "Lisbon"}
        fake.next(events(metadata(), updates("w", report={"深": 1})))
        assert (await ask(fake, **config)).text == '{"深":1}'
        pdf = {
            "text": "See",
            "contents": [{"type": "file_base64", "file_base64": "AAE=", "file_name": "a.pdf"}],
        }
        assert (await ask(fake, pdf, **config)).code == "langgraph.file_invalid"


async def test_values_of_a_server_that_streams_them() -> None:
    async with FakeLangGraph() as fake:
        fake.statuses = ["success"]
        before = [message("human", "Hi", id="h-0"), ai("Old.", "a-0"), message("human", "And?", id="h-1")]
        fake.next(events(metadata(), values(*before), values(*before, ai("New."))))
        assert (await ask(fake)).text == "New."


async def test_a_graph_that_fails_and_one_that_is_not_there() -> None:
    async with FakeLangGraph() as fake:
        fake.next(events(metadata(), event("error", {"error": "ValueError", "message": "it exploded"})))
        driven = await ask(fake)
        assert driven.code == "langgraph.service_error"
        assert driven.error == (
            "the run at the LangGraph server failed with ValueError: it exploded; look at this run there"
        )
        driven = await ask(fake, **{"assistant-id": "nobody"})  # type: ignore[arg-type]
        assert driven.code == "langgraph.http_error"
        assert "Invalid assistant: 'nobody'. Must be either:" in str(driven.error)
        fake.next(Answer(b'{"detail": "busy"}', status=409))
        driven = await ask(fake)
        assert driven.results[-1].data.retryable  # type: ignore[union-attr]


async def test_a_thread_that_is_gone_is_begun_anew() -> None:
    host = ScriptedHost()
    async with FakeLangGraph() as fake:
        await ask(fake, host=host)
        fake.threads.clear()
        driven = await ask(fake, host=host)
        assert driven.code == "langgraph.http_error"
        assert "the next message begins a new one" in str(driven.error)
        assert (await ask(fake, host=host)).text == "ok"


async def test_what_is_sent() -> None:
    config: dict[str, Any] = {
        "configurable": {"model": "m"},
        "recursion-limit": 7,
        "auth-header": "Bearer t0ken",
    }
    async with FakeLangGraph() as fake:
        await ask(fake, **config)
        (body,) = fake.messages
        assert body["config"] == {"configurable": {"model": "m"}, "recursion_limit": 7}
        assert body["on_disconnect"] == "cancel"
        assert fake.asked[-2].headers["authorization"] == "Bearer t0ken"
