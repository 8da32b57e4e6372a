"""Order: attempts one after the other, one run per lane, messages in the order of their acceptance."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from simulation.life import Life

ENDED = frozenset({"completed", "failed", "cancelled", "timeout"})
STATES = {
    None: {"queued", "claimed"},
    "queued": {"claimed", "failed", "cancelled", "timeout"},
    "claimed": {"running", "queued", *(ENDED - {"completed"})},
    "running": {"paused", "queued", *ENDED},
    "paused": {"queued", *(ENDED - {"completed"})},
}
STEERS = ("injected", "requeued", "dropped")


def judge(life: Life) -> list[str]:
    """All of it."""
    return [*_attempts(life), *_lanes(life), *_taken_up(life), *_steers(life), *_in_order(life)]


def _attempts(life: Life) -> list[str]:
    """The states of a run follow each other, and an attempt that was replaced writes nothing more."""
    found = []
    state: dict[str, str | None] = defaultdict(lambda: None)
    attempts: dict[str, int] = defaultdict(int)
    positions: dict[str, int] = defaultdict(int)
    for run, last, count, attempt, kind, name, data in life.rows(
        "SELECT run_id, last_position, count, attempt, kind, type, data FROM journal ORDER BY 1, 2"
    ):
        if last - count != positions[run]:
            found.append(f"run {run}: its journal goes from {positions[run]} to {last} with {count} entries")
        positions[run] = last
        if attempt < attempts[run]:
            found.append(f"run {run}: attempt {attempt} wrote {name} after attempt {attempts[run]} began")
        attempts[run] = max(attempt, attempts[run])
        if kind == "lifecycle":
            entry = json.loads(data)
            if entry["from"] != state[run] or entry["to"] not in STATES.get(state[run], set()):
                found.append(f"run {run} goes from {entry['from']} to {entry['to']}, and it was {state[run]}")
            state[run] = entry["to"]
    for run, status, attempt, active in life.rows("SELECT run_id, status, attempt, active_lane FROM runs"):
        if run in state and state[run] != status:
            found.append(f"run {run} is {status}, and its journal ends with {state[run]}")
        if attempts[run] > attempt:
            found.append(f"run {run} has attempt {attempt}, and its journal goes to {attempts[run]}")
        if status in ENDED and active is not None:
            found.append(f"run {run} is {status}, and holds its lane")
    return found


def _lanes(life: Life) -> list[str]:
    """A lane is held by one run at a time. Only for lives whose clocks agree."""
    if any(action.what == "clock" for action in life.plan.actions) or life.plan.hosts > 1:
        return []
    held: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    began: dict[str, int] = {}
    for run, lane, at, data in life.rows(
        "SELECT j.run_id, r.lane, j.at, j.data FROM journal j JOIN runs r ON r.run_id = j.run_id"
        " WHERE j.kind = 'lifecycle' AND r.parallel = 0 ORDER BY j.run_id, j.last_position"
    ):
        to = json.loads(data)["to"]
        if to == "claimed":
            began.setdefault(run, at)
        elif to in ENDED and run in began:
            held[lane].append((began[run], at, run))
    found = []
    for lane, intervals in held.items():
        intervals.sort()
        for (_, end, first), (start, _, second) in pairwise(intervals):
            if start < end:
                found.append(
                    f"lane {lane[:8]}: run {second} began {end - start} ms before the end of {first}"
                )
    return found


def _taken_up(life: Life) -> list[str]:
    """Each message is worked on by one run: as its event, in a turn of several, or pulled into it."""
    takers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for workspace, event, run in life.rows(
        "SELECT r.workspace_id, r.event_id, r.run_id FROM runs r WHERE r.event_id IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM run_sources s WHERE s.run_id = r.run_id)"
    ):
        takers[workspace, event].add(run)
    for workspace, event, run in life.rows(
        "SELECT workspace_id, event_id, run_id FROM gathered UNION ALL"
        " SELECT workspace_id, event_id, run_id FROM steering WHERE status IN ('injected', 'dropped')"
    ):
        takers[workspace, event].add(run)
    found = []
    for workspace, event, outcome in life.rows("SELECT workspace_id, event_id, outcome FROM events"):
        runs = takers[workspace, event]
        if outcome in ("started", "queued", "steered") and len(runs) != 1:
            found.append(f"event {event} was {outcome}, and is worked on by {len(runs)} runs: {sorted(runs)}")
        if outcome in ("rejected", "unrouted", "conflict") and runs:
            found.append(f"event {event} was {outcome}, and is worked on by {sorted(runs)}")
    return found


def _steers(life: Life) -> list[str]:
    """What a run absorbed was pulled once, or went on to the next run."""
    found = []
    pulled: dict[tuple[str, str], list[int]] = defaultdict(list)
    for run, position, data in life.rows(
        "SELECT run_id, last_position, data FROM journal"
        " WHERE kind = 'steering' AND type = 'steering.injected'"
    ):
        pulled[run, json.loads(data)["source_event_id"]].append(position)
    drops = {
        (workspace, agent): json.loads(spec).get("concurrency", {}).get("leftover") == "drop"
        for workspace, agent, spec in life.rows("SELECT workspace_id, agent_id, spec FROM agent_versions")
    }
    has: dict[str, set[str]] = defaultdict(set)
    for run, event in life.rows(
        "SELECT run_id, event_id FROM runs UNION SELECT run_id, event_id FROM gathered"
        " UNION SELECT run_id, event_id FROM steering"
    ):
        has[run].add(event)
    rows = life.rows(
        "SELECT s.workspace_id, s.run_id, s.event_id, s.status, s.next_run_id, s.step, r.agent_id, r.status"
        " FROM steering s JOIN runs r ON r.run_id = s.run_id ORDER BY s.run_id, s.position"
    )
    last: dict[str, int] = defaultdict(int)
    for workspace, run, event, status, following, step, agent, run_status in rows:
        which = f"message {event}, which run {run} absorbed,"
        if status not in STEERS and run_status in ENDED:
            found.append(f"{which} is {status}, and the run is {run_status}")
        if status == "injected":
            if step not in pulled[run, event]:
                found.append(f"{which} was pulled at {step}, the journal says {pulled[run, event]}")
            if step < last[run]:
                found.append(f"{which} was pulled before an older one")
            last[run] = max(last[run], step)
        if status == "requeued" and event not in has[following or ""]:
            found.append(f"{which} went on to run {following}, which does not have it")
        if status == "dropped" and not drops.get((workspace, agent), False):
            found.append(f"{which} was dropped, which its agent does not allow")
    return found


def _in_order(life: Life) -> list[str]:
    """In a conversation, the messages of one person to one agent are taken up in the order of acceptance."""
    free = set()
    for workspace, agent, spec in life.rows("SELECT workspace_id, agent_id, spec FROM agent_versions"):
        concurrency = json.loads(spec).get("concurrency", {})
        # an event whose filters could not be evaluated is tried again later, each by itself (docs/http.md)
        if concurrency.get("on_busy") == "parallel" or json.loads(spec).get("filters"):
            free.add((workspace, agent))
    last: dict[tuple[Any, ...], tuple[int, str]] = defaultdict(lambda: (0, ""))
    found = []
    for row in _messages(life):
        workspace, agent, conversation, bot, thread, actor, seq, event = row
        lane = (workspace, agent, conversation, bot, thread, actor)
        if (workspace, agent) in free or conversation is None:
            continue
        before, name = last[lane]
        if seq < before:
            found.append(
                f"conversation {conversation}: {event} was taken up after {name}, which was accepted later"
            )
        last[lane] = max(last[lane], (seq, event))
    return found


def _messages(life: Life) -> Iterator[tuple[Any, ...]]:
    """Yield the messages that runs took up, as the transcript has them.

    Those with a delay may come later, and those whose run ended before it began came when it ended.
    """
    delayed = {
        event
        for (event,) in life.rows(
            "SELECT event_id FROM runs WHERE not_before IS NOT NULL AND gathered = 0 OR priority < 0"
        )
    }
    delayed |= {action.data.get("id") for action in life.plan.actions if action.data.get("delay")}
    begun = {
        run
        for (run,) in life.rows(
            "SELECT DISTINCT run_id FROM journal WHERE kind = 'lifecycle' AND type = 'claimed'"
        )
    }
    of: dict[tuple[str, str], tuple[str, str]] = {}
    for workspace, event, run, agent in life.rows(
        "SELECT e.workspace_id, e.event_id, r.run_id, r.agent_id FROM events e"
        " JOIN runs r ON r.run_id = e.run_id"
    ):
        of[workspace, event] = (run, agent)
    rows = life.rows(
        "SELECT t.workspace_id, t.event_id, t.conversation_id, t.bot_id, t.thread_id, e.actor_id, e.seq"
        " FROM transcripts t JOIN events e ON e.workspace_id = t.workspace_id AND e.event_id = t.event_id"
        " WHERE t.role = 'user' ORDER BY t.workspace_id, t.seq"
    )
    for workspace, event, conversation, bot, thread, actor, seq in rows:
        run, agent = of.get((workspace, event), ("", ""))
        if event not in delayed and run in begun:
            yield workspace, agent, conversation, bot, thread, actor, seq, event
