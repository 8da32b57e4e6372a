"""What does not work of a configuration that holds, as of now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from hostler.bundled import shipped_runner
from hostler.domain.agents import AgentSpec
from hostler.domain.changes import ConfigProblem
from hostler.plugins.sources import identity_of
from hostler.plugins.status import PluginStatus
from hostler.plugins.supervisor import Supervisor
from hostler.skills.shelf import SkillStanding
from hostler.tools.mcp.server import McpServerStatus
from hostler.tools.openapi.source import OpenApiStatus
from hostler_protocol.errors import PluginError
from hostler_protocol.ids import split_runner_id

ONE_RUN_PREFIX = "run."
"""Agents that `hostler run` makes for a plugin folder or file are named like this."""


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


def agent_problems(specs: Iterable[AgentSpec], supervisor: Supervisor) -> list[ConfigProblem]:
    """The agents whose runner belongs to a plugin that is not there."""
    found: list[ConfigProblem] = []
    for spec in specs:
        try:
            key, _ = split_runner_id(spec.runner)
        except ValueError as error:
            found.append(ConfigProblem(kind="agent", name=spec.name, problem=str(error)))
            continue
        if key in supervisor or shipped_runner(key) is not None or _is_of_one_run(spec):
            continue
        why = (
            f"its runner {spec.runner} belongs to the plugin {key}, which is not there: add it with "
            "`hostler plugins add FOLDER`, or give the agent another runner"
        )
        found.append(ConfigProblem(kind="agent", name=spec.name, problem=why))
    return found


def _is_of_one_run(spec: AgentSpec) -> bool:
    return spec.name.startswith(ONE_RUN_PREFIX) and not spec.event_types


def skill_problems(standings: Iterable[SkillStanding]) -> list[ConfigProblem]:
    """The skills that nobody is given."""
    return [
        ConfigProblem(kind="skill", name=one.name, problem=one.problem)
        for one in standings
        if one.problem is not None
    ]


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
