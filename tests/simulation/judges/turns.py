"""Turns: a run hears all that its messages say, in order; turns of a lane do not mix; none works too long."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from hostler.simulation.entropy import EPOCH
from simulation.life import WORKSPACE, Life

TAKEN = ("started", "queued", "steered")
GRACE_SECONDS = 3.0
"""After its time is over: cancelling a run of these hosts takes 1 s, committing that somewhat more."""
UNDISTURBED = frozenset({"message", "cancel", "retry", "fork", "trespass", "ill"})


def judge(life: Life) -> list[str]:
    """All of it."""
    return [*_heard(life), *_placed(life), *_apart(life), *_deadlines(life)]


def _heard(life: Life) -> list[str]:
    """A completed run has said what the messages of its turn asked it to say, in the order of acceptance.

    What was said before counts once: attempts say it again.
    """
    sent = {
        (action.data.get("workspace", WORKSPACE), action.data["id"]): action.data["steps"]
        for action in life.plan.actions
        if action.what == "message"
    }
    said: dict[str, dict[str, None]] = defaultdict(dict)
    for run, data in life.rows(
        "SELECT run_id, data FROM journal WHERE type = 'message.completed' ORDER BY run_id, last_position"
    ):
        content = json.loads(data)["data"]["message"]["content"]
        if isinstance(content, str):
            said[run][content] = None
    found = []
    for run, events in _turns(life):
        wanted = list(dict.fromkeys(text for event in events for text in _sayings(sent.get(event, []))))
        heard = [text for text in said[run] if text in wanted]
        if heard != wanted:
            names = [event for _, event in events]
            found.append(f"run {run} completed, and of what {names} asked it to say, {wanted}, said {heard}")
    return found


def _turns(life: Life) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the completed runs of these runners, with the messages that they began with, in order."""
    rows = life.rows(
        "SELECT r.run_id, e.workspace_id, e.event_id FROM runs r JOIN events e"
        " ON e.workspace_id = r.workspace_id AND (e.event_id = r.event_id OR EXISTS (SELECT 1 FROM gathered g"
        " WHERE g.run_id = r.run_id AND g.workspace_id = e.workspace_id AND g.event_id = e.event_id))"
        " WHERE r.status = 'completed' AND r.runner_id LIKE 'plugin:test/actor/%'"
        " AND NOT EXISTS (SELECT 1 FROM run_sources s WHERE s.run_id = r.run_id) ORDER BY r.run_id, e.seq"
    )
    turns: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for run, workspace, event in rows:
        turns[run].append((workspace, event))
    yield from turns.items()


def _sayings(steps: list[Any]) -> list[str]:
    return [step[1] for step in steps if step[0] == "say"]


def _placed(life: Life) -> list[str]:
    """Each message that a run took up is in the transcript."""
    rows = life.rows(
        "SELECT e.event_id, e.outcome FROM events e"
        f" WHERE e.event_type = 'message.received' AND e.outcome IN {TAKEN}"
        " AND NOT EXISTS (SELECT 1 FROM transcripts t"
        "   WHERE t.workspace_id = e.workspace_id AND t.event_id = e.event_id)"
        " AND NOT EXISTS (SELECT 1 FROM steering s"
        "   WHERE s.workspace_id = e.workspace_id AND s.event_id = e.event_id AND s.status = 'dropped')"
    )
    return [f"message {event} was {outcome}, and is not in the transcript" for event, outcome in rows]


def _apart(life: Life) -> list[str]:
    """In a lane, a turn is in the transcript as a whole: no message of another run between its own."""
    places: dict[tuple[str, ...], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for workspace, lane, run, seq in life.rows(
        "SELECT r.workspace_id, r.lane, r.run_id, t.seq FROM transcripts t JOIN runs r"
        " ON r.workspace_id = t.workspace_id AND (r.run_id = t.run_id OR r.event_id = t.event_id OR EXISTS"
        "   (SELECT 1 FROM gathered g WHERE g.run_id = r.run_id AND g.event_id = t.event_id))"
        " WHERE r.parallel = 0 AND r.started_at IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM run_sources s WHERE s.run_id = r.run_id) ORDER BY t.seq"
    ):
        places[workspace, lane][run].append(seq)
    found = []
    for turns in places.values():
        for (_, before), (run, after) in pairwise(sorted(turns.items(), key=lambda turn: turn[1][0])):
            if after[0] < before[-1]:
                found.append(f"run {run} is in the transcript at {after}, within another at {before}")
    return found


def _deadlines(life: Life) -> list[str]:
    """No attempt works longer than its agent allows. Runs that wait for people have more time."""
    allowed = {
        spec["name"]: seconds
        for spec in life.plan.agents
        if (seconds := spec.get("config", {}).get("timeout"))  # 0: as long as it likes
    }
    if any(action.what == "clock" for action in life.plan.actions):
        return []  # before the first one, too: facts of after it may bear times of before
    disturbed = [action.at for action in life.plan.actions if action.what not in UNDISTURBED]
    until = min(disturbed, default=life.world.loop.time())
    agents = dict(
        life.rows(
            "SELECT run_id, agent_name FROM runs r"
            " WHERE NOT EXISTS (SELECT 1 FROM pauses p WHERE p.run_id = r.run_id)"
        )
    )
    found = []
    began: dict[str, float] = {}
    for run, to, at in life.rows(
        "SELECT run_id, type, at FROM journal WHERE kind = 'lifecycle' ORDER BY run_id, last_position"
    ):
        if to == "running":
            began[run] = at / 1000 - EPOCH
        elif run in began and agents.get(run) in allowed:
            worked = min(at / 1000 - EPOCH, until) - began.pop(run)
            if worked > allowed[agents[run]] + GRACE_SECONDS:
                found.append(f"run {run} worked for {worked:.1f} s, and may for {allowed[agents[run]]} s")
    return found
