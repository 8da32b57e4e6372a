"""Draws docs/states.md from the tables of states in the code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hostler.domain import lanes, pauses, runs, steering
from hostler_protocol.runs import TERMINAL_STATUSES

Table = Mapping[Any, str]
"""(from or None, to) -> what brings it about."""

INTRODUCTION = """\
# States

Every change of a run, a lane, a steer and a pause is a row of a table in the code, which refuses what is not
in it. These are those tables. Every change of a run is an entry of its journal too, with its cause and who
brought it about.
"""


def state_page() -> Iterator[str]:
    """Give the parts of docs/states.md."""
    yield INTRODUCTION
    yield "## Runs\n"
    yield (
        "`queued -> claimed -> running` is the way of a run. Going back to `queued` begins a new attempt, "
        "and whoever worked on the one before is fenced out: it can change nothing any more.\n"
    )
    yield from _machine(
        runs.TRANSITIONS,
        starts=[("queued", "opened")],
        ends=sorted(TERMINAL_STATUSES),
    )
    yield "## Lanes\n"
    yield (
        "A lane is a conversation (and thread) of one agent and one bot. One run holds it at a time, the "
        "others wait; runs of an agent with `on_busy: parallel` take no part in it.\n"
    )
    yield _rows(["lane", "means"], ([f"`{name}`", text] for name, text in lanes.MEANINGS.items()))
    yield from _machine(lanes.TRANSITIONS, starts=[("free", "its first event")], ends=[])
    yield "### What becomes of a message\n"
    yield "By how its lane stands, and by the agent's `concurrency.on_busy`:\n"
    policies = list(dict.fromkeys(on_busy for _, on_busy in lanes.ADMISSIONS))
    yield _rows(
        ["lane", *(f"`{one}`" for one in policies)],
        (
            [f"`{status}`", *(f"{lanes.ADMISSIONS[status, one]}".replace("_", " ") for one in policies)]
            for status in lanes.LANE_STATUSES
        ),
    )
    yield _rows(["rule", "what it does"], ([_words(rule), text] for rule, text in lanes.RULES.items()))
    yield "## Steers\n"
    yield (
        "A steer is a message that a run absorbed. It begins as `queued`, in the transaction that stores it, "
        "and ends once.\n"
    )
    yield from _machine(
        steering.TRANSITIONS, starts=[("queued", "absorbed")], ends=["injected", "requeued", "dropped"]
    )
    yield "## Pauses\n"
    yield "A pause holds the calls of a run that wait for a person or a client together.\n"
    yield from _machine(pauses.TRANSITIONS, starts=[], ends=sorted(pauses.SETTLED))
    yield "### What was decided of a call\n"
    yield from _machine(pauses.DECISIONS, starts=[("undecided", "asked")], ends=[])
    yield "### What the host did with a call\n"
    yield from _machine(pauses.EXECUTIONS, starts=[("none", "not made yet")], ends=[])


def _machine(table: Table, *, starts: Iterable[tuple[str, str]], ends: Iterable[str]) -> Iterator[str]:
    """A table as a diagram and as itself."""
    begins = [*starts, *((to, why) for (before, to), why in table.items() if before is None)]
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    [*] --> {to}" for to, _ in begins]
    lines += [f"    {before} --> {to}" for before, to in table if before is not None]
    lines += [f"    {end} --> [*]" for end in ends]
    yield "\n".join([*lines, "```"]) + "\n"
    rows = [["", f"`{to}`", why] for to, why in begins]
    rows += [[f"`{before}`", f"`{to}`", why] for (before, to), why in table.items() if before is not None]
    yield _rows(["from", "to", "because"], rows)


def _rows(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return (
        "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        + "\n"
    )


def _words(rule: str) -> str:
    return rule.replace("_", " ")
