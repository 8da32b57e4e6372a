"""State and storage, on every database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.domain.keys import state_value_of
from hostler.domain.scopes import StateArea
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import key_ranges as keyspace
from hostler.storage.stores import plugin_storage as storage
from hostler.storage.stores import state_values as states
from hostler.storage.stores.key_ranges import Full, Keys
from hostler.storage.stores.state_values import StateValue, VersionConflict
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.limits import MAX_STORAGE_VALUE_BYTES
from support.databases import read, write

AREA = StateArea("actor", "k" * 64, "a1", actor_type="user", actor_id="u1")
OTHER = StateArea("conversation", "c" * 64, "a1", conversation_id="c1")


def put(tx: Tx, key: str, value: Any, if_version: int | None = None) -> Any:
    return states.set(tx, "w", AREA, key, state_value_of(value), if_version=if_version)


def get(tx: Tx, key: str) -> StateValue:
    return states.get(tx, "w", AREA.scope_key, key)


def test_versions_count_and_guard_a_compare_and_set(database: SqlDatabase) -> None:
    def story(tx: Tx) -> None:
        assert get(tx, "n") == StateValue(None, 0)
        assert put(tx, "n", 1, if_version=7) == VersionConflict(0)
        assert put(tx, "n", 1, if_version=0) == 1
        assert put(tx, "n", 2, if_version=0) == VersionConflict(1)
        assert put(tx, "n", None, if_version=1) == 2
        assert get(tx, "n") == StateValue(None, 2), "null is a value"
        assert put(tx, "n", 3) == 3
        assert put(tx, "n", 4, if_version=2) == VersionConflict(3)
        assert get(tx, "n") == StateValue(3, 3)

    write(database, story)


def test_a_version_from_before_a_deletion_never_fits_again(database: SqlDatabase) -> None:
    def story(tx: Tx) -> None:
        stale = put(tx, "k", "old")
        assert states.delete(tx, "w", AREA.scope_key, "k") is True
        assert states.delete(tx, "w", AREA.scope_key, "k") is False
        assert get(tx, "k") == StateValue(None, 0)
        assert put(tx, "k", "lost", if_version=stale) == VersionConflict(0)
        assert put(tx, "k", "new", if_version=0) > stale
        assert put(tx, "k", "lost", if_version=stale) == VersionConflict(get(tx, "k").version)
        assert get(tx, "k").value == "new"

    write(database, story)


async def test_of_many_compare_and_sets_at_once_one_wins_each_round(database: SqlDatabase) -> None:
    async def attempt() -> Any:
        seen = await database.read(lambda tx: get(tx, "n"))
        value = (seen.value or 0) + 1
        return await database.write(lambda tx: put(tx, "n", value, if_version=seen.version))

    async def increment() -> None:
        while isinstance(await attempt(), VersionConflict):
            pass

    await asyncio.gather(*(increment() for _ in range(20)))
    final = await database.read(lambda tx: get(tx, "n"))
    assert (final.value, final.version) == (20, 20)


def test_a_deleted_key_is_in_no_list_and_no_snapshot(database: SqlDatabase) -> None:
    def story(tx: Tx) -> None:
        put(tx, "gone", 1)
        put(tx, "here", 2)
        states.delete(tx, "w", AREA.scope_key, "gone")
        assert list(states.list(tx, "w", AREA.scope_key).items) == ["here"]
        assert states.snapshot(tx, "w", {"actor": AREA.scope_key}).values == {"actor": {"here": 2}}

    write(database, story)


@pytest.mark.parametrize("prefix", ["conversation_id", "conversation", "c", "external.", ""])
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_the_list_knows_a_key_by_its_alias_too(database: SqlDatabase, prefix: str, limit: int) -> None:
    def story(tx: Tx) -> None:
        names = ["conversation_id", "conversation_ids", "conversation.x", "z"]
        for name in names:
            states.set(tx, "w", OTHER, name, state_value_of(1))
        found: list[str] = []
        more = True
        while more:
            after = found[-1] if found else ""
            page = states.list(tx, "w", OTHER.scope_key, prefix=prefix, after=after, limit=limit)
            assert len(page.items) <= limit
            found += page.items
            more = page.has_more
        plain = [name for name in names if name != "conversation_id" and name.startswith(prefix)]
        assert found == sorted([*plain, "external.conversation_id"])
        assert states.delete(tx, "w", OTHER.scope_key, "conversation_id")
        left = states.list(tx, "w", OTHER.scope_key, prefix=prefix).items
        assert left == sorted(plain)
        assert states.list(tx, "w", OTHER.scope_key, prefix="conversation_idx").items == []

    write(database, story)


def test_conversation_id_is_the_external_conversation_id(database: SqlDatabase) -> None:
    where = {"conversation": OTHER.scope_key}

    def story(tx: Tx) -> None:
        before = states.snapshot(tx, "w", where, conversation_id="c1").values["conversation"]
        assert before == {"external.conversation_id": "c1"}
        states.set(tx, "w", OTHER, "conversation_id", state_value_of("theirs"))
        assert states.get(tx, "w", OTHER.scope_key, "external.conversation_id").value == "theirs"
        assert states.get(tx, "w", OTHER.scope_key, "conversation_id").value == "theirs"
        after = states.snapshot(tx, "w", where, conversation_id="c1").values["conversation"]
        assert after == {"external.conversation_id": "theirs"}
        assert states.delete(tx, "w", OTHER.scope_key, "conversation_id")

    write(database, story)


@pytest.mark.parametrize("key", ["", "a" * 256, "a\x00b", "half \ud800"])
def test_what_is_no_key_is_refused(database: SqlDatabase, key: str) -> None:
    with pytest.raises(InvalidArgumentError, match="key"):
        write(database, lambda tx: put(tx, key, 1))
    with pytest.raises(InvalidArgumentError, match="key"):
        write(database, lambda tx: storage.set(tx, "w", "acme/echo", key, b""))


KEYS = st.text(
    st.sampled_from(["a", "b", "%", "_", "*", "\\", "\x01", "\x7f", "é", "\ud7ff", "\ue000", "\U0010ffff"]),
    min_size=1,
    max_size=4,
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.sets(KEYS, min_size=1, max_size=30), KEYS | st.just(""), st.integers(1, 5))
def test_pages_give_every_key_with_the_literal_prefix_once_in_order(
    database: SqlDatabase, keys: set[str], prefix: str, limit: int
) -> None:
    """`%`, `_` and the like are text; the oracle is Python's `startswith` and `sorted`."""

    def story(tx: Tx) -> None:
        for key in keys:
            put(tx, key, 1)
            storage.set(tx, "w", "acme/echo", key, b"1")
        pages: list[Callable[[str], Keys]] = [
            lambda after: states.list(tx, "w", AREA.scope_key, prefix=prefix, after=after, limit=limit),
            lambda after: storage.keys(tx, "w", "acme/echo", prefix=prefix, after=after, limit=limit),
        ]
        for page in pages:
            found: list[str] = []
            more = True
            while more:
                got = page(found[-1] if found else "")
                assert len(got.items) <= limit
                found += got.items
                more = got.has_more
            assert found == sorted(key for key in keys if key.startswith(prefix))
        for key in keys:
            states.delete(tx, "w", AREA.scope_key, key)
            storage.delete(tx, "w", "acme/echo", key)

    write(database, story)


