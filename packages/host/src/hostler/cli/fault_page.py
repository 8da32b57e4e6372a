"""The page on what crashes and late answers did to a runner."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hostler.simulation.faults.report import ADVICE, TITLES, Finding, FindingKind, Report

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_INPUT = "Hello"
WIDTH = 100
"""Of the page as text."""
MAX_OF_A_KIND = 3
"""Findings of one kind that are told; the others are counted."""
MAX_STORY_LINES = 40
UNSEEN = "What a runner does past the host, like requests and files of its own, is not seen."


def page(target: str, reports: Sequence[Report], options: Sequence[str] = ()) -> Group:
    """Return the page. `target` and `options`: as the command was given, for the commands that it shows."""

    def again(report: Report, finding: Finding) -> str:
        folder = target.removesuffix(f":{report.runner}")
        words = ["hostler", "test", f"{folder}:{report.runner}", "--fault", finding.fault]
        if report.input != DEFAULT_INPUT:
            words += ["--input", report.input]
        return shlex.join([*words, *options])

    parts: list[RenderableType] = []
    for report in reports:
        parts += [*_case(report, again), ""]
    parts.append(_summary(reports))
    parts.append(Text(UNSEEN, "dim"))
    return Group(*parts)


def plain_page(target: str, reports: Sequence[Report], options: Sequence[str] = ()) -> str:
    """Return the page as text."""
    console = Console(file=io.StringIO(), width=WIDTH, highlight=False, color_system=None)
    console.print(page(target, reports, options), crop=False)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def _case(report: Report, again: Callable[[Report, Finding], str]) -> Iterator[RenderableType]:
    mark, style = ("✗", "bold red") if report.findings or report.problem else ("✓", "bold green")
    calls = _count(len(report.calls), "host call")
    yield Text.assemble(
        (f"{mark} ", style),
        (report.runner, "bold"),
        (f"  “{_first_line(report.input)}”, {calls}, {_count(report.lives, 'life', 'lives')}", "dim"),
        overflow="ellipsis",
        no_wrap=True,
    )
    if report.problem is not None:
        yield Padding(Text(f"could not be tried: {report.problem}", "red"), (0, 0, 0, 2))
    for kind, findings in _by_kind(report.findings):
        yield Text(f"  {TITLES[kind]}", "red")
        yield _finding(kind, findings)
        command = Text.assemble((f"{'again':>8}  ", "dim"), (again(report, findings[0]), "cyan"))
        command.no_wrap, command.overflow = True, "ignore"
        yield command
    for fault, story in report.stories.items():
        yield _story(fault, story)
    if report.failed:
        lives = _count(report.failed, "life", "lives")
        yield Padding(Text(f"failed in {lives} after a crash: it is not `resumable`", "dim"), (0, 0, 0, 2))
    if report.left_out:
        yield Padding(Text(f"{_count(report.left_out, 'fault')} left out", "yellow"), (0, 0, 0, 2))


def _finding(kind: FindingKind, findings: Sequence[Finding]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(width=8, justify="right", style="dim")
    table.add_column(ratio=1)
    for finding in findings[:MAX_OF_A_KIND]:
        lives = (
            f", and in {_count(finding.lives - 1, 'other life', 'other lives')}" if finding.lives > 1 else ""
        )
        table.add_row("what", Text(finding.text))
        table.add_row("when", Text(f"{finding.when}{lives}"))
    if len(findings) > MAX_OF_A_KIND:
        table.add_row(
            "", Text(f"{len(findings) - MAX_OF_A_KIND} more of this kind: --json shows them", "dim")
        )
    table.add_row("change", ADVICE[kind])
    return table


def _story(fault: str, story: Sequence[str]) -> RenderableType:
    lines = [Text(f"with {fault}:", "dim")]
    lines += [Text(line, "red" if "✗" in line else "") for line in story[:MAX_STORY_LINES]]
    if len(story) > MAX_STORY_LINES:
        lines.append(Text(f"{len(story) - MAX_STORY_LINES} more lines: --json shows them", "dim"))
    return Padding(Group(*lines), (0, 0, 0, 2))


def _summary(reports: Sequence[Report]) -> Text:
    lives = _count(sum(report.lives for report in reports), "life", "lives")
    found = sum(len(report.findings) for report in reports)
    broken = sum(report.problem is not None for report in reports)
    if broken:
        text = f"{_count(found, 'finding')} in {lives}; {_count(broken, 'run')} could not be tried"
    elif found:
        text = f"{_count(found, 'finding')} in {lives}"
    else:
        text = f"nothing was done twice, lost or done differently in {lives}"
    return Text(text, "bold red" if found or broken else "bold green")


def _by_kind(findings: Iterable[Finding]) -> Iterator[tuple[FindingKind, list[Finding]]]:
    found: dict[FindingKind, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.kind, []).append(finding)
    yield from found.items()


def _first_line(text: str) -> str:
    first, *more = text.strip().splitlines() or [""]
    return f"{first} …" if more else first


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
