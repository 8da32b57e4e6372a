"""No paid call is paid again: what a resumable run was answered, and recorded, is never asked for again."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from simulation.life import Life

NOT_ANSWERS = frozenset({"cancelled", "gave up"})
"""Errors of an attempt that is over, and of the runner itself."""


def judge(life: Life) -> list[str]:
    """All of it."""
    asked: dict[str, list[tuple[int, float]]] = defaultdict(list)
    paid: dict[str, dict[int, float]] = defaultdict(dict)
    for at, kind, data in life.outside.notes:
        if kind == "asked":
            asked[data["question"]].append((data["number"], data["sent"]))
        elif kind == "paid":
            paid[data["question"]][data["number"]] = at
    recorded = _recorded(life)
    found = []
    for (run, question), answers in recorded.items():
        if len(answers) > 1:
            found.append(f"run {run}: {question!r} has {len(answers)} recorded answers: {answers}")
        number = int(answers[-1].rpartition("#")[2])
        if number not in paid[question]:
            found.append(f"run {run}: the recorded answer {answers[-1]!r} was never given")
        given = paid[question].get(number, 0.0)
        again = [later for later, sent in asked[question] if later > number and sent > given]
        if again:
            found.append(f"run {run}: {question!r} was asked again after {number} was recorded: {again}")
    return [*found, *_heard(life, {answer for answers in recorded.values() for answer in answers})]


def _resumable(life: Life) -> set[str]:
    """The runs whose attempts continue one another."""
    return {run for (run,) in life.rows("SELECT run_id FROM runs WHERE runner_id LIKE '%/resumable'")}


def _recorded(life: Life) -> dict[tuple[str, str], list[str]]:
    """The recorded answers of models: (run, question) -> answers, oldest first."""
    resumable = _resumable(life)
    answers: dict[tuple[str, str], list[str]] = defaultdict(list)
    query = (
        "SELECT run_id, data FROM journal WHERE kind = 'call' AND type LIKE 'model.%'"
        " ORDER BY run_id, last_position"
    )
    for run, text in life.rows(query):
        entry = json.loads(text)
        if run in resumable and entry.get("reply") is not None:
            question = entry["params"]["messages"][-1]["content"]
            answers[run, question].append(entry["reply"]["message"]["content"])
    return answers


def _heard(life: Life, recorded: set[str]) -> list[str]:
    """What attempts of one run heard at one step: anything until it is recorded, then always the same."""
    resumable = _resumable(life)
    heard: dict[tuple[str, str], list[tuple[int, Any]]] = defaultdict(list)
    for _, kind, data in life.outside.notes:
        if kind != "answered" or data["run"] not in resumable:
            continue
        answer = data["answer"]
        if not (isinstance(answer, dict) and answer.get("error") in NOT_ANSWERS):
            heard[data["run"], data["step"]].append((data["attempt"], answer))
    found = []
    for (run, step), answers in heard.items():
        texts = [answer for _, answer in answers if isinstance(answer, str) and answer in recorded]
        if texts and answers[-1][1] != texts[-1]:
            found.append(f"run {run}: step {step} was answered {answers}, and {texts[-1]!r} is recorded")
    return found
