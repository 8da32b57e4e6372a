"""Differences between JSON values: found by path, described in stable and readable lines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.json_diff import ABSENT, MAX_DIFFERENCES, Difference, describe, differences, parts

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("recorded", "replayed", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a: 1 -> 2"]),
        ({"a": 1}, {"a": True}, ["a: 1 -> true"]),
        ({"a": 1}, {}, ["a: gone: 1"]),
        ({}, {"a": {"b": 1}}, ['a: new: {"b":1}']),
        ([1, 2, 3], [1, 3], ["[1]: gone: 2"]),
        ([1, 3], [1, 2, 3], ["[1]: new: 2"]),
        ({"m": [{"c": "x"}, {"c": "y"}]}, {"m": [{"c": "x"}, {"c": "z"}]}, ['m[1].c: "y" -> "z"']),
        ("x", ["x"], ['the whole: "x" -> ["x"]']),
        ({"t": "a\n"}, {"t": "a"}, ["t:", '  "a\\n" -> "a"']),
        (
            {"t": "one\ntwo\nthree"},
            {"t": "one\n2\nthree"},
            [
                "t:",
                "  --- recorded",
                "  +++ replayed",
                "  @@ -1,3 +1,3 @@",
                "   one",
                "  -two",
                "  +2",
                "   three",
            ],
        ),
    ],
)
def test_each_place_that_differs_is_told(recorded: Any, replayed: Any, expected: list[str]) -> None:
    assert describe(differences(recorded, replayed)) == expected


def test_a_message_put_in_between_is_one_difference() -> None:
    messages = [{"role": "user", "content": f"{n}"} for n in range(50)]
    more = [*messages[:20], {"role": "user", "content": "new"}, *messages[20:]]
    assert [one.path for one in differences(messages, more)] == ["[20]"]


def test_of_a_very_long_line_what_differs_is_shown() -> None:
    (_, *lines) = describe(differences("x" * 5000 + "here" + "y" * 5000, "x" * 5000 + "there" + "y" * 5000))
    assert [line for line in lines if "there" in line]
    assert max(map(len, lines)) < 300


def test_there_is_a_bound_to_what_is_told() -> None:
    found = differences({str(n): n for n in range(1000)}, {})
    assert len(found) == MAX_DIFFERENCES
    lines = describe(found)
    assert len(lines) == MAX_DIFFERENCES + 1
    assert lines[-1] == "... and perhaps more"
    assert len(describe(differences({"t": "a\nb\n" * 500}, {"t": "c\nd\n" * 500}))) < 50


def test_the_outer_names_that_differ() -> None:
    found = [
        Difference("messages[0].content", 1, 2),
        Difference("messages[1]", 1, ABSENT),
        Difference("x.y", 1, 2),
    ]
    assert parts(found) == ["messages", "x"]
    assert parts(found, 2) == ["messages.content", "messages", "x.y"]


@given(JSON, JSON)
@settings(max_examples=150, deadline=None)
def test_equal_values_have_no_difference_and_others_have_one(one: Any, other: Any) -> None:
    assert differences(one, one) == []
    same = _typed(one) == _typed(other)
    assert (differences(one, other) == []) is same
    assert describe(differences(one, other)) == describe(differences(one, other))


def _typed(value: Any) -> Any:
    """Values that differ where JSON does: true is not 1."""
    if isinstance(value, dict):
        return {name: _typed(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_typed(inner) for inner in value]
    return (type(value).__name__, value)
