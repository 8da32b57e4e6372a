"""Usage, cost and budget of a run hold every recorded answer of a model, and nothing that was not charged."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal

from simulation.life import Life
from simulation.model_service import PRICE

BILLION = 1_000_000_000
MILLION = 1_000_000
Tokens = tuple[int, int]
"""Of the input and of the output."""


def judge(life: Life) -> list[str]:
    """All of it."""
    committed, charged = _committed(life), charged_tokens(life)
    found = []
    again = {run for (run,) in life.rows("SELECT run_id FROM run_sources")}  # their first answers are copies
    for run, usage, cost in life.rows("SELECT run_id, usage, cost FROM runs WHERE finished_at IS NOT NULL"):
        least, most = committed[run], charged[run]
        if run not in again and most != (0, 0):
            used = json.loads(usage) if usage is not None else {}
            tokens = used.get("input_tokens", 0), used.get("output_tokens", 0)
            what = f"run {run} was charged {most} tokens by the service, for recorded answers {least}"
            if not (least[0] <= tokens[0] <= most[0] and least[1] <= tokens[1] <= most[1]):
                found.append(f"{what}, and its usage is {tokens}")
            if not price_of(least) <= Decimal(cost or 0) <= price_of(most):
                found.append(f"{what}, and its cost is {cost}, of {price_of(least)} at least")
    unsure = _unsure(life) | {run for run in charged if charged[run] != committed[run]}
    for run, tokens, cost in life.rows(
        "SELECT owner_id, tokens + reserved_tokens, cost + reserved_cost FROM budget_use WHERE span = 'run'"
        " AND NOT EXISTS (SELECT 1 FROM runs WHERE parent_run_id = owner_id)"
    ):
        least, most = committed[run], charged[run]
        if run in again:
            continue
        # what nobody knows counts as it was reserved, where anything was (see budgets.py)
        if not sum(least) <= tokens or (tokens != sum(least) and run not in unsure):
            found.append(f"the budget of run {run} has {tokens} tokens, of {sum(least)} to {sum(most)}")
        if not price_of(least) * BILLION <= cost or (cost != price_of(least) * BILLION and run not in unsure):
            found.append(f"the budget of run {run} has cost {cost}, of {price_of(least)} to {price_of(most)}")
    return found


def price_of(tokens: Tokens) -> Decimal:
    """Return what the service takes for tokens."""
    prices = (Decimal(str(PRICE["input"])), Decimal(str(PRICE["output"])))
    return (tokens[0] * prices[0] + tokens[1] * prices[1]) / MILLION


def _unsure(life: Life) -> set[str]:
    """The runs of which some call of a model has no recorded answer, or was perhaps not recorded."""
    sure = {run for (run,) in life.rows("SELECT run_id FROM runs WHERE status = 'completed' AND attempt = 1")}
    for run, text in life.rows(
        "SELECT run_id, data FROM journal WHERE kind = 'call' AND type LIKE 'model.%'"
    ):
        if json.loads(text).get("reply") is None:
            sure.discard(run)
    return {run for (run,) in life.rows("SELECT run_id FROM runs")} - sure


def _committed(life: Life) -> dict[str, Tokens]:
    """The tokens of the recorded answers of each run."""
    tokens: dict[str, Tokens] = defaultdict(lambda: (0, 0))
    query = "SELECT run_id, data FROM journal WHERE kind = 'call' AND type LIKE 'model.%'"
    for run, text in life.rows(query):
        usage = ((json.loads(text).get("reply") or {}).get("usage")) or {}
        before = tokens[run]
        tokens[run] = before[0] + usage.get("input_tokens", 0), before[1] + usage.get("output_tokens", 0)
    return tokens


def charged_tokens(life: Life) -> dict[str, Tokens]:
    """The tokens that the service has charged for each run."""
    tokens: dict[str, Tokens] = defaultdict(lambda: (0, 0))
    for _, kind, data in life.outside.notes:
        if kind == "paid":
            run = data["question"].partition(" ")[0]
            tokens[run] = tokens[run][0] + data["input"], tokens[run][1] + data["output"]
    return tokens
