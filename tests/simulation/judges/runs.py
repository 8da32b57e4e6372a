"""One run per event, one end per run, streams equal journals, an acknowledged event is there."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

from simulation.life import Life

ON_THEIR_WAY_SECONDS = 0.5
"""What a host sent before its power was cut may be seen a little later."""
ENDINGS = ("run.completed", "run.failed")


def judge(life: Life) -> list[str]:
    """All of it."""
    return [*_events(life), *_ends(life), *_streams(life)]


def _events(life: Life) -> list[str]:
    found = []
    stored = {
        (workspace, event) for workspace, event in life.rows("SELECT workspace_id, event_id FROM events")
    }
    for _, kind, data in life.outside.notes:
        if kind == "accepted" and (data["workspace"], data["event"]) not in stored:
            found.append(f"event {data['event']} was acknowledged, and is gone")
    again = {run for (run,) in life.rows("SELECT run_id FROM run_sources")}
    rows = life.rows("SELECT workspace_id, event_id, run_id FROM runs WHERE event_id IS NOT NULL")
    per_event = Counter((workspace, event) for workspace, event, run in rows if run not in again)
    found += [f"event {event} has {count} runs" for (_, event), count in per_event.items() if count > 1]
    return found


def _ends(life: Life) -> list[str]:
    runs = dict(life.rows("SELECT run_id, status FROM runs"))
    ends: Counter[str] = Counter()
    last: dict[str, str] = {}
    found = []
    for run, kind in life.rows(
        "SELECT run_id, type FROM journal WHERE kind = 'result' ORDER BY run_id, last_position"
    ):
        ends[run] += kind in ENDINGS
        if last.get(run) in ENDINGS:
            found.append(f"run {run} has results after its end")
        last[run] = kind
    for run, status in runs.items():
        if status in ("completed", "failed", "cancelled", "timeout") and ends[run] != 1:
            found.append(f"run {run} is {status} and has {ends[run]} ends")
    return found


def _streams(life: Life) -> list[str]:
    held: dict[str, dict[int, tuple[str, Any]]] = defaultdict(dict)
    query = (
        "SELECT run_id, last_sequence, count, type, data FROM journal WHERE kind = 'result'"
        " ORDER BY run_id, last_position"
    )
    for run, last, count, kind, text in life.rows(query):
        for at, line in enumerate(text.split("\n"), last - count + 1):
            held[run][at] = (kind, json.loads(line))
    found = []
    seen: dict[tuple[str, str], int] = defaultdict(int)
    lost = _may_be_lost(life)
    for number, (_, what, data) in enumerate(life.outside.notes):
        if what != "seen":
            continue
        run, sequence = data["run"], data["sequence"]
        if sequence != seen[data["reader"], run] + 1:
            found.append(f"reader {data['reader']} of {run} saw {sequence} after {seen[data['reader'], run]}")
        seen[data["reader"], run] = sequence
        if number in lost:
            continue
        entry = held[run].get(sequence)
        if entry is None or entry[0] != data["type"]:
            found.append(f"run {run}: {sequence} was seen as {data['type']}, the journal holds {entry}")
        elif json.loads(data["text"])["data"] != entry[1]["data"]:
            found.append(f"run {run}: {sequence} was seen as {data['text']}, the journal holds {entry[1]}")
    for run, results in held.items():
        if sorted(results) != list(range(1, len(results) + 1)):
            found.append(f"run {run}: its sequences have gaps: {sorted(results)}")
    return found


def _may_be_lost(life: Life) -> set[int]:
    """Return the notes on deltas that a power cut may have taken after they were seen: docs/http.md.

    Deltas are committed without a sync, and any other result with one. So the last deltas that were seen of a
    run before the cut may be gone, and their numbers are used again.
    """
    found: set[int] = set()
    last: dict[str, list[tuple[int, int]]] = defaultdict(list)
    safe: dict[str, int] = defaultdict(int)
    cut_at = -ON_THEIR_WAY_SECONDS
    for number, (at, what, data) in enumerate(life.outside.notes):
        if what == "seen":
            if data["type"] == "message.delta":
                last[data["run"]].append((number, data["sequence"]))
                if at - cut_at < ON_THEIR_WAY_SECONDS and data["sequence"] > safe[data["run"]]:
                    found.add(number)
            else:
                safe[data["run"]] = max(safe[data["run"]], data["sequence"])
        elif what == "power cut" and data["lost"]:
            for run, deltas in last.items():
                found.update(one for one, sequence in deltas if sequence > safe[run])
            last.clear()
            cut_at = at
    return found
