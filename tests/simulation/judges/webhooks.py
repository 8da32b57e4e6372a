"""Every notice is delivered, or given up with a reason; a delivery has one body, a signature, one sender.

Each end of a run that a webhook names is noted once, as the run is stored.
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

from simulation.life import WORKSPACE, Life

MAX_TRIES = 15
GONE = 410
SUCCESS = range(200, 300)
TRY_SECONDS = 10.0
"""After this time a sender gives up a try; the receiver may answer later, to nobody."""
SOON_SECONDS = 20.0
"""A result that could not be stored is found out when the lease of 30 s is over, not sooner."""
DISTURBING = ("clock", "freeze", "power cut", "disk")
"""Beginnings of faults that let a lease end early, or its holder come late."""


def judge(life: Life) -> list[str]:
    """All of it."""
    posts = _posts(life)
    found = [*_missing(life), *_ends(life), *_outcomes(life, posts)]
    disturbed = any(action.what.startswith(DISTURBING) for action in life.plan.actions)
    happened = [(at, data["who"]) for at, kind, data in life.outside.notes if kind == "happened"]
    for delivery, tries in posts.items():
        bodies = {one["body"] for one in tries}
        if len(bodies) > 1:
            found.append(f"delivery {delivery} was sent with {len(bodies)} bodies")
        found += [f"delivery {delivery}: its signature is wrong" for one in tries if not one["signed"]]
        if not disturbed:
            found += _one_sender(delivery, tries, happened)
            found += _gone(delivery, tries)
    return found


def _posts(life: Life) -> dict[str, list[dict[str, Any]]]:
    """The tries of each delivery, with when each began and ended (None: never), and what was answered."""
    posts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    by_number: dict[tuple[str, int], dict[str, Any]] = {}
    for at, kind, data in life.outside.notes:
        if kind == "posted":
            one = {**data, "at": at, "ended": None, "status": None, "received": False}
            posts[data["delivery"]].append(one)
            by_number[data["hook"], data["number"]] = one
        elif kind == "received":
            by_number[data["hook"], data["number"]]["received"] = True
        elif kind == "post answered":
            by_number[data["hook"], data["number"]].update(ended=at, status=data["status"])
    return posts


def _missing(life: Life) -> list[str]:
    """Notices that a webhook wanted and has no delivery for."""
    there = set(life.rows("SELECT notice_id, webhook FROM deliveries"))
    return [
        f"{event} {notice} has no delivery to {hook['name']}"
        for notice, event in life.rows(
            f"SELECT notice_id, event FROM notices WHERE workspace_id = '{WORKSPACE}'"
        )
        for hook in life.plan.webhooks
        if _wants(hook, event) and (notice, hook["name"]) not in there
    ]


def _wants(hook: dict[str, Any], event: str) -> bool:
    """Whether a webhook is told of an event: without names of all that pauses do."""
    return event in hook["events"] if hook["events"] else event.startswith("pause.")


def _ends(life: Life) -> list[str]:
    """Ends of runs that are noted although nobody named them, not at all, twice, or as something else."""
    noted: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run, body in life.rows("SELECT run_id, body FROM notices WHERE event LIKE 'run.%'"):
        noted[run].append(json.loads(body))
    deleted = any(kind == "erased" for _, kind, _ in life.outside.notes)
    found = []
    for workspace, run, status, code, finished, emptied in life.rows(
        "SELECT workspace_id, run_id, status, status_code, finished_at, lane = run_id FROM runs"
    ):
        event = f"run.{status}"
        wanted = workspace == WORKSPACE and any(_wants(hook, event) for hook in life.plan.webhooks)
        told = noted.pop(run, [])
        if deleted and emptied and not told:
            continue
        if len(told) != wanted:
            found.append(f"the end of run {run}, which is {status}, is noted {len(told)} times")
        for one in told:
            facts = (one["event"], one["run"]["status_code"], one["run"]["finished_at"])
            if facts != (event, code, finished / 1000):
                found.append(f"the end of run {run} is noted as {one['event']}, which is {status} {code}")
    return found + [f"the end of run {run}, which is not there, is noted" for run in noted]


def _outcomes(life: Life, posts: dict[str, list[dict[str, Any]]]) -> list[str]:
    query = "SELECT delivery_id, webhook, status, attempts, http_status, error FROM deliveries"
    found = []
    for delivery, hook, status, attempts, http_status, error in life.rows(query):
        name = f"delivery {delivery} to {hook}"
        tries = posts.get(delivery, [])
        if status == "delivered" and not any(one["received"] and one["status"] in SUCCESS for one in tries):
            found.append(f"{name} is marked as delivered, and was not")
        elif status == "dead":
            if not error:
                found.append(f"{name} was given up without a reason")
            if http_status != GONE and attempts < MAX_TRIES:
                found.append(f"{name} was given up after {attempts} tries: {http_status} {error}")
        if attempts > MAX_TRIES:
            found.append(f"{name} was tried {attempts} times")
    return found


def _one_sender(delivery: str, tries: list[dict[str, Any]], happened: list[tuple[float, str]]) -> list[str]:
    """A try holds its delivery for longer than it takes, and each try has its own number.

    One whose host came to its end meanwhile holds it for the whole lease.
    """
    found = []
    for first, second in pairwise(tries):
        over = first["ended"] is not None and first["ended"] <= second["at"]
        apart = second["at"] - first["at"]
        if not over and apart < (SOON_SECONDS if _cut_short(first, happened) else TRY_SECONDS):
            found.append(f"delivery {delivery} was sent by {second['by']} while {first['by']} sent it")
        if first["attempt"] >= second["attempt"]:
            found.append(f"delivery {delivery}: try {second['attempt']} came after try {first['attempt']}")
    return found


def _cut_short(one: dict[str, Any], happened: list[tuple[float, str]]) -> bool:
    host = one["by"].partition(".")[0]
    return any(who == host and 0 <= at - one["at"] <= TRY_SECONDS for at, who in happened)


def _gone(delivery: str, tries: list[dict[str, Any]]) -> list[str]:
    return [
        f"delivery {delivery} was sent again {second['at'] - first['ended']:.1f} s after a 410"
        for first, second in pairwise(tries)
        if first["status"] == GONE and second["at"] - first["ended"] < SOON_SECONDS
    ]
