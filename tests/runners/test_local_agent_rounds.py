"""Rounds of local-agent on a scripted host: calls, their outcomes, and messages that arrive meanwhile."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from local_agent.agent import LocalAgent

from hostler_protocol.content import ModelMessage, Usage
from hostler_sdk import tool
from hostler_sdk.errors import (
    Cancelled,
    DeadlineExceeded,
    Denied,
    Expired,
    HostError,
    NotFound,
    RuntimeFailure,
)
from hostler_sdk.testing import Driven, ScriptedHost, drive_sync
from support.local_agents import (
    CHECKPOINT,
    MAIN,
    add,
    asked,
    deltas,
    made,
    requests,
    telemetry,
    tool_messages,
    wish,
    wishes,
)

# -- rounds ---------------------------------------------------------------------------------------


class Meeting:
    """Tools that note who is at work; in parallel, the first ends only when all have begun."""

    def __init__(self, count: int) -> None:
        self.log: list[str] = []
        self._missing = count
        self._all = asyncio.Event()

    async def join(self, name: str) -> str:
        self.log.append(f"{name} begins")
        self._missing -= 1
        if not self._missing:
            self._all.set()
        await self._all.wait()
        self.log.append(f"{name} ends")
        return name.upper()

    async def alone(self, name: str) -> str:
        self.log.append(f"{name} begins")
        await asyncio.sleep(0)
        self.log.append(f"{name} ends")
        return name.upper()


THREE = [wishes(*(wish("join", f'{{"name": "{n}"}}', f"id-{n}") for n in "abc"), text="Wait."), "done"]


def test_calls_of_one_answer_run_at_once_and_are_told_in_their_order() -> None:
    meeting = Meeting(3)
    driven = drive_sync(LocalAgent, "?", config=MAIN, models={"main": THREE}, tools={"join": meeting.join})
    assert meeting.log[:3] == ["a begins", "b begins", "c begins"]
    assert tool_messages(driven) == [("id-a", "A"), ("id-b", "B"), ("id-c", "C")]
    started = [("started", f"id-{n}") for n in "abc"]
    assert telemetry(driven) == started + [("completed", f"id-{n}") for n in "abc"]
    roles = [m.role for m in requests(driven)[1].messages]
    assert roles == ["system", "user", "assistant", "tool", "tool", "tool"]


def test_serial_calls_run_one_after_the_other() -> None:
    meeting = Meeting(3)
    config = MAIN | {"tool-execution-mode": "serial"}
    driven = drive_sync(LocalAgent, "?", config=config, models={"main": THREE}, tools={"join": meeting.alone})
    assert meeting.log == [f"{n} {what}" for n in "abc" for what in ("begins", "ends")]
    assert tool_messages(driven) == [("id-a", "A"), ("id-b", "B"), ("id-c", "C")]
    assert telemetry(driven) == [(what, f"id-{n}") for n in "abc" for what in ("started", "completed")]


def test_what_is_said_before_a_call_is_a_message_of_its_own() -> None:
    meeting = Meeting(3)
    driven = drive_sync(LocalAgent, "?", config=MAIN, models={"main": THREE}, tools={"join": meeting.join})
    assert driven.text == "Wait.\ndone"
    assert "".join(deltas(driven)) == "Wait.done"
    order = [r.type for r in driven.results if not r.type.startswith(("log", "message.delta"))]
    calls = ["tool.call.started"] * 3 + ["tool.call.completed"] * 3
    assert order == ["message.completed", *calls, "message.completed", "run.completed"]
    assert requests(driven)[1].messages[2].content == "Wait."
    assert driven.usage == Usage(input_tokens=6 + 10, output_tokens=2, total_tokens=18)


def test_the_calls_made_do_not_depend_on_which_tool_is_faster() -> None:
    """The journal of one run serves another of the same answers, however long each tool took."""

    def run(order: str) -> Driven:
        turn = asyncio.Condition()
        left = list(order)

        async def work(name: str) -> str:
            async with turn:
                await turn.wait_for(lambda: left[0] == name)
                left.pop(0)
                turn.notify_all()
            return name * 3_000

        calls = [wish("work", f'{{"name": "{n}"}}', f"id-{n}") for n in "abc"]
        answers = [wishes(*calls), wishes(*(wish("work", "{", f"x{n}") for n in "ab")), "done"]
        config = MAIN | {"max-tool-result-chars": 100}
        return drive_sync(
            LocalAgent, "?", config=config, models={"main": answers}, tools={"work": work}, history=["a", "b"]
        )

    def shape(driven: Driven) -> list[tuple[str, dict[str, Any]]]:
        return [
            (call.method, {k: v for k, v in msgspec.to_builtins(call.params).items() if k != "run_id"})
            for call in driven.calls
        ]

    first = run("abc")
    assert first.text == "done"
    for order in ("cba", "bca", "acb"):
        other = run(order)
        assert shape(other) == shape(first)
        assert other.results == first.results


def test_the_number_of_rounds_is_bounded() -> None:
    def again(messages: list[ModelMessage]) -> Any:
        return wishes(wish("add", '{"a": 1, "b": 1}'))

    config = MAIN | {"max-tool-iterations": 2}
    driven = drive_sync(LocalAgent, "?", config=config, models={"main": again}, tools={"add": add})
    assert (driven.status, driven.code) == ("failed", "local-agent.tool_limit")
    assert "max-tool-iterations" in (driven.error or "")
    assert len(made(driven)) == 2
    assert len(requests(driven)) == 4
    last = {"tool_choice": "none"}
    assert [request.extra_args for request in requests(driven)] == [{}, {}, last, last]
    assert "not called" in tool_messages(driven)[-1][1]

    answers = [wishes(wish("add", '{"a": 1, "b": 1}', f"c{n}")) for n in range(2)] + ["two"]
    enough = drive_sync(LocalAgent, "?", config=config, models={"main": answers}, tools={"add": add})
    assert enough.text == "two"


# -- what goes wrong ------------------------------------------------------------------------------


def slow(a: int) -> int:
    raise ValueError("out of stock")


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (RuntimeFailure("the shop is closed"), "Error (runtime_error): the shop is closed"),
        (slow, "Error (invalid_argument): tool.call: out of stock"),
        (Denied("too dear"), "Error (denied): a person refused this call; do not make it again unless"),
        (
            Expired("nobody answered"),
            "Error (expired): nobody decided about this call in time, so",
        ),
        (Cancelled("called off"), "Error (cancelled): this call was called off and not made (called off)"),
        (NotFound("gone"), "Error (not_found): gone"),
        (RuntimeFailure("x" * 50_000), "Error (runtime_error): xxx"),
    ],
)
def test_the_model_is_told_what_became_of_a_call(outcome: Any, says: str) -> None:
    answers = [wishes(wish("buy", '{"a": 1}'), wish("add", '{"a": 1, "b": 1}', "other")), "I could not."]
    driven = drive_sync(
        LocalAgent, "?", config=MAIN, models={"main": answers}, tools={"buy": outcome, "add": add}
    )
    assert (driven.status, driven.text) == ("completed", "I could not.")
    (first, text), second = tool_messages(driven)
    assert (first, second) == ("call_1", ("other", "2"))
    assert text.startswith(says)
    assert len(text) < 21_000
    (failed, _) = [r.data for r in driven.results if r.type == "tool.call.completed"]
    assert failed.error["code"] in says  # type: ignore


def test_a_person_decides_about_a_call() -> None:
    @tool(approval="required")
    async def book(seat: str) -> str:
        """Books a seat."""
        return f"booked {seat}"

    answers = [
        wishes(wish("book", '{"seat": "1A"}', "x"), wish("book", '{"seat": "2B"}', "y")),
        "One of two.",
    ]
    decisions = [{"decision": "denied", "comment": "not by the window"}, {"decision": "approved"}]
    driven = drive_sync(
        LocalAgent, "?", config=MAIN, models={"main": answers}, tools=[book], decisions=decisions
    )
    (_, denied), (_, booked) = tool_messages(driven)
    assert "not by the window" in denied
    assert booked == "booked 2B"


@pytest.mark.parametrize("error", [DeadlineExceeded("the run's deadline is over")])
def test_the_run_s_end_is_no_outcome_of_a_call(error: HostError) -> None:
    driven = drive_sync(
        LocalAgent, "?", config=MAIN, models={"main": [wishes(wish("buy"))]}, tools={"buy": error}
    )
    assert (driven.status, driven.code) == ("failed", "runner.timeout")


def test_a_cancelled_run_leaves_no_open_calls() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    driven = drive_sync(
        LocalAgent,
        "?",
        config=MAIN,
        models={"main": [wishes(wish("add", '{"a": 1, "b": 1}'), wish("wait"), wish("wait"))]},
        tools={"add": add, "wait": forever},
        cancel_on=lambda result: result.type == "tool.call.completed",
    )
    assert driven.status == "cancelled"
    assert [call.given_up for call in driven.calls if call.method == "tool.call"] == [False, True, True]
    assert not driven.warnings


# -- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "text"),
    [("plain", "plain"), ({"a": [1, None]}, '{"a":[1,null]}'), (None, "null"), ("", ""), (False, "false")],
)
def test_results_reach_the_model_as_text(result: Any, text: str) -> None:
    driven = drive_sync(
        LocalAgent,
        "?",
        config=MAIN,
        models={"main": [wishes(wish("look")), "ok"]},
        tools={"look": lambda: result},
    )
    assert tool_messages(driven) == [("call_1", text)]


@pytest.mark.parametrize(("rows", "plain"), [(30_000, True), (3_000, False)])
def test_a_long_result_becomes_a_file_with_a_preview(rows: int, plain: bool) -> None:
    whole: Any = "line\n" * rows if plain else [{"row": n} for n in range(rows)]
    host = ScriptedHost(models={"main": [wishes(wish("list")), "ok"]}, tools={"list": lambda: whole})
    driven = host.drive_sync(LocalAgent, "?", config=MAIN)
    ((_, text),) = tool_messages(driven)
    assert len(text) < 2_300
    assert "kept as artifact a1" in text
    assert "characters left out" in text
    kept = host.world.artifacts.content("a1").decode()
    assert kept == whole if plain else json.loads(kept) == whole
    assert host.world.artifacts.metadata("a1").name == ("list.txt" if plain else "list.json")
    announced = [r.data.artifact_id for r in driven.results if r.type == "artifact.created"]  # type: ignore
    assert announced == ["a1"]
    (shown,) = [r.data.result for r in driven.results if r.type == "tool.call.completed"]  # type: ignore
    assert shown["artifact_id"] == "a1"
    short = drive_sync(
        LocalAgent,
        "?",
        config=MAIN | {"max-tool-result-chars": 10},
        models={"main": [wishes(wish("list")), "ok"]},
        tools={"list": lambda: "0123456789ab"},
    )
    assert tool_messages(short)[0][1].endswith("0123456\n[... 2 characters left out ...]\n9ab")


# -- messages that arrive meanwhile ---------------------------------------------------------------


def test_what_arrives_between_tools_is_seen_by_the_next_round() -> None:
    host = ScriptedHost(models={"main": [wishes(wish("look")), "Seen."]})
    image = {"type": "image_url", "image_url": {"url": "http://pics/cat.png"}}
    host.world.script(
        tools={"look": lambda: host.world.arrive("and in euros", {"text": "this", "contents": [image]})}
    )
    driven = host.drive_sync(LocalAgent, "?", config=MAIN)
    assert driven.text == "Seen."
    tail = requests(driven)[1].messages[2:]
    assert [m.role for m in tail] == ["assistant", "tool", "user", "user"]
    assert tail[2].content == "and in euros"
    assert [type(e).__name__ for e in tail[3].content] == ["TextElement", "ImageUrlElement"]
    pulls = [call for call in driven.calls if call.method == "steering.pull"]
    assert len(pulls) == 2  # after the tools and before the end


def test_what_arrives_before_the_end_is_answered_in_the_same_run() -> None:
    driven = drive_sync(
        LocalAgent, "one", config=MAIN, models={"main": ["First.", "Second."]}, steering=["and two?"]
    )
    assert driven.text == "First.\nSecond."
    assert asked(driven)[1:] == [("user", "one"), ("assistant", "First."), ("user", "and two?")]
    assert driven.results[-1].type == "run.completed"


def test_steering_ends_somewhere() -> None:
    host = ScriptedHost()

    def talk(messages: list[ModelMessage]) -> str:
        host.world.arrive("more")
        return "ok"

    driven = host.drive_sync(LocalAgent, "go", config=MAIN, models={"main": talk})
    assert driven.status == "completed"
    assert len(driven.messages) == 33
    assert host.world.steering  # left to the next run


def test_steering_is_not_asked_for_where_it_is_not_granted() -> None:
    driven = drive_sync(
        LocalAgent, "go", config=MAIN, models={"main": "ok"}, context={"context": {"available_apis": {}}}
    )
    assert driven.text == "ok"
    assert {call.method for call in driven.calls} <= {"model.stream", "model.count_tokens"}


def test_nothing_is_kept_of_a_short_conversation() -> None:
    host = ScriptedHost(models={"main": "ok"})
    host.drive_sync(LocalAgent, "go", config=MAIN)
    assert CHECKPOINT not in host.world.states["conversation"]
