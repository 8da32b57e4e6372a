"""Stored secrets: the next attempt has a new value, each use is audited, and none is in the clear."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from simulation.life import WORKSPACE, Life
from simulation.workloads.secrets import NAME, WRITTEN_OUT, number_in, value

HIDDEN = frozenset({f"secret://{NAME}", "***"})
"""What a run that is replayed has in the place of a stored and of a written-out secret."""


def judge(life: Life) -> list[str]:
    """All of it."""
    return [*_current(life), *_audited(life), *_versions(life), *_bytes(life)]


def _current(life: Life) -> list[str]:
    """An attempt that begins after a change was confirmed has no older value, nor one that was removed.

    It begins after its message was sent, and after earlier attempts of its run had the secret. A run that is
    replayed has no secret.
    """
    found: list[str] = []
    confirmed: list[float] = []
    tried: list[int | None] = []
    began: dict[str, dict[int, float]] = defaultdict(dict)
    events = {run: event for (_, event), run in life.runs.items()}
    asked: dict[str, float] = {}
    replays: set[str] = set()
    for at, kind, data in life.outside.notes:
        if kind == "changes secret":
            tried.append(data["number"])
        elif kind == "changed secret":
            confirmed.append(at)
        elif kind == "asks for secret":
            asked[data["event"]] = at
        elif kind == "replays":
            replays.add(data["run"])
        elif kind == "has secret" and data["run"] in replays:
            if data["secret"] not in HIDDEN:
                found.append(f"run {data['run']} has a secret while it is replayed")
        elif kind == "has secret":
            earlier = [when for number, when in began[data["run"]].items() if number < data["attempt"]]
            since = max([asked.get(events.get(data["run"], ""), 0.0), *earlier])
            began[data["run"]][data["attempt"]] = at
            found += _seen(data, sum(when < since for when in confirmed), tried)
    return found


def _seen(data: dict[str, Any], confirmed: int, tried: list[int | None]) -> list[str]:
    """Judge what an attempt has. `confirmed`: how many changes before it began; `tried`: before it has it."""
    who = f"attempt {data['attempt']} of run {data['run']}"
    if data["secret"] == WRITTEN_OUT:
        return []
    number = number_in(data["secret"])
    if number is None or number not in tried:
        return [f"{who} has a secret that nobody set"]
    if number in tried[max(confirmed - 1, 0) :]:
        return []
    return [f"{who} has value {number} of its secret, which was changed before it began"]


def _audited(life: Life) -> list[str]:
    """Each attempt that has a stored secret has a fact of its own in the audit log."""
    attempts: dict[str, set[int]] = defaultdict(set)
    for _, kind, data in life.outside.notes:
        if kind == "has secret" and number_in(data["secret"]) is not None:
            attempts[data["run"]].add(data["attempt"])
    facts: dict[str, int] = defaultdict(int)
    for _, action, body in _facts(life):
        if action == "secret.used":
            facts[body["by"]] += 1
    return [
        f"run {run}: {len(had)} attempts had a secret, and {facts[f'run {run}']} uses are audited"
        for run, had in attempts.items()
        if facts[f"run {run}"] < len(had)
    ]


def _versions(life: Life) -> list[str]:
    """In the order of the audit log each use is of the version that was set last, if it was not removed."""
    found, current = [], None
    for seq, action, body in _facts(life):
        if action == "secret.used":
            if body["version"] != current:
                found.append(f"audit {seq}: version {body['version']} is used, and {current} is there")
        elif action == "secret.removed":
            current = None
        else:
            expected = 1 if current is None else current + 1
            if body["version"] != expected:
                found.append(f"audit {seq}: version {body['version']} is set, and {expected} is next")
            current = body["version"]
    return found


def _facts(life: Life) -> list[tuple[int, str, dict[str, Any]]]:
    rows = life.rows(
        "SELECT seq, action, body FROM audit WHERE action LIKE 'secret.%' AND target = "
        f"'{NAME}' AND workspace_id = '{WORKSPACE}' ORDER BY seq"
    )
    return [(seq, action, json.loads(body)) for seq, action, body in rows]


def _bytes(life: Life) -> list[str]:
    """No file of a host has a value."""
    numbers = {data["number"] for _, kind, data in life.outside.notes if kind == "changes secret"} - {None}
    if not numbers:
        return []
    secrets = [WRITTEN_OUT, *map(value, sorted(numbers))]
    found = []
    for path in sorted(life.folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            found += [f"{path.name} holds {secret!r}" for secret in secrets if secret.encode() in content]
    return found
