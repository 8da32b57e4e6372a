"""Agents and their versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from hostler.domain.agents import Agent, AgentSpec
from hostler.domain.config_changes import ConfigProblem, sparse
from hostler.domain.config_mistakes import ConfigurationError, Mistake
from hostler.domain.narrow_callers import check_agent
from hostler.domain.prompts import Prompt
from hostler.domain.reference_rights import ReferenceRights
from hostler.http.auth import has_right
from hostler.http.endpoint import endpoint
from hostler.http.pagination import PageQuery, list_cursors, listing
from hostler.http.request import ApiRequest, LenientBody
from hostler.http.responses import Empty, Json, Listing
from hostler.storage.port import Tx
from hostler.storage.stores import agents, audit, members, schedule_removal
from hostler_protocol._base import Strict
from hostler_protocol.errors import ConflictError, NotFoundError


class AgentRecord(Strict):
    """One version of an agent. `spec` is its entry in a configuration file, with all fields, and with `***`
    in place of a secret that is written out in its `config`. Written back, that stands for the stored secret.

    `made_at` (UTC epoch seconds) and `made_by`: when and by whom this version was made; `config file` is the
    file that the server was started with, null is not known. `made_by_name`: how a person who signed in is
    called. `problems`: errors and warnings of the current version; null in the list of versions.
    """

    agent_id: str
    name: str
    version: int
    spec: AgentSpec
    made_at: float
    made_by: str | None
    made_by_name: str | None
    problems: list[ConfigProblem] | None = None


class AgentEntry(Strict):
    """An agent as its entry in a configuration file, without default values. `yaml`: a file with that entry
    alone, as `hostler export` writes it.
    """

    entry: dict[str, Any]
    yaml: str


class AgentPrompts(Strict):
    """The prompts of an agent, in the order of its configuration."""

    items: list[Prompt]


class ChangeQuery(Strict):
    """`version`: the version that the change was made from; a `conflict` if another one is current."""

    version: int | None = None


@endpoint("GET", "/v1/agents", right="agents:read", tag="agents")
async def list_agents(request: ApiRequest, query: PageQuery) -> Listing[AgentRecord]:
    """List the current versions of all agents, by name."""
    cursors = list_cursors(request.state.host.cursors, "agents", request.workspace_id, query)
    after = "" if query.cursor is None else cursors.read_text(query.cursor)
    rows = await request.state.host.db.read(
        lambda tx: agents.page(tx, request.workspace_id, after=after, limit=query.size + 1)
    )
    problems, names = await _problems(request, rows), await _names(request, rows)
    return listing(
        rows,
        query.size,
        lambda agent: agent_record(request, agent, problems[agent.name], names),
        lambda agent: agent.name,
        cursors,
    )


@endpoint("POST", "/v1/agents", right="agents:write", tag="agents", status=201)
async def create_agent(request: ApiRequest, body: LenientBody[AgentSpec]) -> Json[AgentRecord]:
    """Create an agent. A name in use is a `conflict`."""
    host, name = request.state.host, body.get().name
    if await host.db.read(lambda tx: agents.current_version(tx, request.workspace_id, name)) is not None:
        raise ConflictError(f"there is an agent named {name!r} already; PUT changes it")
    return Json(await _save(request, body), 201)


@endpoint("GET", "/v1/agents/{name}", right="agents:read", tag="agents")
async def get_agent(request: ApiRequest) -> AgentRecord:
    """Get the current version of an agent."""
    name = request.parameters["name"]
    return await _with_problems(
        request, await request.state.host.db.read(lambda tx: agents.get(tx, request.workspace_id, name))
    )


@endpoint("GET", "/v1/agents/{name}/entry", right="agents:read", tag="agents")
async def get_agent_entry(request: ApiRequest) -> AgentEntry:
    """Get an agent as in a configuration file. A secret that is written out is `***`."""
    name = request.parameters["name"]
    agent = await request.state.host.db.read(lambda tx: agents.get(tx, request.workspace_id, name))
    entry = sparse(request.state.host.configurator.shown(agent.spec))
    import yaml  # noqa: PLC0415  only where a file is written

    text = yaml.safe_dump({"agents": [entry]}, sort_keys=False, allow_unicode=True)
    return AgentEntry(entry=entry, yaml=text)


@endpoint("GET", "/v1/agents/{name}/prompts", right="events:write", tag="agents", narrow=(), checks=("name",))
async def list_agent_prompts(request: ApiRequest) -> AgentPrompts:
    """List the messages for an agent that people pick instead of writing them.

    It takes no more than the right to send messages; a front-end token lists those of its agent.
    """
    name = request.parameters["name"]
    check_agent(request.caller, name)
    for agent in await request.state.host.event_router.agents(request.workspace_id):
        if agent.name == name and agent.spec.enabled:
            return AgentPrompts(items=agent.spec.prompts)
    raise NotFoundError(f"there is no agent {name!r}")


@endpoint("PUT", "/v1/agents/{name}", right="agents:write", tag="agents")
async def put_agent(request: ApiRequest, query: ChangeQuery, body: LenientBody[AgentSpec]) -> AgentRecord:
    """Create or change an agent. If anything is wrong, all mistakes are reported and nothing is stored.

    A change creates a new version, which the next event uses; an unchanged agent keeps its version. The name
    in the body has to match the path. With `version` a change that another person made meanwhile is not
    overwritten.
    """
    name = request.parameters["name"]
    if body.get().name != name:
        mismatch = Mistake("name", f"the path names {name!r}: both must be the same")
        body = replace(body, mistakes=[*body.mistakes, mismatch])
    return await _save(request, body, query.version)


@endpoint("GET", "/v1/agents/{name}/versions", right="agents:read", tag="agents")
async def list_agent_versions(request: ApiRequest, query: PageQuery) -> Listing[AgentRecord]:
    """List all versions of an agent, newest first."""
    name = request.parameters["name"]
    cursors = request.state.host.cursors.scoped("http agent versions", [request.workspace_id, name])
    before = None if query.cursor is None else cursors.read_sequence(query.cursor)

    def read(tx: Tx) -> list[Agent]:
        current = agents.get(tx, request.workspace_id, name)
        return agents.versions(
            tx, request.workspace_id, current.agent_id, before=before, limit=query.size + 1
        )

    rows = await request.state.host.db.read(read)
    names = await _names(request, rows)
    return listing(
        rows,
        query.size,
        lambda agent: agent_record(request, agent, names=names),
        lambda agent: agent.version,
        cursors,
    )


@endpoint("DELETE", "/v1/agents/{name}", right="agents:write", tag="agents")
async def delete_agent(request: ApiRequest, query: ChangeQuery) -> Empty:
    """Delete an agent. Its runs continue, and keep the version that they use."""
    name, workspace, actor = request.parameters["name"], request.workspace_id, request.caller.subject

    def delete(tx: Tx) -> bool:
        known = agents.current_version(tx, workspace, name)
        _check_version(known, name, query.version)
        deleted = agents.delete(tx, workspace, name)
        if deleted and known is not None:
            schedule_removal.drop_of_agent(tx, workspace, known[0], name, actor)
            audit.record(tx, workspace, actor, "agent.removed", name, {})
        return deleted

    if not await request.state.host.db.write(delete):
        raise NotFoundError(f"there is no agent named {name!r}")
    request.state.host.event_router.changed(workspace)
    return Empty()


async def _save(request: ApiRequest, body: LenientBody[AgentSpec], version: int | None = None) -> AgentRecord:
    """Check and store an agent for the next event. `version`: the one that is current, if that matters.

    An agent that is already stored like this is never refused.
    """
    host, workspace, actor = request.state.host, request.workspace_id, request.caller.subject
    name = body.get().name
    if host.db.shared:
        await host.configurator.catch_up()  # another host may have set a master key, under which it is sealed
    known = await host.db.read(lambda tx: agents.readable(tx, workspace, name))
    if known is not None:
        _check_version((known.agent_id, known.version), name, version)
        await host.configurator.entry_sealing.know([known.spec])
    spec, hidden = host.configurator.complete_agent(
        body.get(),
        None if known is None else known.spec,
        workspace,
        # an address next to it may obtain a secret that the caller does not know
        same_config=not has_right(request.caller, "installation"),
    )
    references = reference_rights(request)
    references.check(None if known is None else known.spec, spec)
    if hidden or body.mistakes or known is None or known.spec != spec:
        mistakes = [*body.mistakes, *hidden, *await host.configurator.review_agent(spec, workspace)]
        if any(mistake.severity == "error" for mistake in mistakes):
            raise ConfigurationError(mistakes)
    spec = await host.configurator.entry_sealing.sealed(
        workspace, spec, None if known is None else known.spec
    )

    def save(tx: Tx) -> Agent:
        before = agents.current_version(tx, workspace, spec.name)
        _check_version(before, spec.name, version)
        stored = agents.readable(tx, workspace, spec.name)
        references.check(None if stored is None else stored.spec, spec)
        after = agents.apply(tx, workspace, spec, made_by=actor)
        if before != (after.agent_id, after.version):
            action = "agent.added" if before is None else "agent.changed"
            audit.record(tx, workspace, actor, action, spec.name, {"version": after.version})
        return after

    agent = await host.db.write(save)
    host.configurator.entry_sealing.note_stored([spec])
    host.event_router.changed(workspace)
    return await _with_problems(request, agent)


def _check_version(current: tuple[str, int] | None, name: str, version: int | None) -> None:
    """Raise ConflictError if a change was made from another version than the current one."""
    if version is None or (current is not None and current[1] == version):
        return
    is_now = "is deleted" if current is None else f"has version {current[1]} now"
    raise ConflictError(
        f"agent {name!r} {is_now}, and the change was made from version {version}: read it again",
        version=None if current is None else current[1],
    )


def reference_rights(request: ApiRequest) -> ReferenceRights:
    """Return what the caller may do with references to secrets."""
    return ReferenceRights(
        request.state.host.allowances.of(request.workspace_id),
        installation=has_right(request.caller, "installation"),
        secrets_write=has_right(request.caller, "secrets:write"),
    )


async def _problems(request: ApiRequest, rows: Sequence[Agent]) -> dict[str, list[ConfigProblem]]:
    """Return the problems of each of these agents by name."""
    specs = [agent.spec for agent in rows]
    problems = await request.state.host.diagnosis.of_agents(request.workspace_id, specs)
    return {spec.name: own for spec, own in zip(specs, problems, strict=True)}


async def _names(request: ApiRequest, rows: Sequence[Agent]) -> dict[str, str]:
    """Return how the people are called who made these versions."""
    subjects = {agent.made_by for agent in rows if agent.made_by is not None}
    return await request.state.host.db.read(lambda tx: members.names(tx, request.workspace_id, subjects))


async def _with_problems(request: ApiRequest, agent: Agent) -> AgentRecord:
    problems = (await _problems(request, [agent]))[agent.name]
    return agent_record(request, agent, problems, await _names(request, [agent]))


def agent_record(
    request: ApiRequest,
    agent: Agent,
    problems: list[ConfigProblem] | None = None,
    names: Mapping[str, str] = MappingProxyType({}),
) -> AgentRecord:
    """Return a stored agent as the API shows it. `names`: how those who made it are called."""
    return AgentRecord(
        agent_id=agent.agent_id,
        name=agent.name,
        version=agent.version,
        spec=request.state.host.configurator.shown(agent.spec),
        made_at=agent.made_at / 1000,
        made_by=agent.made_by,
        made_by_name=names.get(agent.made_by or ""),
        problems=problems,
    )
