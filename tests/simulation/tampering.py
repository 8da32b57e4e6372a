"""How to tamper with a life after its end: with its facts (SQL), or with what the outside saw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simulation.life import Life
from simulation.outside import Effect

Change = str | Callable[[Life], object]


@dataclass(frozen=True)
class Tampering:
    """Something that must not be."""

    judge: str
    """Module and function."""
    finds: str
    """Part of its finding."""
    change: Change
    """SQL that changes facts, or what else is done to the life."""
    plan: str = "CALM"


def note(kind: str, **data: Any) -> Callable[[Life], object]:
    """Let the outside have seen something more."""
    return lambda life: life.outside.note(kind, **data)


def change_note(kind: str, **data: Any) -> Callable[[Life], object]:
    """Let the outside have seen something else: the first note of a kind."""

    def change(life: Life) -> None:
        number = next(n for n, (_, what, _) in enumerate(life.outside.notes) if what == kind)
        at, _, before = life.outside.notes[number]
        life.outside.notes[number] = (at, kind, {**before, **data})

    return change


def drop_note(kind: str) -> Callable[[Life], object]:
    """Let the outside have seen the first note of a kind not at all."""

    def change(life: Life) -> None:
        life.outside.notes.remove(next(one for one in life.outside.notes if one[1] == kind))

    return change


def move_note(kind: str, seconds: float) -> Callable[[Life], object]:
    """Let the outside have seen the last note of a kind, and what came after it, later."""

    def change(life: Life) -> None:
        notes = life.outside.notes
        first = max(n for n, (_, what, _) in enumerate(notes) if what == kind)
        notes[first:] = [(at + seconds, what, data) for at, what, data in notes[first:]]

    return change


def effect(tool: str, **changes: Any) -> Callable[[Life], object]:
    """Let a tool have been called once more, in the same way but for some changes."""

    def change(life: Life) -> None:
        one = next(one for one in life.outside.effects if one.tool == tool)
        names = Effect.__dataclass_fields__
        life.outside.effects.append(Effect(**({name: getattr(one, name) for name in names} | changes)))

    return change


def instead(tool: str, **changes: Any) -> Callable[[Life], object]:
    """Let a tool have been called in another way."""

    def change(life: Life) -> None:
        number = next(n for n, one in enumerate(life.outside.effects) if one.tool == tool)
        effect(tool, **changes)(life)
        life.outside.effects[number] = life.outside.effects.pop()

    return change


def standing(**changes: Any) -> Callable[[Life], object]:
    """Let the host hold something at rest."""

    def change(life: Life) -> None:
        for name, value in changes.items():
            setattr(life.standing[0], name, value)

    return change


def metric(name: str, value: float) -> Callable[[Life], object]:
    """Let a metric of the host say something else."""

    def change(life: Life) -> None:
        values = life.standing[0].metrics[name]
        values[next(iter(values), ())] = value

    return change


def file(name: str) -> Callable[[Life], object]:
    """Leave a file in the folder of the life."""

    def change(life: Life) -> None:
        path = life.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("left")

    return change


def logged(life: Life) -> None:
    """Let something have failed in a task that nobody waits for."""
    life.world.loop.errors.append({"message": "a task failed", "exception": ValueError("so")})


KEYS = {"journal": "run_id, last_position"}
"""Of tables whose rows have no number."""


def one_of(table: str, where: str = "1", **changes: str) -> str:
    """Change the first row of a table."""
    sets = ", ".join(f"{name} = {value}" for name, value in changes.items())
    key = KEYS.get(table, "rowid")
    return (
        f"UPDATE {table} SET {sets} WHERE ({key}) = (SELECT {key} FROM {table} WHERE {where} ORDER BY {key})"
    )


def without(table: str, where: str) -> str:
    """Remove rows of a table."""
    return f"DELETE FROM {table} WHERE {where}"


def again(table: str, where: str, **changes: str) -> Callable[[Life], object]:
    """Add a row that is like another one but for some columns."""

    def change(life: Life) -> None:
        names = [row[1] for row in life.rows(f"PRAGMA table_info({table})")]
        values = ", ".join(changes.get(name, name) for name in names)
        life.rows(f"INSERT INTO {table} SELECT {values} FROM {table} WHERE {where} LIMIT 1")

    return change
