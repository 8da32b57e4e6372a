"""Front-end tokens, on every database: how many, how long, and what is left of them."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.http.auth import KeyHolder, find_key
from hostler.http.open_keys import find_ended
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import parse
from hostler.storage.stores import api_keys, tokens
from hostler.storage.stores.erasure import until_nothing
from hostler.storage.stores.tokens import Token
from hostler_protocol.errors import InvalidArgumentError, RateLimitedError
from support.databases import read, write

pytestmark = pytest.mark.gate("front-end-tokens")

MANY = parse(
    """
-- name: fill
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows)
INSERT INTO tokens (workspace_id, token_id, token_hash, made_by, agent, conversation_id, rights, origins,
                    created_at, expires_at)
SELECT 'w', :name || CAST(i AS text), :name || CAST(i AS text), :made_by, 'a', 'c' || CAST(i AS text),
       '["runs:read"]', '[]', 0, :expires_at
FROM n
-- name: count
SELECT count(*) AS rows FROM tokens
-- name: age
UPDATE tokens SET expires_at = :expires_at WHERE workspace_id = 'w'
""",
    "many tokens",
)


def make(database: SqlDatabase, made_by: str = "k", **fields: Any) -> tuple[Token, str]:
    wanted: dict[str, Any] = {
        "agent": "a",
        "conversation_id": "c",
        "milliseconds": 60_000,
        "rights": ["runs:read"],
        **fields,
    }
    return write(database, lambda tx: tokens.create(tx, "w", made_by=made_by, **wanted))


def count(tx: Tx) -> int:
    row = tx.one(MANY.count)
    assert row is not None
    return int(row["rows"])


def test_a_key_has_so_many_valid_tokens_and_no_more(database: SqlDatabase) -> None:
    def fill(tx: Tx) -> None:
        tx.run(MANY.fill, rows=tokens.MAX_TOKENS - 1, name="t", made_by="k", expires_at=tx.now + 3_600_000)

    write(database, fill)
    first, _ = make(database)
    with pytest.raises(RateLimitedError, match="10,000 valid tokens") as refused:
        make(database)
    assert 0 < refused.value.retry_after <= 60
    make(database, "another key")
    assert write(database, lambda tx: tokens.revoke(tx, "w", first.token_id))
    make(database)
    with pytest.raises(RateLimitedError):
        make(database)
    write(database, lambda tx: tx.run(MANY.age, expires_at=tx.now - 1))
    make(database)


async def test_a_hundred_thousand_that_have_ended_are_swept(database: SqlDatabase) -> None:
    def fill(tx: Tx) -> None:
        ended = tx.now - tokens.TOKENS_KEPT_MS - 1
        tx.run(MANY.fill, rows=100_000, name="t", made_by="k", expires_at=ended)
        tx.run(MANY.fill, rows=5, name="kept", made_by="k", expires_at=tx.now - 1)

    await database.write(fill)
    valid, _ = await database.write(
        lambda tx: tokens.create(
            tx, "w", made_by="k", agent="a", conversation_id="c", milliseconds=60_000, rights=["runs:read"]
        )
    )
    assert await database.read(count) < 100_006  # each new one takes some that have ended with it
    await until_nothing(database, lambda tx: tokens.drop_ended(tx, "w"))
    assert await database.read(count) == 6
    assert (await database.read(lambda tx: tokens.page(tx, "w", made_by="k"))) == [valid]


def test_tokens_of_a_workspace_name_so_many_origins_and_no_more(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MAX_ORIGINS", 3)
    make(database, origins=["https://a.example", "https://b.example"])
    make(database, origins=["https://b.example"], milliseconds=1)  # it does not shorten the first
    make(database, origins=["https://c.example"])
    with pytest.raises(InvalidArgumentError, match=r"cors\.origins"):
        make(database, origins=["https://d.example"])
    assert not read(database, lambda tx: tokens.knows_origin(tx, "https://d.example"))
    assert read(database, lambda tx: tokens.knows_origin(tx, "https://b.example"))


async def test_every_host_of_a_database_knows_a_token_until_it_or_its_key_ends(database: SqlDatabase) -> None:
    def make_both(tx: Tx) -> tuple[str, str, str]:
        key, _ = api_keys.create(tx, "w", name="server", subject="server", rights=["runs:read"])
        token, text = tokens.create(
            tx,
            "w",
            made_by=key.key_id,
            agent="a",
            conversation_id="c",
            milliseconds=60_000,
            rights=["runs:read", "events:write"],
        )
        return key.key_id, token.token_id, text

    key_id, token_id, text = await database.write(make_both)

    async def holders() -> list[KeyHolder | None]:
        return [await find_key(database)(text) for _ in range(2)]

    ended = find_ended(database, lambda issuer: True, lambda subject, at: 0)
    callers = [holder.caller for holder in await holders() if holder is not None]
    assert len(callers) == 2
    for caller in callers:
        assert (caller.workspace_id, caller.subject) == ("w", "front-end:c")
        assert caller.rights == {"runs:read"}  # what its key does not have, it does not have either
        assert await ended([caller]) == set()
    assert await database.write(lambda tx: api_keys.revoke(tx, "w", key_id))
    assert await holders() == [None, None]
    assert await ended(callers) == {token_id}


def test_a_deleted_conversation_has_no_tokens(database: SqlDatabase) -> None:
    kept, _ = make(database, conversation_id="d")
    make(database)
    assert write(database, lambda tx: tokens.drop_conversation(tx, "w", "c")) == 1
    assert write(database, lambda tx: tokens.drop_conversation(tx, "another", "d")) == 0
    assert read(database, lambda tx: tokens.page(tx, "w", made_by=None)) == [kept]
