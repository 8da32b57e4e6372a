"""Sessions of browsers: random tokens, stored as hashes only; and sign-ins that are spent.

A session is that of a member, who signed in with an identity provider, or that of a key.
"""

from __future__ import annotations

import base64
import hashlib
import os

from msgspec.structs import replace

from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load

_q = load(__file__)
TOKEN_BYTES = 32
"""256 bits cannot be guessed, so the stored hash needs no salt."""
MAX_SESSIONS = 20
"""Valid sessions of one member; one more ends the oldest."""
MAX_AGENT_CHARS = 200
SEEN_EVERY_MS = 60_000
"""How often the use of a session is noted at most: each is a write."""
SESSIONS_KEPT_MS = 30 * 86_400_000
"""How long sessions that have ended stay in lists."""
SPENT_MS = 3_600_000
"""How long a finished sign-in is remembered: longer than one may take."""
_AT_ONCE = 1_000


class Session(Record, kw_only=True):
    """A session. Times are UTC epoch milliseconds; it also ends `idle_ms` after `seen_at`.

    One of a key has an empty `member_id`, and the `origin` of the page that it was opened at, the only one
    that may write with it.
    """

    workspace_id: str
    session_id: str
    member_id: str
    provider: str
    issuer: str
    agent: str
    created_at: int
    seen_at: int
    idle_ms: int
    expires_at: int
    revoked_at: int | None
    key_id: str | None = None
    origin: str | None = None

    def ends_at(self) -> int:
        """Return when it ends if it is not used any more."""
        return min(self.expires_at, self.seen_at + self.idle_ms)

    def holder(self) -> dict[str, str]:
        """Return whose it is, as the audit log says it."""
        return {"member_id": self.member_id} if self.key_id is None else {"key_id": self.key_id}

    def is_valid(self, now: int) -> bool:
        """Whether it can be used."""
        return self.revoked_at is None and self.ends_at() > now


def create(
    tx: Tx,
    workspace_id: str,
    member_id: str,
    session_id: str,
    *,
    provider: str,
    issuer: str,
    agent: str,
    seconds: float,
    idle_seconds: float,
    key_id: str | None = None,
    origin: str | None = None,
) -> tuple[Session, str, list[str]]:
    """Create a session. Return it, its token, which is not stored, and the ids of those that it ended."""
    standing = _valid_of(tx, workspace_id, member_id, key_id)
    ended = [one.session_id for one in standing[: max(0, len(standing) - MAX_SESSIONS + 1)]]
    for old in ended:
        revoke(tx, workspace_id, old)
    token = base64.urlsafe_b64encode(os.urandom(TOKEN_BYTES)).rstrip(b"=").decode()
    tx.run(
        _q.insert,
        workspace_id=workspace_id,
        session_id=session_id,
        member_id=member_id,
        token_hash=_hash(token),
        provider=provider,
        issuer=issuer,
        agent=agent[:MAX_AGENT_CHARS],
        now=tx.now,
        idle_ms=int(idle_seconds * 1000),
        expires_at=tx.now + int(seconds * 1000),
        key_id=key_id,
        origin=origin,
    )
    made = find(tx, workspace_id, session_id)
    if made is None:
        raise RuntimeError("a session was added and is not there")
    return made, token, ended


def find_by_token(tx: Tx, token: str) -> Session | None:
    """Return the session of `token`, valid or not, or None."""
    row = tx.one(_q.by_hash, token_hash=_hash(token))
    return None if row is None else _session(row)


def find(tx: Tx, workspace_id: str, session_id: str) -> Session | None:
    """Return the session with this id, valid or not, or None."""
    row = tx.one(_q.find, workspace_id=workspace_id, session_id=session_id)
    return None if row is None else _session(row)


def of_member(tx: Tx, workspace_id: str, member_id: str) -> list[Session]:
    """Return a member's valid sessions, newest first."""
    return _valid_of(tx, workspace_id, member_id, None)[::-1]


def beside(tx: Tx, session: Session) -> list[Session]:
    """Return the valid sessions of the same member or key, newest first."""
    return _valid_of(tx, session.workspace_id, session.member_id, session.key_id)[::-1]


def seen(tx: Tx, session: Session) -> Session:
    """Note that a session is used, and return it as it is now."""
    tx.run(_q.seen, workspace_id=session.workspace_id, session_id=session.session_id, now=tx.now)
    return replace(session, seen_at=tx.now)


def revoke(tx: Tx, workspace_id: str, session_id: str) -> bool:
    """End a session; return False if there is none or it was revoked already."""
    return tx.run(_q.revoke, workspace_id=workspace_id, session_id=session_id, now=tx.now) == 1


def revoke_all(tx: Tx, workspace_id: str, member_id: str) -> list[str]:
    """End all sessions of a member; return their ids."""
    rows = tx.all(_q.unrevoked_of_member, workspace_id=workspace_id, member_id=member_id, limit=_AT_ONCE)
    for row in rows:
        revoke(tx, workspace_id, str(row["session_id"]))
    return [str(row["session_id"]) for row in rows]


def drop_ended(tx: Tx, workspace_id: str, limit: int = _AT_ONCE) -> int:
    """Delete sessions that ended long ago."""
    before = tx.now - SESSIONS_KEPT_MS
    return tx.run(_q.drop_ended, workspace_id=workspace_id, before=before, limit=limit)


def spend(tx: Tx, state: str) -> bool:
    """Use up a sign-in; return False if it was used before."""
    tx.run(_q.drop_spent, now=tx.now)
    return tx.run(_q.spend, state_hash=_hash(state), expires_at=tx.now + SPENT_MS) == 1


def _valid_of(tx: Tx, workspace_id: str, member_id: str, key_id: str | None) -> list[Session]:
    if key_id is None:
        rows = tx.all(
            _q.valid_of_member, workspace_id=workspace_id, member_id=member_id, now=tx.now, limit=_AT_ONCE
        )
    else:
        rows = tx.all(_q.valid_of_key, workspace_id=workspace_id, key_id=key_id, now=tx.now, limit=_AT_ONCE)
    return [_session(row) for row in rows]


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _session(row: Row) -> Session:
    return from_row(row, Session)
