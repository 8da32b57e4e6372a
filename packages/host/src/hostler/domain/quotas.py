"""Quotas: how much a workspace, an agent and a run may keep stored, and when one has no room left. Pure.

What is stored counts for its workspace, for the agent whose run stored it, and for that run, as long as it is
there. Files that people and events bring count for the workspace alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

import msgspec

from hostler.domain.record import Record
from hostler_protocol._base import Strict
from hostler_protocol.errors import PayloadTooLargeError
from hostler_protocol.limits import MAX_INTEGER, MIB

Level = Literal["workspace", "agent", "run"]
Quantity = Literal["artifacts", "artifact_bytes", "storage_values", "storage_bytes", "state_bytes"]
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]

GIB = 1024 * MIB
STATE_ROW_BYTES = 100
"""What each state value counts besides its key and its JSON: a deleted one keeps its row, for its version."""
MAX_CACHED_QUOTAS = 1_000
"""Pairs of quotas, of a workspace and an agent, whose bounds are kept: a run asks for them three times."""
REASON = "quota_exceeded"
"""`details["reason"]` of the error."""


class WorkspaceQuota(Strict):
    """How much a workspace may keep stored, all agents together; null: no bound.

    An artifact counts with the size of its file, also if an equal one is stored already; a file that is
    registered in place counts no bytes. Unfinished uploads count like artifacts. A state value counts with
    its key and 100 bytes for its row.
    """

    max_artifacts: Count | None = 1_000_000
    max_artifact_bytes: Count | None = 64 * GIB
    max_storage_values: Count | None = 200_000
    max_storage_bytes: Count | None = 8 * GIB
    max_state_bytes: Count | None = 8 * GIB


class AgentQuota(Strict):
    """How much of what an agent's runs stored may be kept, in all and of one run; null: no bound.

    A storage value belongs to the run that wrote it last. Child runs are runs of their own agents.
    """

    max_artifacts: Count | None = 100_000
    max_artifact_bytes: Count | None = 16 * GIB
    max_storage_values: Count | None = 100_000
    max_storage_bytes: Count | None = 4 * GIB
    max_state_bytes: Count | None = 4 * GIB
    max_artifacts_per_run: Count | None = 1_000
    max_artifact_bytes_per_run: Count | None = 4 * GIB
    max_storage_values_per_run: Count | None = 10_000
    max_storage_bytes_per_run: Count | None = 1 * GIB


NO_ROOM = WorkspaceQuota(**dict.fromkeys(WorkspaceQuota.__struct_fields__, 0))
"""The quota of a workspace whose entry cannot be read."""


class Amounts(NamedTuple):
    """What is stored, or by how much that changes."""

    artifacts: int = 0
    artifact_bytes: int = 0
    storage_values: int = 0
    storage_bytes: int = 0
    state_bytes: int = 0

    def plus(self, other: Amounts) -> Amounts:
        """Return the sum."""
        return Amounts(
            self.artifacts + other.artifacts,
            self.artifact_bytes + other.artifact_bytes,
            self.storage_values + other.storage_values,
            self.storage_bytes + other.storage_bytes,
            self.state_bytes + other.state_bytes,
        )

    def negated(self) -> Amounts:
        """Return the change that undoes this one."""
        return Amounts(*(-amount for amount in self))


NOTHING = Amounts()
QUANTITIES: tuple[Quantity, ...] = (
    "artifacts",
    "artifact_bytes",
    "storage_values",
    "storage_bytes",
    "state_bytes",
)
assert Amounts._fields == QUANTITIES


class Bounds(NamedTuple):
    """Upper bounds of amounts; None: no bound."""

    artifacts: int | None = None
    artifact_bytes: int | None = None
    storage_values: int | None = None
    storage_bytes: int | None = None
    state_bytes: int | None = None


class Quotas(NamedTuple):
    """The bounds that hold for one run, or for what comes into its workspace without one."""

    workspace: Bounds = Bounds()
    agent: Bounds = Bounds()
    run: Bounds = Bounds()


UNBOUNDED = Quotas()


class Holder(NamedTuple):
    """Whose run stored something; None: no run."""

    agent_id: str | None = None
    run_id: str | None = None


class Allotment(NamedTuple):
    """For whom something is stored, and how much they may keep."""

    holder: Holder = Holder()
    bounds: Quotas = UNBOUNDED


class Account(NamedTuple):
    """A counter of what is stored. `owner_id`: an agent's or a run's id, empty for the workspace."""

    level: Level
    owner_id: str = ""


Changes = Mapping[Account, Amounts]


class QuotaExceeded(Record):
    """Why something is not stored. `used`: what is stored now; `more`: what would have been added."""

    account: Account
    what: Quantity
    limit: int
    used: int
    more: int

    @property
    def error(self) -> PayloadTooLargeError:
        """The error to raise: which quota it is, how much is used, and who can raise it."""
        level, noun = self.account.level, _NOUNS[self.what]
        field = f"max_{self.what}{'_per_run' if level == 'run' else ''}"
        where = (
            "the workspace's entry in `workspaces`" if level == "workspace" else "the agent's resource_policy"
        )
        return PayloadTooLargeError(
            f"the quota of this {level} is {self.limit:,} {noun}: {self.used:,} are stored, and "
            f"{self.more:,} more do not fit. Delete what is no longer needed; an operator can raise "
            f"`quota.{field}` in {where}",
            reason=REASON,
            quota=field,
            level=level,
            limit=self.limit,
            used=self.used,
            asked=self.more,
        )


@lru_cache(maxsize=MAX_CACHED_QUOTAS)
def quotas_of(workspace: WorkspaceQuota, agent: AgentQuota | None = None) -> Quotas:
    """Return the bounds for a run of an agent; without one, of what comes into the workspace otherwise."""
    if agent is None:
        return Quotas(_bounds(workspace))
    return Quotas(_bounds(workspace), _bounds(agent), _bounds(agent, "_per_run"))


def added(holder: Holder, amounts: Amounts) -> dict[Account, Amounts]:
    """Return the changes of the accounts if this is stored, or with negative amounts, removed."""
    return moved((holder, amounts))


def moved(*parts: tuple[Holder, Amounts]) -> dict[Account, Amounts]:
    """Return the changes of the accounts by several such parts, the workspace's first. States have no run."""
    changes: dict[Account, Amounts] = {Account("workspace"): NOTHING}
    for holder, amounts in parts:
        accounts = [Account("workspace")]
        if holder.agent_id is not None:
            accounts.append(Account("agent", holder.agent_id))
        if holder.run_id is not None:
            accounts.append(Account("run", holder.run_id))
        for account in accounts:
            changes[account] = changes.get(account, NOTHING).plus(amounts)
    return {account: change for account, change in changes.items() if change != NOTHING}


