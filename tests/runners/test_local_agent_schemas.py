"""local-agent's tools as services take them: whatever a tool's schema is, the request is taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from local_agent.agent import MAX_HOPELESS_ROUNDS, LocalAgent
from local_agent.parameter_names import offered_names, own_names
from local_agent.schemas import MAX_DESCRIPTION_CHARS, offered_schema
from local_agent.toolbox import MAX_TOOLS

from hostler_protocol.calls import ToolDetail
from hostler_protocol.content import ModelMessage
from hostler_sdk import tool
from hostler_sdk.testing import ScriptedHost, drive_sync
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


PAGED = {
    "type": "object",
    "properties": {
        "filter[name]": {"type": "string", "description": "Part of the name."},
        "$top": {"type": "integer"},
        "top": {"type": "integer"},
        "größe": {"$ref": "#/properties/$top"},
        "名": {},
        "x" * 70: {},
        "where": {
            "type": "array",
            "items": {"type": "object", "properties": {"a.b": TEXT, "ok": TEXT}, "required": ["a.b", "ok"]},
        },
    },
    "required": ["$top", "where"],
    "dependentRequired": {"$top": ["filter[name]"]},
}


def test_parameters_are_offered_under_names_that_services_take() -> None:
    offered, own = offered_names(PAGED)
    jsonschema_rs.meta.validate(offered)
    assert list(offered["properties"]) == [
        "filter_name",
        "top_2",
        "top",
        "gr_e",
        "parameter",
        "x" * 64,
        "where",
    ]
    assert own == {
        "filter_name": "filter[name]",
        "top_2": "$top",
        "gr_e": "größe",
        "parameter": "名",
        "x" * 64: "x" * 70,
        "a_b": "a.b",
    }
    assert offered["properties"]["filter_name"]["description"] == "`filter[name]`: Part of the name."
    assert offered["properties"]["gr_e"] == {"$ref": "#/properties/top_2"}
    assert offered["required"] == ["top_2", "where"]
    assert offered["dependentRequired"] == {"top_2": ["filter_name"]}
    assert offered["properties"]["where"]["items"]["required"] == ["a_b", "ok"]
    given = {"top_2": 3, "top": 1, "where": [{"a_b": "x", "ok": "y"}], "$top": 2}
    assert own_names(given, own) == {"$top": 2, "top": 1, "where": [{"a.b": "x", "ok": "y"}]}


ODD = st.sampled_from(["a", "a_b", "a.b", "a[b]", "$a", "$", "名", "a_b_2"])
ODD_SCHEMA = st.recursive(
    st.sampled_from([TEXT, {}]),
    lambda inner: st.one_of(
        st.builds(
            lambda properties, named: {
                "type": "object",
                "properties": properties,
                "required": [n for n in named if n in properties],
            },
            st.dictionaries(ODD, inner, max_size=5),
            st.lists(ODD, unique=True),
        ),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=8,
)
ODD_VALUE = st.recursive(
    st.sampled_from(["x", 1]),
    lambda inner: st.one_of(st.dictionaries(ODD, inner, max_size=4), st.lists(inner, max_size=2)),
    max_leaves=8,
)


def keys_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys_of(one)


@given(ODD_SCHEMA, ODD_VALUE)
def test_new_names_change_nothing_of_what_a_tool_takes(inner: dict[str, Any], value: Any) -> None:
    schema = {"type": "object", "properties": {"root.": inner}, "required": ["root."]}
    offered, own = offered_names(schema)
    new = {name: offered for offered, name in own.items()}
    assume(not own.keys() & set(keys_of(value)))  # a free name that was made from another is taken for that

    def as_offered(one: Any) -> Any:
        if isinstance(one, dict):
            return {new.get(name, name): as_offered(inside) for name, inside in one.items()}
        return [as_offered(inside) for inside in one] if isinstance(one, list) else one

    given = {"root.": value}
    assert own_names(as_offered(given), own) == given
    assert jsonschema_rs.is_valid(offered, as_offered(given)) == jsonschema_rs.is_valid(schema, given)
    assert offered_names(offered) == (offered, {})


def test_a_tool_is_called_with_its_own_names() -> None:
    """The model is shown its call as it wrote it; the tool and the journal see the tool's names."""

    def search(**given: Any) -> list[str]:
        return sorted(given)

    arguments = '{"filter_name":"x","top_2":3,"where":[{"a_b":"y","ok":"z"}]}'
    host = ScriptedHost(models={"main": [wishes(wish("search", arguments)), "ok"]}, tools={"search": search})
    detail = ToolDetail(name="search", description="Searches.", parameters=PAGED)
    host.world.tools.detail = lambda name: detail  # type: ignore[method-assign]
    driven = host.drive_sync(LocalAgent, "?", config=MAIN)
    assert driven.text == "ok"
    own = {"filter[name]": "x", "$top": 3, "where": [{"a.b": "y", "ok": "z"}]}
    assert made(driven) == [("search", own)]
    (shown,) = [r.data.parameters for r in driven.results if r.type == "tool.call.started"]  # type: ignore
    assert shown == own
    (spec,) = requests(driven)[0].tools
    assert {"filter_name", "top_2"} <= spec.parameters["properties"].keys()
    _, asked, told = requests(driven)[1].messages[1:]
    assert asked.tool_calls[0].function.arguments == arguments
    assert told.content == '["$top","filter[name]","where"]'


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
