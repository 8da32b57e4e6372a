"""Receipts of deletions on request, in the audit chain."""

from __future__ import annotations

from typing import Any

from hostler.storage.port import Tx
from hostler.storage.stores import audit
from hostler.storage.stores import hash_chain as chain
from hostler_protocol._base import Strict


class DeletionReceipt(Strict):
    """The number of deleted rows by kind, and a proof of the event chain.

    `target` is `conversation:`, `actor:` or `run:` and the SHA-256 of the id, since the receipt outlives the
    id. At that moment the event chain ended at `chain_seq` with `chain_digest`; `events` of its rows were
    emptied and keep their digests. `erasure_key`: where content is sealed, the id of the erasure key since
    then; the one before was destroyed, and with it what copies of the database hold of the deleted data.
    Times are UTC epoch seconds.
    """

    audit_id: str
    workspace_id: str
    target: str
    requested_at: float
    finished_at: float
    deleted: dict[str, int]
    chain_seq: int
    chain_digest: str
    erasure_key: str | None = None


def write(
    tx: Tx,
    ws: str,
    *,
    by: str,
    target: str,
    requested_at: int,
    deleted: dict[str, int],
    erasure_key: str | None = None,
) -> DeletionReceipt:
    """Write the receipt of a deletion into the audit chain. `requested_at`: milliseconds."""
    head = chain.head(tx, ws, "events")
    body: dict[str, Any] = {"deleted": deleted, "chain_seq": head.seq, "chain_digest": head.digest}
    if erasure_key is not None:
        body["erasure_key"] = erasure_key
    audit_id = audit.record(tx, ws, by, "data.deleted", target, body)
    return DeletionReceipt(
        audit_id=audit_id,
        workspace_id=ws,
        target=target,
        requested_at=requested_at / 1000,
        finished_at=tx.now / 1000,
        deleted=deleted,
        chain_seq=head.seq,
        chain_digest=head.digest,
        erasure_key=erasure_key,
    )
