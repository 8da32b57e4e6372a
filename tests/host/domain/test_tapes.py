"""Journals read as tapes: steps, outcomes, what later attempts took back, what a fork inherits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostler.domain.recording import external_call_number
from hostler.domain.tapes import Player, Tape, TapeEntry, TapeFile, TapeRun, decode_tape, inherit, read_tape
from hostler_protocol.errors import InvalidArgumentError

CONTEXT = {"run_id": "r"}


class Journal:
    """A journal as it is written entry by entry."""

    def __init__(self) -> None:
        self.entries: list[TapeEntry] = []
        self.sequence = 0
        self.attempt = 1
        self.add("lifecycle", "claimed", {})
        self.add("context", "attempt", CONTEXT)

    def add(self, kind: str, type_: str, data: Any, **more: Any) -> Journal:
        entry = TapeEntry(
            position=len(self.entries) + 1,
            kind=kind,
            type=type_,
            at=float(len(self.entries)),
            attempt=self.attempt,
            data=msgspec.Raw(msgspec.json.encode(data)),
            **more,
        )
        self.entries.append(entry)
        return self

    def result(self, type_: str, data: Any) -> Journal:
        self.sequence += 1
        return self.add("result", type_, {"data": data}, sequence=self.sequence)

    def delta(self, text: str) -> Journal:
        return self.result("message.delta", {"chunk": {"role": "assistant", "content": text}})

    def call(self, method: str, digest: str, nth: int = 1, **outcome: Any) -> Journal:
        given = outcome or {"reply": {"value": 1}}
        return self.add(
            "call", method, {"method": method, "digest": digest, "nth": nth, "params": {}, **given}
        )

    def tape(self, base_attempt: int = 1) -> Tape:
        run = TapeRun(
            run_id="r",
            agent="a",
            agent_version=1,
            runner_id="plugin:a/b/c",
            status="completed",
            created_at=0,
            base_attempt=base_attempt,
        )
        return read_tape(
            TapeFile(
                format="hostler.tape",
                version=1,
                host_version="1",
                run=run,
                grant=msgspec.Raw(b"{}"),
                entries=self.entries,
            )
        )


def test_steps_are_numbered_in_the_order_of_the_journal_and_deltas_are_one() -> None:
    tape = Journal().call("state.get", "a").delta("x").delta("y").call("model.stream", "b").delta("z").tape()
    assert [(call.step, call.method) for call in tape.calls] == [(1, "state.get"), (3, "model.stream")]
    (text,) = tape.results
    assert (text.step, text.data["chunk"]["content"]) == (2, "xyz")
    assert tape.steps == 3
    assert tape.result_positions == (4, 5, 7)


def test_every_outcome_is_given_once_by_the_nth_use() -> None:
    tape = (
        Journal()
        .call("state.get", "a", reply={"value": 1})
        .call("state.get", "a", 2, reply={"value": 2})
        .call("state.get", "b", error={"code": "not_found", "message": "no"})
        .add(
            "refusal", "run.list", {"method": "run.list", "error": {"code": "unauthorized", "message": "no"}}
        )
        .tape()
    )
    player = Player(tape)
    first, second = player.find("state.get", "a"), player.find("state.get", "a")
    assert first is not None
    assert second is not None
    assert [bytes(first.reply), bytes(second.reply)] == [b'{"value":1}', b'{"value":2}']
    assert player.find("state.get", "a") is None
    assert [call.step for call in player.unused()] == [3, 4]
    refused = player.find("run.list", "whatever")
    assert refused is not None
    assert refused.error is not None
    assert refused.error.code == "unauthorized"
    assert player.find("run.list", "whatever") is None


def test_an_intent_without_an_outcome_has_none() -> None:
    known = {"method": "tool.call", "digest": "a", "nth": 1, "params": {"tool_name": "t"}}
    journal = Journal().add("intent", "tool.call", known)
    (call,) = journal.tape().calls
    assert not call.known
    (call,) = journal.call("tool.call", "a", reply={"result": 1}).tape().calls
    assert call.known


def test_what_somebody_else_than_the_runner_called_is_not_on_the_tape() -> None:
    nth = external_call_number(1, 1)
    refused = {"method": "state.set", "nth": nth, "error": {"code": "not_found", "message": "no"}}
    journal = Journal().add("refusal", "state.set", refused)
    journal.add("intent", "tool.call", {"method": "tool.call", "digest": "", "nth": nth + 1})
    journal.add("call", "tool.call", {"method": "tool.call", "nth": nth + 1, "reply": {"result": 1}})
    (own,) = journal.call("state.get", "a").tape().calls
    assert (own.method, own.step) == ("state.get", 1)


def test_a_call_that_was_given_up_has_what_came_before_and_no_answer() -> None:
    journal = Journal().call("model.stream", "a", chunks=["one "], reply=None, given_up=True)
    given_up, answered = journal.call("state.get", "b").tape().calls
    assert (given_up.known, given_up.given_up) == (True, True)
    assert [bytes(chunk) for chunk in given_up.chunks] == [b'"one "']
    assert not answered.given_up


def test_what_a_resumed_attempt_took_back_is_not_on_the_tape() -> None:
    journal = Journal().delta("lost ").result("log", {"level": "info", "text": "kept"}).delta("also lost")
    journal.attempt = 2
    journal.add("attempt", "resumed", {"attempt": 2, "frontier": 0})
    journal.delta("said").result("run.completed", {"finish_reason": "stop"})
    tape = journal.tape()
    assert [result.type for result in tape.results] == ["log", "message.delta", "run.completed"]
    assert tape.results[1].data["chunk"]["content"] == "said"


def test_a_refused_call_that_a_resumed_attempt_made_again_is_one_step() -> None:
    """Refusals have no names, and none of them is answered from the journal."""

    def refuse(journal: Journal, *names: str) -> None:
        for name in names:
            error = {"code": "not_found", "message": f"{name} is not among the resources of this run"}
            journal.add("refusal", "tool.call", {"method": "tool.call", "error": error})

    journal = Journal()
    refuse(journal, "see", "see", "take")
    journal.delta("x")
    journal.attempt = 2
    refuse(journal, "take", "see")  # at once, so in any order; and it was lost before it made the third
    journal.attempt = 3
    refuse(journal, "see", "see", "take")
    journal.add("attempt", "resumed", {"attempt": 3, "frontier": 1})
    refuse(journal, "see", "look")
    calls = [call.error.message.split()[0] for call in journal.tape().calls if call.error is not None]
    assert calls == ["see", "see", "take", "see", "look"]


def test_a_restarted_attempt_has_nothing_of_the_one_before() -> None:
    journal = Journal().call("state.get", "a").delta("lost")
    journal.attempt = 2
    journal.result("attempt.started", {"attempt": 2, "cause": "x", "discard_after": 0})
    journal.add("context", "attempt", {**CONTEXT, "attempt": 2}).call("state.get", "b").delta("said")
    tape = journal.tape(base_attempt=2)
    assert [call.name.digest for call in tape.calls if call.name] == ["b"]
    assert [result.data["chunk"]["content"] for result in tape.results] == ["said"]
    assert tape.context.attempt == 2
    assert tape.whole


def test_dropped_deltas_are_noticed() -> None:
    journal = Journal().delta("x").result("log", {"level": "info", "text": "y"})
    assert journal.tape().whole
    del journal.entries[2]
    assert not journal.tape().whole


def test_a_fork_inherits_the_calls_up_to_a_step() -> None:
    tape = Journal().call("state.get", "a").delta("x").call("state.get", "b").call("state.get", "c").tape()
    assert [inherit(tape, at).until_position for at in (0, 1, 2, 3, 4)] == [2, 3, 3, 5, 6]
    assert inherit(tape, None) == inherit(tape, 4)
    for wrong in (-1, 5):
        with pytest.raises(InvalidArgumentError, match="steps 1 to 4"):
            inherit(tape, wrong)


def test_an_exported_run_that_is_none_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidArgumentError, match="hostler runs export"):
        decode_tape(b'{"format": "something"}')
    run_of = TapeRun(
        run_id="r",
        agent="a",
        agent_version=1,
        runner_id="plugin:a/b/c",
        status="failed",
        created_at=0,
    )
    empty = TapeFile(
        format="hostler.tape",
        version=1,
        host_version="1",
        run=run_of,
        grant=msgspec.Raw(b"{}"),
        entries=[],
    )
    with pytest.raises(InvalidArgumentError, match="no recorded start"):
        read_tape(empty)
    later = msgspec.json.encode(msgspec.structs.replace(empty, version=2))
    with pytest.raises(InvalidArgumentError, match="version 2"):
        decode_tape(later)
