"""Calls of an attempt, from the runner to its answer: gate, work, journal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.calls.gate import CallToCharge, Gate
from hostler.domain.agents import Rate
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import run_endings
from hostler_protocol.errors import (
    CancelledCallError,
    DeadlineExceededError,
    HostlerError,
    InvalidArgumentError,
    NotFoundError,
    RateLimitedError,
    UnauthorizedError,
)
from support.call_attempt import Attempts, attempt_grant, attempts_on
from support.call_params import params_of
from support.gates import Gate as Barrier

STATE: dict[str, Any] = {"scope": "conversation", "key": "k"}
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
async def attempts(database: SqlDatabase, tmp_path: Path) -> AsyncIterator[Attempts]:
    async with attempts_on(database, tmp_path) as made:
        yield made


def data_of(entry: Any) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.json.decode(entry.data)
    return data


# -- carried out ------------------------------------------------------------------------------------------


async def test_a_read_is_answered_and_journalled_with_its_answer(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        reply = await attempt.call("state.get", **STATE)
        (entry,) = await attempt.entries()
        assert (entry.kind, entry.type) == ("call", "state.get")
        assert data_of(entry)["reply"] == msgspec.to_builtins(reply)
        assert data_of(entry)["params"]["key"] == "k"
        assert data_of(entry)["nth"] == 1
        assert not attempt.calls.had_effects
        assert attempt.world.gate.counts["state.get", "ok"] == 1


async def test_a_change_is_durable_with_its_entry_before_it_is_answered(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        await attempt.call("state.set", **STATE, value=1)
        assert not attempt.log.is_writing, "the answer came after the commit"
        (entry,) = await attempt.entries()
        assert (entry.kind, entry.type) == ("call", "state.set")
        assert (await attempt.call("state.get", **STATE)).value == 1
        assert attempt.calls.had_effects


async def test_a_change_that_is_refused_changes_nothing_and_is_journalled(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        with pytest.raises(NotFoundError):
            await attempt.call("run.cancel", target_run_id="no such run")
        (entry,) = await attempt.entries()
        assert (entry.kind, data_of(entry)["error"]["code"]) == ("call", "not_found")
        assert not attempt.calls.had_effects


async def test_equal_calls_are_told_apart_by_their_number(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        for value in (1, 1, 2):
            await attempt.call("state.set", **STATE, value=value)
        assert [data_of(entry)["nth"] for entry in await attempt.entries()] == [1, 2, 1]


async def test_many_calls_at_once_are_each_answered_with_their_own(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        for number in range(100):
            attempt.begin("state.set", scope="conversation", key=f"k{number}", value=number)
        before = attempt.calls.under_way
        await attempt.calls.quiet()
        assert (before, attempt.calls.under_way) == (True, False)
        reads = {attempt.begin("state.get", scope="conversation", key=f"k{n}"): n for n in range(100)}
        for call_id, number in reads.items():
            assert (await attempt.runner.answer(call_id)).value == number
        assert len(await attempt.entries("call")) == 200


async def test_calls_do_not_wait_for_each_other(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        gate = attempt.handbook.gate = Barrier()
        held = attempt.begin("knowledge.retrieve")
        await gate.reached()
        await attempt.call("state.get", **STATE)
        assert attempt.calls.under_way
        gate.open()
        await attempt.runner.answer(held)


# -- refused by the gate ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "changes", "expected"),
    [
        ("knowledge.retrieve", {"kb_id": "other"}, NotFoundError),
        ("run.append", {}, UnauthorizedError),
        ("state.set", {"scope": "conversation", "key": "", "value": 1}, InvalidArgumentError),
        ("state.get", {"run_id": "another"}, NotFoundError),
    ],
)
async def test_what_is_not_admitted_is_refused_and_journalled_without_a_name(
    attempts: Attempts, method: str, changes: dict[str, Any], expected: type[HostlerError]
) -> None:
    async with attempts.attempt() as attempt:
        run_id = changes.pop("run_id", attempt.run.run_id)
        attempt.calls.begin(7, method, params_of(method, run_id, **changes))
        with pytest.raises(expected):
            await attempt.runner.answer(7)
        (entry,) = await attempt.entries()
        assert (entry.kind, entry.type) == ("refusal", method)
        assert data_of(entry)["error"]["code"] == expected.code
        assert "digest" not in data_of(entry), "no later attempt is answered from it"
        assert attempt.world.gate.counts == {(method, expected.code): 1}
        assert attempt.handbook.reads == 0


async def test_more_calls_than_the_rate_allows_are_refused_and_named(attempts: Attempts) -> None:
    attempts.world.gate = Gate(lambda: 1.0)
    async with attempts.attempt(attempt_grant(rate=Rate(calls_per_second=1))) as attempt:
        await attempt.call("state.get", **STATE)
        with pytest.raises(RateLimitedError) as caught:
            await attempt.call("state.get", **STATE)
        assert caught.value.retry_after == 1.0
        done, refused = await attempt.entries()
        assert (done.kind, refused.kind) == ("call", "refusal")
        assert (data_of(refused)["nth"], data_of(refused)["error"]["code"]) == (2, "rate_limited")


async def test_a_call_over_the_budget_is_refused_and_not_made(attempts: Attempts) -> None:
    class Spent:
        async def take(self, charged: CallToCharge) -> None:
            raise UnauthorizedError("the budget is used up")

    async with attempts.attempt() as attempt:
        attempt.gated.budget = Spent()
        with pytest.raises(UnauthorizedError, match="used up"):
            await attempt.call("knowledge.retrieve")
        (entry,) = await attempt.entries()
        assert (entry.kind, data_of(entry)["nth"]) == ("refusal", 1)
        assert attempt.handbook.reads == 0


@pytest.mark.parametrize("standing", ["ended", "paused", "fenced"])
async def test_an_attempt_that_is_over_makes_no_call(attempts: Attempts, standing: Any) -> None:
    async with attempts.attempt() as attempt:
        attempt.gated.standing = standing
        with pytest.raises(CancelledCallError):
            await attempt.call("state.set", **STATE, value=1)
        attempt.gated.standing = "active"
        assert (await attempt.call("state.get", **STATE)).value is None


# -- errors -----------------------------------------------------------------------------------------------


async def test_an_error_of_the_work_is_answered_and_journalled(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        attempt.handbook.error = InvalidArgumentError("it takes no such filter")
        with pytest.raises(InvalidArgumentError, match="no such filter"):
            await attempt.call("knowledge.retrieve")
        (entry,) = await attempt.entries()
        assert (entry.kind, data_of(entry)["error"]["code"]) == ("call", "invalid_argument")


async def test_an_unexpected_error_is_logged_and_answered_without_its_text(
    attempts: Attempts, caplog: pytest.LogCaptureFixture
) -> None:
    async with attempts.attempt() as attempt:
        attempt.handbook.error = RuntimeError("what only the log may say")
        with pytest.raises(HostlerError) as caught:
            await attempt.call("knowledge.retrieve")
        assert caught.value.message == "the host failed to carry out knowledge.retrieve"
        (entry,) = await attempt.entries()
        assert data_of(entry)["error"]["message"] == caught.value.message
    assert "what only the log may say" in caplog.text
    assert "Traceback" in caplog.text


async def test_a_call_ends_with_the_deadline_of_its_run(attempts: Attempts) -> None:
    async with attempts.attempt(scope={"deadline_at": 0.0}) as attempt:
        attempt.handbook.gate = Barrier()
        with pytest.raises(DeadlineExceededError):
            await attempt.call("knowledge.retrieve")
        (entry,) = await attempt.entries()
        assert data_of(entry)["error"]["code"] == "deadline_exceeded"


async def test_a_run_that_ended_meanwhile_takes_no_change(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        gate = attempt.handbook.gate = Barrier()
        reading = attempt.begin("knowledge.retrieve")
        await gate.reached()
        await attempt.world.db.write(
            lambda tx: run_endings.finish(tx, attempt.run.run_id, 1, "cancelled", cause="t", actor="t")
        )
        with pytest.raises(CancelledCallError):
            await attempt.call("state.set", **STATE, value=1)
        assert len(attempt.fenced) == 1
        gate.open()
        await attempt.runner.answer(reading)
        assert not await attempt.entries()
    async with attempts.attempt() as later:
        assert (await later.call("state.get", **STATE)).value is None


# -- given up, stopped ------------------------------------------------------------------------------------


async def test_a_read_that_the_runner_gives_up_is_journalled_so(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        gate = attempt.handbook.gate = Barrier()
        call_id = attempt.begin("knowledge.retrieve")
        await gate.reached()
        attempt.calls.give_up(call_id, goes_on=True)
        await attempt.calls.quiet()
        (entry,) = await attempt.entries()
        assert data_of(entry)["given_up"] is True
        assert call_id not in attempt.runner.answers


async def test_a_change_that_is_given_up_while_it_is_committed_stays(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        call_id = attempt.begin("state.set", value=1, **STATE)
        await attempt.writing()
        attempt.calls.give_up(call_id, goes_on=True)
        await attempt.calls.quiet()
        assert (await attempt.call("state.get", **STATE)).value == 1
        assert call_id not in attempt.runner.answers


async def test_the_end_of_the_attempt_ends_its_calls_without_an_answer_or_an_entry(
    attempts: Attempts,
) -> None:
    async with attempts.attempt() as attempt:
        gate = attempt.handbook.gate = Barrier()
        attempt.begin("knowledge.retrieve")
        await gate.reached()
        attempt.calls.stop()
        await attempt.calls.quiet()
        assert not attempt.runner.answers
        assert not await attempt.entries()


# -- streams ----------------------------------------------------------------------------------------------


async def test_chunks_are_sent_as_they_come_and_recorded(attempts: Attempts) -> None:
    attempts.model.pieces = ["one ", "two"]
    async with attempts.attempt() as attempt:
        reply = await attempt.call("model.stream")
        assert reply.message.content == "one two"
        assert [chunk.delta.content for chunk in attempt.runner.chunks[1]] == ["one ", "two"]
        (entry,) = await attempt.entries()
        assert data_of(entry)["chunks"] == ["one ", "two"]


async def test_a_stream_that_nobody_takes_any_more_is_closed(attempts: Attempts) -> None:
    attempts.model.pieces = ["one ", "two"]
    async with attempts.attempt() as attempt:
        attempt.runner.listens = False
        call_id = attempt.begin("model.stream")
        await attempt.calls.quiet()
        assert attempts.model.closed
        assert call_id not in attempt.runner.answers
        (entry,) = await attempt.entries()
        assert (data_of(entry)["given_up"], data_of(entry)["chunks"]) == (True, ["one "])
