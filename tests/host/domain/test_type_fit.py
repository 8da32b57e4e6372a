"""All that does not fit a type, at once."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.type_fit import fit


class Part(msgspec.Struct, forbid_unknown_fields=True):
    """Something inside."""

    mode: Literal["queue", "steer"] | None = None
    size: Annotated[int, msgspec.Meta(ge=1)] | None = None
    flag: bool = False

    def __post_init__(self) -> None:
        if self.flag and self.size == 13:
            raise ValueError("13 is no size of a flag")


class Named(msgspec.Struct, forbid_unknown_fields=True):
    """Something that needs a name."""

    name: str


class One(msgspec.Struct, frozen=True, tag="one", forbid_unknown_fields=True):
    """One of two that a tag tells apart."""

    size: int = 0


class Two(msgspec.Struct, tag="two", forbid_unknown_fields=True):
    """The other."""

    size: str = ""


class Whole(msgspec.Struct, forbid_unknown_fields=True):
    """What is converted to."""

    name: Annotated[str, msgspec.Meta(max_length=5)]
    parts: list[Part] = []
    named: dict[str, Literal["on"] | Part] = {}
    either: str | Named = ""
    free: dict[str, Any] = {}
    words: list[str] = []
    tagged: One | Two | None = None
    only: One = One()


def test_what_fits_is_taken() -> None:
    data = {
        "name": "a",
        "parts": [{"mode": "queue"}],
        "named": {"x": "on", "y": {"size": 2}},
        "free": {"k": [1]},
    }
    assert fit(data, Whole) == (msgspec.convert(data, Whole), [])


def test_all_mistakes_are_told_and_the_rest_is_kept() -> None:
    data = {
        "name": "a",
        "nam": "b",
        "parts": [{"mode": "stear", "size": 0}, {"sise": 1, "size": 2}, 5, {"flag": True, "size": 13}],
        "named": {"x.y": "off", "z": {"flag": 1}, "w": "on"},
        "either": {"nme": "n"},
        "words": ["a", 1, "b"],
        "tagged": {"type": "two", "size": 1},
        "only": {"type": "one", "sise": 1, "size": 2},
    }  # fmt: skip
    found, mistakes = fit(data, Whole)
    assert [one.sentence for one in mistakes] == [
        "nam: unknown key; did you mean 'name'?",
        "parts[0].mode: 'stear' is none of queue, steer; did you mean 'steer'?",
        "parts[0].size: expected a whole number >= 1",
        "parts[1].sise: unknown key; did you mean 'size'?",
        "parts[2]: expected an object, not a whole number",
        "parts[3]: 13 is no size of a flag",
        "named[\"x.y\"]: 'off' is none of on",
        "named.z.flag: expected true or false, not a whole number",
        "either.nme: unknown key; did you mean 'name'?",
        "either: the key 'name' is missing",
        "words[1]: expected a text, not a whole number",
        "tagged.size: expected a text, not a whole number",
        "only.sise: unknown key; did you mean 'size'?",
    ]
    assert found == Whole(
        name="a",
        parts=[Part(), Part(size=2)],
        named={"z": Part(), "w": "on"},
        words=["a", "b"],
        only=One(size=2),
    )


@pytest.mark.parametrize(
    ("data", "sentences"),
    [
        ([], ["expected an object, not a list"]),
        (None, ["expected an object, not null"]),
        ({}, ["the key 'name' is missing"]),
        ({"name": "a" * 9}, ["name: expected a text of length <= 5"]),
        ({"nam": "a"}, ["nam: unknown key; did you mean 'name'?", "the key 'name' is missing"]),
        ({"name": "a", 5: 1}, None),
        ({"name": "a", "free": {1: 2}}, None),
    ],
)  # fmt: skip
def test_nothing_is_left_of_some(data: Any, sentences: list[str] | None) -> None:
    _, mistakes = fit(data, Whole)
    if sentences is not None:
        assert [one.sentence for one in mistakes] == sentences
    else:
        assert len(mistakes) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 20) | st.text(max_size=3) | st.sampled_from(["on", "one"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["name", "parts", "named", "size", "flag", "mode", "tagged", "type", "only", "x"]),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_there_is_a_mistake_exactly_where_msgspec_finds_one(data: Any) -> None:
    found, mistakes = fit(data, Whole)
    try:
        wanted = msgspec.convert(data, Whole)
    except msgspec.ValidationError:
        assert mistakes
    else:
        assert (found, mistakes) == (wanted, [])


class Narrow(msgspec.Struct, forbid_unknown_fields=True):
    """What a hostile body is fitted to."""

    name: str
    parts: list[dict[str, int]] = []


class Counted(dict[str, Any]):
    """A dict that counts which of its items are looked at."""

    seen = 0

    def items(self) -> Any:
        for item in super().items():
            self.seen += 1
            yield item


@pytest.mark.parametrize("most", [3, 100])
def test_no_more_mistakes_are_looked_for_than_are_wanted(most: int) -> None:
    """300,000 unknown keys took a minute, each compared with all known ones."""
    data = Counted({f"k{number}": 1 for number in range(50_000)}, name="x")
    found, mistakes = fit(data, Narrow, most=most)
    assert found is None
    assert len(mistakes) == most
    assert data.seen <= most + 1
    for parts in ([1] * 50_000, [{f"k{number}": "x" for number in range(50_000)}]):
        found, mistakes = fit({"name": "x", "parts": parts}, Narrow, most=most)
        assert len(mistakes) == most
        assert all(mistake.place.startswith("parts[") for mistake in mistakes)


def test_no_more_values_are_looked_at_than_are_wanted() -> None:
    data = Counted({f"k{number}": 1 for number in range(5_000)})
    found, mistakes = fit({"name": 1, "parts": [data]}, Narrow, most=100, looks=50)
    assert found is None
    assert [mistake.place for mistake in mistakes] == ["name"]
    assert data.seen <= 52


def test_elements_that_are_left_out_make_a_list_too_short_without_another_mistake() -> None:
    kind = Annotated[list[int], msgspec.Meta(min_length=1)]
    assert [mistake.place for mistake in fit(["x"], kind)[1]] == ["[0]"]
    assert len(fit([], kind)[1]) == 1
