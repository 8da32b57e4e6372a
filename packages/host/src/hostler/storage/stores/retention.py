"""Retention: deletes data that a workspace no longer keeps, in small transactions between other work.

After an interruption the next collection continues. Rows of events and runs stay without content, so that
hash chains verify, ids stay known and the cost of runs can still be summed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from hostler.domain.record import Record
from hostler.domain.retention import RetentionPolicy
from hostler.domain.seq_set import in_steps
from hostler.storage.port import Database, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import (
    action_outcomes,
    artifacts,
    blobs,
    budget_accounts,
    budgets,
    hook_deliveries,
    notices,
    outbox,
    pause_retention,
    push_receivers,
    sessions,
    state_values,
    timeline,
    tokens,
    transcripts,
    uploads,
)
from hostler.storage.stores import erasure as erasing
from hostler.storage.stores import hash_chain as chain
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.erasure import STEP_ROWS, until_nothing
from hostler.storage.stores.redactions import MAX_ACCOUNT_SEQS, account

_q = load(__file__)

DAY_MS = 86_400_000
ANSWERS_KEPT_MS = DAY_MS
"""How long answers to Idempotency-Keys are kept: no client repeats a request a day later."""
UPLOADS_KEPT_MS = DAY_MS
"""How long unfinished uploads are kept."""
_RUNS_PER_STEP = 50


class Collected(Record):
    """Numbers of deleted rows by kind: events, transcripts, journal_entries, deltas, artifacts, states,
    uploads, answers, sessions, tokens, pauses, pause_states, blobs, files. `freed_bytes` in the blob folder.
    """

    counts: dict[str, int]
    freed_bytes: int = 0


async def collect(
    database: Database, folder: BlobFolder, policy_of: Callable[[str], RetentionPolicy]
) -> Collected:
    """Collect each workspace by its policy, then the blobs without references."""
    counts: dict[str, int] = {}
    await until_nothing(database, notices.give_up_overdue)
    for ws in await workspaces(database):
        for kind, count in (await collect_workspace(database, ws, policy_of(ws))).items():
            counts[kind] = counts.get(kind, 0) + count
    removed = await blobs.collect(database, folder)
    counts["blobs"] = removed.blobs
    counts["files"] = await blobs.sweep(database, folder)
    return Collected(counts, removed.size_bytes)


async def collect_workspace(database: Database, ws: str, policy: RetentionPolicy) -> dict[str, int]:
    """Collect one workspace and return the numbers of deleted rows by kind."""
    now = await database.read(lambda tx: tx.now)
    await until_nothing(database, lambda tx: budgets.settle_left_behind(tx, ws))
    await until_nothing(database, lambda tx: budget_accounts.sweep(tx, ws))  # counters, not reported
    await until_nothing(database, lambda tx: push_receivers.drop_old(tx, ws))  # nor are these
    await until_nothing(database, lambda tx: hook_deliveries.drop_old(tx, ws))
    await until_nothing(database, lambda tx: notices.drop_old(tx, ws))
    await until_nothing(database, lambda tx: action_outcomes.give_up_overdue(tx, ws))
    # what was said is in the outbox, too
    kept = outbox.ROWS_KEPT_MS if policy.transcripts is None else int(policy.transcripts * DAY_MS)
    await until_nothing(database, lambda tx: outbox.drop_old(tx, ws, kept))
    counts = {
        "artifacts": await until_nothing(database, lambda tx: _expired_artifacts(tx, ws)),
        "uploads": await until_nothing(database, lambda tx: _old_uploads(tx, ws)),
        "answers": await database.write(
            lambda tx: tx.run(_q.drop_old_answers, ws=ws, before=tx.now - ANSWERS_KEPT_MS)
        ),
        "sessions": await until_nothing(database, lambda tx: sessions.drop_ended(tx, ws)),
        "tokens": await until_nothing(database, lambda tx: tokens.drop_ended(tx, ws)),
        "pause_states": await until_nothing(database, lambda tx: pause_retention.drop_states(tx, ws)),
        "pauses": await until_nothing(database, lambda tx: pause_retention.drop_old(tx, ws)),
    }
    if (days := _days_of_streams(policy)) is not None:  # before what the rows stand for
        oldest = _before(now, days)
        await until_nothing(database, lambda tx: timeline.sweep(tx, ws, oldest))
    if policy.events is not None:
        counts["events"] = await _events(database, ws, _before(now, policy.events))
    if policy.transcripts is not None:
        oldest = _before(now, policy.transcripts)
        counts["transcripts"] = await until_nothing(database, lambda tx: _transcripts(tx, ws, oldest))
    if policy.deltas is not None:
        counts["deltas"] = await _journals(database, ws, _before(now, policy.deltas), kind="deltas")
    if policy.journals is not None:
        counts["journal_entries"] = await _journals(
            database, ws, _before(now, policy.journals), kind="journals"
        )
    if policy.artifacts is not None:
        counts["artifacts"] += await _artifacts(database, ws, _before(now, policy.artifacts))
    if policy.states is not None:
        counts["states"] = await _states(database, ws, _before(now, policy.states))
    return counts


def _days_of_streams(policy: RetentionPolicy) -> float | None:
    """Return how long the timeline is kept: as long as all that it shows."""
    kept = (policy.events, policy.deltas, policy.journals)
    return min((days for days in kept if days is not None), default=None)


def _before(now: int, days: float) -> int:
    return now - round(days * DAY_MS)


def _swept_until(tx: Tx, ws: str, kind: str) -> int:
    row = tx.one(_q.swept_until, ws=ws, kind=kind)
    return 0 if row is None else int(row["swept_until"])


async def workspaces(database: Database) -> list[str]:
    """Return every workspace that has rows, by id."""
    names: list[str] = []
    after = await database.read(partial(chain.next_workspace, after=""))
    while after is not None:
        names.append(after)
        after = await database.read(partial(chain.next_workspace, after=after))
    return names


class _Plan(NamedTuple):
    """One step of a sweep of events: the sequences to empty, and the progress.

    `mark` is stored for the next sweep, `position` is that of this one.
    """

    seqs: list[int]
    position: int
    mark: int
    more: bool


async def _events(database: Database, ws: str, before: int) -> int:
    """Empty events older than `before`. The mark stops before the first one that an active run needs."""
    mark = await database.read(lambda tx: _swept_until(tx, ws, "events"))
    plan = _Plan([], mark, mark, True)
    emptied = 0
    while plan.more:
        known = plan.mark
        plan = await database.read(partial(_plan_events, ws=ws, before=before, so_far=plan))
        emptied += await _empty(database, ws, plan.seqs)
        if plan.mark != known:
            await database.write(
                lambda tx, until=plan.mark: tx.run(_q.set_swept_until, ws=ws, kind="events", until=until)  # type: ignore[misc]
            )
    return emptied


def _plan_events(tx: Tx, ws: str, before: int, so_far: _Plan) -> _Plan:
    """Plan the next step: at most 10,000 old events."""
    seqs: list[int] = []
    position, mark = so_far.position, so_far.mark
    while len(seqs) + STEP_ROWS <= MAX_ACCOUNT_SEQS:
        rows = tx.all(_q.events_after, ws=ws, after=position, limit=STEP_ROWS)
        old = list(takewhile(lambda row: row["created_at"] < before, rows))
        for row in old:
            seq = int(row["seq"])
            if not row["is_needed"] and row["has_content"]:
                seqs.append(seq)
            if mark == position and not row["is_needed"]:  # no event before it was skipped
                mark = seq
            position = seq
        if len(old) < STEP_ROWS:
            return _Plan(seqs, position, mark, False)
    return _Plan(seqs, position, mark, True)


async def _empty(database: Database, ws: str, seqs: list[int]) -> int:
    """Account for events, then empty them in steps."""
    if not seqs:
        return 0
    await database.write(lambda tx: account(tx, ws, seqs, by="host", target="retention"))
    emptied = 0
    for step in in_steps(seqs, STEP_ROWS):
        emptied += await database.write(lambda tx, step=step: erasing.empty_events(tx, ws, step))  # type: ignore[misc]
    return emptied


def _transcripts(tx: Tx, ws: str, before: int) -> int:
    rows = tx.all(_q.oldest_transcripts, ws=ws, limit=STEP_ROWS)
    old = takewhile(lambda row: row["created_at"] < before, rows)
    return transcripts.remove(tx, ws, [int(row["seq"]) for row in old])


async def _journals(database: Database, ws: str, before: int, *, kind: str) -> int:
    """Delete the deltas, or the whole journals, of runs that ended before `before`."""
    drop = erasing.drop_deltas if kind == "deltas" else erasing.drop_journal
    after, after_run, dropped = await database.read(lambda tx: _swept_until(tx, ws, kind)), "", 0
    while True:
        page = {"ws": ws, "before": before, "after": after, "after_run": after_run, "limit": _RUNS_PER_STEP}
        rows = await database.read(lambda tx, page=page: tx.all(_q.finished_runs, **page))  # type: ignore[misc]
        for row in rows:
            dropped += await until_nothing(database, lambda tx, run_id=row["run_id"]: drop(tx, run_id))  # type: ignore[misc]
        if len(rows) < _RUNS_PER_STEP:
            # runs that end from now on end later than this
            await database.write(lambda tx: tx.run(_q.set_swept_until, ws=ws, kind=kind, until=before - 1))
            return dropped
        after, after_run = int(rows[-1]["finished_at"]), str(rows[-1]["run_id"])


async def _artifacts(database: Database, ws: str, before: int) -> int:
    after, removed = "", 0
    while True:
        rows = await database.read(
            lambda tx, after=after: tx.all(_q.artifacts_after, ws=ws, after=after, limit=STEP_ROWS)  # type: ignore[misc]
        )
        old = [row["artifact_id"] for row in rows if row["created_at"] < before]
        if old:
            removed += await database.write(lambda tx, old=old: _remove_artifacts(tx, ws, old))  # type: ignore[misc]
        if len(rows) < STEP_ROWS:
            return removed
        after = rows[-1]["artifact_id"]


def _expired_artifacts(tx: Tx, ws: str) -> int:
    rows = tx.all(_q.expired_artifacts, ws=ws, now=tx.now, limit=STEP_ROWS)
    return _remove_artifacts(tx, ws, [row["artifact_id"] for row in rows])


def _remove_artifacts(tx: Tx, ws: str, ids: list[str]) -> int:
    return sum(artifacts.remove(tx, ws, artifact_id) is not None for artifact_id in ids)


def _old_uploads(tx: Tx, ws: str) -> int:
    rows = tx.all(_q.old_uploads, ws=ws, before=tx.now - UPLOADS_KEPT_MS, limit=STEP_ROWS)
    for row in rows:
        uploads.abandon(tx, ws, row["upload_id"])
    return len(rows)


async def _states(database: Database, ws: str, before: int) -> int:
    """Delete the state of conversations whose state and transcript did not change since `before`."""
    after, dropped = "", 0

    def is_unchanged(tx: Tx, conversation_id: str) -> bool:
        last = tx.one(_q.last_message, ws=ws, conversation_id=conversation_id)
        return last is None or last["created_at"] < before

    def drop(tx: Tx, ids: list[str]) -> int:
        return sum(
            state_values.drop(tx, ws, _q.drop_conversation_state, conversation_id=conversation_id)
            for conversation_id in ids
            if is_unchanged(tx, conversation_id)
        )

    while True:
        rows = await database.read(
            lambda tx, after=after: tx.all(  # type: ignore[misc]
                _q.conversations_with_state, ws=ws, after=after, limit=STEP_ROWS
            )
        )
        old = [row["conversation_id"] for row in rows if row["updated_at"] < before]
        if old:
            dropped += await database.write(lambda tx, old=old: drop(tx, old))  # type: ignore[misc]
        if len(rows) < STEP_ROWS:
            return dropped
        after = rows[-1]["conversation_id"]
