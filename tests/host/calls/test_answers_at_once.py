"""Answers of calls made at once go out in the order of their outcomes in the journal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from hostler.storage.sql.database import SqlDatabase
from hostler_protocol.frames import MessageId
from support.call_attempt import Attempts, CallAttempt, attempts_on
from support.gates import Gate

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
async def attempts(database: SqlDatabase, tmp_path: Path) -> AsyncIterator[Attempts]:
    async with attempts_on(database, tmp_path) as made:
        yield made


@contextmanager
def nothing_is_committed(attempt: CallAttempt) -> Iterator[None]:
    """Keep the database's writer busy."""
    goes_on = threading.Event()
    writing = asyncio.ensure_future(attempt.world.db.write(lambda _: goes_on.wait(100)))
    try:
        yield
    finally:
        goes_on.set()
        writing.add_done_callback(lambda done: done.result())


@asynccontextmanager
async def outcomes_of_both(attempt: CallAttempt) -> AsyncIterator[tuple[MessageId, MessageId]]:
    """A tool's outcome, then that of a read are on their way into the database in this block."""
    tool_gate = attempt.tools.gate = Gate()
    read_gate = attempt.handbook.gate = Gate()
    read = attempt.begin("knowledge.retrieve")
    await read_gate.reached()
    tool = attempt.begin("tool.call", tool_name="book")
    await tool_gate.reached()
    with nothing_is_committed(attempt):
        for gate in (tool_gate, read_gate):
            added = attempt.log._added
            gate.open()
            await attempt._bell.until(lambda added=added: attempt.log._added > added, "no outcome")  # type: ignore[misc]
        yield tool, read


async def test_a_read_is_answered_after_the_outcomes_before_it_in_the_journal(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        async with outcomes_of_both(attempt) as (tool, read):
            pass
        await attempt.idle()
        assert list(attempt.runner.answers) == [tool, read]
        calls = [entry.type for entry in await attempt.entries("call")]
        assert calls == ["tool.call", "knowledge.retrieve"]


async def test_no_answer_waits_for_one_that_the_runner_gave_up(attempts: Attempts) -> None:
    async with attempts.attempt() as attempt:
        async with outcomes_of_both(attempt) as (tool, read):
            attempt.calls.give_up(tool, goes_on=True)
            await attempt.runner.answer(read)
        await attempt.calls.quiet()
        assert list(attempt.runner.answers) == [read]
        assert (await attempt.call("state.get", scope="conversation", key="k")).value is None
