"""Arguments against schemas that somebody else wrote: what is wrong is named, and nothing costs too much."""

from __future__ import annotations

import threading
import time
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hostler.tools.schema import (
    MAX_PATTERNS,
    MAX_SCHEMA_BYTES,
    MAX_STEPS,
    OFF_LOOP_BYTES,
    ToolSchema,
    check_off_loop,
)
from hostler.tools.schema_cost import MAX_SCHEMA_NODES, SchemaError, StepCounter
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.limits import MAX_TOOL_ARGUMENT_BYTES

pytestmark = pytest.mark.gate("tool-arguments")

BOOKING = {
    "type": "object",
    "properties": {
        "seat": {"type": "string", "pattern": "^[0-9]+[A-F]$"},
        "guests": {"type": "array", "items": {"$ref": "#/$defs/Guest"}},
    },
    "required": ["seat"],
    "additionalProperties": False,
    "$defs": {"Guest": {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}}},
}
TREE = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}


def doubling(levels: int) -> dict[str, Any]:
    """A small schema that is visited 2**levels times."""
    parts: dict[str, Any] = {"l0": {"type": "string"}}
    for n in range(1, levels + 1):
        parts[f"l{n}"] = {"anyOf": [{"$ref": f"#/$defs/l{n - 1}"}] * 2}
    return {"$defs": parts, "properties": {"x": {"$ref": f"#/$defs/l{levels}"}}}


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"left": value}
    return value


def refusal(schema: dict[str, Any], value: dict[str, Any]) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        ToolSchema(schema).check_arguments("shop.book", value)
    return caught.value.message


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"seat": "12C", "guests": [{"age": 3}, {"age": -1}]}, "at /guests/1/age: -1 is less than"),
        ({"seat": "C"}, "at /seat:"),
        ({}, '"seat" is a required property'),
        ({"seat": "1A", "row": 1}, "'row' was unexpected"),
        ({"seat": 1}, 'at /seat: 1 is not of type "string"'),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(value: dict[str, Any], words: str) -> None:
    message = refusal(BOOKING, value)
    assert message.startswith("parameters of shop.book: ")
    assert words in message


def test_what_fits_passes() -> None:
    schema = ToolSchema(BOOKING)
    schema.check_arguments("shop.book", {"seat": "12C", "guests": [{"age": 3}, {}]})
    ToolSchema({}).check_arguments("shop.any", {"any": ["thing"]})
    ToolSchema(TREE).check_arguments("shop.tree", nested(30))


def test_a_long_value_is_not_told_in_full() -> None:
    assert len(refusal(BOOKING, {"seat": "x" * 50_000})) < 500


