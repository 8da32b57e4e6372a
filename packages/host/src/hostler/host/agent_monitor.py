"""Agents reviewed again whenever what they name has changed: a plugin upgraded, a server that came back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from hostler.domain.agents import Agent
from hostler.domain.config_changes import ConfigProblem
from hostler.domain.config_mistakes import Severity

LOOK_SECONDS = 2.0
"""From one look at whether anything changed to the next; a review follows only where it did."""
_LEVELS: Mapping[Severity, int] = {"error": logging.ERROR, "warning": logging.WARNING}

log = logging.getLogger(__name__)

Seen = tuple[object, ...]
"""What agents are held against, as revisions that are equal as long as nothing changed."""


class AgentMonitor:
    """Logs what becomes wrong with agents, and what is right again.

    `agents`: the current ones, the same list as long as none changed. `review`: what is wrong with them.
    """

    def __init__(
        self,
        agents: Callable[[], Awaitable[Sequence[Agent]]],
        seen: Callable[[], Seen],
        review: Callable[[Sequence[Agent]], Awaitable[Sequence[ConfigProblem]]],
    ) -> None:
        self._agents = agents
        self._seen = seen
        self._review = review
        self._last: tuple[Sequence[Agent], Seen] | None = None
        self._known: dict[str, list[ConfigProblem]] = {}

    async def keep(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Look every so often. A worker of the host."""
        while True:
            await self.look()
            succeeded()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Review the agents if anything changed since the last look. The first one only takes note."""
        agents, seen = await self._agents(), self._seen()
        if self._last is not None and self._last[0] is agents and self._last[1] == seen:
            return
        first, self._last = self._last is None, (agents, seen)
        found: dict[str, list[ConfigProblem]] = {}
        for problem in await self._review(agents):
            found.setdefault(problem.name, []).append(problem)
        if not first:
            self._tell(found, {agent.name for agent in agents})
        self._known = found

    def _tell(self, found: Mapping[str, list[ConfigProblem]], names: set[str]) -> None:
        for name, problems in found.items():
            for problem in problems:
                if problem not in self._known.get(name, ()):
                    log.log(_LEVELS[problem.severity], "%s", problem.sentence)
        for name in sorted((self._known.keys() - found.keys()) & names):
            log.info("agent %s: nothing is wrong with it any more", name)


__all__ = ["AgentMonitor"]
