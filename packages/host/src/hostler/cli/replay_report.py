"""Reports of replays: lines for people, JSON, test cases."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from hostler.cli.junit import JunitCase
from hostler.cli.output import note, write_json
from hostler.cli.terminal import out
from hostler.domain.json_diff import describe, differences
from hostler.domain.record import Record
from hostler.journal.replay_session import Replayed


class Failed(Record):
    """A run that could not be replayed, and why."""

    run_id: str
    agent: str
    reason: str
    seconds: float = 0.0


def show_replay(end: Replayed | Failed, *, as_json: bool, network: str | None, alone: bool) -> None:
    """Print the result of one replay; with details if it is the only one (`alone`)."""
    if as_json:
        write_json(record(end, network=network))
        return
    if isinstance(end, Failed):
        out().print(Text.assemble(("! ", "bold yellow"), f"{end.run_id}  {end.reason}"), soft_wrap=True)
        return
    if end.divergence is None:
        text = f"{end.run_id}  {end.steps} steps, {end.seconds:.2f} s"
        out().print(Text.assemble(("✓ ", "green"), "identical  " if alone else "", text), soft_wrap=True)
    else:
        out().print(
            Text.assemble(("✗ ", "bold red"), f"{end.run_id}  {end.divergence.title}"), soft_wrap=True
        )
        for line in end.divergence.lines:
            out().print(Text(f"    {line}", _style(line)), soft_wrap=True)
    for line in end.notes if alone else ():
        note(line)
    if alone:
        _output(end)


def _output(end: Replayed) -> None:
    """Print the difference between the recorded and the new output, if there is one."""
    if end.divergence is None or not end.text or end.text == end.recorded_text:
        return
    for line in describe(differences({"output": end.recorded_text}, {"output": end.text})):
        out().print(line, markup=False, soft_wrap=True)


def _style(line: str) -> str:
    stripped = line.strip()
    return {"-": "red", "+": "green", "@": "cyan"}.get(stripped[:1], "")


def show_total(ends: list[Replayed | Failed]) -> None:
    """Print how many replays were identical, diverged or failed."""
    same = sum(isinstance(end, Replayed) and end.is_identical for end in ends)
    failed = sum(isinstance(end, Failed) for end in ends)
    parts = [f"{same} of {len(ends)} identical"]
    if diverged := len(ends) - same - failed:
        parts.append(f"{diverged} diverged")
    if failed:
        parts.append(f"{failed} could not be replayed")
    out().print(Text(", ".join(parts), "bold green" if same == len(ends) else "bold red"))


def record(end: Replayed | Failed, *, network: str | None) -> dict[str, Any]:
    """Return the result of a replay as JSON."""
    if isinstance(end, Failed):
        return {"run_id": end.run_id, "agent": end.agent, "status": "failed", "error": end.reason}
    divergence = end.divergence
    return {
        "run_id": end.run_id,
        "agent": end.agent,
        "status": "identical" if divergence is None else "diverged",
        "steps": end.steps,
        "divergence": None
        if divergence is None
        else {
            "step": divergence.step,
            "kind": divergence.kind,
            "title": divergence.title,
            "diff": list(divergence.lines),
        },
        "output": end.text,
        "recorded_output": end.recorded_text,
        "calls": end.asked,
        "network": "blocked" if network is None else f"open: {network}",
        "seconds": round(end.seconds, 3),
        "notes": list(end.notes),
    }


def case_of(end: Replayed | Failed) -> JunitCase:
    """Return the result of a replay as a test case."""
    if isinstance(end, Failed):
        return JunitCase(end.agent, end.run_id, end.seconds, "error", end.reason)
    if end.divergence is None:
        return JunitCase(end.agent, end.run_id, end.seconds)
    text = "\n".join(end.divergence.lines)
    return JunitCase(end.agent, end.run_id, end.seconds, "failure", end.divergence.title, text)
