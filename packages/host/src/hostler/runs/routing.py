"""Route events to agents: the current agents, kept in memory, and their filters."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from hostler.domain.agents import Agent
from hostler.domain.bindings import Resolution, Unrouted, filters_of, resolve
from hostler.domain.clock import monotonic_clock
from hostler.domain.events import Event
from hostler.domain.routing_explanations import RoutingExplanation, explain_routing, nearest_miss
from hostler.runs.filters import FilterProcesses
from hostler.storage.port import Database
from hostler.storage.stores import agents

SHARED_SECONDS = 1.0
"""How long a list of agents is used on a database that other hosts write to."""


class EventRouter:
    """Resolves events to bindings. `clock` is monotonic (seconds)."""

    def __init__(
        self, db: Database, filters: FilterProcesses, *, clock: Callable[[], float] = monotonic_clock
    ) -> None:
        self._db = db
        self._filters = filters
        self._clock = clock
        self._agents: dict[str, tuple[float, list[Agent]]] = {}
        self._trusted = SHARED_SECONDS if db.shared else float("inf")

    async def resolve(self, event: Event) -> Resolution:
        """Return the one agent for an event, or why there is none. UnavailableError: too many events wait."""
        current = await self.agents(event.workspace_id)
        filters = list(filters_of(event, current))
        outcomes = await self._filters.evaluate(event, filters) if filters else {}
        resolution = resolve(event, current, outcomes.__getitem__)
        if not isinstance(resolution, Unrouted):
            return resolution
        miss = nearest_miss(event, current, outcomes.__getitem__)
        return (
            resolution
            if miss is None
            else replace(resolution, reason=f"{resolution.reason}; nearest: {miss}")
        )

    async def explain(self, event: Event) -> RoutingExplanation:
        """Explain what `resolve` returns. UnavailableError: too many events wait."""
        current = await self.agents(event.workspace_id)
        filters = list(filters_of(event, current))
        outcomes = await self._filters.evaluate(event, filters) if filters else {}
        return explain_routing(event, current, outcomes.__getitem__)

    async def agents(self, workspace_id: str) -> list[Agent]:
        """Return the current version of each agent of a workspace; the same list as long as none changed."""
        known = self._agents.get(workspace_id)
        now = self._clock()
        if known is None or now - known[0] > self._trusted:
            found = await self._db.read(lambda tx: agents.active(tx, workspace_id))
            if known is not None and known[1] == found:
                found = known[1]
            known = self._agents[workspace_id] = (now, found)
        return known[1]

    def changed(self, workspace_id: str) -> None:
        """Read the agents again: some were written."""
        self._agents.pop(workspace_id, None)
