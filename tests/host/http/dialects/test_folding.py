"""Runs as answers: the same from any cut, with superseded attempts and requests to the client in them."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.run_events import (
    Asked,
    MessageRetracted,
    MessageStarted,
    ReasoningAdded,
    ReasoningEnded,
    ToolCalled,
    ToolDropped,
    ToolReturned,
)
from hostler.http.dialects.answers import (
    answer_id,
    call_id_of,
    read_answer_id,
    read_call_id,
)
from hostler.http.dialects.fold import Answer, Folding, Waiting, fold_all
from hostler.journal.feed import StoredResult
from hostler_protocol.content import Message, MessageChunk
from hostler_protocol.errors import NotFoundError
from hostler_protocol.results import (
    AttemptStarted,
    MessageCompleted,
    MessageDelta,
    ResultData,
    RunCompleted,
    RunFailed,
    RunPaused,
    ToolCallCompleted,
    ToolCallStarted,
)
from support.dialects.plain import Plain, asked, delta, said, stored


def folded(*data: ResultData, after: int = 0, retracts: bool = False) -> tuple[Plain, list[str]]:
    fold = Plain(retracts=retracts)
    frames = list(fold_all(fold, Answer("r", after), stored(*data), None))
    return fold, [frame.decode() for frame in frames]


def test_text_goes_on_where_a_new_attempt_repeats_it() -> None:
    fold, _ = folded(
        delta("The answer "), delta("is"), AttemptStarted(attempt=2, cause="lost", discard_after=0),
        delta("The ans"), delta("wer is 42"), delta(" "), said("The answer is 42"), RunCompleted(),
    )  # fmt: skip
    assert fold.transcript == ["The answer is 42"]
    assert fold.incomplete == []


def test_text_that_is_not_repeated_ends_as_incomplete_or_is_retracted() -> None:
    run = (
        delta("Kept. "), delta("Lost"), AttemptStarted(attempt=2, cause="lost", discard_after=1),
        delta("New"), said("Kept. New"), RunCompleted(),
    )  # fmt: skip
    fold, _ = folded(*run)
    assert (fold.transcript, fold.incomplete) == (["Kept. New"], ["Kept. Lost"])
    fold, _ = folded(*run, retracts=True)
    assert (fold.transcript, fold.incomplete) == (["Kept. New"], [])


def test_a_message_that_no_attempt_completes_ends_with_the_run() -> None:
    fold, _ = folded(delta("half"), RunFailed(code="runner.error", error="x"))
    assert (fold.transcript, fold.incomplete) == ([], ["half"])


def test_a_call_is_said_once_however_often_it_is_repeated() -> None:
    start = ToolCallStarted(tool_call_id="c", tool_name="scan", parameters={"a": 1})
    _, frames = folded(
        start,
        AttemptStarted(attempt=2, cause="lost", discard_after=0),
        start,
        ToolCallCompleted(tool_call_id="c", tool_name="scan", result=1),
        ToolCallCompleted(tool_call_id="c", tool_name="scan", result=1),
        start,
        RunCompleted(),
    )
    assert frames[1] == repr(ToolCalled("c", "scan", {"a": 1}))
    assert [frame for frame in frames if "Tool" in frame] == [
        repr(ToolCalled("c", "scan", {"a": 1})),
        repr(ToolReturned("c", "scan", 1, None)),
        repr(ToolCalled("c.2", "scan", {"a": 1})),  # the model used its id again
    ]


def test_calls_at_once_that_a_model_gave_one_id_are_told_apart_by_their_arguments() -> None:
    starts = [ToolCallStarted(tool_call_id="c", tool_name="scan", parameters={"a": n}) for n in (1, 2)]
    requests = [
        msgspec.structs.replace(asked(name, tool_call_id="c"), tool_name="scan", arguments={"a": n})
        for name, n in (("second", 2), ("first", 1))
    ]
    fold, _ = folded(*starts, *requests)
    assert isinstance(fold.ending, Waiting)
    assert [(one.request.call_id, one.key) for one in fold.ending.asked] == [
        ("second", "c.2"),
        ("first", "c"),
    ]


def test_a_call_that_no_attempt_makes_again_is_dropped() -> None:
    _, frames = folded(
        ToolCallStarted(tool_call_id="c", tool_name="scan"),
        AttemptStarted(attempt=2, cause="lost", discard_after=0),
        said("no"),
        RunCompleted(),
    )
    assert repr(ToolDropped("c", "scan")) in frames


def test_an_answer_ends_where_its_client_is_asked_and_the_next_goes_on() -> None:
    run = (
        delta("Let me "),
        ToolCallStarted(tool_call_id="x", tool_name="scan", parameters={}),
        asked("a", tool_call_id="x"),
        asked("b"),
        RunPaused(pending=[]),
        AttemptStarted(attempt=2, cause="decided", discard_after=5),
        ToolCallCompleted(tool_call_id="x", tool_name="scan", result=7),
        delta("see."),
        said("Let me see."),
        RunCompleted(),
    )
    fold, frames = folded(*run)
    assert isinstance(fold.ending, Waiting)
    assert [one.request.call_id for one in fold.ending.asked] == ["a", "b"]
    assert sum("ToolCalled" in frame for frame in frames) == 2
    live, frames_live = folded(*run[:4])  # cut by silence, before the run was parked
    assert isinstance(live.ending, Waiting)
    assert [frame for frame in frames if "Paused" not in frame] == frames_live
    rest, frames = folded(*run, after=4)
    assert rest.transcript == [" see."]
    assert "begin" in frames
    assert fold.texts[1] + rest.texts[1] == "Let me see."


def test_an_approval_does_not_end_an_answer_of_a_dialect_that_waits_with_it() -> None:
    fold, frames = folded(asked("a", "approval"), RunPaused(pending=[]), said("done"), RunCompleted())
    assert fold.transcript == ["done"]
    assert sum(frame.startswith(Asked.__name__) for frame in frames) == 1


def thought(text: str, message_id: str | None = None) -> MessageDelta:
    chunk = MessageChunk(role="assistant", content="", message_id=message_id, reasoning=text)
    return MessageDelta(chunk=chunk)


def test_reasoning_comes_before_its_message_and_ends_where_it_begins() -> None:
    fold, frames = folded(
        thought("Let me "), thought("see."), delta("It is "), said("It is 4"), RunCompleted()
    )
    assert fold.transcript == ["It is 4"]
    assert frames[1:5] == [
        repr(ReasoningAdded(1, "Let me ")),
        repr(ReasoningAdded(1, "see.")),
        repr(ReasoningEnded(1)),
        repr(MessageStarted(1, None)),
    ]


def test_reasoning_alone_is_no_message_and_ends_with_the_run() -> None:
    fold, frames = folded(thought("hm"), RunFailed(code="runner.error", error="x"))
    assert (fold.transcript, fold.incomplete) == ([], [])
    assert frames[1:3] == [repr(ReasoningAdded(1, "hm")), repr(ReasoningEnded(1))]


def test_reasoning_that_a_new_attempt_repeats_is_said_once() -> None:
    run = (
        thought("Let me "), AttemptStarted(attempt=2, cause="lost", discard_after=0),
        thought("Let"), thought(" me see."), said("4"), RunCompleted(),
    )  # fmt: skip
    _, frames = folded(*run)
    added = [frame for frame in frames if frame.startswith("ReasoningAdded")]
    assert added == [repr(ReasoningAdded(1, "Let me ")), repr(ReasoningAdded(1, "see."))]
    _, frames = folded(*run, retracts=True)
    assert repr(MessageRetracted(1, "", "")) in frames


def test_reasoning_of_a_complete_message_is_said_once() -> None:
    whole = MessageCompleted(
        message=Message(role="assistant", content="4", message_id="m", reasoning="Two and two.")
    )
    for first in ((), (thought("Two "),)):
        _, frames = folded(*first, whole, RunCompleted())
        added = [frame for frame in frames if frame.startswith("ReasoningAdded")]
        assert len(added) == 1 + len(first)


@dataclass
class Script:
    """A run as results: attempts that begin again anywhere, and say the same or something else."""

    results: list[ResultData] = field(default_factory=list)
    complete: list[str] = field(default_factory=list)


@st.composite
def runs(draw: st.DrawFn) -> Script:
    script = Script()
    words = st.text("ab \n", min_size=1, max_size=4)
    for number in range(draw(st.integers(1, 3))):
        text = draw(st.text("ab \n", min_size=1, max_size=12)).rstrip() + "."
        for _ in range(draw(st.integers(0, 2))):  # attempts that are lost
            lost = text if draw(st.booleans()) else draw(words)
            kept = len(script.results)
            for piece in _pieces(draw, lost)[: draw(st.integers(0, 4))]:
                script.results.append(delta(piece))
            script.results.append(
                AttemptStarted(attempt=2, cause="lost", discard_after=min(kept, len(script.results)))
            )
        script.results += [delta(piece) for piece in _pieces(draw, text)]
        script.results.append(said(text, f"m{number}"))
        script.complete.append(text)
    script.results.append(RunCompleted())
    return script


def _pieces(draw: st.DrawFn, text: str) -> list[str]:
    pieces = []
    while text:
        size = draw(st.integers(1, len(text)))
        pieces.append(text[:size])
        text = text[size:]
    return pieces


@settings(max_examples=300, deadline=None)
@given(runs(), st.booleans(), st.data())
def test_every_reading_folds_to_the_transcript_and_goes_on_from_any_cut(
    script: Script, retracts: bool, data: st.DataObject
) -> None:
    fold = Plain(retracts=retracts)
    results = stored(*script.results)
    frames = list(fold_all(fold, Answer("r"), results, None))
    assert fold.transcript == script.complete
    if retracts:
        assert fold.incomplete == []
    cut = data.draw(st.integers(0, len(frames)))
    assert _rest(Folding(Plain(retracts=retracts), Answer("r"), skip=cut), results) == frames[cut:]
    muted = data.draw(st.integers(0, len(results)))
    first, second = (
        Folding(Plain(retracts=retracts), Answer("r")),
        Folding(Plain(retracts=retracts), Answer("r")),
    )
    head = [*first.begin(), *(frame for result in results[:muted] for frame in first.take(result))]
    second.mute_through(muted)
    assert head + _rest(second, results) == frames


def _rest(folding: Folding, results: list[StoredResult]) -> list[bytes]:
    frames = folding.begin()
    for result in results:
        frames += folding.take(result)
    return frames + folding.finish(None)


@pytest.mark.parametrize("answer", [Answer("0abc"), Answer("0abc", 17)])
def test_ids_name_what_they_are_of(answer: Answer) -> None:
    assert read_answer_id("resp", answer_id("resp", answer)) == answer
    assert read_call_id(call_id_of(answer, "x_y z")) == ("0abc", "x_y z")
    for wrong in ("", "resp", "resp_", "resp_0abc_x", "resp_0abc_-1", "chat_0abc", "resp_a_" + "9" * 30):
        with pytest.raises(NotFoundError):
            read_answer_id("resp", wrong)
    for wrong in ("", "call", "call_", "call_a", "call_a_", "c_a_b"):
        with pytest.raises(NotFoundError):
            read_call_id(wrong)
