"""Secrets that are written out in models and agents: sealed before they are stored, or in the background."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import Agent, AgentSpec
from hostler.domain.config_checks import config_mistakes
from hostler.domain.model_entries import ModelEntry
from hostler.domain.secret_refs import SEALED, is_sealed
from hostler.domain.written_secrets import complete_agent, complete_model, without_secrets
from hostler.host.entry_sealing import PAGE, EntrySealing
from hostler.host.stored_config import plain
from hostler.secrets.key_ring import KeyRing, KeyRingError, LiveKeyRing, Locked, new_key
from hostler.secrets.resolver import SecretUnreadableError
from hostler.storage.port import Query
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import agents, settings, written_keys
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.manifest import FormItem
from support.every_row import everything

pytestmark = pytest.mark.gate("sealed-entries")
WS, OTHER = "default", "other"
RUNNER, UNSEEN = "plugin:test/keeper/default", "plugin:test/unseen/default"
ONE, TWO = new_key(), new_key()
SECRET = "canary-of-what-is-written-out"


class Bench:
    """The sealing of one host; `forms` are those of the runners that it has seen."""

    def __init__(self, db: SqlDatabase, *keys: bytes) -> None:
        self.db, self.ring = db, LiveKeyRing()
        self.forms: dict[str, Mapping[str, str]] = {RUNNER: {"key": "secret", "address": "string"}}
        self.truncations: list[bool] = []
        self.sealing = EntrySealing(db, WS, self.ring, self.forms.get, self._truncate)
        self.use(*keys)

    def use(self, *keys: bytes) -> None:
        self.ring.replace(KeyRing(keys) if keys else None)

    async def _truncate(self) -> bool:
        self.truncations.append(await self.db.truncate_log())
        return self.truncations[-1]

    async def put(self, spec: AgentSpec, workspace: str = WS) -> Agent:
        """Store an agent as the host does."""
        before = await self.db.read(lambda tx: agents.readable(tx, workspace, spec.name))
        known = None if before is None else before.spec
        if known is not None:
            await self.sealing.know([known])
        spec = self.sealing.kept(workspace, spec, known)
        sealed = await self.sealing.sealed(workspace, spec, known)
        agent = await self.db.write(lambda tx: agents.apply(tx, workspace, sealed))
        self.sealing.note_stored([sealed])
        return agent

    async def put_model(self, entry: ModelEntry) -> None:
        await self.db.write(lambda tx: settings.put(tx, WS, "model", entry.id, plain(entry)))

    async def stored(self, name: str = "clerk", workspace: str = WS) -> Any:
        """The text that is stored in the place of an agent's secret."""
        return (await self.db.read(lambda tx: agents.get(tx, workspace, name))).spec.config["key"]

    async def secret(self, name: str = "clerk", workspace: str = WS) -> str:
        """The secret that a run of the agent has."""
        text = await self.stored(name, workspace)
        return (await self.sealing.for_run(workspace, name, {"key": text}))["key"]

    async def rows(self) -> str:
        return await self.db.read(everything)


def spec(secret: str = SECRET, name: str = "clerk", runner: str = RUNNER, **config: Any) -> AgentSpec:
    return AgentSpec(name=name, runner=runner, config={"key": secret, **config})


async def test_a_secret_is_sealed_before_it_is_stored_and_opens_in_its_place_alone(
    database: SqlDatabase,
) -> None:
    bench = Bench(database, ONE)
    await bench.put(spec(address="here"))
    await bench.put(spec("env:NAME", "referring"))
    assert is_sealed(await bench.stored())
    assert await bench.stored("referring") == "env:NAME"
    assert SECRET not in await bench.rows()
    assert await bench.secret() == SECRET
    text = await bench.stored()
    for workspace, name, field in [(OTHER, "clerk", "key"), (WS, "other", "key"), (WS, "clerk", "address")]:
        with pytest.raises(SecretUnreadableError, match="altered, or belongs to another place"):
            await bench.sealing.for_run(workspace, name, {field: text})
    other = "A" if text[-10] != "A" else "B"
    for altered in (text[:-10] + other + text[-9:], text + "é", f"{SEALED}{'0' * 16}:AAAA", SEALED):
        with pytest.raises(SecretUnreadableError):
            await bench.sealing.for_run(WS, "clerk", {"key": altered})


async def test_a_secret_that_did_not_change_keeps_its_text_and_the_agent_its_version(
    database: SqlDatabase,
) -> None:
    bench = Bench(database, ONE)
    first = await bench.put(spec())
    assert (await bench.put(spec())).version == first.version
    assert (await bench.put(spec("another-secret"))).version == 2
    assert await bench.secret() == "another-secret"


