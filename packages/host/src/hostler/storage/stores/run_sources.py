"""Sources of runs: the run that a retry or fork was made from; and dead letters, failed runs without a
retry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores.filters import NEWEST
from hostler.storage.stores.nul import without_nul
from hostler.storage.stores.run_rows import Run, run_of
from hostler_protocol.events import Input
from hostler_protocol.limits import MAX_PAGE_ITEMS

_q = load(__file__)

Kind = Literal["retry", "fork"]


class Source(Record, kw_only=True):
    """The run that a retry or fork was made from.

    A fork replays its source's journal from `base_attempt` up to `until_position`; `step` is the last shared
    step. Without `effects` it changes nothing outside of itself. `input` replaces that of its event, `config`
    values of its agent's configuration.
    """

    run_id: str
    source_run_id: str
    kind: Kind
    step: int | None = None
    base_attempt: int = 1
    until_position: int = 0
    effects: bool = True
    input: Input | None = None
    config: Mapping[str, Any] | None = None


def insert(tx: Tx, workspace_id: str, source: Source) -> None:
    """Store the source of a new run, in the transaction that opens it."""
    tx.run(
        _q.insert,
        workspace_id=workspace_id,
        run_id=source.run_id,
        source_run_id=source.source_run_id,
        kind=source.kind,
        step=source.step,
        base_attempt=source.base_attempt,
        until_position=source.until_position,
        effects=int(source.effects),
        input=_stored(source.input),
        config=_stored(source.config),
        created_at=tx.now,
    )


def _stored(value: Input | Mapping[str, Any] | None) -> str | None:
    return None if value is None else str(without_nul(msgspec.json.encode(value).decode()))


def find(tx: Tx, workspace_id: str, run_id: str) -> Source | None:
    """Return the source of a run; None if it was made from its event alone."""
    row = tx.one(_q.find, workspace_id=workspace_id, run_id=run_id)
    if row is None:
        return None
    return from_row(
        row,
        Source,
        effects=bool(row["effects"]),
        input=None if row["input"] is None else msgspec.json.decode(row["input"], type=Input),
        config=None if row["config"] is None else msgspec.json.decode(row["config"], type=dict[str, Any]),
    )


def made_from(tx: Tx, workspace_id: str, source_run_id: str, limit: int = MAX_PAGE_ITEMS) -> list[str]:
    """Return the ids of runs that were made from a run, oldest first."""
    rows = tx.all(_q.made_from, workspace_id=workspace_id, source_run_id=source_run_id, limit=limit)
    return [str(row["run_id"]) for row in rows]


def share_turn(tx: Tx, workspace_id: str, source: Run, run_id: str) -> None:
    """Copy the debounced messages of `source` to a new run of the same event."""
    if source.gathered:
        tx.run(_q.copy_turn, workspace_id=workspace_id, run_id=run_id, source_run_id=source.run_id)
        tx.run(_q.set_turn, workspace_id=workspace_id, run_id=run_id, gathered=source.gathered)


def dead(
    tx: Tx,
    workspace_id: str,
    *,
    agent_name: str | None = None,
    since: int = 0,
    before: tuple[int, str] | None = None,
    limit: int = MAX_PAGE_ITEMS,
) -> list[Run]:
    """Return dead letters, newest first: runs that the host failed, not their runner, and without a retry."""
    before_time, before_id = before or (NEWEST, "")
    rows = tx.all(
        _q.dead,
        workspace_id=workspace_id,
        agent_name=agent_name,
        since=since,
        before_time=before_time,
        before_id=before_id,
        limit=limit,
    )
    return [run_of(row) for row in rows]
