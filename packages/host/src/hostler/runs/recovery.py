"""Recover the runs of a host that is gone: each is settled by its agent's policy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from hostler.domain.agents import Recovery
from hostler.domain.recovery import settle
from hostler.domain.usage import NOTHING_USED, Used
from hostler.journal.call_records import used_by
from hostler.journal.effects import had_effects
from hostler.pauses.parking import begin_after_loss
from hostler.storage.port import Database, Tx
from hostler.storage.stores import agents, budgets, hosts, journal, pauses, run_hosts, runs
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_endings import end_waiting
from hostler.storage.stores.run_rows import Run, RunAttempt

log = logging.getLogger(__name__)

IsResumable = Callable[[str], bool]


async def recover(db: Database, is_resumable: IsResumable) -> int:
    """Take over from hosts whose lease has expired, and settle every lost run. Return their number.

    A run is lost if the host that claimed it is gone, left, or has joined again since; also if another host
    died while settling it. On a database with one host every run that was under way is lost.
    """
    for lease in await db.read(hosts.dead):
        await db.write(partial(hosts.take_over, member=lease.member))
    settled = 0
    for member in await db.read(hosts.lost):
        settled += await _settle_all(db, member, is_resumable)
    return settled


async def settle_lost(db: Database, lost: Iterable[RunAttempt], is_resumable: IsResumable) -> None:
    """Settle attempts that a live host claimed but does not execute."""
    for attempt in lost:
        run = await db.read(partial(runs.by_id, run_id=attempt.run_id))
        if run is not None and run.attempt == attempt.attempt:
            await _settle_one(db, run, is_resumable)


async def _settle_all(db: Database, member: Membership, is_resumable: IsResumable) -> int:
    settled, after = 0, ""
    while left := await db.read(partial(run_hosts.active_of, member=member, after=after)):
        for run in left:
            await _settle_one(db, run, is_resumable)
        settled, after = settled + len(left), left[-1].run_id
    if settled:
        log.warning("%d runs were under way at host %s, which lost them; settled", settled, member.host_id)
    return settled


async def _settle_one(db: Database, run: Run, is_resumable: IsResumable) -> None:
    lost = await db.read(partial(_used_by_lost, run=run))
    await db.write(partial(_settle, run=run, resumable=is_resumable(run.runner_id), lost=lost))


def policy_of(tx: Tx, run: Run) -> Recovery:
    """Return the recovery policy of the run's agent version."""
    agent = agents.version(tx, run.workspace_id, run.agent_id, run.agent_version)
    return Recovery() if agent is None else agent.spec.recovery


def _settle(tx: Tx, run: Run, resumable: bool, lost: Used) -> None:
    current = runs.by_id(tx, run.run_id)
    if current is None or current.attempt != run.attempt or current.status not in {"claimed", "running"}:
        return  # settled by another host in the meantime
    settlement = settle(
        policy_of(tx, run),
        cause="host",
        resumable=resumable,
        crashes=current.crashes,
        had_effects=current.kept_sequence > 0 or had_effects(tx, current.run_id, current.attempt),
        cancelled=current.cancel_reason is not None,
        undone=_is_undone(tx, current),
    )
    used = Used(current.usage, current.cost).and_also(*lost)
    budgets.settle_run(tx, current.workspace_id, current.run_id)  # nobody knows what its calls used
    if settlement.goes_on:
        last = journal.page_backward(tx, current.run_id, current.position + 1, 1).items
        since = last[0].at if last else None
        begin_after_loss(tx, current, settlement, actor="recovery", used=used, crashed=True, since=since)
    elif settlement.action == "cancel":
        reason = current.cancel_reason or settlement.why
        end_waiting(tx, current, "cancelled", "cancelled", reason, actor="recovery", used=used)
    else:
        code = settlement.status_code
        end_waiting(tx, current, "failed", code, settlement.why, actor="recovery", crashed=True, used=used)


def _used_by_lost(tx: Tx, run: Run) -> Used:
    """Return usage and cost of a lost attempt, summed from its journal."""
    total = NOTHING_USED
    for data in journal.model_calls(tx, run.run_id, run.attempt):
        total = total.and_also(*used_by(data))
    return total


def _is_undone(tx: Tx, run: Run) -> bool:
    """Whether the attempt resumed from an explicit pause and had no effect since."""
    pause = pauses.unsettled(tx, run.run_id)
    if pause is None or pause.form != "explicit":
        return False
    return not had_effects(tx, run.run_id, run.base_attempt)
