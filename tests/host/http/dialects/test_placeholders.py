"""Frames with placeholders are, filled in, the bytes that a fold of one reader alone would write."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from hostler.http.a2a.bindings import RPC_EVENTS, filling_for
from hostler.http.a2a.fold import Binding, TaskFacts, TaskFold
from hostler.http.a2a.wire import encode
from hostler.http.dialects.fold import Answer, Fold, Folding, fold_all
from hostler.http.dialects.placeholders import EVENT_IDS, PROGRESS_TOKEN, REQUEST_ID, REQUEST_STATE, filled
from hostler.http.mcp.call_fold import CallFacts, CallFold
from hostler.http.problems import problem_of
from hostler_protocol.content import Message, MessageChunk, Usage
from hostler_protocol.errors import UnauthorizedError
from hostler_protocol.results import (
    ArtifactCreated,
    MessageCompleted,
    MessageDelta,
    ResultData,
    RunCompleted,
    RunFailed,
    ToolCallCompleted,
    ToolCallStarted,
)
from support.dialects.plain import asked, delta, said, stored

MARKS = [one.mark for one in (REQUEST_ID, PROGRESS_TOKEN, EVENT_IDS, REQUEST_STATE)]
HARD = "øùúû 你好 🙂 \U0010ffff \x00\x1f\n\r\u2028\\ \" '"
"""Among them the characters whose numbers are those of the marks."""
IDS: list[str | int] = [
    *(0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)),
    *(
        "",
        "a",
        "7",
        "null",
        'with "quotes" and \\ and /',
        HARD,
        "\xf8\xf9\xfa\xfb",
        "i" * 128,
        "data: x\n\nid: 5",
    ),
]
PROBLEM = problem_of(UnauthorizedError(f"the key has ended: {HARD}"))


def thought(text: str) -> MessageDelta:
    return MessageDelta(chunk=MessageChunk(role="assistant", content="", reasoning=text))


WORK: list[ResultData] = [
    thought(HARD),
    *(delta(f"{HARD} {number}") for number in range(3)),
    MessageCompleted(
        message=Message(role="assistant", content="".join(f"{HARD} {number}" for number in range(3)))
    ),
    ToolCallStarted(tool_call_id="t", tool_name="shop.book", parameters={HARD: HARD}),
    ToolCallCompleted(tool_call_id="t", tool_name="shop.book", result={"said": HARD}),
    ArtifactCreated(artifact_id="f", artifact_type="file", name=HARD, mime_type="text/plain", size_bytes=5),
    said(HARD, "m2"),
]
ENDINGS: dict[str, ResultData] = {
    "completed": RunCompleted(),
    "failed": RunFailed(error=HARD, code="runner.failed"),
    "asked": asked("c", "approval"),
}
USED = Usage(input_tokens=3, output_tokens=4)


def frames_of(fold: Fold, *results: ResultData) -> list[bytes]:
    return list(fold_all(fold, Answer("r"), stored(*results), USED)) + fold.refuse(PROBLEM)


@pytest.mark.parametrize("ending", ENDINGS)
def test_frames_of_mcp_are_those_of_a_call_alone(ending: str) -> None:
    results = [*WORK, ENDINGS[ending]]
    common: dict[str, Any] = {"level": "debug", "elicits": True}
    kinds = set()
    for id_ in IDS:
        for session in (True, False):
            own: dict[str, Any] = {"event_ids": b"signed-id_5"} if session else {"state": f"signed {id_}"}
            for progress in (None, id_):
                facts = CallFacts(Answer("r"), HARD, id_, "c", progress, **common, **own)
                shared = frames_of(CallFold(facts.shared()), *results)
                alone = frames_of(CallFold(facts), *results)
                assert [filled(frame, facts.filling()) for frame in shared] == alone
                assert all(mark not in frame for frame in alone for mark in MARKS)
                assert any(REQUEST_ID.mark in frame for frame in shared)
                answer = json.loads(alone[-1].partition(b"data: ")[2])
                assert (answer["id"], type(answer["id"])) == (id_, type(id_))
                kinds.add(facts.shared())
    assert len(kinds) == 4  # session or not, with a progress token or without


@pytest.mark.parametrize("ending", ENDINGS)
def test_frames_of_a2a_are_those_of_a_request_alone(ending: str) -> None:
    results = [*WORK, ENDINGS[ending]]
    opening = TaskFold(TaskFacts("r", "c"), RPC_EVENTS).task()

    def fold(binding: Binding) -> TaskFold:
        return TaskFold(TaskFacts("r", HARD, tools=True), binding, opening=opening)

    shared = frames_of(fold(RPC_EVENTS), *results)
    for id_ in IDS:

        def alone(event: Any, id_: Any = id_) -> bytes:
            result = msgspec.Raw(encode(event))
            return b"data: %b\n\n" % msgspec.json.encode({"jsonrpc": "2.0", "id": id_, "result": result})

        wanted = frames_of(fold(Binding("alone", alone, RPC_EVENTS.error)), *results)
        found = [filled(frame, filling_for(id_)) for frame in shared]
        assert found[:-1] == wanted[:-1]
        told = [json.loads(frame.removeprefix(b"data: ")) for frame in found]
        assert {(one["id"], type(one["id"])) for one in told} == {(id_, type(id_))}
        assert HARD in told[-1]["error"]["message"]


def test_a_fold_that_goes_on_writes_the_same_wherever_it_began() -> None:
    """Also of reasoning and of messages that are under way where a reader comes."""
    results = stored(*WORK, thought("more"), thought(" thoughts"), said("more"), RunCompleted())
    facts = TaskFacts("r", "c", tools=True)

    def frames(after: int) -> dict[int, list[bytes]]:
        opening = TaskFold(facts, RPC_EVENTS).task()
        fold = TaskFold(facts, RPC_EVENTS, opening=opening, stays=True)
        folding = Folding(fold, Answer("r", after), anywhere=True)
        folding.begin()
        assert folding.caught_up == (after == 0)
        found = {}
        for result in results:
            found[result.sequence] = folding.take(result)
            assert folding.caught_up == (result.sequence >= after)
            assert not found[result.sequence] or result.sequence > after
        return found

    whole = frames(0)
    for after in range(len(results)):
        for sequence, one in frames(after).items():
            if sequence > after:
                assert one == whole[sequence], (after, sequence)