async def test_what_is_not_sealed_by_the_host_is_no_sealed_secret(database: SqlDatabase) -> None:
    """Nobody has a stored text opened elsewhere by writing it there, not even where it is stored."""
    bench = Bench(database, ONE)
    stored = (await bench.put(spec(address="here"))).spec
    text = stored.config["key"]
    for given in (stored, spec("***", address=text), spec(text, "second")):
        _, (mistake,) = complete_agent(given, stored, bench.forms.get)
        assert "write the secret itself" in mistake.text
    _, (mistake,) = complete_model(ModelEntry(id="m", api_key=text), None)
    assert (mistake.place, "write the secret itself" in mistake.text) == ("api_key", True)
    completed, mistakes = complete_agent(spec("***", address="there"), stored, bench.forms.get)
    assert (completed.config["key"], mistakes) == (text, [])
    assert without_secrets(stored, bench.forms.get).config == {"key": "***", "address": "here"}
    bench.forms[RUNNER] = {"key": "string"}  # a newer form shows it as little
    assert without_secrets(stored, bench.forms.get).config["key"] == "***"
    form = [FormItem(name="key", type="string")]
    (wrong,) = config_mistakes(form, {"key": text})
    assert "a secret is stored here" in wrong.text
    assert config_mistakes([FormItem(name="key", type="secret")], {"key": SEALED + "x" * 300_000}) == []


async def test_what_was_stored_before_is_sealed_in_the_background(database: SqlDatabase) -> None:
    """All versions in all workspaces, also of deleted agents; models; and all that a second pass finds."""
    bench = Bench(database)
    for number in range(PAGE + 20):
        await bench.put(spec(f"{SECRET}-{number}"))
    for workspace, name in [(OTHER, "clerk"), (WS, "deleted")]:
        await bench.put(spec(f"{SECRET}-of-{name}", name), workspace)
    await database.write(lambda tx: agents.delete(tx, WS, "deleted"))
    await bench.put_model(ModelEntry(id="m", api_key=SECRET, timeout=5.0))
    await bench.put_model(ModelEntry(id="r", api_key="env:NAME"))
    await database.write(lambda tx: settings.put(tx, WS, "model", "odd", {"id": 7, "api_key": "x"}))
    await bench.sealing.keep()
    assert SECRET in await bench.rows(), "without a master key it is stored as it is written"
    bench.use(ONE)
    await bench.sealing.keep()
    rows = await bench.rows()
    assert SECRET not in rows
    assert rows.count(SEALED) == PAGE + 20 + 2 + 1
    assert await bench.secret() == f"{SECRET}-{PAGE + 19}"
    assert await bench.secret(workspace=OTHER) == f"{SECRET}-of-clerk"
    agent = await database.read(lambda tx: agents.get(tx, WS, "clerk"))
    (old,) = await database.read(lambda tx: agents.versions(tx, WS, agent.agent_id, before=2))
    assert (await bench.sealing.for_run(WS, "clerk", old.spec.config))["key"] == f"{SECRET}-0"
    assert (await bench.put(spec(f"{SECRET}-{PAGE + 19}"))).version == agent.version
    await bench.sealing.keep()
    assert sealed_rows(await bench.rows()) == sealed_rows(rows)
    (model,), closed = bench.sealing.usable_models(await models_of(database))
    assert (model.api_key, model.timeout, closed) == (SECRET, 5.0, {})


def sealed_rows(rows: str) -> list[str]:
    return [row for row in rows.splitlines() if SEALED in row]


async def models_of(db: SqlDatabase) -> list[ModelEntry]:
    found = await db.read(lambda tx: settings.get(tx, WS, "model", "m"))
    return [ModelEntry(**found.spec)]


async def test_an_entry_that_changes_while_it_is_sealed_keeps_the_change(database: SqlDatabase) -> None:
    bench = Bench(database)
    agent = await bench.put(spec())
    (found,) = await database.read(lambda tx: agents.all_versions(tx, limit=2))
    setting = await seen_before_a_change(bench)
    reference = spec("secret://moved")
    await database.write(lambda tx: agents.rewrite_versions(tx, WS, agent.agent_id, lambda _: reference))
    late = spec(SEALED + "late")
    assert not await database.write(lambda tx: agents.replace_version(tx, found, late))
    assert not await database.write(lambda tx: settings.replace(tx, WS, setting, {"id": "late"}))
    assert await bench.stored() == "secret://moved"


async def seen_before_a_change(bench: Bench) -> settings.Setting:
    await bench.put_model(ModelEntry(id="m", api_key=SECRET))
    setting = await bench.db.read(lambda tx: settings.get(tx, WS, "model", "m"))
    await bench.put_model(ModelEntry(id="m", api_key="secret://moved"))
    return setting


