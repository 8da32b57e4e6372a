"""What runs wait for, as far as the database knows: people, runs that they started, their turn, a time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.domain.record import Record
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load

MAX_CHILDREN = 1_000
"""Children that are read for one page of runs."""
_q = load(__file__)


class Asked(Record):
    """What people are asked. `until`: when the first of it expires, in UTC epoch milliseconds."""

    run_id: str
    kind: str
    until: int | None


class Queued(Record):
    """A queued run. `not_before`: UTC epoch milliseconds. `before_it`: who is before it in its lane."""

    run_id: str
    not_before: int | None
    before_it: str | None


def of_people(tx: Tx, workspace_id: str, run_ids: Sequence[str]) -> list[Asked]:
    """Return what people are asked for runs and have not decided, by kind."""
    rows = tx.all(_q.of_people, workspace_id=workspace_id, run_ids=_texts(run_ids))
    return [Asked(row["run_id"], row["kind"], row["until"]) for row in rows]


def children(tx: Tx, workspace_id: str, run_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return the runs that these runs have started and that have not ended: parent and child."""
    rows = tx.all(_q.children, workspace_id=workspace_id, run_ids=_texts(run_ids), limit=MAX_CHILDREN)
    return [(row["parent_run_id"], row["run_id"]) for row in rows]


def queued(tx: Tx, workspace_id: str, run_ids: Sequence[str]) -> list[Queued]:
    """Return those of the runs that are queued."""
    rows = tx.all(_q.queued, workspace_id=workspace_id, run_ids=_texts(run_ids), now=tx.now)
    return [Queued(row["run_id"], row["not_before"], row["before_it"]) for row in rows]


def _texts(run_ids: Sequence[str]) -> str:
    return msgspec.json.encode(list(run_ids)).decode()
