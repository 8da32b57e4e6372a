"""Agents, settings, keys and idempotency on both databases."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from hostler.domain.agents import AgentSpec, Concurrency
from hostler.storage.port import Query, Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.sql.statements import query_of
from hostler.storage.stores import agents, idempotency, installation, settings
from hostler.storage.stores import api_keys as keys
from hostler.storage.stores.idempotency import Different, InProgress, New, Replay
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from support.databases import read, write

RUNNER = "plugin:acme/echo/default"
AGE = Query("t.age", *["UPDATE idempotency SET created_at = 0"] * 2)
SPECS = Query("t.specs", *["SELECT spec FROM agent_versions"] * 2)
AGED = query_of("t.aged", *["UPDATE agent_versions SET spec = :spec, spec_digest = 'old'"] * 2)
EVERYTHING = Query("t.keys", *["SELECT * FROM api_keys"] * 2)


def spec(name: str = "echo", **fields: object) -> AgentSpec:
    return AgentSpec(name=name, runner=RUNNER, **fields)  # type: ignore[arg-type]


def test_an_unchanged_agent_keeps_its_id_and_version(database: SqlDatabase) -> None:
    first = write(database, lambda tx: agents.apply(tx, "w1", spec(config={"b": 1, "a": [1.5, None]})))
    again = write(database, lambda tx: agents.apply(tx, "w1", spec(config={"a": [1.5, None], "b": 1})))
    assert again == first
    assert (first.version, first.name) == (1, "echo")


def test_an_agent_of_an_older_build_is_unchanged_although_there_are_more_settings_now(
    database: SqlDatabase,
) -> None:
    def as_before(tx: Tx) -> None:
        stored = msgspec.json.decode(tx.all(SPECS)[0]["spec"])
        for setting in ("allow_questions", "idle_timeout"):
            del stored[setting]
        tx.run(AGED, spec=msgspec.json.encode(stored).decode())

    first = write(database, lambda tx: agents.apply(tx, "w1", spec(config={"a": 1})))
    write(database, as_before)
    assert write(database, lambda tx: agents.apply(tx, "w1", spec(config={"a": 1}))) == first
    assert write(database, lambda tx: agents.apply(tx, "w1", spec(config={"a": True}))).version == 2


def test_every_change_makes_a_version_and_all_are_kept(database: SqlDatabase) -> None:
    specs = [spec(), spec(priority=1), spec(concurrency=Concurrency(on_busy="reject")), spec()]
    made = [write(database, lambda tx, s=s: agents.apply(tx, "w1", s)) for s in specs]  # type: ignore[misc]
    assert [agent.version for agent in made] == [1, 2, 3, 4]
    assert len({agent.agent_id for agent in made}) == 1
    agent_id = made[0].agent_id
    for agent in made:
        assert read(database, lambda tx, v=agent.version: agents.version(tx, "w1", agent_id, v)) == agent  # type: ignore[misc]
    assert read(database, lambda tx: agents.get(tx, "w1", "echo")) == made[-1]
    assert read(database, lambda tx: agents.by_id(tx, "w1", agent_id)) == made[-1]
    assert read(database, lambda tx: agents.versions(tx, "w1", agent_id, before=4, limit=2)) == made[2:0:-1]


def test_disabling_is_a_version_and_the_agent_is_still_listed(database: SqlDatabase) -> None:
    write(database, lambda tx: agents.apply(tx, "w1", spec()))
    off = write(database, lambda tx: agents.apply(tx, "w1", spec(enabled=False)))
    assert (off.version, off.spec.enabled) == (2, False)
    assert write(database, lambda tx: agents.apply(tx, "w1", spec(enabled=False))) == off
    assert read(database, lambda tx: agents.active(tx, "w1")) == [off]
    assert read(database, lambda tx: agents.names(tx, "w1")) == [off.name]
    assert read(database, lambda tx: agents.names(tx, "w2")) == []
    assert write(database, lambda tx: agents.apply(tx, "w1", spec())).version == 3


def test_a_deleted_name_used_again_is_another_agent(database: SqlDatabase) -> None:
    old = write(database, lambda tx: agents.apply(tx, "w1", spec()))
    assert write(database, lambda tx: agents.delete(tx, "w1", "echo"))
    assert not write(database, lambda tx: agents.delete(tx, "w1", "echo"))
    assert read(database, lambda tx: agents.active(tx, "w1")) == []
    assert read(database, lambda tx: agents.names(tx, "w1")) == []
    assert read(database, lambda tx: agents.find(tx, "w1", "echo")) is None
    assert read(database, lambda tx: agents.by_id(tx, "w1", old.agent_id)) is None
    assert read(database, lambda tx: agents.version(tx, "w1", old.agent_id, 1)) == old
    new = write(database, lambda tx: agents.apply(tx, "w1", spec()))
    assert new.agent_id != old.agent_id, "it must not inherit what the old one remembered"
    assert new.version == 1


async def test_names_are_unique_per_workspace_however_many_apply_at_once(database: SqlDatabase) -> None:
    async def one(number: int) -> None:
        await database.write(lambda tx: agents.apply(tx, f"w{number % 2}", spec(priority=number)))

    await asyncio.gather(*(one(number) for number in range(20)))
    for workspace in ("w0", "w1"):
        found = await database.read(lambda tx, w=workspace: agents.active(tx, w))  # type: ignore[misc]
        assert [agent.version for agent in found] == [10]
    assert await database.read(lambda tx: agents.active(tx, "w2")) == []


def test_pages_of_agents_go_by_name(database: SqlDatabase) -> None:
    for name in ("b", "a", "C", "é"):
        write(database, lambda tx, n=name: agents.apply(tx, "w1", spec(n)))  # type: ignore[misc]
    assert [agent.name for agent in read(database, lambda tx: agents.page(tx, "w1"))] == ["C", "a", "b", "é"]
    following = read(database, lambda tx: agents.page(tx, "w1", after="a", limit=1))
    assert [agent.name for agent in following] == ["b"]


def test_settings_are_told_apart_by_workspace_kind_and_name(database: SqlDatabase) -> None:
    assert write(database, lambda tx: settings.put(tx, "w1", "model", "main", {"x": 1}))
    assert not write(database, lambda tx: settings.put(tx, "w1", "model", "main", {"x": 1}))
    assert write(database, lambda tx: settings.put(tx, "w1", "model", "main", {"x": 2}))
    assert write(database, lambda tx: settings.put(tx, "w1", "tool", "main", {}))
    assert read(database, lambda tx: settings.get(tx, "w1", "model", "main")).spec == {"x": 2}
    assert read(database, lambda tx: settings.find(tx, "w2", "model", "main")) is None
    names = [one.name for one in read(database, lambda tx: settings.page(tx, "w1", "tool"))]
    assert names == ["main"]
    assert write(database, lambda tx: settings.delete(tx, "w1", "model", "main"))
    assert not write(database, lambda tx: settings.delete(tx, "w1", "model", "main"))
    with pytest.raises(NotFoundError, match="model named 'main'"):
        read(database, lambda tx: settings.get(tx, "w1", "model", "main"))


def test_a_key_of_the_installation_is_made_once(database: SqlDatabase) -> None:
    first = write(database, lambda tx: installation.key(tx, "cursors"))
    assert len(first) == 32
    assert write(database, lambda tx: installation.key(tx, "cursors")) == first
    assert write(database, lambda tx: installation.key(tx, "other")) != first


def test_an_api_key_opens_until_it_is_revoked_or_expired(database: SqlDatabase) -> None:
    now = write(database, lambda tx: tx.now)
    key, token = write(
        database,
        lambda tx: keys.create(
            tx, "w1", name="ci", subject="ada", roles=["admin"], rights=["events:write"], plugin="acme/echo"
        ),
    )
    _, brief = write(
        database,
        lambda tx: keys.create(tx, "w1", name="brief", subject="bob", expires_at=tx.now + 3_600_000),
    )
    assert read(database, lambda tx: keys.find_by_token(tx, token)) == key
    assert key.roles == frozenset({"admin"})
    for wrong in (token[:-1], token + "x", "", "hostler_\udcff", key.key_id):
        assert read(database, lambda tx, w=wrong: keys.find_by_token(tx, w)) is None  # type: ignore[misc]
    assert token not in str(read(database, lambda tx: tx.all(EVERYTHING)))
    assert not write(database, lambda tx: keys.revoke(tx, "w2", key.key_id))
    assert write(database, lambda tx: keys.revoke(tx, "w1", key.key_id))
    assert read(database, lambda tx: keys.find_by_token(tx, token)) is None
    assert read(database, lambda tx: keys.find_by_token(tx, brief)) is not None
    over = Query("t.over", *[f"UPDATE api_keys SET expires_at = {now - 1} WHERE name = 'brief'"] * 2)
    write(database, lambda tx: tx.run(over))
    assert read(database, lambda tx: keys.find_by_token(tx, brief)) is None
    assert len(read(database, lambda tx: keys.page(tx, "w1"))) == 2
    with pytest.raises(InvalidArgumentError, match="past"):
        write(database, lambda tx: keys.create(tx, "w1", name="x", subject="x", expires_at=1))


def test_a_request_is_done_once_per_idempotency_key(database: SqlDatabase) -> None:
    def begin(body: str = "b", caller: str = "ada", workspace: str = "w1") -> object:
        return write(database, lambda tx: idempotency.begin(tx, workspace, caller, "k1", body))

    assert begin() == New()
    assert begin() == InProgress()
    assert begin("other") == Different()
    assert begin(caller="bob") == New()
    assert begin(workspace="w2") == New()
    write(database, lambda tx: idempotency.finish(tx, "w1", "ada", "k1", status=202, answer='{"a":1}'))
    assert begin() == Replay(202, '{"a":1}')
    assert begin("other") == Different()
    write(database, lambda tx: idempotency.finish(tx, "w1", "ada", "k1", status=500, answer="late"))
    assert begin() == Replay(202, '{"a":1}')
    write(database, lambda tx: idempotency.forget(tx, "w1", "bob", "k1"))
    assert begin(caller="bob") == New()


def test_a_request_whose_host_died_can_be_made_again(database: SqlDatabase) -> None:
    def begin() -> object:
        return write(database, lambda tx: idempotency.begin(tx, "w1", "ada", "k1", "b"))

    assert begin() == New()
    write(database, lambda tx: tx.run(AGE))
    assert begin() == New()
    assert begin() == InProgress()
