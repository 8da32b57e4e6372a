"""Pauses on a terminal: the calls that wait, with their arguments.

Agents write these texts. Characters that move the cursor, hide text or change its direction are shown as
escapes, so that people see exactly what they approve.
"""

from __future__ import annotations

import json
import time
from typing import Any

from hostler.cli.output import note
from hostler.cli.tables import Columns, moment
from hostler.cli.terminal import out
from hostler.cli.terminal_text import visible
from hostler.domain.pause_values import TOOL_CHANGED

WAITING = ("open", "needs_review")
DECISION_STYLES = {
    "undecided": "yellow",
    "approved": "green",
    "answered": "green",
    "denied": "red",
    "expired": "dim",
    "cancelled": "dim",
}


def pretty(value: Any) -> str:
    """Return a value as indented JSON, not shortened."""
    return visible(json.dumps(value, indent=2, ensure_ascii=False), lines=True)


def name_of(call: dict[str, Any]) -> str:
    """Return a short name of a call."""
    return visible(call.get("tool") or call.get("title") or call["kind"])


def summary(pause: dict[str, Any]) -> str:
    """Return what a pause waits for, in one line."""
    return ", ".join(f"{call['kind'].replace('_', ' ')} {name_of(call)}" for call in pause["calls"])


def show_pause(pause: dict[str, Any]) -> None:
    """Print a pause with all its calls."""
    from rich.text import Text

    left = time_left(pause.get("expires_at")) if pause["status"] == "open" else ""
    out().print(
        Text.assemble(
            ("pause ", "dim"),
            (pause["id"], "bold"),
            "  ",
            (pause["status"], "yellow" if pause["status"] in WAITING else ""),
            (f"  revision {pause['revision']}" if pause["revision"] > 1 else "", "dim"),
            (f"  expires {left}" if left.startswith("in ") else f"  {left}", "dim"),
        ),
        soft_wrap=True,
    )
    requester = f", requested by {visible(pause['requester'])}" if pause.get("requester") else ""
    out().print(f"run {pause['run_id']} of {visible(pause['agent'])}{requester}", style="dim", markup=False)
    for number, call in enumerate(pause["calls"], start=1):
        out().print()
        show_call(call, number=number)


def show_call(call: dict[str, Any], *, number: int | None = None) -> None:
    """Print a call with its full arguments and their digest."""
    from rich.text import Text

    out().print(
        Text.assemble(
            (f"{number}  " if number is not None else "", "dim"),
            (call["kind"].replace("_", " "), "cyan"),
            "  ",
            (name_of(call), "bold"),
            "  ",
            (call["decision"], DECISION_STYLES.get(call["decision"], "")),
            (f" by {visible(call['decided_by'])}" if call.get("decided_by") else "", "dim"),
        ),
        soft_wrap=True,
    )
    changed = TOOL_CHANGED if call.get("tool_changed") else None
    for text in (call.get("title"), changed, call.get("description") or call.get("fallback_text")):
        if text and text != call.get("tool"):
            out().print(visible(text, lines=True), markup=False, soft_wrap=True)
    if call.get("tool") is not None or call["kind"] == "budget":
        _show_arguments(call)
    _show_outcome(call)
    rows = [("call", call["call_id"])]
    if call.get("executor") == "runner":
        rows.append(("executor", "the runner itself, where the host cannot observe it"))
    if call.get("approvals_needed", 1) > 1:
        given = [vote["subject"] for vote in call.get("votes", []) if vote["vote"] == "approve"]
        rows.append(("approvals", f"{len(given)} of {call['approvals_needed']} {', '.join(given)}".strip()))
    if call["decision"] == "undecided" and not call["may_decide"]:
        rows.append(("for you", "nothing to decide"))
    if call.get("execution") == "in_doubt" and not call.get("review"):
        rows.append(("outcome", "unknown: its run ended, or went on without it, while it was being made"))
    for name, value in rows:
        out().print(f"{name:10}{visible(str(value))}", style="dim", markup=False, soft_wrap=True)


def _show_arguments(call: dict[str, Any]) -> None:
    out().print(pretty(call["args"]), markup=False, soft_wrap=True)
    if call.get("proposed_args") is not None and call.get("edited_by"):
        note(f"edited by {visible(call['edited_by'])}; the agent proposed:")
        out().print(pretty(call["proposed_args"]), style="dim", markup=False, soft_wrap=True)
    editable = ""
    if call.get("editable"):
        locked = ", ".join(map(visible, call.get("locked") or []))
        editable = f"  may be edited{f', except {locked}' if locked else ''}"
    out().print(f"digest    {call['args_hash']}{editable}", style="dim", markup=False, soft_wrap=True)


def _show_outcome(call: dict[str, Any]) -> None:
    if call.get("comment"):
        out().print(f"comment   {visible(call['comment'], lines=True)}", markup=False, soft_wrap=True)
    for name in ("values", "result"):
        if call.get(name) is not None:
            out().print(f"{name}:", style="dim")
            out().print(pretty(call[name]), markup=False, soft_wrap=True)
    if call.get("review"):
        note(f"needs review: {visible(call['review']).replace('_', ' ')}")


def time_left(at: float | None) -> str:
    """Return the time left until `at` (epoch seconds) in words; "" for None."""
    if at is None:
        return ""
    left = at - time.time()
    if left <= 0:
        return "expired"
    for size, name in ((86_400, "days"), (3_600, "hours"), (60, "min")):
        if left >= 2 * size:
            return f"in {left / size:.0f} {name}"
    return f"in {left:.0f} s"


def what_next(pause: dict[str, Any]) -> None:
    """Print the commands that decide a pause, ready to be copied."""
    note(f"the run waits: {summary(pause)}")
    commands = [("show it", f"hostler pauses show {pause['id']}")]
    kinds = {call["kind"] for call in pause["calls"] if call["decision"] == "undecided"}
    if kinds & {"approval", "budget"}:
        commands.append(("decide", f"hostler pauses approve {pause['id']}"))
        commands.append(("", f"hostler pauses deny {pause['id']}"))
    if "question" in kinds:
        commands.append(("answer", f"hostler pauses answer {pause['id']}"))
    if "client_tool" in kinds:
        commands.append(("give its result", f"hostler pauses result {pause['id']}"))
    if "in_doubt" in kinds:
        commands.append(("say what happened", f"hostler pauses resolve {pause['id']}"))
    commands.append(("then follow it", f"hostler runs tail {pause['run_id']}"))
    for name, command in commands:
        note(f"  {name:18}{command}")


def _until(pause: dict[str, Any]) -> object:
    return (
        time_left(pause.get("expires_at")) if pause["status"] == "open" else moment(pause.get("settled_at"))
    )


COLUMNS: Columns = {
    "pause": "id",
    "status": "status",
    "agent": "agent",
    "waits for": summary,
    "requester": "requester",
    "until": _until,
}
"""The columns of a table of pauses."""
