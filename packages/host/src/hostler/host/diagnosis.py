"""Diagnosis of the active configuration: the entries that do not work now."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from hostler.domain.agent_review import review_agent
from hostler.domain.agents import Agent, AgentSpec
from hostler.domain.allowances import Allowances
from hostler.domain.channel_review import review_channel
from hostler.domain.channels import ChannelEntry
from hostler.domain.config_changes import ConfigProblem
from hostler.domain.inventory import Inventory
from hostler.domain.quotas import QUANTITIES, Amounts, quotas_of
from hostler.domain.record import Record
from hostler.domain.schedules import MAKER_REMOVED
from hostler.host.agent_monitor import AgentMonitor
from hostler.host.apply_config import Configurator
from hostler.host.config_relations import same_accounts
from hostler.host.inventory import Inventories
from hostler.host.planned_config import PlannedConfig
from hostler.plugins.source import Folder, identity_of
from hostler.plugins.status import PluginStatus
from hostler.plugins.supervisor import Supervisor
from hostler.runs.routing import EventRouter
from hostler.storage.port import Tx
from hostler.storage.stores import members, quotas, schedules
from hostler.storage.stores.schedules import StoredSchedule
from hostler.tools.mcp.server import McpServerStatus
from hostler.tools.mcp.source import McpTools
from hostler.tools.openapi.source import OpenApiStatus, OpenApiTools
from hostler.tools.skills.service import SkillStatus
from hostler_protocol.errors import InvalidArgumentError, PluginError

ONE_RUN_PREFIX = "run."
"""Prefix of the names of agents that `hostler run` creates for a plugin folder or file."""
NEARLY_FULL = 0.9
"""The part of a workspace's quota above which its operator is warned, while there is time to act."""
AHEAD_MS = 60_000
"""By how much the clocks of hosts may differ, before a firing of later than now shows that one was wrong."""
MAX_NAMED_SKILLS = 5
"""Skills named in the problem of a folder; `hostler skills list` shows all."""


FIRED_AHEAD = "it has fired for times that are still to come, since the clock was wrong, and waits until then"


async def plugin_problems(
    supervisor: Supervisor, planned: PlannedConfig | None = None
) -> list[ConfigProblem]:
    """Return the problems of plugins that do not start, including unstarted ones that cannot be read.

    `planned`: only of those that stay as they are.
    """
    statuses = supervisor.status()
    if planned is not None:
        statuses = [one for one in statuses if planned.leaves("plugin", one.key, _path_of(one))]
    stopped = [status for status in statuses if status.state == "stopped"]
    unreadable = await asyncio.to_thread(_unreadable, stopped)
    reasons = {status.key: status.reason for status in statuses if status.reason is not None} | unreadable
    return [ConfigProblem(kind="plugin", name=key, problem=reason) for key, reason in reasons.items()]


def _path_of(status: PluginStatus) -> str:
    return str(status.source.path) if isinstance(status.source, Folder) else status.key


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


def channel_problems(
    entries: Collection[ChannelEntry], inventory: Inventory, unreadable: Callable[[str], str | None]
) -> list[ConfigProblem]:
    """Return the problems of channels: of what they name, and of accounts that are there twice. Blocks."""
    found = [
        (entry.name, mistake)
        for entry in entries
        for mistake in review_channel(entry, inventory, unreadable, stored=True)
    ]
    return [
        ConfigProblem(
            kind="channel", name=name, problem=mistake.text, place=mistake.place, severity=mistake.severity
        )
        for name, mistake in [*found, *same_accounts(entries)]
    ]


def skill_problems(statuses: Iterable[SkillStatus]) -> list[ConfigProblem]:
    """Return the problems of skills that cannot be used; skills with one name are one problem."""
    problems = {(skill.name, skill.problem): None for skill in statuses if skill.problem is not None}
    return [ConfigProblem(kind="skill", name=name, problem=problem) for name, problem in problems]


def planned_skill_problems(planned: PlannedConfig, statuses: Iterable[SkillStatus]) -> list[ConfigProblem]:
    """Return the problems that skills will have: what is known of those that stay, and those of new ones."""
    kept = [skill for skill in statuses if planned.leaves_skill(skill.source)]
    names = {skill.name for skill in kept}
    found = {} if planned.inventory is None else planned.inventory.unusable_skills
    new = [
        ConfigProblem(kind="skill", name=name, problem=why)
        for name, why in found.items()
        if name not in names
    ]
    return skill_problems(kept) + new


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


def schedule_problems(
    stored: Iterable[StoredSchedule], agents: Iterable[AgentSpec], removed: Collection[str], now: int
) -> list[ConfigProblem]:
    """Return the problems of schedules whose events reach no agent, and of those that do not fire.

    `removed`: the subjects of people who were removed. `now`: UTC epoch milliseconds.
    """
    enabled = {agent.name: agent.enabled for agent in agents}
    found: list[ConfigProblem] = []
    for schedule in stored:
        try:
            wanted = schedule.spec.agent
        except InvalidArgumentError:  # reported as an entry that cannot be read
            continue
        problem, place = schedule.error, ""
        if (why := _unanswered(wanted, enabled)) is not None:
            problem, place = why, "agent"
        if (schedule.last_planned or 0) > now + AHEAD_MS and schedule.paused_at is None:
            problem, place = f"{FIRED_AHEAD}: `hostler schedules resume {schedule.name} --from-now`", ""
        if schedule.made_by in removed:
            problem, place = MAKER_REMOVED, "made_by"
        if problem is not None and (schedule.next_at is not None or place == ""):
            found.append(ConfigProblem(kind="schedule", name=schedule.name, problem=problem, place=place))
    return found