def test_arguments_are_bounded() -> None:
    with pytest.raises(PayloadTooLargeError, match=f"{MAX_TOOL_ARGUMENT_BYTES:,}"):
        ToolSchema({}).check_arguments("shop.any", {"x": "y" * MAX_TOOL_ARGUMENT_BYTES})
    assert "too deep" in refusal(TREE, nested(100))
    assert "too deep" in refusal({}, nested(100_000))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "https://example.com/schema"}, "outside of itself"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "outside of itself"),
        ({"$ref": "#/$defs/gone"}, "where there is no schema"),
        ({"$ref": "#"}, "without going deeper"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}}, "without going"),
        ({"type": "strin"}, "no JSON Schema"),
        ({"properties": {"a": 5}}, "no JSON Schema"),
        ({"properties": {"a": {"pattern": "("}}}, "no JSON Schema"),
        ({"properties": {"a": {"pattern": "(?=x)y"}}}, "no JSON Schema"),
        ({"properties": {"a": {"pattern": "(a{1000}){1000}"}}}, "no JSON Schema"),
        ({"$schema": "https://example.com/meta"}, "no JSON Schema"),
        ({"$dynamicRef": "#x"}, "not supported"),
        ({"properties": {"a": {"$id": "https://example.com/x"}}}, "only the whole schema"),
        ({"allOf": "x" * MAX_SCHEMA_BYTES}, "bytes"),
        ({"anyOf": [{}] * (MAX_SCHEMA_NODES + 1)}, "parts"),
        ({"anyOf": [{"pattern": "a"}] * (MAX_PATTERNS + 1)}, "patterns"),
        ({"properties": nested(5_000)}, "no JSON Schema"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_the_reason(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        ToolSchema(schema)
    assert words in str(caught.value) or "levels deep" in str(caught.value)


def test_deep_schemas_are_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(200):
        schema = {"not": schema}
    with pytest.raises(SchemaError, match="levels deep"):
        ToolSchema(schema)
    for _ in range(100_000):
        schema = {"not": schema}
    with pytest.raises(SchemaError, match="levels deep"):
        ToolSchema(schema)


def test_a_schema_made_to_take_for_ever_is_refused_before_it_is_tried() -> None:
    schema = ToolSchema(doubling(25))
    schema.check({"y": 1}, "it")
    with pytest.raises(InvalidArgumentError, match="too much work"):
        schema.check({"x": 1}, "it")
    both = {"anyOf": [{"properties": {"next": {"$ref": "#"}}}, {"properties": {"next": {"$ref": "#"}}}]}
    value: Any = 1
    for _ in range(60):
        value = {"next": value}
    with pytest.raises(InvalidArgumentError, match="too much work"):
        ToolSchema(both).check(value, "it")


def test_a_failure_that_is_dear_to_explain_is_told_without_its_reason() -> None:
    assert "they do not fit" in refusal(doubling(15), {"x": 1})
    assert "at /x" in refusal(doubling(4), {"x": 1})


def test_a_pattern_takes_linear_time() -> None:
    schema = ToolSchema({"properties": {"a": {"pattern": "^(a+)+$"}}})
    before = time.process_time()
    with pytest.raises(InvalidArgumentError):
        schema.check({"a": "a" * 50_000 + "b"}, "it")
    assert time.process_time() - before < 5  # a backtracking engine would take longer than the universe has


async def test_a_large_value_is_checked_where_nobody_waits_for_it() -> None:
    threads: list[int] = []
    for value in ("small", "x" * OFF_LOOP_BYTES, nested(100_000)):
        await check_off_loop(value, lambda: threads.append(threading.get_ident()))
    schema = ToolSchema({"properties": {"x": {"type": "integer"}}})
    large = {"x": "y" * OFF_LOOP_BYTES}
    with pytest.raises(InvalidArgumentError, match="/x"):
        await check_off_loop(large, lambda: schema.check(large, "it"))
    assert [thread == threading.get_ident() for thread in threads] == [True, False, False]


names = st.sampled_from(["a", "b", "c"])
leaf = st.sampled_from([{}, {"type": "string"}, {"type": "integer"}, {"const": 1}, True, False])
schemas = st.recursive(
    leaf,
    lambda inner: st.one_of(
        st.dictionaries(names, inner, max_size=2).map(lambda found: {"properties": found}),
        st.lists(inner, min_size=1, max_size=2).map(lambda found: {"anyOf": found}),
        st.lists(inner, min_size=1, max_size=2).map(lambda found: {"allOf": found}),
        inner.map(lambda one: {"items": one}),
        inner.map(lambda one: {"additionalProperties": one}),
        inner.map(lambda one: {"not": one}),
    ),
    max_leaves=6,
)
values = st.recursive(
    st.sampled_from([1, "x", None]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=6,
)


@given(schemas.filter(lambda schema: isinstance(schema, dict)), values)
@settings(max_examples=150, deadline=None)
def test_it_says_what_the_library_says(schema: dict[str, Any], value: Any) -> None:
    valid = jsonschema_rs.is_valid(schema, value)
    try:
        ToolSchema(schema).check(value, "it")
    except InvalidArgumentError:
        assert not valid
    else:
        assert valid


@given(schemas, values, st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_counting_is_never_less_where_there_is_more(schema: Any, value: Any, times: int) -> None:
    one = StepCounter(schema).count(value, MAX_STEPS)
    more = StepCounter({"allOf": [schema] * times}).count(value, MAX_STEPS)
    assert one is not None
    assume(more is not None)
    assert more is not None
    assert more >= one * times
