"""Links that sign a browser in, once each: random codes, stored as hashes only."""

from __future__ import annotations

import base64
import hashlib
import os

from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load

_q = load(__file__)
CODE_BYTES = 32
LINK_SECONDS = 300.0
"""How long a link is good: as long as it takes to copy it to another window."""
MAX_LINKS = 20
"""Links of one key that are good; one more replaces the oldest."""
_AT_ONCE = 1_000


class SignInLink(Record, kw_only=True):
    """A link that was used: whose session it opens. `issuer`: what vouches for it."""

    workspace_id: str
    key_id: str
    issuer: str


def create(tx: Tx, workspace_id: str, key_id: str, issuer: str) -> tuple[str, int]:
    """Make a link; return its code, which is not stored, and when it ends (UTC epoch milliseconds)."""
    tx.run(_q.drop_ended, workspace_id=workspace_id, now=tx.now, limit=_AT_ONCE)
    tx.run(_q.drop_oldest, workspace_id=workspace_id, key_id=key_id, kept=MAX_LINKS - 1, limit=_AT_ONCE)
    code = base64.urlsafe_b64encode(os.urandom(CODE_BYTES)).rstrip(b"=").decode()
    expires_at = tx.now + int(LINK_SECONDS * 1000)
    tx.run(
        _q.insert,
        workspace_id=workspace_id,
        token_hash=_hash(code),
        key_id=key_id,
        issuer=issuer,
        expires_at=expires_at,
    )
    return code, expires_at


def use(tx: Tx, code: str) -> SignInLink | None:
    """Use a link up; return None if there is none that is good."""
    row = tx.one(_q.by_hash, token_hash=_hash(code), now=tx.now)
    if row is None or tx.run(_q.drop, workspace_id=row["workspace_id"], token_hash=_hash(code)) != 1:
        return None
    return from_row(row, SignInLink)


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
