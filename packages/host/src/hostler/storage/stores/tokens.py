"""Front-end tokens: random, stored as hashes only, valid for minutes.

A token also ends with the key that made it, and its rights never exceed those of that key: who looks a token
up looks at the key, too (http/auth.py). Ended ones stay for TOKENS_KEPT_MS.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import msgspec

from hostler.domain.api_keys import new_front_end_token
from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError
from hostler_protocol.ids import new_id
from hostler_protocol.limits import MAX_PAGE_ITEMS

_q = load(__file__)
MAX_TOKENS = 10_000
"""Valid tokens of one key: as many people at once as a host has connections."""
MAX_ORIGINS = 1_000
"""Origins that the valid tokens of a workspace name: a front end has a few, each customer's page one more."""
TOKENS_KEPT_MS = 3_600_000
"""How long tokens stay after their expiry, for whoever looks into what a page did."""
_SWEPT_AT_ONCE = 20
"""Ended tokens that go with each new one: more than come, so that they never add up."""
_AT_ONCE = 1_000
_lists = msgspec.json.Decoder(list[str])


class Token(Record, kw_only=True):
    """A front-end token. Times are UTC epoch milliseconds."""

    workspace_id: str
    token_id: str
    made_by: str
    """The id of the key that made it."""
    agent: str
    conversation_id: str
    subject: str | None
    """The person for whom its holder acts; None: whoever is in the conversation."""
    rights: frozenset[str]
    origins: tuple[str, ...]
    """Origins of the pages that may use it; none: any."""
    created_at: int
    expires_at: int
    revoked_at: int | None

    def is_valid(self, now: int) -> bool:
        """Whether it can be used, as far as it is up to itself."""
        return self.revoked_at is None and self.expires_at > now


def create(
    tx: Tx,
    workspace_id: str,
    *,
    made_by: str,
    agent: str,
    conversation_id: str,
    milliseconds: int,
    rights: Collection[str],
    subject: str | None = None,
    origins: Collection[str] = (),
    per_conversation: int | None = None,
) -> tuple[Token, str]:
    """Make a token; return it and its text, which is not stored and cannot be read again.

    `per_conversation`: how many of its maker are valid in the conversation afterwards; the oldest ones beyond
    end. Their maker then bounds how many conversations get tokens. RateLimitedError if without that its key
    has MAX_TOKENS that are valid; InvalidArgumentError if the tokens of the workspace name more than
    MAX_ORIGINS.
    """
    maker = {"workspace_id": workspace_id, "made_by": made_by}
    if per_conversation is None:
        _check_room(tx, maker)
    else:
        beyond = tx.all(
            _q.beyond_newest,
            **maker,
            conversation_id=conversation_id,
            now=tx.now,
            kept=per_conversation - 1,
            limit=_SWEPT_AT_ONCE,
        )
        for row in beyond:
            revoke(tx, workspace_id, row["token_id"])
    tx.run(_q.drop_ended_of, **maker, before=tx.now - TOKENS_KEPT_MS, limit=_SWEPT_AT_ONCE)
    text = new_front_end_token()
    token = Token(
        workspace_id=workspace_id,
        token_id=new_id(),
        made_by=made_by,
        agent=agent,
        conversation_id=conversation_id,
        subject=subject,
        rights=frozenset(rights),
        origins=tuple(sorted(set(origins))),
        created_at=tx.now,
        expires_at=tx.now + milliseconds,
        revoked_at=None,
    )
    tx.run(
        _q.insert,
        workspace_id=workspace_id,
        token_id=token.token_id,
        token_hash=_hash(text),
        made_by=made_by,
        agent=agent,
        conversation_id=conversation_id,
        subject=subject,
        rights=_list(token.rights),
        origins=_list(token.origins),
        now=tx.now,
        expires_at=token.expires_at,
    )
    if token.origins:
        _note_origins(tx, token)
    return token, text


def _check_room(tx: Tx, maker: dict[str, str]) -> None:
    full = tx.one(_q.nth_valid, **maker, now=tx.now, beyond=MAX_TOKENS - 1)
    if full is not None:
        wait = max(1.0, (full["expires_at"] - tx.now) / 1000)
        raise RateLimitedError(
            f"this key has {MAX_TOKENS:,} valid tokens: revoke some, give them fewer minutes, or wait",
            wait,
        )


def _note_origins(tx: Tx, token: Token) -> None:
    ws = token.workspace_id
    tx.run(_q.drop_origins, workspace_id=ws, now=tx.now, limit=_AT_ONCE)
    for origin in token.origins:
        tx.run(_q.put_origin, workspace_id=ws, origin=origin, expires_at=token.expires_at)
    row = tx.one(_q.origins, workspace_id=ws, now=tx.now)
    if row is not None and row["origins"] > MAX_ORIGINS:
        raise InvalidArgumentError(
            f"origins: the valid tokens of this workspace name {MAX_ORIGINS:,}; list origins that all tokens "
            "share in cors.origins of the configuration"
        )


def find_by_token(tx: Tx, text: str) -> Token | None:
    """Return the token with this text, valid or not, or None."""
    row = tx.one(_q.by_hash, token_hash=_hash(text))
    return None if row is None else _token(row)


def find(tx: Tx, workspace_id: str, token_id: str) -> Token | None:
    """Return the token with this id, valid or not, or None."""
    row = tx.one(_q.find, workspace_id=workspace_id, token_id=token_id)
    return None if row is None else _token(row)


def page(
    tx: Tx, workspace_id: str, *, made_by: str | None, after: str = "", limit: int = MAX_PAGE_ITEMS
) -> list[Token]:
    """Return valid tokens by id, after the id `after`; those of one key, or of all."""
    rows = tx.all(_q.page, workspace_id=workspace_id, made_by=made_by, after=after, now=tx.now, limit=limit)
    return [_token(row) for row in rows]


def revoke(tx: Tx, workspace_id: str, token_id: str) -> bool:
    """Revoke a token; return False if there is none or it has ended already."""
    return tx.run(_q.revoke, workspace_id=workspace_id, token_id=token_id, now=tx.now) == 1


def drop_ended(tx: Tx, workspace_id: str, limit: int = _AT_ONCE) -> int:
    """Delete tokens that expired long ago, and origins that none names any more; return how many tokens."""
    tx.run(_q.drop_origins, workspace_id=workspace_id, now=tx.now, limit=limit)
    return tx.run(_q.drop_ended, workspace_id=workspace_id, before=tx.now - TOKENS_KEPT_MS, limit=limit)


def drop_conversation(tx: Tx, workspace_id: str, conversation_id: str) -> int:
    """Delete tokens of a conversation, a bounded number; return how many."""
    rows = tx.all(
        _q.of_conversation, workspace_id=workspace_id, conversation_id=conversation_id, limit=_AT_ONCE
    )
    for row in rows:
        tx.run(_q.drop, workspace_id=workspace_id, token_id=row["token_id"])
    return len(rows)


def knows_origin(tx: Tx, origin: str) -> bool:
    """Whether a token that has not expired names this origin, of any workspace."""
    return tx.one(_q.knows_origin, origin=origin, now=tx.now) is not None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _list(names: Collection[str]) -> str:
    return msgspec.json.encode(sorted(names)).decode()


def _token(row: Row) -> Token:
    return from_row(
        row,
        Token,
        rights=frozenset(_lists.decode(row["rights"])),
        origins=tuple(_lists.decode(row["origins"])),
    )
