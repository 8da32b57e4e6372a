"""What pauses and going on after a crash cost, in commits, queries and tasks: numbers without a clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from hostler.storage.stores import journal
from support.shop import PLACE, asking, decide, decision, parked, shop, waiting
from support.stepping import Steps, stage

QUESTION = asking(kind="confirmation", title="May it go on?")
SET = ["call", "state.set", {"scope": "conversation", "key": "n", "value": 1}]
TRIES = 3
"""The best of them counts: other commits of the host, and a batch that is split in two, only add to one."""


async def test_a_pause_is_a_few_commits(tmp_path: Path) -> None:
    asked, answered = [], []
    async with shop(tmp_path, hold_seconds=0.0) as host:
        await host.agent(runner="resumable")
        for number in range(TRIES):
            start = host.host.db.groups_committed
            run_id = await host.start([QUESTION, ["tell"]], conversation_id=f"c{number}")
            await parked(host, run_id)
            middle = host.host.db.groups_committed
            pause = await waiting(host, run_id)
            await decide(host, pause, decision(pause.calls[0], "answer"))
            ended = await host.ended(run_id)
            assert (ended.record.status, ended.record.attempt) == ("completed", 2)
            asked.append(middle - start)
            answered.append(host.host.db.groups_committed - middle)
    # accepted, the pause is opened, it is shown and the run parked
    assert min(asked) <= 3, asked
    # decided and claimed, the verdict is found, the end
    assert min(answered) <= 3, answered


async def test_questions_that_come_together_are_one_pause_although_nothing_is_held(tmp_path: Path) -> None:
    async with shop(tmp_path, hold_seconds=0.0) as host:
        await host.agent(runner="resumable")
        questions: list[Any] = [asking(kind="confirmation", title=title) for title in ("one", "two", "three")]
        together: list[Any] = ["together", *[[question] for question in questions]]
        for number in range(TRIES):
            run_id = await host.start([together, ["tell"]], conversation_id=f"c{number}")
            await parked(host, run_id)
            pause = await waiting(host, run_id)
            if len(pause.calls) == 3:
                break
        assert len(pause.calls) == 3, "each time"
        await decide(host, pause, *[decision(call, "answer") for call in pause.calls])
        ended = await host.ended(run_id)
        assert (ended.record.status, ended.record.attempt) == ("completed", 2)
        assert len(ended.entries("lifecycle", "paused")) == 1


@pytest.mark.parametrize("calls", [3, 300])
async def test_a_recorded_call_costs_no_query_and_no_task(
    tmp_path: Path, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_page = journal.page
    pages: list[int] = []

    def counted(*arguments: Any) -> journal.EntryPage:
        page = read_page(*arguments)
        pages.append(len(page.items))
        return page

    tasks: Counter[str] = Counter()

    def make(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **more: Any
    ) -> asyncio.Task[Any]:
        tasks[getattr(work, "__qualname__", "")] += 1
        return asyncio.Task(work, loop=loop, **more)

    steps: Steps = [*[SET] * calls, ["crash", 1], SET, ["say", "done"]]
    async with stage(tmp_path) as host:
        await host.agent(runner="resumable")
        asyncio.get_running_loop().set_task_factory(make)  # type: ignore[arg-type]
        run_id = await host.start(steps, **PLACE)
        with monkeypatch.context() as patch:
            patch.setattr(journal, "page", counted)
            await host.seen(run_id, "attempt.started")
        ended = await host.ended(run_id)
    assert (ended.record.status, ended.record.attempt) == ("completed", 2), ended.last
    assert len(ended.entries("call", "state.set")) == calls + 1
    assert len([items for items in pages if items >= calls]) == 1, pages
    # the calls of the first attempt, and the one that the second makes for real
    assert tasks["CallExecutor._carry"] == calls + 1
