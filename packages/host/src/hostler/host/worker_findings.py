"""What the doctor says of remote workers: those that are not connected, and agents that have none."""

from __future__ import annotations

from hostler.domain import worker_limits as limits
from hostler.domain.worker_labels import named, offers
from hostler.host.machine_checks import Finding
from hostler.storage.port import Tx
from hostler.storage.stores import agents
from hostler.storage.stores import remote_workers as stored
from hostler.storage.stores.remote_workers import StoredWorker


def worker_findings(tx: Tx, workspace_id: str) -> list[Finding]:
    """Return the findings of a workspace's remote workers, and of its agents that ask for labels."""
    stale = int(limits.STALE_SECONDS * 1000)
    workers = stored.page(tx, workspace_id)
    connected = [one for one in workers if one.is_connected(tx.now, stale)]
    found = [_finding(one, connected=one in connected) for one in workers]
    for agent in agents.active(tx, workspace_id):
        wanted = agent.spec.worker_labels
        if wanted and agent.spec.enabled and not any(offers(one.labels, wanted) for one in connected):
            text = f"agent {agent.name}: its runs wait for a worker with {named(wanted)}"
            found.append(Finding("remote worker", "wrong", text))
    return found


def _finding(one: StoredWorker, *, connected: bool) -> Finding:
    if connected:
        text = f"{one.worker_id} is {one.state}, with {one.active} of {one.slots} runs"
        return Finding("remote worker", "ok" if one.state == "active" else "note", text)
    why = one.reason or "its host was lost"
    return Finding("remote worker", "note", f"{one.worker_id} is not connected: {why}")
