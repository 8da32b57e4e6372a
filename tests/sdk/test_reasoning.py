"""A model's thinking beside an answer: what runners send, and what a host gets that takes none."""

from __future__ import annotations

from typing import Any

import pytest

from hostler_protocol.results import MessageCompleted, MessageDelta, RunCompleted
from hostler_sdk import Runner, delta, message
from hostler_sdk.results import Result, completed, without_reasoning
from hostler_sdk.testing import drive_sync


class Thinker(Runner):
    """Thinks aloud."""

    async def run(self, ctx: Any) -> Any:
        yield delta(reasoning="first ")
        yield delta("4", reasoning="then")
        yield message("42", reasoning="first then")


def test_it_is_beside_the_answer_and_no_part_of_it() -> None:
    driven = drive_sync(Thinker, "what?")
    first, second, whole = (one.data for one in driven.results[:3])
    assert isinstance(first, MessageDelta)
    assert isinstance(second, MessageDelta)
    assert isinstance(whole, MessageCompleted)
    assert (first.chunk.content, first.chunk.reasoning) == ("", "first ")
    assert (second.chunk.content, second.chunk.reasoning) == ("4", "then")
    assert (whole.message.content, whole.message.reasoning) == ("42", "first then")
    assert driven.text == "42"


def test_a_host_that_takes_none_gets_the_rest() -> None:
    assert without_reasoning(delta(reasoning="a")) is None
    for given, left in (
        (delta("x", reasoning="a"), delta("x")),
        (message("x", reasoning="a"), message("x")),
        (delta("x"), delta("x")),
    ):
        assert without_reasoning(given) == left
    end = completed()
    assert without_reasoning(end) is end
    last = message("x", reasoning="a").data
    assert isinstance(last, MessageCompleted)
    kept = without_reasoning(Result("run.completed", RunCompleted(message=last.message)))
    assert kept is not None
    assert isinstance(kept.data, RunCompleted)
    assert kept.data.message is not None
    assert kept.data.message.reasoning is None


@pytest.mark.parametrize(
    "make", [lambda text: delta(reasoning=text), lambda text: message("x", reasoning=text)]
)
def test_what_is_no_thinking_is_refused(make: Any) -> None:
    with pytest.raises(TypeError, match="reasoning has 65,537 characters; at most 65,536"):
        make("x" * 65_537)
    with pytest.raises(TypeError, match="reasoning is text, not int"):
        make(7)
    with pytest.raises(TypeError, match="surrogate"):
        make("half \ud83d")
