"""The one form of every measurement, and the page it is written to."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

PAGE_HEAD = """# Speed

Written by `just bench`; every ratio was measured side by side in one run, in turns, so that a noisy
neighbour hurts both sides alike. Ratios say something about Hostler; the rest says something about the
machine.

"""


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement.

    `value` in `unit`; `ratio`: the value over the same measure of `against`, the bare thing measured beside
    it. `goal`: what the ratio (or, without one, the value) is to be, in words.
    """

    name: str
    value: float
    unit: str
    ratio: float | None = None
    against: str = ""
    goal: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the bench. `measure(quick)` takes a few seconds where it is quick."""

    name: str
    title: str
    measure: Callable[[bool], list[Row]]


def middle(values: Sequence[float]) -> float:
    """The median: one slow round says nothing."""
    return statistics.median(values)


def number(value: float) -> str:
    """Three digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def text_of(rows: Iterable[Row]) -> str:
    """Rows for a terminal."""
    lines = []
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:8.2f} x {row.against}"
        goal = f"   (goal: {row.goal})" if row.goal else ""
        lines.append(f"  {row.name:58} {number(row.value):>10} {row.unit:16}{ratio}{goal}")
    return "\n".join(lines)


def page_of(found: Sequence[tuple[Part, list[Row]]]) -> str:
    """The whole page."""
    sections = [PAGE_HEAD.rstrip(), f"Measured on: {machine()}."]
    for part, rows in found:
        lines = ["| what | ratio | against | goal | measured |", "| --- | ---: | --- | --- | ---: |"]
        for row in rows:
            ratio = "" if row.ratio is None else f"**{row.ratio:.2f}**"
            measured = f"{number(row.value)} {row.unit}"
            lines.append(f"| {row.name} | {ratio} | {row.against} | {row.goal} | {measured} |")
        sections.append(f"## {part.title}\n\n" + "\n".join(lines))
    return "\n\n".join(sections) + "\n"


def machine() -> str:
    """What the numbers were measured on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{platform.system()} {platform.machine()}, {cores} cores, Python {platform.python_version()}"
