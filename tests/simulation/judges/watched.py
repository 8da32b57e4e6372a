"""Who watches many runs sees what the facts hold: each once, in order, and none waits for ever."""

from __future__ import annotations

import json
from collections import defaultdict

from simulation.life import WORKSPACE, Life
from simulation.workloads.watchers import Shown, shown_of


def judge(life: Life) -> list[str]:
    """Compare each reading, from where it began, with the facts."""
    found: list[str] = []
    seen: dict[str, dict[int, Shown]] = defaultdict(dict)
    began: dict[str, int] = {}
    for _, what, data in life.outside.notes:
        if what not in ("watch begins", "watched", "watch waits", "watch ends"):
            continue
        who = data["watcher"]
        match what:
            case "watch begins":  # again, where what follows its cursor was removed
                seen[who], began[who] = {}, data["after"]
            case "watched":
                at, last = data["cursor"], max(seen[who], default=began[who])
                if at <= last:
                    found.append(f"watcher {who} saw {at} ({data['type']}) after {last}")
                seen[who][at] = _read(data["type"], data["text"])
            case "watch waits":
                found.append(f"watcher {who} waits at {data['cursor']}, and {data['last']} is there")
            case _:
                facts = shown_of(life, data["conversation"])
                found += _compare(life, who, facts, seen[who], began[who], data["cursor"])
    return found


def _read(kind: str, text: str) -> Shown:
    data = json.loads(text)
    if "sequence" in data:  # a result
        return Shown(kind, data["run_id"], json.dumps(data["data"], sort_keys=True))
    if kind == "run.status":
        return Shown(kind, data["run_id"], data["status"])
    return Shown(kind, data.get("event_id") if kind == "event.received" else data.get("run_id"), None)


def _compare(
    life: Life, who: str, facts: dict[int, Shown], seen: dict[int, Shown], began: int, until: int
) -> list[str]:
    found = []
    for at in sorted(facts.keys() | seen.keys()):
        fact, shown = facts.get(at), seen.get(at)
        if shown is None and fact is not None:
            if began < at <= until:
                found.append(f"watcher {who} never saw {at}, {fact.type} of {fact.of}")
        elif shown is not None and fact is None:
            if not _may_be_gone(life, at, shown):
                found.append(f"watcher {who} saw {at}, {shown.type} of {shown.of}, which no fact holds")
        elif fact is not None and shown is not None and _plain(fact) != shown:
            found.append(f"watcher {who} saw {at} as {shown}, the facts hold {fact}")
    return found


def _plain(fact: Shown) -> Shown:
    if fact.data is None or fact.type == "run.status":
        return fact
    return fact._replace(data=json.dumps(json.loads(fact.data)["data"], sort_keys=True))


def _may_be_gone(life: Life, at: int, shown: Shown) -> bool:
    """Whether something that was seen may be gone: removed with its time or its conversation, or lost in a
    power cut, which takes deltas, and that an attempt has begun (docs/streams.md).
    """
    unsynced = shown.type == "message.delta" or (shown.type, shown.data) == ("run.status", "running")
    if unsynced and any(what == "power cut" and data["lost"] for _, what, data in life.outside.notes):
        return True
    floor = life.rows(
        f"SELECT max(swept_until) FROM sweeps WHERE kind = 'timeline' AND workspace_id = '{WORKSPACE}'"
    )
    return at <= (floor[0][0] or 0) or any(what == "erased" for _, what, _ in life.outside.notes)
