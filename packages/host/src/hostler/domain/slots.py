"""Slots: how many runs execute at once in one host process, and the limits that they count against."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal, NamedTuple, Protocol

from hostler_protocol.ids import split_runner_id

Kind = Literal["workspace", "plugin", "agent"]


MAX_LABELLED = 10_000
"""Versions of agents whose labels are remembered; they are read again after more."""


class SlotKey(NamedTuple):
    """The limits that a run counts against: workspace, plugin (`author/name`) and agent id.

    `attempt`: the run and its attempt, where it may have a place on a remote worker.
    """

    workspace: str
    plugin: str
    agent: str
    attempt: tuple[str, int] | None = None

    def kinds(self) -> tuple[tuple[Kind, str], ...]:
        """Return each name with its kind."""
        return ("workspace", self.workspace), ("plugin", self.plugin), ("agent", self.agent)


def slot_key(
    workspace_id: str, runner_id: str, agent_id: str, attempt: tuple[str, int] | None = None
) -> SlotKey:
    """Return the key of a run of this runner."""
    return SlotKey(workspace_id, split_runner_id(runner_id)[0], agent_id, attempt)


class AgentVersion(NamedTuple):
    """One version of an agent."""

    workspace: str
    agent: str
    version: int

    @property
    def text(self) -> str:
        """It as claims name it in SQL."""
        return f"{self.agent}/{self.version}"


class Wanted(NamedTuple):
    """What the runs of a version of an agent ask of a worker: their plugin (`author/name`), and labels."""

    workspace: str
    plugin: str
    labels: tuple[str, ...]


class Places(Protocol):
    """The places of attempts on remote workers. Called on the database's thread and on the loop's."""

    def has_room(self, wanted: Wanted) -> bool:
        """Whether a worker of the workspace with all of the labels has a free slot."""

    def take(self, key: SlotKey, wanted: Wanted, waited_ms: int) -> bool:
        """Take a place for an attempt. Returns False if no worker has one."""

    def give_back(self, key: SlotKey) -> None:
        """Release the place of an attempt, if it has one."""


class NoPlaces:
    """The places of a host without remote workers."""

    def has_room(self, wanted: Wanted) -> bool:
        """See `Places`."""
        return False

    def take(self, key: SlotKey, wanted: Wanted, waited_ms: int) -> bool:
        """See `Places`."""
        return False

    def give_back(self, key: SlotKey) -> None:
        """See `Places`."""


@dataclass(slots=True)
class Slots:
    """The slots in use. A limit of None, or an absent one, is no limit.

    Runs are claimed on the database's thread and opened on the loop's, so each change is made under a lock.
    """

    most: int
    per_workspace: int | None = None
    per_plugin: int | None = None
    per_agent: dict[str, int | None] = field(default_factory=dict)
    taken: int = 0
    counts: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    places: Places = field(default_factory=NoPlaces)
    wanted: dict[AgentVersion, Wanted] = field(default_factory=dict)
    """What versions of agents ask of workers; without labels their runs need none."""
    _lock: Lock = field(default_factory=Lock)

    @property
    def free(self) -> int:
        """Number of free slots."""
        return max(0, self.most - self.taken)

    def take(self, key: SlotKey) -> bool:
        """Take a slot for a run. Returns False if a limit is reached."""
        with self._lock:
            if not self.free or any(self._is_full(kind, name) for kind, name in key.kinds()):
                return False
            self.taken += 1
            self.counts.update(key.kinds())
            return True

    def give_back(self, key: SlotKey) -> None:
        """Release the slot of a run."""
        self.places.give_back(key)
        with self._lock:
            self.taken -= 1
            for kind in key.kinds():
                self.counts[kind] -= 1
                if self.counts[kind] <= 0:
                    del self.counts[kind]

    def limit_agent(self, agent_id: str, most: int | None) -> None:
        """Set an agent's limit; None: as many runs as there are slots."""
        with self._lock:
            self.per_agent[agent_id] = most

    def want(self, agent: AgentVersion, wanted: Wanted) -> None:
        """Remember what a version of an agent asks of workers."""
        with self._lock:
            if len(self.wanted) >= MAX_LABELLED:
                self.wanted.clear()
            self.wanted[agent] = wanted

    def unplaceable(self) -> list[str]:
        """Return versions of agents, as claims name them, for whose runs no worker has a free slot now."""
        with self._lock:
            labelled = [(agent, wanted) for agent, wanted in self.wanted.items() if wanted.labels]
        return [agent.text for agent, wanted in labelled if not self.places.has_room(wanted)]

    def full(self, kind: Kind) -> list[str]:
        """Return the sorted names of this kind that have reached their limit, even if slots are free."""
        with self._lock:
            found = {name for each, name in self.counts if each == kind and self._is_full(kind, name)}
            if kind == "agent":
                found |= {name for name, limit in self.per_agent.items() if limit is not None and limit <= 0}
            return sorted(found)

    def _is_full(self, kind: Kind, name: str) -> bool:
        limits = {
            "workspace": self.per_workspace,
            "plugin": self.per_plugin,
            "agent": self.per_agent.get(name) if kind == "agent" else None,
        }
        limit = limits[kind]
        return limit is not None and self.counts[kind, name] >= limit
