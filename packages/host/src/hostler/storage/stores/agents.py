"""Agents: one current version per name, every version kept."""

from __future__ import annotations

import functools
from collections.abc import Callable

import msgspec

from hostler.domain.agents import Agent, AgentSpec
from hostler.domain.record import Record
from hostler.domain.type_fit import misfit
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.filters import NEWEST
from hostler_protocol.errors import NotFoundError, StorageError
from hostler_protocol.ids import canonical_json, digest, new_id
from hostler_protocol.limits import MAX_PAGE_ITEMS

_q = load(__file__)
_specs = msgspec.json.Decoder(AgentSpec)
MAX_AGENTS = 10_000
"""Agents of a workspace that take part in resolving an event."""


def apply(tx: Tx, workspace_id: str, spec: AgentSpec, *, made_by: str | None = None) -> Agent:
    """Make `spec` the current version of its name. `made_by`: the subject that did, if it is known.

    An unchanged agent keeps its id and version, a changed one gets the next version. A new name, or one whose
    agent was deleted, gets a new id and version 1.
    """
    spec_digest = digest(spec)
    current = tx.one(_q.current, workspace_id=workspace_id, name=spec.name)
    known = None if current is None else _read(workspace_id, current)
    # digested again: a version that lacked some of today's settings stored another digest
    if isinstance(known, Agent) and digest(known.spec) == spec_digest:
        return known
    agent_id, version = _identity(tx, workspace_id, spec.name)
    tx.run(
        _q.insert_version,
        workspace_id=workspace_id,
        agent_id=agent_id,
        version=version,
        spec=canonical_json(spec).decode(),
        spec_digest=spec_digest,
        now=tx.now,
        made_by=made_by,
    )
    return Agent(workspace_id, agent_id, version, spec, tx.now, made_by)


def keep_version(tx: Tx, agent: Agent) -> None:
    """Store a version of an agent that has no name; no effect if it is stored already."""
    tx.run(
        _q.keep_version,
        workspace_id=agent.workspace_id,
        agent_id=agent.agent_id,
        version=agent.version,
        spec=canonical_json(agent.spec).decode(),
        spec_digest=digest(agent.spec),
        now=tx.now,
    )


def delete(tx: Tx, workspace_id: str, name: str) -> bool:
    """Delete the agent and keep its versions; return False if there was none."""
    return tx.run(_q.delete, workspace_id=workspace_id, name=name, now=tx.now) == 1


def find(tx: Tx, workspace_id: str, name: str) -> Agent | None:
    """Return the current version of the agent of this name. StorageError if this build cannot read it."""
    row = tx.one(_q.current, workspace_id=workspace_id, name=name)
    return None if row is None else _agent(workspace_id, row)


def current_version(tx: Tx, workspace_id: str, name: str) -> tuple[str, int] | None:
    """Return id and version of the agent of this name, even if its specification cannot be read."""
    row = tx.one(_q.current, workspace_id=workspace_id, name=name)
    return None if row is None else (row["agent_id"], row["version"])


def readable(tx: Tx, workspace_id: str, name: str) -> Agent | None:
    """Return the agent of this name; None if there is none or this build cannot read it."""
    row = tx.one(_q.current, workspace_id=workspace_id, name=name)
    found = None if row is None else _read(workspace_id, row)
    return found if isinstance(found, Agent) else None


def get(tx: Tx, workspace_id: str, name: str) -> Agent:
    """Return the current version of the agent of this name.

    NotFoundError if there is none, StorageError if this build cannot read it.
    """
    agent = find(tx, workspace_id, name)
    if agent is None:
        raise NotFoundError(f"there is no agent named {name!r}")
    return agent


def by_id(tx: Tx, workspace_id: str, agent_id: str) -> Agent | None:
    """Return the current version of the agent with this id; None if it is unknown or deleted."""
    row = tx.one(_q.by_id, workspace_id=workspace_id, agent_id=agent_id)
    return None if row is None else _agent(workspace_id, row)


def version(tx: Tx, workspace_id: str, agent_id: str, number: int) -> Agent | None:
    """Return one version of an agent, which may be deleted."""
    row = tx.one(_q.version, workspace_id=workspace_id, agent_id=agent_id, version=number)
    return None if row is None else _agent(workspace_id, row)


def versions(
    tx: Tx, workspace_id: str, agent_id: str, *, before: int | None = None, limit: int = MAX_PAGE_ITEMS
) -> list[Agent]:
    """Return versions of an agent below `before`, newest first."""
    rows = tx.all(
        _q.versions,
        workspace_id=workspace_id,
        agent_id=agent_id,
        before=NEWEST if before is None else before,
        limit=limit,
    )
    return [_agent(workspace_id, row) for row in rows]


def rewrite_versions(
    tx: Tx, workspace_id: str, agent_id: str, rewrite: Callable[[Agent], AgentSpec | None]
) -> None:
    """Change stored versions in place: each for which `rewrite` returns another specification."""
    before: int | None = None
    while rows := tx.all(
        _q.versions,
        workspace_id=workspace_id,
        agent_id=agent_id,
        before=NEWEST if before is None else before,
        limit=MAX_PAGE_ITEMS,
    ):
        before = rows[-1]["version"]
        for row in rows:
            agent = _read(workspace_id, row)
            spec = rewrite(agent) if isinstance(agent, Agent) else None
            if spec is not None:
                tx.run(
                    _q.rewrite_version,
                    workspace_id=workspace_id,
                    agent_id=agent_id,
                    version=row["version"],
                    spec=canonical_json(spec).decode(),
                    spec_digest=digest(spec),
                )


