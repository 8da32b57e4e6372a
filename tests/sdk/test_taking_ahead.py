"""Answers that came ahead of their calls: which call takes one, and when they are void."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostler_protocol.calls import CALLS
from hostler_protocol.calls.digest import digest_of
from hostler_protocol.frames import raw
from hostler_protocol.methods import AnswerAhead, RunAheadNote
from hostler_sdk.answers_ahead import AnswersAhead

SET: dict[str, Any] = {"run_id": "r", "scope": "conversation", "key": "k", "value": 1}


def answer(method: str, params: dict[str, Any], result: Any) -> AnswerAhead:
    digest = digest_of(msgspec.convert(params, CALLS[method].params))
    return AnswerAhead(method=method, digest=digest, result=raw(result))


def ahead(*answers: AnswerAhead, requests: int = 0) -> AnswersAhead:
    made = AnswersAhead()
    made.add(RunAheadNote(run_id="r", requests=requests, answers=list(answers)))
    return made


def test_the_call_takes_its_answer_once() -> None:
    answers = ahead(answer("state.set", SET, {"version": 7}))
    reply = answers.take("state.set", raw({**SET, "run_id": "another", "alone": True, "if_version": None}))
    assert reply.version == 7, "what differs between attempts, and defaults, do not count"
    assert not answers
    assert answers.take("state.set", raw(SET)) is None


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("state.set", {"value": True}),
        ("state.set", {"value": 1.0}),
        ("state.set", {"value": "1"}),
        ("state.set", {"value": None}),
        ("state.set", {"if_version": 0}),
        ("state.set", {"key": "K"}),
        ("state.set", {"key": 1}),
        ("state.get", {}),
    ],
)
def test_no_other_call_takes_it(method: str, changes: dict[str, Any]) -> None:
    answers = ahead(answer("state.set", SET, {"version": 7}))
    assert answers.take(method, raw({**SET, **changes})) is None
    assert answers, "a call with an id makes them void, not the look"


def test_only_the_next_one_is_taken() -> None:
    answers = ahead(answer("state.set", SET, {"version": 1}), answer("state.get", SET, {"value": 1}))
    assert answers.take("state.get", raw(SET)) is None
    assert answers.take("state.set", raw(SET)).version == 1
    assert answers.take("state.get", raw(SET)).value == 1


def test_a_call_with_an_id_makes_those_void_that_were_sent_before_the_host_saw_it() -> None:
    one = answer("state.set", SET, {"version": 1})
    answers = ahead(one)
    answers.requested()
    assert not answers
    answers.add(RunAheadNote(run_id="r", requests=0, answers=[one]))
    assert not answers, "it was on its way"
    answers.add(RunAheadNote(run_id="r", requests=1, answers=[one]))
    assert answers


def test_an_answer_that_cannot_be_read_is_not_taken() -> None:
    answers = ahead(answer("state.set", SET, {"version": "one"}))
    assert answers.take("state.set", raw(SET)) is None
