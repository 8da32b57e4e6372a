"""Tool calls that a model asks for, however it writes them: each gets one tool message in its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from local_agent.agent import LocalAgent
from local_agent.toolbox import allowed_name

from hostler_protocol.content import ModelMessage, ToolCall
from hostler_sdk.testing import drive_sync
from support.local_agents import MAIN, add, made, requests, telemetry, tool_messages, wish, wishes

# -- calls that are wrong -------------------------------------------------------------------------


def deep(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (wish("add", '{"a": 1, "b": '), "the arguments are not JSON"),
        (wish("add", "[1, 2]"), "must be one JSON object"),
        (wish("add", "42"), "must be one JSON object"),
        (wish("add", '{"a": NaN}'), "not JSON"),
        (wish("add", deep(70)), "nested more than 64 deep"),
        (wish("add", deep(100_000)), "the arguments"),
        (wish("add", '{"a": "' + "x" * 400_000 + '"}'), "at most 262,144"),
        (wish("add", '{"a": 1}'), "Error (invalid_argument)"),
        (wish("subtract", "{}"), "there is no tool 'subtract'; there are: add"),
        (wish("", "{}"), "there is no tool ''"),
        (wish("rm -rf /\x00\n" * 1_000, "{}"), "there is no tool 'rm -rf /"),
    ],
)
def test_calls_that_cannot_be_made_are_told_to_the_model(call: ToolCall, says: str) -> None:
    answers = [wishes(call, wish("add", '{"a": 1, "b": 1}', "fine")), "sorry"]
    driven = drive_sync(LocalAgent, "?", config=MAIN, models={"main": answers}, tools={"add": add})
    assert (driven.status, driven.text, driven.warnings) == ("completed", "sorry", [])
    (first, text), second = tool_messages(driven)
    assert (first, second) == ("call_1", ("fine", "2"))
    assert says in text
    assert len(text) < 1_000
    again = requests(driven)[1].messages[2].tool_calls
    for one in again:  # what goes back to the model is what services take
        assert allowed_name(one.function.name) == one.function.name
        assert isinstance(json.loads(one.function.arguments), dict)
        assert len(one.function.arguments) < 1_000


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ('  {"a": 1, "b": 2}\n', {"a": 1, "b": 2}),
        (json.dumps('{"a": 1, "b": 2}'), {"a": 1, "b": 2}),
        ("", {}),
    ],
)
def test_arguments_are_read_as_models_write_them(text: str, parameters: dict[str, int]) -> None:
    driven = drive_sync(
        LocalAgent, "?", config=MAIN, models={"main": [wishes(wish("add", text)), "ok"]}, tools={"add": add}
    )
    assert made(driven) == [("add", parameters)]


def test_ids_are_made_where_the_model_gives_none_or_the_same() -> None:
    one = '{"a": 1, "b": 1}'
    first = wishes(
        wish("add", one, ""), wish("add", one, "x"), wish("add", one, "x"), wish("add", one, "a\nb")
    )
    driven = drive_sync(
        LocalAgent,
        "?",
        config=MAIN,
        models={"main": [first, wishes(wish("add", one, "x")), "ok"]},
        tools=[add],
    )
    ids = [id_ for id_, _ in tool_messages(driven)]
    assert ids == ["call_1_1", "x", "call_1_3", "call_1_4", "call_2_1"]
    in_order = [m.tool_calls for m in requests(driven)[2].messages if m.tool_calls]
    assert [call.id for calls in in_order for call in calls] == ids
    assert len(made(driven)) == 5


def test_many_calls_at_once_are_all_answered() -> None:
    calls = [wish("add", f'{{"a": {n}, "b": 0}}', f"c{n}") for n in range(150)]
    driven = drive_sync(LocalAgent, "?", config=MAIN, models={"main": [wishes(*calls), "ok"]}, tools=[add])
    assert tool_messages(driven) == [(f"c{n}", str(n)) for n in range(150)]


# -- any calls: the next request is valid -----------------------------------------------------------

ODD = st.sampled_from(["", "x", "call_1_1", "call_1_2", "a\x00b", "é" * 10, "i" * 200])
NAMES = st.sampled_from(["add", "math.add", "math_add", "", "no such", "../../etc", "add\n", "ADD"])
ARGUMENTS = st.sampled_from(
    ['{"a": 1, "b": 2}', "{}", "", "null", "[]", "{", '"{}"', '{"a": "\\ud800"}', "{'a': 1}", '{"a": 1e999}']
)
CALL = st.builds(wish, NAMES, ARGUMENTS, ODD)
ANSWER = st.builds(lambda calls, text: wishes(*calls, text=text), st.lists(CALL, min_size=1, max_size=5), ODD)


@settings(max_examples=40, deadline=None)
@given(st.lists(ANSWER, max_size=4), st.sampled_from(["parallel", "serial"]), st.integers(1, 3))
def test_invariant_13_every_wish_gets_one_tool_message_in_its_place(
    answers: list[ModelMessage], mode: str, rounds: int
) -> None:
    config = MAIN | {"tool-execution-mode": mode, "max-tool-iterations": rounds}
    models = {"main": [*answers, "done"]}
    driven = drive_sync(LocalAgent, "?", config=config, models=models, tools={"add": add, "math.add": add})
    assert (driven.status, driven.code) in (("completed", None), ("failed", "local-agent.tool_limit"))
    assert driven.warnings == []
    seen: set[str] = set()
    messages = requests(driven)[-1].messages[2:]
    while messages:
        asked_for, *messages = messages
        assert asked_for.role == "assistant"
        ids = [call.id for call in asked_for.tool_calls]
        assert len(set(ids)) == len(ids)
        assert not seen & set(ids)
        seen |= set(ids)
        results, messages = messages[: len(ids)], messages[len(ids) :]
        assert [(m.role, m.tool_call_id) for m in results] == [("tool", id_) for id_ in ids]
        for call in asked_for.tool_calls:
            assert allowed_name(call.function.name) == call.function.name
            assert isinstance(json.loads(call.function.arguments), dict)
    happened = telemetry(driven)
    for what in ("started", "completed"):
        told_of = [call_id for one, call_id in happened if one == what]
        assert len(told_of) == len(set(told_of)) == len(happened) / 2
