"""What does not work of a configuration that holds, as of now."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hostler.domain.agent_review import review_agent
from hostler.domain.agents import Agent, AgentSpec
from hostler.domain.config_changes import ConfigProblem
from hostler.domain.inventory import Inventory
from hostler.host.agent_monitor import AgentMonitor
from hostler.host.apply_config import Configurator
from hostler.host.inventory import Inventories
from hostler.plugins.source import identity_of
from hostler.plugins.status import PluginStatus
from hostler.plugins.supervisor import Supervisor
from hostler.runs.routing import EventRouter
from hostler.tools.mcp.server import McpServerStatus
from hostler.tools.mcp.source import McpTools
from hostler.tools.openapi.source import OpenApiStatus, OpenApiTools
from hostler.tools.skills.service import SkillStanding
from hostler_protocol.errors import PluginError

ONE_RUN_PREFIX = "run."
"""Agents that `hostler run` makes for a plugin folder or file are named like this."""
MAX_NAMED_SKILLS = 5
"""Skills that the problem of their folder names; `hostler skills list` has all."""


async def plugin_problems(supervisor: Supervisor) -> list[ConfigProblem]:
    """The plugins that do not start, and those that were not started and could not be."""
    statuses = supervisor.status()
    unread = await asyncio.to_thread(_unreadable, [one for one in statuses if one.state == "stopped"])
    reasons = {one.key: one.reason for one in statuses if one.reason is not None} | unread
    return [ConfigProblem(kind="plugin", name=key, problem=reason) for key, reason in reasons.items()]


def _unreadable(statuses: Sequence[PluginStatus]) -> dict[str, str]:
    found: dict[str, str] = {}
    for status in statuses:
        try:
            identity_of(status.source)
        except PluginError as error:
            found[status.key] = error.message
    return found


def agent_problems(specs: Iterable[AgentSpec], inventory: Inventory) -> list[ConfigProblem]:
    """What is wrong with each agent."""
    return [
        ConfigProblem(
            kind="agent",
            name=spec.name,
            problem=mistake.text,
            place=mistake.place,
            severity=mistake.severity,
        )
        for spec in specs
        if not _is_of_one_run(spec)
        for mistake in review_agent(spec, inventory)
    ]


def _is_of_one_run(spec: AgentSpec) -> bool:
    return spec.name.startswith(ONE_RUN_PREFIX) and not spec.event_types


def skill_problems(standings: Iterable[SkillStanding]) -> list[ConfigProblem]:
    """The skills that nobody is given; folders of one name are one problem."""
    problems = {(one.name, one.problem): None for one in standings if one.problem is not None}
    return [ConfigProblem(kind="skill", name=name, problem=problem) for name, problem in problems]


def folder_problem(path: str, standings: Iterable[SkillStanding]) -> str | None:
    """Return what is wrong with the skills of a folder of the configuration, or None."""
    root = os.path.realpath(path)
    wrong = {one.name: one for one in standings if one.problem is not None}
    for one in wrong.values():
        if one.source in {path, root}:
            return one.problem
    names = [name for name, one in wrong.items() if os.path.dirname(one.source) == root]  # noqa: PTH120
    if not names:
        return None
    more = f" and {len(names) - MAX_NAMED_SKILLS} more" if len(names) > MAX_NAMED_SKILLS else ""
    named = ", ".join(names[:MAX_NAMED_SKILLS])
    return f"nobody gets {named}{more} of its skills: `hostler skills list` says why"


def tool_problems(
    servers: Iterable[McpServerStatus], documents: Iterable[OpenApiStatus]
) -> list[ConfigProblem]:
    """The MCP servers that are not reached, and the OpenAPI documents that give no tools."""
    reasons = {f"mcp:{one.name}": one.reason for one in servers if one.state != "ready"}
    reasons |= {f"openapi:{one.name}": one.problem for one in documents}
    return [
        ConfigProblem(kind="tool", name=name, problem=reason)
        for name, reason in reasons.items()
        if reason is not None
    ]


def silent_sources(mcp: McpTools, openapi: OpenApiTools, workspace_id: str) -> dict[str, str]:
    """Why servers and documents list no tools, by what the names of these begin with."""
    found = {f"{one.name}.": one.reason for one in mcp.servers(workspace_id)}
    found |= {f"{one.name}.": one.problem for one in openapi.documents(workspace_id)}
    return {prefix: why for prefix, why in found.items() if why is not None}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Says what does not work of one host's configuration."""

    workspace_id: str
    configurator: Configurator
    inventories: Inventories
    event_router: EventRouter
    mcp: McpTools
    openapi: OpenApiTools

    async def problems(self) -> list[ConfigProblem]:
        """All of it, in the order of its kinds.

        A host that keeps nothing running starts the plugins of its agents to find out.
        """
        ws, inventories = self.workspace_id, self.inventories
        return [
            *self.configurator.problems,
            *await plugin_problems(inventories.supervisor),
            *skill_problems(inventories.skills.standings()),
            *tool_problems(self.mcp.servers(ws), self.openapi.documents(ws)),
            *await self._of_current(await self._agents()),
        ]

    async def of_agents(self, workspace_id: str, specs: Sequence[AgentSpec]) -> list[list[ConfigProblem]]:
        """What is wrong with each of these agents now, as far as it is known without asking any plugin."""
        inventory = await self.inventories.now(workspace_id)
        return await asyncio.to_thread(lambda: [agent_problems([spec], inventory) for spec in specs])

    def watch(self) -> AgentMonitor:
        """Whoever looks whether the agents became wrong or right."""
        return AgentMonitor(self._agents, self._seen, self._of_current)

    async def _agents(self) -> Sequence[Agent]:
        return await self.event_router.agents(self.workspace_id)

    async def _of_current(self, agents: Sequence[Agent]) -> list[ConfigProblem]:
        specs = [agent.spec for agent in agents]
        if self.inventories.running:
            inventory = await self.inventories.now()
        else:
            inventory = await self.configurator.inventory(specs)
        # thousands of agents take a while
        return await asyncio.to_thread(agent_problems, specs, inventory)

    def _seen(self) -> tuple[object, ...]:
        """What agents are held against, as revisions."""
        inventories = self.inventories
        revisions = inventories.tools.revisions()
        return (inventories.supervisor.catalog.revision, *revisions, inventories.config)
