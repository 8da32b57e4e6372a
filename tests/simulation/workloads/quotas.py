"""Quotas that are reached: of the agents that keep files, storage and state, and of their workspaces."""

from __future__ import annotations

from typing import Any

from simulation.plan import Draft

SMALL: dict[str, list[int | None]] = {
    "max_artifacts": [None, 1, 2],
    "max_artifact_bytes": [None, 1_000, 6_000],
    "max_artifacts_per_run": [None, 1],
    "max_artifact_bytes_per_run": [None, 900],
    "max_storage_values": [None, 0, 1],
    "max_storage_bytes_per_run": [None, 3, 8],
    "max_state_bytes": [None, 110, 400],
}


def plan(draft: Draft) -> None:
    """Give each agent that keeps something quotas that its runs may reach."""
    chance = draft.chance("quotas")
    for agent in draft.agents:
        if agent["runner"].endswith(("/maker", "/resumable")) and chance.random() < 0.7:
            quota: dict[str, Any] = {name: chance.choice(most) for name, most in SMALL.items()}
            agent["resource_policy"] = {**agent.get("resource_policy", {}), "quota": quota}
