"""What a runner did twice, lost or did differently with a fault, compared with its run without any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from hostler.simulation.faults.fault import Outcome, ToolRun

FindingKind = Literal["twice", "said_twice", "lost", "differs", "ends", "replay", "waits"]

TITLES: dict[FindingKind, str] = {
    "twice": "did something twice",
    "said_twice": "said something twice",
    "lost": "lost something",
    "differs": "did something else",
    "ends": "ended differently",
    "replay": "went another way when it was replayed",
    "waits": "waits for ever",
}
ADVICE: dict[FindingKind, str] = {
    "twice": (
        "Wait for the answer, and do not make the call again because it is late: the first one has its effect"
        " all the same. Where a call may come twice, let its arguments name what it is for, and the tool look"
        " whether that is done."
    ),
    "said_twice": "Do not repeat a message after a slow or failed call: what was said is stored.",
    "lost": (
        "Do not give up on what is late, and keep what has to outlast a process in `ctx.states`, not in"
        " memory."
    ),
    "differs": (
        "Let what you say and do depend on the input and on answers of the host alone: not on the clock, on"
        " chance, on memory, or on the number of the attempt."
    ),
    "ends": (
        "Go on after a crash: each attempt begins with the same input, and what was answered before is"
        " answered from the journal."
    ),
    "replay": (
        "A resumable runner makes the same calls in the same order each time. Take chance, clocks and memory"
        " out of what decides them, or leave `resumable` out of its capabilities."
    ),
    "waits": (
        "Wait for answers of the host alone, or with a limit: what another task or an earlier process would"
        " have said is gone after a crash."
    ),
}
"""What to do about it."""
MAX_TEXT = 100


class Finding(msgspec.Struct, frozen=True):
    """A difference, and where it showed.

    `when`: in words; `fault`: as `--fault` takes it; `lives`: in how many lives it showed.
    """

    kind: FindingKind
    text: str
    when: str
    fault: str
    lives: int = 1


class Report(msgspec.Struct, frozen=True):
    """What came of one runner and one message.

    `calls`: host calls of the run without faults. `failed`: lives in which a runner that is not resumable
    failed after a crash, as it may. `left_out`: faults that were not tried. `problem`: why nothing was tried.
    `stories`: for faults that were named, what happened, a line each.
    """

    runner: str
    input: str
    resumable: bool
    calls: list[str] = []
    lives: int = 0
    findings: list[Finding] = []
    failed: int = 0
    left_out: int = 0
    problem: str | None = None
    stories: dict[str, list[str]] = {}


def is_clean(reports: Sequence[Report]) -> bool:
    """Whether all was tried, and nothing was found."""
    return not any(report.findings or report.problem for report in reports)


def merged(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings that say the same as one, at its first fault.

    A runner that went another way when it was replayed also did and said something else for that reason.
    """
    if any(finding.kind == "replay" for finding in findings):
        findings = [one for one in findings if one.kind not in ("differs", "lost") or _is_late(one)]
    found: dict[tuple[FindingKind, str], list[Finding]] = {}
    for finding in findings:
        found.setdefault((finding.kind, finding.text), []).append(finding)
    return [msgspec.structs.replace(same[0], lives=len(same)) for same in found.values()]


def _is_late(finding: Finding) -> bool:
    return finding.fault.startswith("late-answer")


def differences(baseline: Outcome, outcome: Outcome) -> Iterator[tuple[FindingKind, str]]:
    """Compare a run with the one without faults."""
    if outcome.status in ("waiting", "timeout") and baseline.status != "timeout":
        ended = (
            "the run has not ended" if outcome.status == "waiting" else "the run was ended at its deadline"
        )
        yield "waits", ended
        return
    if outcome.code == "replay.diverged":
        yield "replay", _cut(outcome.error or "the run failed")
        return
    if (outcome.status, outcome.code) != (baseline.status, baseline.code):
        yield "ends", _cut(f"{outcome.end} instead of {baseline.end}")
        return  # what is missing, is so because of this
    yield from _compare_tools(_effects(baseline.tools), _effects(outcome.tools))
    yield from _compare_messages(baseline.messages, outcome.messages)
    for name in baseline.states.keys() - outcome.states.keys():
        yield "lost", f"the state {name} was not written"
    for name, value in outcome.states.items():
        if baseline.states.get(name) != value:
            yield "differs", _cut(f"the state {name} is {value} instead of {baseline.states.get(name)}")


def _effects(tools: Sequence[ToolRun]) -> Counter[str]:
    """Count calls by tool and arguments.

    The same call again is one, since the host answers for that; a pure one has no effect.
    """
    calls = {
        (tool.call_id, tool.effect_key): f"{tool.tool} {tool.arguments}"
        for tool in tools
        if tool.effect != "pure"
    }
    return Counter(calls.values())


def _compare_tools(before: Counter[str], after: Counter[str]) -> Iterator[tuple[FindingKind, str]]:
    extra, missing = after - before, before - after
    for call in [call for call in extra if call in before]:
        yield "twice", _cut(f"{call}: {after[call]} calls instead of {before[call]}")
        del extra[call]
    yield from _instead(list(extra.elements()), list(missing.elements()))


def _compare_messages(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[FindingKind, str]]:
    extra, missing = Counter(after) - Counter(before), Counter(before) - Counter(after)
    if not extra and not missing and list(before) != list(after):
        yield "differs", "the same messages in another order"
    for text in [text for text in extra if text in before]:
        yield "said_twice", _cut(f"“{text}”: {after.count(text)} times instead of {before.count(text)}")
        del extra[text]
    yield from _instead([f"“{one}”" for one in extra.elements()], [f"“{one}”" for one in missing.elements()])


def _instead(extra: list[str], missing: list[str]) -> Iterator[tuple[FindingKind, str]]:
    for old, new in zip(missing, extra, strict=False):
        yield "differs", _cut(f"{new} instead of {old}")
    for old in missing[len(extra) :]:
        yield "lost", _cut(f"{old} is missing")
    for new in extra[len(missing) :]:
        yield "differs", _cut(f"{new} is new")


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 2 * MAX_TEXT else f"{text[: 2 * MAX_TEXT - 1]}…"