def test_a_page_has_at_most_100_keys_and_at_least_one(database: SqlDatabase) -> None:
    write(database, lambda tx: [put(tx, f"k{n:03}", n) for n in range(120)])
    page = read(database, lambda tx: states.list(tx, "w", AREA.scope_key, limit=1000))
    assert (len(page.items), page.has_more) == (100, True)
    with pytest.raises(InvalidArgumentError, match="limit is 0"):
        read(database, lambda tx: states.list(tx, "w", AREA.scope_key, limit=0))


def test_a_scope_holds_a_bounded_number_of_keys(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (states, storage):
        monkeypatch.setattr(module, "MAX_KEYS", 5)

    def story(tx: Tx) -> None:
        for n in range(5):
            assert put(tx, f"k{n}", n) == 1
            assert storage.set(tx, "w", "acme/echo", f"k{n}", b"v") is None
        assert isinstance(put(tx, "one more", 1), Full)
        assert get(tx, "one more") == StateValue(None, 0)
        assert put(tx, "k0", "again") == 2
        assert isinstance(storage.set(tx, "w", "acme/echo", "one more", b"v"), Full)
        assert storage.get(tx, "w", "acme/echo", "one more") is None
        assert storage.set(tx, "w", "acme/echo", "k0", b"again") is None

    write(database, story)


def test_a_snapshot_is_bounded_and_says_what_it_left_out(database: SqlDatabase) -> None:
    def story(tx: Tx) -> states.Snapshot:
        for n in range(100):
            put(tx, f"k{n:03}", "x" * 100)
        states.set(tx, "w", OTHER, "small", state_value_of(1))
        where = {"conversation": OTHER.scope_key, "actor": AREA.scope_key}
        return states.snapshot(tx, "w", where, max_bytes=5_000)

    snapshot = write(database, story)
    assert snapshot.values["conversation"] == {"small": 1}
    assert 0 < len(snapshot.values["actor"]) < 50
    assert snapshot.omitted == {"actor"}


def test_state_of_another_workspace_is_not_there(database: SqlDatabase) -> None:
    def story(tx: Tx) -> None:
        put(tx, "k", "mine")
        assert states.get(tx, "w2", AREA.scope_key, "k") == StateValue(None, 0)
        assert states.delete(tx, "w2", AREA.scope_key, "k") is False
        assert list(states.list(tx, "w2", AREA.scope_key).items) == []
        assert get(tx, "k").value == "mine"

    write(database, story)


def test_storage_keeps_bytes_by_workspace_owner_and_key(database: SqlDatabase) -> None:
    def story(tx: Tx) -> None:
        blob = bytes(range(256))
        owners = [("w", "acme/echo"), ("w", "acme/echo2"), ("w", storage.WORKSPACE), ("w2", "acme/echo")]
        for n, (ws, owner) in enumerate(owners):
            assert storage.get(tx, ws, owner, "k") is None
            storage.set(tx, ws, owner, "k", blob + bytes([n]))
        for n, (ws, owner) in enumerate(owners):
            assert storage.get(tx, ws, owner, "k") == blob + bytes([n])
        assert storage.delete(tx, "w", "acme/echo", "k") is True
        assert storage.delete(tx, "w", "acme/echo", "k") is False
        assert [storage.get(tx, ws, owner, "k") is None for ws, owner in owners] == [
            True,
            False,
            False,
            False,
        ]

    write(database, story)


def test_a_storage_value_has_at_most_4_mib(database: SqlDatabase) -> None:
    whole = bytes(MAX_STORAGE_VALUE_BYTES)
    write(database, lambda tx: storage.set(tx, "w", "o", "k", whole))
    assert read(database, lambda tx: storage.get(tx, "w", "o", "k")) == whole
    with pytest.raises(PayloadTooLargeError, match="4,194,304"):
        write(database, lambda tx: storage.set(tx, "w", "o", "k", whole + b"x"))


def test_every_alphabet_of_keys_fits_below_the_upper_bound() -> None:
    highest = "\U0010ffff" * 255
    assert keyspace.key_range("", "").high > highest
    assert keyspace.key_range("\U0010ffff", "").high > highest
