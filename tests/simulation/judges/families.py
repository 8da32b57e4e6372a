"""Runs create what their agents permit and nothing else, and hand down no more than they have."""

from __future__ import annotations

import json
from typing import Any

from hostler.domain.name_patterns import matches
from simulation.life import Life


def judge(life: Life) -> list[str]:
    """All of it."""
    return [*_permitted(life), *_inherited(life)]


def _permitted(life: Life) -> list[str]:
    """Each run above a run permits its agent."""
    policies = {
        (workspace, agent, version): json.loads(spec).get("resource_policy", {}).get("allowed_agents") or []
        for workspace, agent, version, spec in life.rows(
            "SELECT workspace_id, agent_id, version, spec FROM agent_versions"
        )
    }
    runs = {
        run: (name, parent, policies.get((workspace, agent, version), []))
        for run, workspace, name, parent, agent, version in life.rows(
            "SELECT run_id, workspace_id, agent_name, parent_run_id, agent_id, agent_version FROM runs"
        )
    }
    found = []
    for run, (name, parent, _) in runs.items():
        above = parent
        while above is not None:
            _, next_above, allowed = runs[above]
            if not any(matches(pattern, name) for pattern in allowed):
                found.append(f"run {run} of {name} was created below {above}, which permits {allowed}")
            above = next_above
    return found


def _inherited(life: Life) -> list[str]:
    """A child is in its parent's workspace, acts for its actor, and is in its conversation or in none."""
    rows = life.rows(
        "SELECT c.run_id, c.workspace_id, p.workspace_id, c.conversation_id, p.conversation_id,"
        " ce.actor_type, ce.actor_id, pe.actor_type, pe.actor_id, ce.requester, pe.requester"
        " FROM runs c LEFT JOIN runs p ON p.run_id = c.parent_run_id"
        " JOIN events ce ON ce.workspace_id = c.workspace_id AND ce.event_id = c.event_id"
        " LEFT JOIN events pe ON pe.workspace_id = p.workspace_id AND pe.event_id = p.event_id"
        " WHERE c.parent_run_id IS NOT NULL AND ce.body IS NOT NULL AND pe.body IS NOT NULL"
    )
    return [finding for row in rows if (finding := _difference(*row)) is not None]


def _difference(run: str, workspace: str, above: str, place: Any, place_above: Any, *who: Any) -> str | None:
    if workspace != above:
        return f"run {run} is in {workspace}, its parent is in {above}"
    if place not in (None, place_above):
        return f"run {run} is in conversation {place}, its parent is in {place_above}"
    *actor, requester, requester_above = who
    if (*actor[:2], requester) != (*actor[2:], requester_above):
        return (
            f"run {run} acts for {actor[:2]} of {requester}, its parent for {actor[2:]} of {requester_above}"
        )
    return None
