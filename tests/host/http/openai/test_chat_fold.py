"""Results as Chat Completions: messages one after the other, and text of attempts that were superseded."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.http.dialects.fold import Answer, Folding, fold_all
from hostler.http.openai.chat_fold import ChatFacts, ChatStream, ChatWhole, usage_of
from hostler_protocol.content import Message, Usage
from hostler_protocol.results import (
    ArtifactCreated,
    AttemptStarted,
    InteractionRequested,
    MessageCompleted,
    ResultData,
    RunCompleted,
    RunFailed,
    RunPaused,
)
from support.dialects.openai_chat import Told
from support.dialects.plain import asked, delta, said, stored

FACTS = ChatFacts(Answer("r"), "agent", 1, "http://h")
OVER = RunCompleted()


class Loose:
    """A chunk of JSON as the client gives it: missing fields are None."""

    def __init__(self, value: dict[str, Any]) -> None:
        self._value = value

    def __getattr__(self, name: str) -> Any:
        found = self._value.get(name)
        if name == "hostler":
            return found
        if isinstance(found, list):
            return [Loose(one) if isinstance(one, dict) else one for one in found]
        return Loose(found) if isinstance(found, dict) else found


def streamed(*data: ResultData, waits: bool = True) -> Told:
    found = Told()
    for number, frame in enumerate(
        fold_all(ChatStream(FACTS, usage=False, waits=waits), FACTS.answer, stored(*data), None), 1
    ):
        first, second, *rest = frame.decode().split("\n")
        assert (first, rest) == (f"id: {number}", ["", ""])
        if (text := second.removeprefix("data: ")) != "[DONE]":
            found.take(Loose(json.loads(text)))
    return found


def whole(*data: ResultData, waits: bool = False) -> Any:
    fold = ChatWhole(FACTS, waits=waits)
    list(fold_all(fold, FACTS.answer, stored(*data), None))
    assert fold.completion is not None
    return fold.completion


def lost(after: int) -> AttemptStarted:
    return AttemptStarted(attempt=2, cause="lost", discard_after=after)


def test_text_of_a_superseded_attempt_goes_on_or_is_marked_and_is_in_no_whole_answer() -> None:
    same = (delta("The ans"), lost(0), delta("The answer"), said("The answer"), OVER)
    assert streamed(*same).content == "The answer"
    other = (delta("Lost"), lost(0), delta("Kept"), said("Kept"), OVER)
    found = streamed(*other)
    assert found.messages == ["Kept"]
    assert found.content == "Lost\n\nKept"
    assert found.incomplete == {1}
    assert whole(*other).choices[0].message.content == "Kept"


def test_messages_within_each_other_are_said_one_after_the_other() -> None:
    run = (
        delta("a1 ", "a"), delta("b1 ", "b"), delta("a2", "a"), delta("b2", "b"), said("c", "c"),
        said("a1 a2", "a"), said("b1 b2", "b"), OVER,
    )  # fmt: skip
    assert streamed(*run).content == "a1 a2\n\nb1 b2\n\nc"
    assert streamed(*run).messages == ["a1 a2", "b1 b2", "c"]
    waiting = streamed(delta("a1 ", "a"), delta("b1", "b"), asked("x"), RunPaused(pending=[]))
    assert waiting.content == "a1\n\nb1"
    assert waiting.finish_reason == "tool_calls"


def test_a_file_is_shown_once_and_its_name_cannot_leave_its_place() -> None:
    made = ArtifactCreated(artifact_type="file", artifact_id="a/b", name="x](http://evil)\n# `h`")
    run = (made, made, said("see"), OVER)
    content = whole(*run).choices[0].message.content
    assert content == "[x http://evil # h](http://h/v1/artifacts/a%2Fb/content)\n\nsee"
    assert streamed(*run).content == content


def test_where_people_decide_is_said_once_and_ends_an_answer_that_does_not_wait() -> None:
    ask = InteractionRequested(call_id="q", kind="choice", title="Tea?", fallback_text=None)
    run = (said("Hm."), ask, RunPaused(pending=[]), ask, said("Tea it is.", "m2"), OVER)
    assert whole(*run).hostler.messages == ["Hm."]
    assert whole(*run, waits=True).hostler.messages == ["Hm.", "Tea it is."]
    for waits in (False, True):
        found, same = streamed(*run, waits=waits), whole(*run, waits=waits)
        assert len(found.notes) == 1
        assert "Tea?" in found.notes[0]
        assert found.content == same.choices[0].message.content


def test_a_call_that_is_in_doubt_after_its_approval_is_told_of_once_more() -> None:
    doubt = msgspec.structs.replace(asked("q", "in_doubt"), title="Did scan do its work?")
    found = streamed(asked("q", "approval"), RunPaused(pending=[]), doubt, doubt, said("Well."), OVER)
    assert len(found.notes) == 2
    assert "Did scan do its work?" in found.notes[1]


@pytest.mark.parametrize(
    ("reason", "said_reason"), [("stop", "stop"), ("length", "length"), ("max_turns", "stop")]
)
def test_reasons_are_those_of_the_interface(reason: str, said_reason: str) -> None:
    assert streamed(RunCompleted(finish_reason=reason)).finish_reason == said_reason


def test_a_run_that_fails_ends_with_an_error_after_its_text() -> None:
    frames = [
        frame.decode().partition("data: ")[2].strip()
        for frame in fold_all(
            ChatStream(FACTS, usage=True),
            FACTS.answer,
            stored(delta("x"), RunFailed(code="c", error="e")),
            None,
        )
    ]
    assert json.loads(frames[-2])["error"]["code"] == "c"
    assert frames[-1] == "[DONE]"


def test_usage_that_is_not_known_is_not_zero() -> None:
    assert usage_of(None) is usage_of(Usage()) is None
    said = usage_of(Usage(input_tokens=3, total_tokens=10, cached_tokens=1, reasoning_tokens=2))
    assert said is not None
    assert (said.prompt_tokens, said.completion_tokens, said.total_tokens) == (3, 7, 10)
    assert said.prompt_tokens_details.cached_tokens == 1  # type: ignore[union-attr]
    assert said.completion_tokens_details.reasoning_tokens == 2  # type: ignore[union-attr]
    assert usage_of(Usage(output_tokens=4)).total_tokens == 4  # type: ignore[union-attr]


@st.composite
def results(draw: st.DrawFn) -> list[ResultData]:
    """Any order of pieces, whole messages, lost attempts, files and questions."""
    words = st.text("ab \n你", min_size=1, max_size=4)
    names = st.sampled_from(["m", "n", "o"])
    one: st.SearchStrategy[Any] = st.one_of(
        st.builds(delta, words, names),
        st.builds(said, words, names),
        st.builds(lambda text: MessageCompleted(message=Message(role="assistant", content=text)), words),
        st.builds(lost, st.integers(0, 5)),
        st.builds(lambda n: ArtifactCreated(artifact_type="f", artifact_id=f"f{n}"), st.integers(0, 2)),
        st.builds(lambda n: asked(f"q{n}", "approval"), st.integers(0, 2)),
    )
    return [*draw(st.lists(one, max_size=14)), OVER]


@settings(max_examples=60, deadline=None)
@given(results(), st.data())
def test_a_stream_and_its_whole_say_the_same_from_any_cut(run: list[ResultData], data: st.DataObject) -> None:
    found, same = streamed(*run), whole(*run, waits=True)
    # one that begins first is said first, also if it is complete later
    assert sorted(found.messages) == sorted(same.hostler.messages)
    if not (found.incomplete or found.notes):  # a note is said between two pieces of a message
        assert found.content == (same.choices[0].message.content or "")
    frames = list(fold_all(ChatStream(FACTS, usage=True), FACTS.answer, stored(*run), None))
    cut = data.draw(st.integers(0, len(frames)))
    folding = Folding(ChatStream(FACTS, usage=True), FACTS.answer, skip=cut)
    rest = folding.begin()
    for result in stored(*run):
        rest += folding.take(result)
    assert rest + folding.finish(None) == frames[cut:]
