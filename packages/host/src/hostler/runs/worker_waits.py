"""What queued runs lack of remote workers, for people."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.domain import worker_limits as limits
from hostler.domain.worker_labels import named, offers
from hostler.storage.port import Tx
from hostler.storage.stores import agents
from hostler.storage.stores import remote_workers as stored
from hostler.storage.stores.remote_workers import StoredWorker


def lacking_workers(tx: Tx, workspace_id: str, run_ids: Sequence[str]) -> dict[str, str]:
    """Return what those of these runs wait for that are queued and ask for a remote worker."""
    if not run_ids:
        return {}
    versions = stored.queued(tx, workspace_id, run_ids)
    labels = {version: _labels(tx, workspace_id, *version) for version in set(versions.values())}
    if not any(labels.values()):
        return {}
    workers = stored.page(tx, workspace_id)
    lacking = {version: _lacking(tx, workers, wanted) for version, wanted in labels.items() if wanted}
    return {run: text for run, version in versions.items() if (text := lacking.get(version)) is not None}


def _labels(tx: Tx, workspace_id: str, agent_id: str, version: int) -> list[str]:
    agent = agents.version(tx, workspace_id, agent_id, version)
    return [] if agent is None else agent.spec.worker_labels


def _lacking(tx: Tx, workers: list[StoredWorker], wanted: list[str]) -> str | None:
    """Return what is missing for labels; None if a worker has a free slot, as far as the database knows."""
    stale = int(limits.STALE_SECONDS * 1000)
    fitting = [one for one in workers if offers(one.labels, wanted) and one.is_connected(tx.now, stale)]
    what = f"a worker with {named(wanted)}"
    if not fitting:
        return what
    taking = [one for one in fitting if one.state == "active"]
    if not taking:
        return f"{what} that takes new runs: {fitting[0].worker_id} is {fitting[0].state}"
    return None if any(one.active < one.slots for one in taking) else f"a free slot of {what}"
