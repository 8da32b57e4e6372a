"""What a hook took is one event with one run, however often it was sent; what it refused is none."""

from __future__ import annotations

import json
from collections import defaultdict

from simulation.life import WORKSPACE, Life
from simulation.workloads.hooks import AGENT


def judge(life: Life) -> list[str]:
    """All of it."""
    return [*_refused(life), *_taken(life), *_stored(life)]


def _refused(life: Life) -> list[str]:
    """Who does not know the secret is refused; who does is not, unless clocks are wrong."""
    clocks = any(action.what == "clock" for action in life.plan.actions)
    found = []
    for _, kind, data in life.outside.notes:
        if kind == "hook took" and not data["known"]:
            found.append(f"the hook took {data['id']}, which its sender did not sign")
        elif kind == "hook refused" and data["known"] and not clocks:
            found.append(f"the hook refused {data['id']}, which its sender signed: {data['reason']}")
        elif kind == "hook answered with an error":
            found.append(f"the hook answered {data['id']} with {data['code']}")
    return found


def _taken(life: Life) -> list[str]:
    """All answers to one message name the same event, and those to two messages two."""
    events: dict[str, set[str]] = defaultdict(set)
    names: dict[str, set[str]] = defaultdict(set)
    found = []
    for _, kind, data in life.outside.notes:
        if kind == "hook took":
            events[data["id"]].add(data["event_id"])
            names[data["event_id"]].add(data["id"])
            if data["outcome"] not in ("accepted", "duplicate"):
                found.append(f"the hook answered {data['id']} with the outcome {data['outcome']}")
    found += [f"{name} became the events {sorted(ids)}" for name, ids in events.items() if len(ids) > 1]
    found += [f"{sorted(ids)} became one event, {event}" for event, ids in names.items() if len(ids) > 1]
    return found


def _stored(life: Life) -> list[str]:
    """What was taken is stored with what its sender said, and is worked on; nothing else is stored."""
    said = {
        action.data["id"]: json.dumps(action.data["steps"])
        for action in life.plan.actions
        if action.what == "ring"
    }
    taken = {data["event_id"]: data["id"] for _, kind, data in life.outside.notes if kind == "hook took"}
    rows = {
        event: (agent, outcome, body)
        for event, agent, outcome, body in life.rows(
            "SELECT e.event_id, r.agent_name, e.outcome, e.body FROM events e LEFT JOIN runs r"
            f" ON r.run_id = e.run_id WHERE e.source = 'webhook' AND e.workspace_id = '{WORKSPACE}'"
        )
    }
    found = [
        f"{name} was taken as {event}, which is gone" for event, name in taken.items() if event not in rows
    ]
    texts: dict[str, list[str]] = defaultdict(list)
    for event, (agent, outcome, body) in rows.items():
        if body is None:
            continue  # deleted on request
        text = json.loads(body)["input"]["text"]
        texts[text].append(event)
        if agent not in (AGENT, None) or (agent is None and outcome in ("started", "queued")):
            found.append(f"event {event} of the hook went to {agent}")
        if event in taken and text != said[taken[event]]:
            found.append(f"event {event} says {text}, and {taken[event]} was sent as {said[taken[event]]}")
    found += [f"{text} is stored as {events}" for text, events in texts.items() if len(events) > 1]
    found += [f"{text} is stored, and nobody sent it" for text in texts if text not in said.values()]
    return found
