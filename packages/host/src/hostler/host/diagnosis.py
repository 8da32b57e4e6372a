"""Diagnosis of the active configuration: the entries that do not work now."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hostler.domain.agent_review import review_agent
from hostler.domain.agents import Agent, AgentSpec
from hostler.domain.allowances import Allowances
from hostler.domain.config_changes import ConfigProblem
from hostler.domain.inventory import Inventory
from hostler.domain.quotas import QUANTITIES, Amounts, quotas_of
from hostler.host.agent_monitor import AgentMonitor
from hostler.host.apply_config import Configurator
from hostler.host.inventory import Inventories
from hostler.plugins.source import identity_of
from hostler.plugins.status import PluginStatus
from hostler.plugins.supervisor import Supervisor
from hostler.runs.routing import EventRouter
from hostler.storage.stores import quotas
from hostler.tools.mcp.server import McpServerStatus
from hostler.tools.mcp.source import McpTools
from hostler.tools.openapi.source import OpenApiStatus, OpenApiTools
from hostler.tools.skills.service import SkillStatus
from hostler_protocol.errors import PluginError

ONE_RUN_PREFIX = "run."
"""Prefix of the names of agents that `hostler run` creates for a plugin folder or file."""
NEARLY_FULL = 0.9
"""The part of a workspace's quota above which its operator is warned, while there is time to act."""
MAX_NAMED_SKILLS = 5
"""Skills named in the problem of a folder; `hostler skills list` shows all."""


async def plugin_problems(supervisor: Supervisor) -> list[ConfigProblem]:
    """Return the problems of plugins that do not start, including unstarted ones that cannot be read."""
    statuses = supervisor.status()
    stopped = [status for status in statuses if status.state == "stopped"]
    unreadable = await asyncio.to_thread(_unreadable, stopped)
    reasons = {status.key: status.reason for status in statuses if status.reason is not None} | unreadable
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
    """Return the problems of agents."""
    return [
        ConfigProblem(
            kind="agent", name=spec.name, problem=mistake.text, place=mistake.place, severity=mistake.severity
        )
        for spec in specs
        if not _is_of_one_run(spec)
        for mistake in review_agent(spec, inventory)
    ]


def _is_of_one_run(spec: AgentSpec) -> bool:
    return spec.name.startswith(ONE_RUN_PREFIX) and not spec.event_types


def skill_problems(statuses: Iterable[SkillStatus]) -> list[ConfigProblem]:
    """Return the problems of skills that cannot be used; skills with one name are one problem."""
    problems = {(skill.name, skill.problem): None for skill in statuses if skill.problem is not None}
    return [ConfigProblem(kind="skill", name=name, problem=problem) for name, problem in problems]


def folder_problem(path: str, statuses: Iterable[SkillStatus]) -> str | None:
    """Return the problem of the skills in a configured folder, or None."""
    root = os.path.realpath(path)
    unusable = {skill.name: skill for skill in statuses if skill.problem is not None}
    for skill in unusable.values():
        if skill.source in {path, root}:
            return skill.problem
    names = [name for name, skill in unusable.items() if os.path.dirname(skill.source) == root]  # noqa: PTH120
    if not names:
        return None
    more = f" and {len(names) - MAX_NAMED_SKILLS} more" if len(names) > MAX_NAMED_SKILLS else ""
    named = ", ".join(names[:MAX_NAMED_SKILLS])
    return f"nobody gets {named}{more} of its skills: `hostler skills list` says why"


def tool_problems(
    servers: Iterable[McpServerStatus], documents: Iterable[OpenApiStatus]
) -> list[ConfigProblem]:
    """Return the problems of MCP servers that are not connected and of OpenAPI documents without tools."""
    reasons = {f"mcp:{server.name}": server.reason for server in servers if server.state != "ready"}
    reasons |= {f"openapi:{document.name}": document.problem for document in documents}
    return [
        ConfigProblem(kind="tool", name=name, problem=reason)
        for name, reason in reasons.items()
        if reason is not None
    ]


def quota_problems(stored: Mapping[str, Amounts], allowances: Allowances) -> list[ConfigProblem]:
    """Return warnings of workspaces that have stored nearly as much as they may."""
    return [
        ConfigProblem(
            kind="workspace",
            name=ws,
            problem=f"{used:,} of at most {limit:,} are stored: delete some, or raise it in its entry",
            place=f"quota.max_{what}",
            severity="warning",
        )
        for ws, amounts in stored.items()
        for what, used, limit in zip(
            QUANTITIES, amounts, quotas_of(allowances.of(ws).quota).workspace, strict=True
        )
        if limit is not None and used >= limit * NEARLY_FULL and used
    ]


def silent_sources(mcp: McpTools, openapi: OpenApiTools, workspace_id: str) -> dict[str, str]:
    """Return why servers and documents list no tools, by the prefix of their tools' names."""
    reasons = {f"{server.name}.": server.reason for server in mcp.servers(workspace_id)}
    reasons |= {f"{document.name}.": document.problem for document in openapi.documents(workspace_id)}
    return {prefix: reason for prefix, reason in reasons.items() if reason is not None}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Finds the problems of one host's configuration."""

    workspace_id: str
    configurator: Configurator
    inventories: Inventories
    event_router: EventRouter
    mcp: McpTools
    openapi: OpenApiTools
    allowances: Allowances

    async def problems(self) -> list[ConfigProblem]:
        """Return all problems, in the order of the kinds of entries.

        A passive host starts the plugins of its agents to find them.
        """
        ws, inventories = self.workspace_id, self.inventories
        return [
            *self.configurator.problems,
            *await plugin_problems(inventories.supervisor),
            *skill_problems(inventories.skills.statuses()),
            *tool_problems(self.mcp.servers(ws), self.openapi.documents(ws)),
            *quota_problems(await inventories.db.read(quotas.of_workspaces), self.allowances),
            *await self._of_current(await self._agents()),
        ]

    async def of_agents(self, workspace_id: str, specs: Sequence[AgentSpec]) -> list[list[ConfigProblem]]:
        """Return the problems of each of these agents, as far as they are known without starting a plugin."""
        inventory = await self.inventories.now(workspace_id)
        return await asyncio.to_thread(lambda: [agent_problems([spec], inventory) for spec in specs])

    def watch(self) -> AgentMonitor:
        """Return the monitor that logs new and solved problems of agents."""
        return AgentMonitor(self._agents, self._revisions, self._of_current)

    async def _agents(self) -> Sequence[Agent]:
        return await self.event_router.agents(self.workspace_id)

    async def _of_current(self, agents: Sequence[Agent]) -> list[ConfigProblem]:
        specs = [agent.spec for agent in agents]
        if self.inventories.running:
            inventory = await self.inventories.now()
        else:
            inventory = await self.configurator.inventory(specs)
        # in a thread, because thousands of agents take a while
        return await asyncio.to_thread(agent_problems, specs, inventory)

    def _revisions(self) -> tuple[object, ...]:
        """Return the revisions of everything that the review of agents depends on."""
        inventories = self.inventories
        return (inventories.supervisor.catalog.revision, *inventories.tools.revisions(), inventories.config)
