"""Forms for people: what can be asked, and what is an answer."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.forms import (
    MAX_FIELDS,
    FormError,
    check_fields,
    check_values,
    defaults,
    files_of,
    form_schema,
    option_label,
)
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.pausing import FormField
from support.json_schema import faults

FORM = [
    FormField(name="name", type="text", required=True, label="Name"),
    FormField(name="why", type="textarea"),
    FormField(name="size", type="select", options=[{"value": 1, "label": "small"}, True, "xl"], default="xl"),
    FormField(name="extras", type="multiselect", options=["a", "b", "c"]),
    FormField(name="count", type="number", default=1),
    FormField(name="sure", type="boolean", required=True, description="Really?"),
    FormField(name="paper", type="file"),
]
EXAMPLES = 2_000 if os.environ.get("HOSTLER_SOAK") else 150


def told(values: dict[str, Any], fields: list[FormField] = FORM) -> dict[str, str]:
    with pytest.raises(FormError) as error:
        check_values(fields, values)
    assert error.value.details["errors"] == error.value.errors
    return {one["field"]: one["expected"] for one in error.value.errors}


def test_an_answer_is_what_was_given_and_the_defaults_of_the_rest_in_the_order_of_the_form() -> None:
    answer = check_values(FORM, {"sure": False, "name": "Ann", "extras": ["b"], "paper": "artifact-1"})
    assert answer == {
        "name": "Ann",
        "size": "xl",
        "extras": ["b"],
        "count": 1,
        "sure": False,
        "paper": "artifact-1",
    }
    assert list(answer) == ["name", "size", "extras", "count", "sure", "paper"]
    assert files_of(FORM, answer) == ["artifact-1"]
    assert defaults(FORM) == {"size": "xl", "count": 1}


def test_every_wrong_field_is_named_at_once_with_what_would_be_right() -> None:
    assert told({"nam": "Ann", "count": "many", "extras": ["a", "z"], "size": "small"}) == {
        "nam": "no such field: did you mean 'name'?",
        "name": "required: a line of text",
        "size": "one of 1, True, 'xl'",
        "extras": "a list out of 'a', 'b', 'c', each once",
        "count": "a number",
        "sure": "required: true or false",
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "two\nlines"),
        ("name", "x" * 10_001),
        ("name", 5),
        ("name", "nul\x00"),
        ("why", ["no"]),
        ("size", 2),
        ("size", False),
        ("size", [1]),
        ("extras", "a"),
        ("extras", ["a", "a"]),
        ("extras", [1]),
        ("count", True),
        ("count", "1"),
        ("sure", 1),
        ("sure", "yes"),
        ("paper", {"id": 1}),
    ],
)
def test_values_of_another_kind_are_refused(field: str, value: Any) -> None:
    given_values = {"name": "Ann", "sure": True} | {field: value}
    assert list(told(given_values)) == [field]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_json_does_not_have_are_no_numbers(value: float) -> None:
    assert list(told({"name": "Ann", "sure": True, "count": value})) == ["count"]


@pytest.mark.parametrize("empty", ["", "  ", None])
def test_an_empty_text_does_not_answer_a_required_field(empty: str | None) -> None:
    assert told({"name": empty, "sure": True}) == {"name": "required: a line of text"}


def test_true_is_not_one() -> None:
    assert check_values(FORM, {"name": "A", "sure": True, "size": True})["size"] is True
    only_one = [FormField(name="size", type="select", options=[1])]
    assert told({"size": True}, only_one) == {"size": "one of 1"}


def test_too_much_is_refused_before_it_is_looked_at() -> None:
    with pytest.raises(PayloadTooLargeError, match="at most 1,048,576"):
        check_values(FORM, {"why": "x" * 1_048_577})
    with pytest.raises(InvalidArgumentError, match="half a surrogate"):
        check_values(FORM, {"why": "half \ud83d"})
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    with pytest.raises(InvalidArgumentError, match="nested more than"):
        check_values(FORM, {"why": deep})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            [FormField(name="a", type="text"), FormField(name="a", type="text")],
            "'a' is given to an earlier field too",
        ),
        ([FormField(name="", type="text")], "1 to 200 characters"),
        ([FormField(name="a", type="select")], "0 options"),
        ([FormField(name="a", type="multiselect", options=[1, {"value": 1}])], r"options\[1\] is 1"),
        ([FormField(name="a", type="number", default="x")], "its default does not fit: a number"),
        ([FormField(name=str(n), type="text") for n in range(MAX_FIELDS + 1)], "at most 100"),
    ],
)
def test_a_form_that_nobody_can_fill_in_is_refused(fields: list[FormField], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check_fields(fields)


def test_the_form_of_these_tests_can_be_asked() -> None:
    check_fields(FORM)
    assert [option_label(option) for option in FORM[2].options] == ["small", "True", "xl"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b", "xl", "", "long\nline"]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.dictionaries(st.sampled_from([f.name for f in FORM]), json_values, max_size=7))
def test_what_is_taken_fits_the_schema_and_is_taken_again_unchanged(values: dict[str, Any]) -> None:
    try:
        answer = check_values(FORM, values)
    except FormError:
        return
    assert check_values(FORM, answer) == answer
    schema = form_schema(FORM)
    assert faults(answer, schema, schema) == []
