"""What the doctor says of schedules and reminders: whose last firing went wrong, when, and what to do."""

from __future__ import annotations

from datetime import UTC, datetime

from hostler.channels.schedules import NO_AGENT
from hostler.host.machine_checks import Finding
from hostler.secrets.known_values import redact
from hostler.storage.port import Tx
from hostler.storage.stores import schedules
from hostler.storage.stores.schedules import FailedFiring

MAX_NAMED = 20
ENDED_DAYS = 7
"""For how long one that fires no more is named: its only firing may have been the one that failed."""
DAY_MS = 86_400_000


def schedule_findings(tx: Tx, workspace_id: str) -> list[Finding]:
    """Return the findings of a workspace's schedules, and of the reminders that its runs made."""
    since = tx.now - ENDED_DAYS * DAY_MS
    failed = schedules.failing(tx, workspace_id, since=since, limit=MAX_NAMED + 1)
    found = [_finding(one) for one in failed[:MAX_NAMED]]
    if len(failed) > MAX_NAMED:
        text = f"more than {MAX_NAMED} fail, of which these are the latest: `hostler schedules list` has all"
        found.append(Finding("schedule", "note", text))
    return found


def _finding(one: FailedFiring) -> Finding:
    what = "schedule" if one.made_in is None else "reminder"
    when = f"{datetime.fromtimestamp(one.planned_at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    run = f"`hostler schedules run {one.name}`"
    if one.outcome == "left_out":
        later = "; `misfire: once` in its entry makes up for such ones" if one.made_in is None else ""
        text = f"{one.left_out} missed from {when} on were left out: {run} fires it now{later}"
        return Finding(what, "note", f"{one.name}: {text}")
    if one.status in {"failed", "timeout"}:
        why = f"failed ({one.status_code})" if one.status == "failed" else "took too long"
        text = f"its run of {when} {why}: `hostler runs show {one.run_id}` says why, and {run} tries again"
    else:
        reasons = [NO_AGENT.get(one.outcome), one.reason]
        why = redact("; ".join(reason for reason in reasons if reason)) or one.outcome
        text = f"its firing of {when} started nothing: {why}. Once that is put right, {run} makes up for it"
    return Finding(what, "wrong", f"{one.name}: {text}")