def exceeded_quota(changes: Changes, uses: Mapping[Account, Amounts], quotas: Quotas) -> QuotaExceeded | None:
    """Return the first quota that has no room for these changes, or None. What shrinks always fits."""
    for account, change in changes.items():
        bounds, used = getattr(quotas, account.level), uses.get(account, NOTHING)
        for what, more, now, limit in zip(QUANTITIES, change, used, bounds, strict=True):
            if limit is not None and more > 0 and now + more > limit:
                return QuotaExceeded(account, what, limit, now, more)
    return None


def room_for(
    what: Quantity, accounts: Iterable[Account], uses: Mapping[Account, Amounts], quotas: Quotas
) -> int | None:
    """Return how much of a quantity fits on all these accounts; None: there is no bound."""
    rooms = []
    for account in accounts:
        limit = getattr(getattr(quotas, account.level), what)
        if limit is not None:
            rooms.append(max(0, limit - getattr(uses.get(account, NOTHING), what)))
    return min(rooms, default=None)


def state_size(key: str, value: str) -> int:
    """Return what a state value counts; `value` is its JSON, empty for a deleted one."""
    return len(key.encode()) + len(value.encode()) + STATE_ROW_BYTES


def _bounds(quota: WorkspaceQuota | AgentQuota, suffix: str = "") -> Bounds:
    return Bounds(*(getattr(quota, f"max_{what}{suffix}", None) for what in QUANTITIES))


_NOUNS: dict[Quantity, str] = {
    "artifacts": "artifacts",
    "artifact_bytes": "bytes of artifacts",
    "storage_values": "values in storage",
    "storage_bytes": "bytes in storage",
    "state_bytes": "bytes of state",
}
