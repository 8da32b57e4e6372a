"""local-agent's tools as services take them: whatever a tool's schema is, the request is taken."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_agent.agent import MAX_HOPELESS_ROUNDS, LocalAgent
from local_agent.schemas import MAX_DESCRIPTION_CHARS, offered_schema
from local_agent.toolbox import MAX_TOOLS

from hostler_protocol.content import ModelMessage
from hostler_sdk import tool
from hostler_sdk.testing import drive_sync
from support.local_agents import MAIN, logs, made, requests, wish, wishes

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


@pytest.mark.parametrize(
    ("given", "offered"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": "string"}, {"type": "object", "properties": {}}),
        (
            {"$schema": "x", "$id": "y", "type": ["object", "null"], "properties": {"a": True}},
            {"type": "object", "properties": {"a": {}}},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a", "gone", 1]},
            {"type": "object", "properties": {"a": {"type": "array", "items": {}}}, "required": ["a"]},
        ),
        (
            {"properties": {"a": {"type": "array", "items": [TEXT, TEXT]}}},
            {"type": "object", "properties": {"a": {"type": "array", "items": {}}}},
        ),
        (
            {
                "oneOf": [
                    {"properties": {"kind": {"const": "a"}, "x": TEXT}, "required": ["kind", "x"]},
                    {"properties": {"kind": {"const": "b"}}, "required": ["kind"]},
                ]
            },
            {
                "type": "object",
                "properties": {"kind": {"anyOf": [{"const": "a"}, {"const": "b"}]}, "x": TEXT},
                "required": ["kind"],
            },
        ),
        (
            {
                "allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": NUMBER}, "required": ["b"]}],
                "$defs": {"A": {"properties": {"a": TEXT}, "required": ["a"]}},
            },
            {
                "type": "object",
                "properties": {"a": TEXT, "b": NUMBER},
                "required": ["a", "b"],
                "$defs": {"A": {"properties": {"a": TEXT}, "required": ["a"]}},
            },
        ),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, None),
        ({"$ref": "https://example.com/schema.json"}, {"type": "object", "properties": {}}),
    ],
)
def test_a_schema_is_offered_as_an_object(given: dict[str, Any], offered: dict[str, Any] | None) -> None:
    found = offered_schema(given)
    assert found == offered or offered is None
    assert found["type"] == "object"
    assert not {"oneOf", "anyOf", "allOf", "not", "enum", "const", "$ref"} & found.keys()
    jsonschema_rs.meta.validate(found)
    assert offered_schema(found) == found


LEAF = st.sampled_from(
    [TEXT, NUMBER, True, {"type": "array"}, {"type": ["array", "null"]}, {"enum": [1, "a"]}]
)
NAME = st.sampled_from(["a", "b", "c"])
OBJECT = st.fixed_dictionaries(
    {"properties": st.dictionaries(NAME, LEAF)}, optional={"required": st.lists(NAME, unique=True)}
)
SCHEMA = st.recursive(
    OBJECT,
    lambda inner: st.builds(
        lambda own, key, branches: {**own, key: branches},
        OBJECT,
        st.sampled_from(["anyOf", "oneOf", "allOf"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=6,
)
VALUE: st.SearchStrategy[dict[str, Any]] = st.dictionaries(NAME, st.sampled_from([1, "a", [1], None, {}]))


@given(SCHEMA, VALUE)
def test_what_is_offered_is_never_narrower_than_the_tool(schema: dict[str, Any], value: Any) -> None:
    if jsonschema_rs.is_valid(schema, value):
        assert jsonschema_rs.is_valid(offered_schema(schema), value)


def test_long_descriptions_and_too_many_tools_do_not_cost_the_request() -> None:
    tools: dict[str, Any] = {f"t{n:03}": lambda: 1 for n in range(200)}
    driven = drive_sync(LocalAgent, "?", config=MAIN, models={"main": "ok"}, tools=tools)
    assert len(requests(driven)[0].tools) == MAX_TOOLS
    assert "200 tools are granted" in logs(driven)
    described = drive_sync(
        LocalAgent,
        "?",
        config=MAIN,
        models={"main": "ok"},
        tools={"wordy": tool(effect="pure")(_wordy)},
    )
    (spec,) = requests(described)[0].tools
    assert spec.description.startswith("Words and")
    assert len(spec.description) <= MAX_DESCRIPTION_CHARS


async def _wordy() -> int:
    return 1


_wordy.__doc__ = "Words and " * 1_000


def test_a_model_that_asks_for_nothing_that_exists_is_stopped() -> None:
    def again(messages: list[ModelMessage]) -> Any:
        return wishes(wish("nothing", "{"))

    driven = drive_sync(LocalAgent, "?", config=MAIN, models={"main": again}, tools={"add": lambda: 1})
    assert (driven.status, driven.code) == ("failed", "local-agent.tool_limit")
    assert "cannot be made; choose a model that can use tools" in (driven.error or "")
    assert len(requests(driven)) == MAX_HOPELESS_ROUNDS + 2
    assert made(driven) == []
    bad = [wishes(wish("nothing", "{", f"c{n}")) for n in range(MAX_HOPELESS_ROUNDS - 1)]
    good = wishes(wish("add", "{}", "good"))
    models = {"main": [*bad, good, *bad, "Done."]}
    driven = drive_sync(LocalAgent, "?", config=MAIN, models=models, tools={"add": lambda: 1})
    assert driven.text == "Done."