class StoredVersion(Record):
    """A version of an agent as it is stored. `agent` None: this build cannot read it."""

    key: tuple[str, str, int]
    """Workspace, id of the agent, number."""
    text: str
    agent: Agent | None


FIRST_VERSION = ("", "", 0)


def all_versions(tx: Tx, *, after: tuple[str, str, int] = FIRST_VERSION, limit: int) -> list[StoredVersion]:
    """Return versions of agents of all workspaces, also deleted ones, after the given one."""
    ws, agent_id, version = after
    rows = tx.all(_q.all_versions, ws=ws, agent_id=agent_id, version=version, limit=limit)
    found = []
    for row in rows:
        read = _read(row["workspace_id"], row)
        key = (row["workspace_id"], row["agent_id"], row["version"])
        found.append(StoredVersion(key, row["spec"], read if isinstance(read, Agent) else None))
    return found


def replace_version(tx: Tx, before: StoredVersion, spec: AgentSpec) -> bool:
    """Store a version in another form, unless it has changed since it was read."""
    workspace_id, agent_id, version = before.key
    done = tx.run(
        _q.replace_version,
        workspace_id=workspace_id,
        agent_id=agent_id,
        version=version,
        before=before.text,
        spec=canonical_json(spec).decode(),
        spec_digest=digest(spec),
    )
    return done == 1


def active(tx: Tx, workspace_id: str) -> list[Agent]:
    """Return all agents that are not deleted and can be read, by name; disabled ones too."""
    rows = tx.all(_q.page, workspace_id=workspace_id, after="", limit=MAX_AGENTS)
    return [agent for row in rows if isinstance(agent := _read(workspace_id, row), Agent)]


def names(tx: Tx, workspace_id: str) -> list[str]:
    """Return the names of all agents that are not deleted."""
    return [row["name"] for row in tx.all(_q.names, workspace_id=workspace_id, limit=MAX_AGENTS)]


def created(tx: Tx, workspace_id: str) -> dict[str, int]:
    """Return when each agent that is not deleted was created: name to UTC epoch milliseconds."""
    rows = tx.all(_q.names, workspace_id=workspace_id, limit=MAX_AGENTS)
    return {row["name"]: row["created_at"] for row in rows}


def unreadable(tx: Tx, workspace_id: str) -> dict[str, str]:
    """Return why agents cannot be read by this build: name to reason."""
    rows = tx.all(_q.page, workspace_id=workspace_id, after="", limit=MAX_AGENTS)
    return {row["name"]: why for row in rows if isinstance(why := _read(workspace_id, row), str)}


def page(tx: Tx, workspace_id: str, *, after: str = "", limit: int = MAX_PAGE_ITEMS) -> list[Agent]:
    """Return agents by name, after the name `after`; those that cannot be read are left out."""
    found: list[Agent] = []
    while (wanted := limit - len(found)) > 0:
        rows = tx.all(_q.page, workspace_id=workspace_id, after=after, limit=wanted)
        found += [agent for row in rows if isinstance(agent := _read(workspace_id, row), Agent)]
        if len(rows) < wanted:
            break
        after = rows[-1]["name"]
    return found


def _identity(tx: Tx, workspace_id: str, name: str) -> tuple[str, int]:
    """Return id and number of the next version of `name`, creating the agent if it is new."""
    following = tx.one(_q.next_version, workspace_id=workspace_id, name=name, now=tx.now)
    if following is None:
        agent_id = new_id()
        new = {"workspace_id": workspace_id, "name": name, "agent_id": agent_id, "now": tx.now}
        if tx.run(_q.insert, **new) or tx.run(_q.revive, **new):
            return agent_id, 1
        following = tx.one(_q.next_version, workspace_id=workspace_id, name=name, now=tx.now)
    if following is None:
        raise RuntimeError(f"agent {name!r} is neither new nor known")
    return following["agent_id"], following["version"]


def _agent(workspace_id: str, row: Row) -> Agent:
    read = _read(workspace_id, row)
    if isinstance(read, str):
        raise StorageError(f"agent {row['agent_id']}, version {row['version']}: {read}")
    return read


@functools.lru_cache(maxsize=256)
def _spec(stored: str) -> AgentSpec:
    """Decode a specification. Every run reads that of its agent, and few agents have most runs."""
    return _specs.decode(stored)


def _read(workspace_id: str, row: Row) -> Agent | str:
    """Return the agent, or the reason why this build cannot read it."""
    try:
        spec = _spec(row["spec"])
    except msgspec.DecodeError as error:
        wrong = (
            misfit(error, AgentSpec).sentence if isinstance(error, msgspec.ValidationError) else str(error)
        )
        return f"the stored entry does not fit this version: {wrong}; apply it again, or delete it"
    return Agent(workspace_id, row["agent_id"], row["version"], spec, row["created_at"], row["made_by"])