def _unanswered(agent: str | None, enabled: Mapping[str, bool]) -> str | None:
    if agent is None or enabled.get(agent):
        return None
    if agent in enabled:
        return f"agent {agent!r} is disabled: its firings start nothing"
    return f"there is no agent {agent!r} any more: its firings start nothing"


def planned_schedule_problems(
    planned: PlannedConfig, paused: Collection[str], now: int
) -> list[ConfigProblem]:
    """Return the problems that new and changed schedules will have with their agents. `paused`: by name."""
    enabled = {spec.name: spec.enabled for spec in planned.config.agents}
    return [
        ConfigProblem(kind="schedule", name=schedule.name, problem=why, place="agent")
        for schedule in planned.config.schedules
        if not planned.leaves("schedule", schedule.name)
        and schedule.name not in paused
        and (why := _unanswered(schedule.agent, enabled)) is not None
        and schedule.timing(now).next(now) is not None
    ]


def silent_sources(mcp: McpTools, openapi: OpenApiTools, workspace_id: str) -> dict[str, str]:
    """Return why servers and documents list no tools, by the prefix of their tools' names."""
    reasons = {f"{server.name}.": server.reason for server in mcp.servers(workspace_id)}
    reasons |= {f"{document.name}.": document.problem for document in openapi.documents(workspace_id)}
    return {prefix: reason for prefix, reason in reasons.items() if reason is not None}


class Diagnosis(Record):
    """Finds the problems of one host's configuration."""

    workspace_id: str
    configurator: Configurator
    inventories: Inventories
    event_router: EventRouter
    mcp: McpTools
    openapi: OpenApiTools
    allowances: Allowances

    async def problems(self, planned: PlannedConfig | None = None) -> list[ConfigProblem]:
        """Return all problems, in the order of the kinds of entries.

        A passive host starts the plugins of its agents to find them. `planned`: those that there would be, as
        far as they are known without starting anything.
        """
        ws, inventories, allowances = self.workspace_id, self.inventories, self.allowances
        skills = skill_problems(inventories.skills.statuses())
        configured = list(self.configurator.problems)
        tools = tool_problems(self.mcp.servers(ws), self.openapi.documents(ws))
        if planned is not None:
            allowances = Allowances(ws, planned.config.workspaces)
            skills = planned_skill_problems(planned, inventories.skills.statuses())
            configured = self.configurator.planned_problems(planned)
            tools = [one for one in tools if planned.leaves(one.kind, one.name)]
        return [
            *configured,
            *await plugin_problems(inventories.supervisor, planned),
            *skills,
            *tools,
            *quota_problems(await inventories.db.read(quotas.of_workspaces), allowances),
            *await self._of_schedules(planned),
            *await self._of_named(planned),
        ]

    async def _of_schedules(self, planned: PlannedConfig | None) -> list[ConfigProblem]:
        def read(tx: Tx) -> tuple[list[StoredSchedule], set[str], int]:
            found = schedules.entries(tx, self.workspace_id)
            return found, members.removed(tx, self.workspace_id, [one.made_by for one in found]), tx.now

        stored, removed, now = await self.inventories.db.read(read)
        known = {problem.name for problem in self.configurator.problems if problem.kind == "schedule"}
        stored = [one for one in stored if one.name not in known]
        if planned is not None:
            paused = {one.name for one in stored if one.paused_at is not None}
            kept = [one for one in stored if planned.leaves("schedule", one.name)]
            return [
                *schedule_problems(kept, planned.config.agents, removed, now),
                *planned_schedule_problems(planned, paused, now),
            ]
        return schedule_problems(stored, await self._specs() if stored else (), removed, now)

    async def _of_named(self, planned: PlannedConfig | None) -> list[ConfigProblem]:
        """Return the problems of agents and channels with what they name."""
        config = self.inventories.config if planned is None else planned.config
        specs = await self._specs() if planned is None else config.agents
        inventory = None if planned is None else planned.inventory
        if inventory is None:
            inventory = await self._inventory(specs)
        unreadable = self.configurator.reviewer.secrets.unreadable
        return [
            *await asyncio.to_thread(agent_problems, specs, inventory),
            *await asyncio.to_thread(channel_problems, config.channels, inventory, unreadable),
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

    async def _specs(self) -> list[AgentSpec]:
        return [agent.spec for agent in await self._agents()]

    async def _inventory(self, specs: Sequence[AgentSpec]) -> Inventory:
        if self.inventories.running:
            return await self.inventories.now()
        return await self.configurator.inventory(specs)

    async def _of_current(self, agents: Sequence[Agent]) -> list[ConfigProblem]:
        specs = [agent.spec for agent in agents]
        inventory = await self._inventory(specs)
        # in a thread, because thousands of agents take a while
        return await asyncio.to_thread(agent_problems, specs, inventory)

    def _revisions(self) -> tuple[object, ...]:
        """Return the revisions of everything that the review of agents depends on."""
        inventories = self.inventories
        return (inventories.supervisor.catalog.revision, *inventories.tools.revisions(), inventories.config)
