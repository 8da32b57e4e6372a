"""Claims: which queued runs start next, fair between workspaces and within limits.

Only due runs, and only the oldest of each free lane. Workspaces take turns, the one served longest ago first;
within a workspace runs are ordered by priority, then age.
"""

from __future__ import annotations

from itertools import zip_longest

import msgspec

from hostler.domain.record import Record
from hostler.domain.slots import AgentVersion, SlotKey, Slots, Wanted, slot_key
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import agents, hosts, journal, runs
from hostler.storage.stores import waiting_messages as waiting
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_rows import Run, run_of
from hostler.storage.stores.timeline import place_of

_q = load(__file__)
_MAX_WORKSPACES = 10_000
"""Workspaces with queued runs that one claim reads."""


class Claims(Record):
    """Claimed runs. `again`: more runs may be claimable, so claim once more.

    `at`: time of the claim (UTC epoch milliseconds); runs that become due later were not seen.
    """

    runs: list[Run] = msgspec.field(default_factory=list)
    again: bool = False
    at: int = 0


class Queues(Record):
    """The state of all queues at `at`. Times are UTC epoch milliseconds, by the database's clock."""

    waiting: bool
    """Whether any run is queued."""
    ready: bool
    """Whether any may start now by its time and lane."""
    due: int | None
    """When the next run becomes due whose start was delayed."""
    at: int


def look(tx: Tx, since: int | None = None) -> Queues:
    """Read the state of the queues. `since`: time of the last claim; None: now.

    If a run became due after `since`, `due` is its time, which is then in the past.
    """
    row = tx.one(_q.look, now=tx.now, since=tx.now if since is None else since)
    if row is None:
        raise RuntimeError("a query without FROM gave no row")
    due = None if row["due"] is None else int(row["due"])
    return Queues(bool(row["waiting"]), bool(row["ready"]), due, tx.now)


def claim(tx: Tx, member: Membership, slots: Slots, held: list[SlotKey]) -> Claims:
    """Claim runs that may start, as many as `slots` have room for; none if the member's lease has expired.

    Slots that it takes are added to `held`, so that the caller can give them back if the transaction fails.
    Limits of agents that `slots` does not know are looked up.
    """
    if not hosts.holds(tx, member):
        return Claims(at=tx.now)
    full = set(slots.full("workspace"))
    skipped = {
        "skip_agents": _json(slots.full("agent")),
        "skip_versions": _json(slots.unplaceable()),
        "skip_plugins": _json([f"plugin:{key}/" for key in slots.full("plugin")]),
    }
    ready: list[list[Row]] = []
    room = slots.free
    for workspace in tx.all(_q.waiting_workspaces, limit=_MAX_WORKSPACES):
        if len(ready) >= room:
            break
        workspace_id = workspace["workspace_id"]
        if workspace_id in full:
            continue
        rows = tx.all(_q.ready, workspace_id=workspace_id, now=tx.now, limit=room, **skipped)
        if rows:
            ready.append(rows)
    turns = [row for turn in zip_longest(*ready) for row in turn if row is not None]
    taken, passed_over = _take(tx, member, slots, held, turns)
    # runs without a slot are excluded from the next claim, which then finds others
    return Claims(taken, again=passed_over or len(turns) >= room, at=tx.now)


def waiting_workspaces(tx: Tx) -> list[str]:
    """Return workspaces with queued runs."""
    return [row["workspace_id"] for row in tx.all(_q.waiting_workspaces, limit=_MAX_WORKSPACES)]


def _take(
    tx: Tx, member: Membership, slots: Slots, held: list[SlotKey], turns: list[Row]
) -> tuple[list[Run], bool]:
    """Claim what there are slots for; whether a run was passed over, as its own limit is reached, or no
    worker with its labels is free."""
    taken: list[Run] = []
    passed_over = False
    for row in turns:
        if not slots.free:
            break
        slot = slot_key(
            row["workspace_id"], row["runner_id"], row["agent_id"], (row["run_id"], row["attempt"])
        )
        if slot.agent not in slots.per_agent:
            slots.limit_agent(slot.agent, _limit(tx, slot.workspace, slot.agent))
        if not slots.take(slot):
            passed_over = True
            continue
        held.append(slot)
        wanted = _wanted(tx, slots, slot, row["agent_version"])
        if wanted.labels and not slots.places.take(slot, wanted, _waited(tx, row)):
            passed_over = True
            slots.give_back(held.pop())
            continue
        run = _claim(tx, member, row["run_id"])
        if run is None:
            slots.give_back(held.pop())
        else:
            taken.append(run)
    for workspace_id in {run.workspace_id for run in taken}:
        _note_turn(tx, workspace_id)
    return taken, passed_over


def _wanted(tx: Tx, slots: Slots, slot: SlotKey, number: int) -> Wanted:
    """Return what a run asks of a worker, as the version of its agent says."""
    version = AgentVersion(slot.workspace, slot.agent, number)
    known = slots.wanted.get(version)
    if known is not None:
        return known
    agent = agents.version(tx, slot.workspace, slot.agent, number)
    labels = () if agent is None else tuple(agent.spec.worker_labels)
    wanted = Wanted(slot.workspace, slot.plugin, labels)
    slots.want(version, wanted)
    return wanted


def _waited(tx: Tx, row: Row) -> int:
    """Return how long a run has waited for its first attempt, in milliseconds; 0 for a later attempt."""
    since = max(row["created_at"], row["not_before"] or 0)
    return max(0, tx.now - int(since)) if row["attempt"] == 1 else 0


def _limit(tx: Tx, workspace_id: str, agent_id: str) -> int | None:
    agent = agents.by_id(tx, workspace_id, agent_id)
    return None if agent is None else agent.spec.concurrency.max_runs


def _claim(tx: Tx, member: Membership, run_id: str) -> Run | None:
    row = tx.one(_q.claim, run_id=run_id, host_id=member.host_id, host_epoch=member.epoch)
    if row is None:
        return None
    run = run_of(row)
    if run.attempt == 1:
        waiting.take_up(tx, run)
    entry = runs.lifecycle("queued", "claimed", cause="claimed", actor=member.host_id, status_code=None)
    journal.append(
        tx,
        run.workspace_id,
        run_id,
        run.attempt,
        [entry],
        position=run.position - 1,
        sequence=run.sequence,
        place=place_of(row),
    )
    return run


def _note_turn(tx: Tx, workspace_id: str) -> None:
    turn = tx.now * 1000  # microseconds leave room for several turns within a millisecond

    def note(tx: Tx, turns: list[int]) -> None:
        tx.run(_q.served, workspace_id=workspace_id, turn=max(turns))

    tx.at_end(("heads", workspace_id, "claims"), note, turn)


def _json(names: list[str]) -> str:
    return msgspec.json.encode(names).decode()
