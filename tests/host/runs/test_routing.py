"""The agents that events are routed to, on a database that other hosts write to, too."""

from __future__ import annotations

from unittest import mock

from hostler.domain.agents import AgentSpec
from hostler.runs.filters import FilterProcesses
from hostler.runs.routing import SHARED_SECONDS, EventRouter
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import agents

WS = "default"


class SharedDatabase:
    """A database that other hosts are said to write to."""

    shared = True

    def __init__(self, database: SqlDatabase) -> None:
        self.read = database.read


async def _save(database: SqlDatabase, name: str, runner: str = "plugin:a/b/c") -> None:
    await database.write(lambda tx: agents.apply(tx, WS, AgentSpec(name=name, runner=runner)))


async def test_the_list_of_agents_is_another_one_only_after_a_change_by_any_host(
    database: SqlDatabase,
) -> None:
    now = 1000.0
    await _save(database, "first")
    filters = mock.create_autospec(FilterProcesses)
    router = EventRouter(SharedDatabase(database), filters, clock=lambda: now)  # type: ignore[arg-type]
    before = await router.agents(WS)
    now += 2 * SHARED_SECONDS
    assert await router.agents(WS) is before

    await _save(database, "second")
    assert await router.agents(WS) is before
    now += 2 * SHARED_SECONDS
    assert [agent.name for agent in await router.agents(WS)] == ["first", "second"]

    await _save(database, "first", "plugin:a/b/other")
    now += 2 * SHARED_SECONDS
    assert [one.spec.runner for one in await router.agents(WS)] == ["plugin:a/b/other", "plugin:a/b/c"]
