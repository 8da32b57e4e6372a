"""`Idempotency-Key`: a repeated request does nothing and gets the answer of the first one."""

from __future__ import annotations

import re

from hostler.domain.record import Record
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load

ABANDONED_MS = 10 * 60 * 1000
"""A request without an answer after this time is abandoned: its host was killed. No request takes that
long."""

_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")

_q = load(__file__)


class New(Record):
    """The first request of its key: execute it, then call `finish` or `forget`."""


class Replay(Record):
    """The request was answered before: return the same answer."""

    status: int
    answer: str


class Different(Record):
    """The key was used with another body."""


class InProgress(Record):
    """The first request is still being executed."""


def begin(
    tx: Tx, workspace_id: str, caller: str, key: str, body_digest: str
) -> New | Replay | Different | InProgress:
    """Register a request, or look up the first one of its key."""
    names = {"workspace_id": workspace_id, "caller": caller, "key": key}
    if tx.run(_q.begin, **names, body_digest=body_digest, now=tx.now):
        return New()
    row = tx.one(_q.find, **names)
    if row is None:
        raise RuntimeError(f"the key {key!r} is neither new nor known")
    if row["body_digest"] != body_digest:
        return Different()
    if row["status"]:
        return Replay(row["status"], row["answer"])
    abandoned = {"body_digest": body_digest, "now": tx.now, "abandoned_before": tx.now - ABANDONED_MS}
    return New() if tx.run(_q.begin_again, **names, **abandoned) else InProgress()


def finish(tx: Tx, workspace_id: str, caller: str, key: str, *, status: int, answer: str) -> None:
    """Store the answer (HTTP status, body) for repeated requests."""
    ids = " ".join(sorted(set(_ID.findall(answer)))) if tx.seals else None
    tx.run(
        _q.finish, workspace_id=workspace_id, caller=caller, key=key, status=status, answer=answer, ids=ids
    )


def forget(tx: Tx, workspace_id: str, caller: str, key: str) -> None:
    """Remove a request that failed and should be retried: the next one of the key counts as the first."""
    tx.run(_q.forget, workspace_id=workspace_id, caller=caller, key=key)
