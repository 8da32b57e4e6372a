"""What is said of data that does not fit a type."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest

from hostler.domain.type_fit import misfit

A = {"name": "a"}


class Part(msgspec.Struct, forbid_unknown_fields=True):
    """Something inside."""

    mode: Literal["queue", "steer"] | None = None
    size: Annotated[int, msgspec.Meta(ge=1)] | None = None
    flag: bool = False
    share: float = 0.0


class Cat(msgspec.Struct, tag="cat", tag_field="kind"):
    """One of two."""

    lives: int = 9


class Dog(msgspec.Struct, tag="dog", tag_field="kind"):
    """The other."""


class Whole(msgspec.Struct, forbid_unknown_fields=True):
    """What is converted to."""

    name: Annotated[str, msgspec.Meta(max_length=5)]
    parts: list[Part] = []
    named: dict[str, Part] = {}
    pets: list[Cat | Dog] | None = None


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], "expected an object, not a list"),
        ({}, "the key 'name' is missing"),
        ({"name": None}, "name: expected a text, not null"),
        ({"name": "a" * 9}, "name: expected a text of length <= 5"),
        ({"nam": "a"}, "unknown key 'nam': did you mean 'name'?"),
        ({**A, "parts": {}}, "parts: expected a list, not an object"),
        ({**A, "parts": [{}, {"size": "x"}]}, "parts[1].size: expected a whole number or null, not a text"),
        ({**A, "parts": [{"size": 0}]}, "parts[0].size: expected a whole number >= 1"),
        ({**A, "parts": [{"flag": 1}]}, "parts[0].flag: expected true or false, not a whole number"),
        ({**A, "parts": [{"share": "x"}]}, "parts[0].share: expected a number, not a text"),
        ({**A, "parts": [{"mode": "stear"}]}, "parts[0].mode is 'stear'; expected one of queue, steer"),
        ({**A, "parts": [{"sise": 1}]}, "unknown key 'sise' in parts[0]: did you mean 'size'?"),
        ({**A, "pets": [{"kind": "cow"}]}, "pets[0].kind is 'cow'; expected one of cat, dog"),
        ({**A, "pets": [{"kind": "cat", "lives": ""}]}, "pets[0].lives: expected a whole number, not a text"),
        ({**A, "named": {"x": {"sise": 1}}}, "unknown key 'sise' in named[...]: did you mean 'size'?"),
    ],
)  # fmt: skip
def test_a_misfit_is_told_in_plain_words(data: Any, sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(data, Whole)
    assert misfit(refused.value, Whole).sentence == sentence


def test_words_this_does_not_know_are_passed_on() -> None:
    assert misfit(msgspec.ValidationError("something else"), Whole).sentence == "something else"
