"""The store of secrets on both databases: versions, bounds, owners, and keys that are wrapped anew."""

from __future__ import annotations

import pytest

from hostler.domain import stored_secrets
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import secrets
from hostler.storage.stores.secrets import SealedSecret
from hostler_protocol.errors import InvalidArgumentError

pytestmark = pytest.mark.gate("stored-secrets")

OLD, NEW = b"o" * 8, b"n" * 8


def sealed(name: str, key_id: bytes = OLD, workspace: str = "w", owner: str = "workspace") -> SealedSecret:
    return SealedSecret(workspace, owner, name, 0, b"\x01" + key_id + b"wrapped", b"sealed " + name.encode())  # type: ignore[arg-type]


async def test_a_secret_has_versions_and_is_one_of_its_owner(database: SqlDatabase) -> None:
    put = [
        await database.write(lambda tx, one=one: secrets.put(tx, one, "ada"))  # type: ignore[misc]
        for one in (sealed("a"), sealed("a"), sealed("a", owner="installation"), sealed("a", workspace="v"))
    ]
    assert put == [1, 2, 1, 1]
    facts = await database.read(lambda tx: secrets.find(tx, "w", "workspace", "a"))
    assert facts is not None
    assert (facts.version, facts.set_by, facts.used_at) == (2, "ada", None)
    await database.write(lambda tx: secrets.mark_used(tx, "w", "workspace", "a", "run 1"))
    others = [
        await database.read(lambda tx, ws=ws, owner=owner: secrets.find(tx, ws, owner, "a"))  # type: ignore[misc]
        for ws, owner in (("w", "workspace"), ("w", "installation"), ("v", "workspace"))
    ]
    assert [one and one.used_by for one in others] == ["run 1", None, None]
    assert await database.write(lambda tx: secrets.delete(tx, "w", "workspace", "a"))
    assert not await database.write(lambda tx: secrets.delete(tx, "w", "workspace", "a"))
    assert await database.read(lambda tx: secrets.sealed(tx, "w", "workspace", "a")) is None
    kept = await database.read(lambda tx: secrets.sealed(tx, "v", "workspace", "a"))
    assert kept is not None
    assert kept.value == b"sealed a"


async def test_there_are_at_most_so_many_of_one_owner(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "MAX_SECRETS", 3)
    assert stored_secrets.MAX_SECRETS == 1_000
    for name in "abc":
        await database.write(lambda tx, name=name: secrets.put(tx, sealed(name), "ada"))  # type: ignore[misc]
    with pytest.raises(InvalidArgumentError, match="the most that are possible"):
        await database.write(lambda tx: secrets.put(tx, sealed("d"), "ada"))
    await database.write(lambda tx: secrets.put(tx, sealed("a"), "ada"))
    await database.write(lambda tx: secrets.put(tx, sealed("d", owner="installation"), "ada"))
    page = await database.read(lambda tx: secrets.page(tx, "w", "workspace", after="a", limit=5))
    assert [one.name for one in page] == ["b", "c"]


async def test_keys_are_wrapped_anew_page_by_page_unless_the_secret_changed(database: SqlDatabase) -> None:
    made = [sealed(f"s{number}", workspace=ws) for ws in ("v", "w") for number in range(5)]
    made += [sealed("new", NEW), sealed("own", owner="installation")]
    for one in made:
        await database.write(lambda tx, one=one: secrets.put(tx, one, "ada"))  # type: ignore[misc]
    assert await database.read(secrets.key_uses) == {OLD.hex(): 11, NEW.hex(): 1}
    after, seen = ("", "", ""), []
    while page := await database.read(
        lambda tx, after=after: secrets.wrapped_by_others(tx, NEW, after=after, limit=4)  # type: ignore[misc]
    ):
        seen += [(one.workspace_id, one.owner, one.name) for one in page]
        after = seen[-1]
    assert seen == sorted((one.workspace_id, one.owner, one.name) for one in made if one.name != "new")
    (stale, *_) = await database.read(
        lambda tx: secrets.wrapped_by_others(tx, NEW, after=("", "", ""), limit=1)
    )
    again = b"\x01" + NEW + b"again"
    assert await database.write(lambda tx: secrets.rewrap(tx, stale, again))
    assert not await database.write(lambda tx: secrets.rewrap(tx, stale, again)), "it has changed since"
    found = await database.read(lambda tx: secrets.sealed(tx, stale.workspace_id, stale.owner, stale.name))
    assert found is not None
    assert (found.data_key, found.value, found.version) == (again, stale.value, stale.version)
    keys = await database.read(lambda tx: secrets.key_ids(tx, stale.workspace_id, stale.owner))
    assert keys[stale.name] == NEW.hex()
