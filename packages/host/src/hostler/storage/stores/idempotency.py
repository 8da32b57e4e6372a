"""`Idempotency-Key`: the second request of a key gets the first one's answer and does nothing."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.storage.port import Tx
from hostler.storage.sql.statements import load

ABANDONED_MS = 10 * 60 * 1000
"""A request without an answer for so long is given up: its host was killed. Longer than any request lasts."""

_q = load(__file__)


@dataclass(frozen=True, slots=True)
class New:
    """The first request of its key: do it, then `finish` (or `forget`)."""


@dataclass(frozen=True, slots=True)
class Replay:
    """It was answered: answer the same."""

    status: int
    answer: str


@dataclass(frozen=True, slots=True)
class Different:
    """The key stands for another body."""


@dataclass(frozen=True, slots=True)
class InProgress:
    """The first request is being worked on."""


def begin(
    tx: Tx, workspace_id: str, caller: str, key: str, body_digest: str
) -> New | Replay | Different | InProgress:
    """Enter a request, or find what became of the first one."""
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
    """Note the answer (HTTP status, body) that every later request of the key gets."""
    tx.run(_q.finish, workspace_id=workspace_id, caller=caller, key=key, status=status, answer=answer)


def forget(tx: Tx, workspace_id: str, caller: str, key: str) -> None:
    """The request failed in a way that should be tried again: the next one of the key is the first."""
    tx.run(_q.forget, workspace_id=workspace_id, caller=caller, key=key)
