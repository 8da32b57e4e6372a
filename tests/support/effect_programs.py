"""Programs for the `doer`: what a run with effects does, step by step."""

from __future__ import annotations

import random
from typing import Any

Steps = list[list[Any]]
DURABLE = frozenset({"note", "book", "pay", "refund", "pick"})
"""Tools whose outcome is durable before the runner hears of it."""


def whole_program(name: str) -> Steps:
    """One that comes by every point at which something can be lost."""
    return [
        ["deltas", 2, "a "],
        ["model", f"{name} m1"],
        ["tool", "note", f"{name} 1"],
        ["together", [["tool", kind, f"{name} 2"] for kind in ("note", "book", "pay", "price")]],
        ["set", f"{name}", 1],
        ["say", f"{name} half"],
        ["stream", f"{name} m2"],
        ["together", [["tool", "refund", f"{name} 3"], ["tool", "book", f"{name} 3"]]],
        ["ask", f"{name} 4"],
        ["tool", "refund", f"{name} 5"],
        ["get", f"{name}"],
        ["model", f"{name} m3"],
    ]


def any_program(name: str, chance: random.Random) -> Steps:
    """One with at least three tool calls, in any order."""
    texts = iter(f"{name} {n}" for n in range(100))

    def tool(kind: str) -> list[Any]:
        return ["tool", kind, next(texts)]

    def block(kind: str) -> Steps:
        match kind:
            case "serial":
                return [tool(chance.choice(["note", "book", "pay", "price"])) for _ in range(3)]
            case "parallel":
                return [["together", [tool(one) for one in ("note", "note", "book", "pay", "price")]]]
            case "approved":
                return [tool("refund")]
            case "mixed":
                return [["together", [tool("refund"), tool("refund"), tool("pick"), tool("note")]]]
            case "client":
                return [tool("pick")]
            case "ask":
                return [["ask", next(texts)]]
            case "model":
                return [["model", next(texts)], ["deltas", chance.randint(1, 5), "b "]]
            case "stream":
                return [["stream", next(texts)]]
            case "state":
                return [["set", name, next(texts)], ["get", name]]
            case _:
                return [["say", next(texts)]]

    kinds = ["approved", "mixed", "client", "ask", "model", "stream", "state", "say", "serial", "parallel"]
    chosen = [chance.choice(["serial", "parallel"]), *chance.sample(kinds, 3)]
    chance.shuffle(chosen)
    return [step for kind in chosen for step in block(kind)]


def step_at(program: Steps, name: str) -> list[Any]:
    """The step that a runner calls by this name."""
    first, _, second = name.partition(".")
    step = program[int(first)]
    return step if not second else list(step[1][int(second)])
