"""What becomes wrong with agents, and right again, is in the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from hostler.domain.agents import Agent, AgentSpec
from hostler.domain.config_changes import ConfigProblem
from hostler.host.agent_monitor import AgentMonitor
from hostler.host.workers import Workers


def agent(name: str) -> Agent:
    return Agent("default", name, 1, AgentSpec(name=name, runner="plugin:a/b/c"))


def problem(name: str, text: str, **fields: str) -> ConfigProblem:
    return ConfigProblem(kind="agent", name=name, problem=text, place="config", **fields)  # type: ignore[arg-type]


class World:
    """What the watch sees."""

    def __init__(self) -> None:
        self.list: list[Agent] = [agent("a"), agent("b")]
        self.revision = 0
        self.problems: list[ConfigProblem] = []
        self.reviews = 0
        self.watch = AgentMonitor(self.agents, lambda: (self.revision,), self.review)

    async def agents(self) -> Sequence[Agent]:
        return self.list

    async def review(self, agents: Sequence[Agent]) -> Sequence[ConfigProblem]:
        self.reviews += 1
        return self.problems


async def test_changes_are_logged_once_and_reviews_follow_changes_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "hostler.host.agent_monitor")

    def news() -> list[tuple[str, str]]:
        found = [(record.levelname, record.message) for record in caplog.records]
        caplog.clear()
        return found

    world = World()
    world.problems = [problem("a", "known before")]
    await world.watch.look()
    await world.watch.look()
    assert (world.reviews, news()) == (1, [])

    world.revision = 1
    world.problems = [problem("a", "known before"), problem("b", "may be", severity="warning")]
    await world.watch.look()
    await world.watch.look()
    assert (world.reviews, news()) == (2, [("WARNING", "agent b: config: may be")])

    world.list = [agent("b")]
    world.problems = []
    await world.watch.look()
    assert news() == [("INFO", "agent b: nothing is wrong with it any more")]

    world.list = [agent("b"), agent("c")]
    world.problems = [problem("c", "wrong")]
    await world.watch.look()
    assert news() == [("ERROR", "agent c: config: wrong")]


async def test_a_review_that_fails_is_logged_and_ends_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostler.host.agent_monitor.LOOK_SECONDS", 0.001)
    looked = asyncio.Event()
    failed: list[bool] = []

    async def agents() -> Sequence[Agent]:
        return []

    async def review(agents: Sequence[Agent]) -> Sequence[ConfigProblem]:
        if not failed:
            failed.append(True)
            raise LookupError("not found")
        looked.set()
        return []

    workers = Workers()
    workers.start("agent review", AgentMonitor(agents, lambda: (), review).keep)
    async with asyncio.timeout(100):
        await looked.wait()
    await workers.stop()
    assert "the worker agent review failed" in caplog.text
    assert "LookupError: not found" in caplog.text
