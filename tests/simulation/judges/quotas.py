"""What is counted is what is stored, and no agent has stored more than one of its versions permitted."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from simulation.life import Life

QUANTITIES = ("artifacts", "artifact_bytes", "storage_values", "storage_bytes", "state_bytes")
STORED = """
SELECT workspace_id, agent_id, run_id, 1,
    CASE WHEN registered_path IS NULL THEN size_bytes ELSE 0 END, 0, 0, 0 FROM artifacts
UNION ALL SELECT workspace_id, agent_id, run_id, 1, size_bytes, 0, 0, 0 FROM uploads
UNION ALL SELECT workspace_id, agent_id, run_id, 0, 0, 1, length(value), 0 FROM storage
UNION ALL SELECT workspace_id, agent_id, NULL, 0, 0, 0, 0,
    100 + length(CAST(key AS blob)) + length(CAST(value AS blob)) FROM states
"""
Account = tuple[str, str, str]
"""Workspace, level and owner."""


def judge(life: Life) -> list[str]:
    """All of it."""
    return [*_counted(life), *_bounded(life)]


def _counted(life: Life) -> list[str]:
    """Each counter is the sum of what is stored, and what holds nothing has no counter."""
    found = []
    for host in {host.disk.path: host for host in life.hosts}.values():
        stored: dict[Account, list[int]] = defaultdict(lambda: [0] * len(QUANTITIES))
        for workspace, agent, run, *amounts in life.rows(STORED, host):
            for level, owner in (("workspace", ""), ("agent", agent), ("run", run)):
                if owner is not None:
                    account = stored[workspace, level, owner]
                    account[:] = map(sum, zip(account, amounts, strict=True))
        counted = {
            (workspace, level, owner): amounts
            for workspace, level, owner, *amounts in life.rows(
                f"SELECT workspace_id, level, owner_id, {', '.join(QUANTITIES)} FROM quota_use", host
            )
        }
        found += [
            f"{level} {owner or workspace} has stored {stored.get((workspace, level, owner))},"
            f" and {counted.get((workspace, level, owner))} is counted"
            for workspace, level, owner in sorted(stored.keys() | counted.keys())
            if stored.get((workspace, level, owner)) != counted.get((workspace, level, owner))
        ]
    return found


def _bounded(life: Life) -> list[str]:
    """No agent has more than the widest quota of its versions, and no run of it."""
    most: dict[tuple[str, str], dict[str, Any]] = {}
    for workspace, agent, spec in life.rows("SELECT workspace_id, agent_id, spec FROM agent_versions"):
        quota = json.loads(spec).get("resource_policy", {}).get("quota") or {}
        known = most.setdefault((workspace, agent), quota)
        most[workspace, agent] = {name: _wider(known[name], quota.get(name)) for name in known}
    owners = dict(life.rows("SELECT run_id, agent_id FROM runs"))
    counters = f"SELECT workspace_id, level, owner_id, {', '.join(QUANTITIES)} FROM quota_use"
    found = []
    for workspace, level, owner, *amounts in life.rows(f"{counters} WHERE level <> 'workspace'"):
        agent, suffix = (owner, "") if level == "agent" else (owners.get(owner, ""), "_per_run")
        for what, amount in zip(QUANTITIES, amounts, strict=True):
            limit = most.get((workspace, agent), {}).get(f"max_{what}{suffix}")
            if limit is not None and amount > limit:
                found.append(f"{level} {owner} has stored {amount} {what}, and may store {limit}")
    return found


def _wider(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)
