"""Calls of an attempt that continues another: what its recording answers, and what is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.calls.gate import CallToCharge
from hostler.domain.recording import CallName
from hostler.journal.fork import Inherited
from hostler.journal.resume import RecordingReader
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores.run_sources import Source
from hostler_protocol.errors import DeniedError, HostlerError, NotFoundError
from support.call_attempt import Attempts, CallAttempt, attempts_on
from support.gates import Gate

SQL = parse(
    """
-- name: spoil_answers
UPDATE journal SET data = replace(data, '"reply"', '"given_up":"perhaps","reply"')
WHERE run_id = :run_id AND kind = 'call'
""",
    "t",
)
STATE: dict[str, Any] = {"scope": "conversation", "key": "k"}
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
async def attempts(database: SqlDatabase, tmp_path: Path) -> AsyncIterator[Attempts]:
    async with attempts_on(database, tmp_path) as made:
        yield made


def plain(answer: Any) -> Any:
    """An answer as the runner reads it: a recorded one is sent as it was recorded."""
    return msgspec.json.decode(msgspec.json.encode(answer))


async def test_a_recorded_call_is_answered_again_and_not_made_again(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        answers = [
            plain(await first.call("knowledge.retrieve")),
            plain(await first.call("state.set", **STATE, value=1)),
            plain(await first.call("state.get", **STATE)),
        ]
        recorded = await first.entries()
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        again = [
            plain(await second.call("knowledge.retrieve")),
            plain(await second.call("state.set", **STATE, value=1)),
            plain(await second.call("state.get", **STATE)),
        ]
        assert again == answers
        assert await second.entries() == recorded, "they are in the journal already"
        assert attempts.handbook.reads == 1
        assert second.live == []
        assert second.calls.had_effects, "that it changed something is true of the run as a whole"
        await second.call("state.set", **STATE, value=2)
        assert second.live == [0]
        assert len(await second.entries()) == len(recorded) + 1
    assert second.diverged == []


async def test_a_recorded_read_takes_nothing_from_the_budget(attempts: Attempts) -> None:
    class Purse:
        taken = 0

        async def take(self, charged: CallToCharge) -> None:
            self.taken += 1

    async with attempts.attempt() as first:
        await first.call("state.get", **STATE)
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        purse = second.gated.budget = Purse()
        await second.call("state.get", **STATE)
        assert purse.taken == 0
        await second.call("state.list", scope="conversation")
        assert purse.taken == 1


async def test_a_recorded_refusal_is_the_answer_again(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        with pytest.raises(NotFoundError) as refused:
            await first.call("run.get", target_run_id="none")
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        with pytest.raises(NotFoundError) as again:
            await second.call("run.get", target_run_id="none")
        assert again.value.message == refused.value.message
        assert len(await second.entries()) == 1


async def test_calls_that_come_together_are_answered_in_their_recorded_order(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        gate = attempts.handbook.gate = Gate()
        slow = first.begin("knowledge.retrieve")
        await gate.reached()
        await first.call("state.get", **STATE)
        gate.open()
        await first.runner.answer(slow)
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        slow, quick = second.begin("knowledge.retrieve"), second.begin("state.get", **STATE)
        await second.runner.answer(slow)
        assert list(second.runner.answers) == [quick, slow]


async def test_a_recorded_call_that_is_given_up_before_its_turn_is_not_journalled_again(
    attempts: Attempts,
) -> None:
    async with attempts.attempt() as first:
        gate = attempts.handbook.gate = Gate()
        slow = first.begin("knowledge.retrieve")
        await gate.reached()
        await first.call("state.get", **STATE)
        gate.open()
        await first.runner.answer(slow)
        recorded = await first.entries()
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        early, other = second.begin("knowledge.retrieve"), second.begin("knowledge.retrieve", query_text="x")
        second.calls.give_up(other, goes_on=True)
        await asyncio.sleep(0)
        second.calls.give_up(early, goes_on=True)
        await second.idle()
        assert await second.entries() == recorded


async def test_recorded_changes_that_come_together_count_as_effects(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        for value in (1, 2):
            await first.call("state.set", value=value, **STATE)
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        for call_id in [second.begin("state.set", value=value, **STATE) for value in (1, 2)]:
            await second.runner.answer(call_id)
        assert second.calls.had_effects
        assert second.live == []


async def test_a_read_that_waits_for_its_turn_does_not_hide_the_change_before_it(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        gate = attempts.handbook.gate = Gate()
        slow = first.begin("knowledge.retrieve")
        await gate.reached()
        await first.call("state.set", value=1, **STATE)
        gate.open()
        await first.runner.answer(slow)
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        slow, change = second.begin("knowledge.retrieve"), second.begin("state.set", value=1, **STATE)
        await second.runner.answer(slow)
        assert list(second.runner.answers) == [change, slow]
        await second.idle()
        assert second.calls.had_effects


async def test_a_recorded_answer_that_cannot_be_read_refuses_its_call(
    attempts: Attempts, caplog: pytest.LogCaptureFixture
) -> None:
    async with attempts.attempt() as first:
        await first.call("state.get", **STATE)
        await first.call("state.list", scope="conversation")
        await first.log.settled()
    await attempts.world.db.write(lambda tx: tx.run(SQL.spoil_answers, run_id=first.run.run_id))
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        with pytest.raises(HostlerError, match=r"the host failed to carry out state\.get"):
            await second.call("state.get", **STATE)
        assert "state.get failed" in caplog.text, "with its traceback"
        with pytest.raises(HostlerError):
            await second.call("state.list", scope="conversation")


async def test_the_end_of_the_attempt_ends_a_recorded_call_that_has_no_task(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        await first.call("state.get", **STATE)
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        second.begin("state.get", **STATE)
        second.calls.stop()
        await second.idle()
        await asyncio.sleep(0)
        assert second.runner.answers == {}


async def test_a_call_that_was_given_up_is_not_answered_the_second_time_either(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        gate = attempts.handbook.gate = Gate()
        call_id = first.begin("knowledge.retrieve")
        await gate.reached()
        first.calls.give_up(call_id, goes_on=True)
        await first.calls.quiet()
        await first.call("state.get", **STATE)
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        left = second.begin("knowledge.retrieve")
        await second.call("state.get", **STATE)
        assert left not in second.runner.answers
        assert attempts.handbook.reads == 1


async def test_the_lone_recorded_call_can_be_given_up_before_it_is_answered(attempts: Attempts) -> None:
    async with attempts.attempt() as first:
        await first.call("state.get", **STATE)
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        call_id = second.begin("state.get", **STATE)
        assert second.calls.under_way
        second.calls.give_up(call_id, goes_on=True)
        await second.call("state.list", scope="conversation")
        assert call_id not in second.runner.answers


async def test_recorded_chunks_are_sent_again_before_the_answer(attempts: Attempts) -> None:
    attempts.model.pieces = ["one ", "two"]
    async with attempts.attempt() as first:
        answer = plain(await first.call("model.stream"))
    attempts.model.pieces = ["something else"]
    async with attempts.attempt(again=await attempts.lost(first.run), resumed=True) as second:
        assert plain(await second.call("model.stream")) == answer
        assert plain(second.runner.chunks) == plain(first.runner.chunks)
        assert second.live == []


# -- a fork -----------------------------------------------------------------------------------------------


async def inherited_from(attempts: Attempts, source: CallAttempt) -> Inherited:
    loaded = RecordingReader(source.run.run_id, 1)
    await loaded.read_rest(attempts.world.db)
    run_id = source.run.run_id
    kept = Source(run_id="fork", source_run_id=run_id, kind="fork", until_position=1_000_000)
    return Inherited(attempts.world.db, attempts.world.services.blobs, kept, None, loaded.recording.calls)


async def test_a_fork_is_answered_as_its_source_and_journals_it_as_its_own(attempts: Attempts) -> None:
    async with attempts.attempt() as source:
        answer = plain(await source.call("knowledge.retrieve"))
        with pytest.raises(NotFoundError):
            await source.call("run.get", target_run_id="none")
    fork = attempts.attempt(inherited=await inherited_from(attempts, source), scope={"effects": False})
    async with fork as forked:
        assert plain(await forked.call("knowledge.retrieve")) == answer
        with pytest.raises(NotFoundError):
            await forked.call("run.get", target_run_id="none")
        assert attempts.handbook.reads == 1
        entries = await forked.entries()
        assert [(one.kind, one.type) for one in entries] == [
            ("call", "knowledge.retrieve"),
            ("call", "run.get"),
        ]


async def test_a_fork_without_effects_changes_nothing_that_its_source_did_not(attempts: Attempts) -> None:
    async with attempts.attempt() as source:
        await source.call("state.set", **STATE, value=1)
    inherited = await inherited_from(attempts, source)
    assert [name.method for name in inherited.calls] == [CallName("state.set", "", 1).method]
    async with attempts.attempt(inherited=inherited, scope={"effects": False}) as forked:
        await forked.call("state.set", **STATE, value=1)
        assert not forked.calls.had_effects
        with pytest.raises(DeniedError, match="forked without effects"):
            await forked.call("state.set", **STATE, value=2)
        assert (await forked.call("state.get", **STATE)).value == 1
