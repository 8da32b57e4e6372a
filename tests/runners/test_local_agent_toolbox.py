"""The tools of local-agent as functions for a model: their schemas and names."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from local_agent.agent import LocalAgent
from local_agent.toolbox import MAX_NAME_CHARS, allowed_name, function_names

from hostler_sdk.testing import drive_sync
from support.local_agents import MAIN, add, logs, made, requests, tool_messages, wish, wishes


def test_tools_are_offered_with_their_schema_under_names_that_models_take() -> None:
    tools = {"shop.book": lambda: 1, "shop_book": lambda: 2, "math.add": add}
    answers = [wishes(wish("math_add", '{"a": 1, "b": 2}'), wish("shop_book_2", id_="b")), "It is 3."]
    driven = drive_sync(LocalAgent, "1 + 2?", config=MAIN, models={"main": answers}, tools=tools)
    assert driven.text == "It is 3."
    offered = {spec["name"]: spec for spec in msgspec.to_builtins(requests(driven)[0].tools)}
    assert sorted(offered) == ["math_add", "shop_book", "shop_book_2"]
    assert offered["math_add"]["description"] == "Adds two numbers."
    assert offered["math_add"]["parameters"]["required"] == ["a", "b"]
    assert offered["shop_book"]["parameters"] == {"type": "object", "properties": {}}
    assert made(driven) == [("math.add", {"a": 1, "b": 2}), ("shop.book", {})]
    assert tool_messages(driven) == [("call_1", "3"), ("b", "1")]
    completed = [r.data for r in driven.results if r.type == "tool.call.completed"]
    assert [(c.tool_name, c.result) for c in completed] == [("math.add", 3), ("shop.book", 1)]  # type: ignore


@given(st.lists(st.text("ab._-é ", max_size=70) | st.sampled_from(["a.b", "a_b", "a-b"]), unique=True))
def test_every_tool_has_one_allowed_name_of_its_own(tools: list[str]) -> None:
    names = function_names(tools)
    assert list(names) == tools
    assert len(set(names.values())) == len(tools)
    for name, function in names.items():
        assert allowed_name(function) == function
        assert 1 <= len(function) <= MAX_NAME_CHARS
        if name and allowed_name(name) == name:
            assert function == name
    assert function_names(tools) == names


def test_a_model_may_use_the_tool_s_own_name() -> None:
    answers = [wishes(wish("math.add", '{"a": 1, "b": 2}')), "3"]
    driven = drive_sync(LocalAgent, "?", config=MAIN, models={"main": answers}, tools={"math.add": add})
    assert made(driven) == [("math.add", {"a": 1, "b": 2})]
    assert requests(driven)[1].messages[-2].tool_calls[0].function.name == "math_add"


def test_a_tool_that_is_gone_is_left_out_and_one_without_detail_is_offered_as_it_is_listed() -> None:
    tools = [
        {"tool_name": "gone", "operations": ["detail", "call"]},
        {"tool_name": "plain", "description": "Looks.", "operations": ["call"]},
        {"tool_name": "shown", "operations": ["detail"]},
    ]
    resources = {"models": [{"model_id": "main", "operations": ["stream"]}], "tools": tools}
    driven = drive_sync(LocalAgent, "?", config=MAIN, models={"main": "ok"}, context={"resources": resources})
    assert [(spec.name, spec.description) for spec in requests(driven)[0].tools] == [("plain", "Looks.")]
    assert "tool 'gone' was left out" in logs(driven)


def test_no_tools_are_asked_for_where_none_may_be_called() -> None:
    config = MAIN | {"max-tool-iterations": 0}
    driven = drive_sync(LocalAgent, "?", config=config, models={"main": "ok"}, tools={"add": add})
    assert requests(driven)[0].tools == []
    assert not [call for call in driven.calls if call.method.startswith("tool.")]
