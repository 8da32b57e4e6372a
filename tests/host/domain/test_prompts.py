"""Prompts of agents: which may be, and texts with their arguments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.agents import AgentSpec
from hostler.domain.prompts import (
    MAX_ARGUMENTS,
    MAX_DESCRIPTION_CHARS,
    MAX_FILLED_CHARS,
    MAX_PROMPTS,
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    Prompt,
    PromptArgument,
    filled,
    prompt_mistakes,
)
from hostler.domain.type_fit import fit
from hostler_protocol.errors import InvalidArgumentError


def prompt(text: str, *arguments: str, required: bool = True, **fields: Any) -> Prompt:
    named = [PromptArgument(name=name, required=required) for name in arguments]
    return Prompt(name=fields.pop("name", "p"), text=text, arguments=named, **fields)


def told(*prompts: Prompt) -> list[str]:
    return [mistake.sentence for mistake in prompt_mistakes(prompts)]


@pytest.mark.parametrize(
    "one",
    [
        prompt("Hello"),
        prompt("{city}: {city} and {国家}", "city", "国家"),
        prompt('{"json": {"a": 1}} {} {not a name} {1st} {a.b} { a }'),
        prompt("{ünder_score-1}", "ünder_score-1"),
        prompt("你好 🙂 <b>{a}</b>", "a", name="X-_9", title="标题 🙂", description=""),
        prompt("x" * (MAX_TEXT_CHARS - 3) + "{a}", "a", name="n" * 64),
    ],
)
def test_a_prompt_may_be(one: Prompt) -> None:
    assert told(one) == []


@pytest.mark.parametrize(
    ("one", "wrong"),
    [
        (prompt("x", name=""), "prompts[0].name: a name has 1 to 64 letters from a to z, digits, _ and -"),
        (prompt("x", name="a.b"), "prompts[0].name: a name has"),
        (prompt("x", name="摘要"), "prompts[0].name: a name has"),
        (prompt("x", name="n" * 65), "prompts[0].name: a name has"),
        (prompt("x", name="n\n"), "prompts[0].name: a name has"),
        (prompt("", name="n"), "prompts[0].text: it is empty; expected the message that the prompt is"),
        (prompt(" \n"), "prompts[0].text: it is empty"),
        (
            prompt("{city}"),
            "prompts[0].text: {city} is no argument: add one of this name, or take the braces",
        ),
        (prompt("x", "a"), "prompts[0].arguments[0].name: the text has no {a}: put it in, or remove the"),
        (prompt("{A}", "A", "a"), "prompts[0].arguments[1].name: the text has no {a}"),
        (prompt("{a}", "a", "a"), "prompts[0].arguments[0].name: 'a' is the name of 2 arguments"),
        (
            prompt("{a b}", "a b"),
            "prompts[0].arguments[0].name: a name has 1 to 64 letters, digits, _ and -,",
        ),
        (prompt("{1}", "1"), "prompts[0].arguments[0].name: a name has"),
        (prompt("{}", ""), "prompts[0].arguments[0].name: a name has"),
        (prompt("{🙂}", "🙂"), "prompts[0].arguments[0].name: a name has"),
        (prompt(f"{{{'a' * 65}}}", "a" * 65), "prompts[0].arguments[0].name: a name has"),
    ],
)
def test_a_prompt_may_not_be(one: Prompt, wrong: str) -> None:
    assert told(one)[0].startswith(wrong)


def test_each_mistake_has_its_place() -> None:
    assert told(prompt("x", name="a"), prompt("{b} {b} {c}"), prompt("x", name="a")) == [
        "prompts[0].name: 'a' is the name of 2 prompts",
        "prompts[1].text: {b} is no argument: add one of this name, or take the braces away",
        "prompts[1].text: {c} is no argument: add one of this name, or take the braces away",
        "prompts[2].name: 'a' is the name of 2 prompts",
    ]


def test_everything_of_a_prompt_has_a_bound() -> None:
    argument = {"name": "a"}
    least = {"name": "p", "text": "x"}
    for more, place in (
        ({"text": "x" * (MAX_TEXT_CHARS + 1)}, "prompts[0].text"),
        ({"title": "x" * (MAX_TITLE_CHARS + 1)}, "prompts[0].title"),
        ({"description": "x" * (MAX_DESCRIPTION_CHARS + 1)}, "prompts[0].description"),
        ({"arguments": [argument] * (MAX_ARGUMENTS + 1)}, "prompts[0].arguments"),
        (
            {"arguments": [argument | {"description": "x" * (MAX_DESCRIPTION_CHARS + 1)}]},
            "prompts[0].arguments[0].description",
        ),
        ({"argument": "a"}, "prompts[0].argument"),
    ):
        _, mistakes = fit({"name": "a", "runner": "r", "prompts": [least | more]}, AgentSpec)
        assert [mistake.place for mistake in mistakes] == [place]
    _, mistakes = fit({"name": "a", "runner": "r", "prompts": [least] * (MAX_PROMPTS + 1)}, AgentSpec)
    assert [mistake.sentence for mistake in mistakes] == ["prompts: expected a list of length <= 32"]


def test_a_text_with_its_values() -> None:
    one = prompt("{a} and {b}, {a}. {c}", "a", "b")
    assert filled(one, {"a": "你好 🙂", "b": ""} | {"b": "2"}) == "你好 🙂 and 2, 你好 🙂. {c}"
    optional = prompt("About {topic}{rest}", "topic", "rest", required=False)
    assert filled(optional, {"topic": "tea"}) == "About tea"
    assert filled(optional, {}) == "About "


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ({}, "needs a, b"),
        ({"a": "", "b": "2"}, "needs a"),
        ({"a": "1", "b": "2", "c": "3"}, "no argument 'c': expected a, b"),
    ],
)
def test_values_that_do_not_fit(values: dict[str, str], wrong: str) -> None:
    with pytest.raises(InvalidArgumentError, match=wrong):
        filled(prompt("{a}{b}", "a", "b"), values)
    with pytest.raises(InvalidArgumentError, match="no argument 'a': it takes none"):
        filled(prompt("x"), {"a": "1"})


def test_a_text_with_its_values_is_bounded() -> None:
    one = prompt("{a}" * 2_000, "a")
    assert len(filled(one, {"a": "x" * (MAX_FILLED_CHARS // 2_000)})) == MAX_FILLED_CHARS
    with pytest.raises(InvalidArgumentError, match=r"has 102,000 characters; at most 100,000 are allowed"):
        filled(one, {"a": "x" * (MAX_FILLED_CHARS // 2_000 + 1)})
    with pytest.raises(InvalidArgumentError, match="has 20,000,000,000 characters"):
        filled(one, {"a": "x" * 10_000_000})


PIECES = st.lists(st.sampled_from(["{a}", "{b}", "{", "}", "\\1", "\\g<a>", "$1", "%s", "x"]), max_size=6)


@given(PIECES.map("".join), PIECES.map("".join))
def test_a_value_is_text_and_nothing_else(a: str, b: str) -> None:
    one = prompt("[{a}|{b}]", "a", "b", required=False)
    assert filled(one, {"a": a, "b": b}) == f"[{a}|{b}]"
    assert filled(one, {"b": b, "a": a}) == f"[{a}|{b}]"