async def test_a_secret_whose_form_is_not_known_yet_is_sealed_once_it_is(database: SqlDatabase) -> None:
    bench = Bench(database, ONE)
    await bench.put(spec(runner=UNSEEN, address="here"))
    await bench.sealing.keep()
    await bench.sealing.keep()
    assert await bench.stored() == SECRET
    bench.forms[UNSEEN] = {"key": "secret", "address": "string"}
    await bench.sealing.keep()
    assert await bench.secret() == SECRET
    assert is_sealed(await bench.stored())
    found = await database.read(lambda tx: agents.get(tx, WS, "clerk"))
    assert found.spec.config["address"] == "here"


async def test_without_its_key_an_entry_says_so_and_nothing_is_stored_in_the_clear(
    database: SqlDatabase,
) -> None:
    bench = Bench(database, ONE)
    await bench.put(spec())
    bench.ring.replace(Locked("the service is away"))
    await bench.sealing.keep()
    with pytest.raises(KeyRingError, match="the service is away"):
        await bench.put(spec("new", "second"))
    await bench.put(spec("env:NAME", "third"))
    for text, why in [("the service is away", "locked"), ("no `master_key` is configured", "none")]:
        if why == "none":
            bench.use()
        with pytest.raises(SecretUnreadableError, match=text):
            await bench.secret()
        assert text in (bench.sealing.secrets.why_closed(await bench.stored()) or "")
    await bench.put(spec("plain", "fourth"))
    assert await bench.stored("fourth") == "plain", "as ever, where there is no master key"
    # a master key that is lost: what it sealed does not open, and new secrets get a key of their own
    bench.use(TWO)
    with pytest.raises(SecretUnreadableError, match=KeyRing([ONE]).current_id):
        await bench.secret()
    assert (await bench.put(spec("written again"))).version == 2
    assert await bench.secret() == "written again"
    assert await database.read(written_keys.key_uses) == {
        KeyRing([ONE]).current_id: 1,
        KeyRing([TWO]).current_id: 1,
    }


async def test_the_master_key_is_rotated(database: SqlDatabase) -> None:
    bench = Bench(database, ONE)
    await bench.put(spec())
    rows = await bench.rows()
    bench.use(TWO, ONE)
    await bench.sealing.keep()
    assert await database.read(written_keys.key_uses) == {KeyRing([TWO]).current_id: 1}
    bench.use(TWO)
    assert await bench.secret() == SECRET
    assert await bench.stored() in rows, "no entry is touched"


async def test_another_host_opens_what_was_sealed_with_a_key_that_it_has_not_read(
    database: SqlDatabase,
) -> None:
    one, two = Bench(database, ONE), Bench(database, ONE)
    await one.put(spec())
    assert await two.secret() == SECRET
    await two.put(spec())
    assert (await database.read(lambda tx: agents.get(tx, WS, "clerk"))).version == 1
    assert len(await database.read(written_keys.wrapped_keys)) == 1


async def test_keys_are_bounded(database: SqlDatabase) -> None:
    for number in range(written_keys.MAX_KEYS - 1):
        await database.write(lambda tx, n=number: written_keys.add(tx, f"{n}", b"x" * 20))  # type: ignore[misc]
    with pytest.raises(InvalidArgumentError, match="the most that are possible"):
        await database.write(lambda tx: written_keys.add(tx, "one more", b"x" * 20))
    assert len(await database.read(written_keys.wrapped_keys)) == written_keys.MAX_KEYS - 1


async def test_no_byte_of_the_files_has_what_was_stored_in_the_clear(tmp_path: Path) -> None:
    """Not in pages that were freed or replaced, and not in the log, which a reader keeps for a while."""
    path = tmp_path / "hostler.db"
    db = open_database(path)
    try:
        bench = Bench(db)
        for number in range(30):
            await bench.put(spec(f"{SECRET}-{number}" + "x" * 6_000))
        await bench.put_model(ModelEntry(id="m", api_key=SECRET))
        assert await db.truncate_log()
        assert SECRET.encode() in bytes_of(tmp_path)
        bench.use(ONE)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM agents").fetchone()
            await bench.sealing.keep()
            assert bench.truncations == [False]
        await bench.sealing.keep()
        assert bench.truncations == [False, True]
        assert SECRET.encode() not in bytes_of(tmp_path)
        await bench.sealing.keep()
        assert len(bench.truncations) == 2
        assert await bench.secret() == f"{SECRET}-29" + "x" * 6_000
        secure = await db.write(lambda tx: tx.one(Query("t", "PRAGMA secure_delete", "")))
        assert secure == {"secure_delete": 1}, "builds of SQLite differ in what they do by default"
    finally:
        await db.close()


def bytes_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())
