"""Review agents again when what they use has changed, such as a plugin or an MCP server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from hostler.domain.agents import Agent
from hostler.domain.config_changes import ConfigProblem
from hostler.domain.config_mistakes import Severity

LOOK_SECONDS = 2.0
"""Interval of the check for changes; agents are reviewed only after one."""
_LEVELS: Mapping[Severity, int] = {"error": logging.ERROR, "warning": logging.WARNING}

log = logging.getLogger(__name__)

Revisions = tuple[object, ...]
"""Revisions of what the review depends on; equal as long as nothing changed."""


class AgentMonitor:
    """Logs new problems of agents, and agents without problems again.

    `agents` returns the current ones, the same list as long as none changed. `review` returns their problems.
    """

    def __init__(
        self,
        agents: Callable[[], Awaitable[Sequence[Agent]]],
        revisions: Callable[[], Revisions],
        review: Callable[[Sequence[Agent]], Awaitable[Sequence[ConfigProblem]]],
    ) -> None:
        self._agents = agents
        self._revisions = revisions
        self._review = review
        self._last: tuple[Sequence[Agent], Revisions] | None = None
        self._known: dict[str, list[ConfigProblem]] = {}

    async def keep(self, succeeded: Callable[[], None] = lambda: None) -> None:
        """Check every LOOK_SECONDS. A worker of the host."""
        while True:
            await self.look()
            succeeded()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Review the agents if anything changed since the last check. The first check logs nothing."""
        agents, revisions = await self._agents(), self._revisions()
        if self._last is not None and self._last[0] is agents and self._last[1] == revisions:
            return
        is_first, self._last = self._last is None, (agents, revisions)
        problems: dict[str, list[ConfigProblem]] = {}
        for problem in await self._review(agents):
            problems.setdefault(problem.name, []).append(problem)
        if not is_first:
            self._log(problems, {agent.name for agent in agents})
        self._known = problems

    def _log(self, problems: Mapping[str, list[ConfigProblem]], names: set[str]) -> None:
        for name, own in problems.items():
            for problem in own:
                if problem not in self._known.get(name, ()):
                    log.log(_LEVELS[problem.severity], "%s", problem.sentence)
        for name in sorted((self._known.keys() - problems.keys()) & names):
            log.info("agent %s: nothing is wrong with it any more", name)
