"""Values of YAML and TOML that JSON does not have, each with its place."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pytest

from hostler.domain.config_mistakes import MAX_MISTAKES
from hostler.domain.json_data import MAX_VALUES, json_mistakes
from hostler_protocol.limits import MAX_JSON_DEPTH


@pytest.mark.parametrize("data", [None, True, 0, 1.5, "x", [], {}, {"a": [{"b": None}]}])
def test_json_has_no_mistakes(data: Any) -> None:
    assert json_mistakes(data) == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), "a time"),
        (datetime.date(2026, 1, 1), "a date"),
        (datetime.time(1), "a time"),
        (b"x", "bytes"),
        ({1, 2}, "a set"),
        ((1, 2), "a pair"),
        (1j, "what JSON does not have"),
        (math.inf, "finite"),
        (math.nan, "finite"),
    ],
)
def test_other_values_are_named_at_their_place(value: Any, words: str) -> None:
    (found,) = json_mistakes({"a": [0, value]}, "config")
    assert found.place == "config.a[1]"
    assert words in found.text


def test_keys_are_texts() -> None:
    (found,) = json_mistakes({"a": {1: "x"}})
    assert (found.place, "no text" in found.text) == ("a.1", True)


def test_depth_size_and_the_number_of_mistakes_are_bounded() -> None:
    deep: Any = 0
    for _ in range(MAX_JSON_DEPTH + 1):
        deep = [deep]
    assert [one.text for one in json_mistakes(deep)] == [f"nested more than {MAX_JSON_DEPTH} deep"]
    many = [0] * 1_000
    assert "holds more than" in json_mistakes([many] * (MAX_VALUES // 1_000 + 1))[0].text
    assert len(json_mistakes([math.nan] * (MAX_MISTAKES + 5))) == MAX_MISTAKES
