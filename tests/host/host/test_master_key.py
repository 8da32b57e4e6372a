"""The entry `master_key`: read at a start and at changes, locked without its keys, kept while a service is
away.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
import pytest

from hostler.domain.model_entries import ModelEntry
from hostler.domain.pause_sealing import SealedError
from hostler.host.config import ConfigFile, Settings
from hostler.host.host import Host
from hostler.secrets.key_ring import KeyRing, KeyRingError, new_key
from hostler.storage.port import Query, Tx
from hostler.storage.stores import plugin_storage, settings
from support.every_row import everything

pytestmark = pytest.mark.gate("master-key")

KEY, LATER = new_key(), new_key()


def opened(data: Path, database: str | None = None) -> AbstractAsyncContextManager[Host]:
    """A host that only looks and configures."""
    settings = Settings(
        data_dir=data,
        database=database,
        passive=True,
        shutdown_grace_seconds=0.0,
        erasure_key=(data / "erasure.key",),
    )
    return Host.open(settings)


def ids(host: Host) -> list[str]:
    """The ids of the keys of the host's ring."""
    ring = host.master_key.key_ring.ring
    return [] if ring is None else list(ring.ids)


def of(*keys: bytes) -> list[str]:
    return list(KeyRing(keys).ids)


async def test_keys_are_read_at_a_start_and_at_each_change(tmp_path: Path, database_url: str) -> None:
    data, first, second = tmp_path / "data", tmp_path / "first", tmp_path / "second"
    first.write_text(KEY.hex())
    second.write_text(LATER.hex())
    async with opened(data, database_url) as host:
        assert ids(host) == []
        diff = await host.apply(ConfigFile(master_key=[f"file:{first}"]), actor="t")
        assert (diff.problems, ids(host)) == ([], of(KEY))
        dry = await host.apply(
            ConfigFile(master_key=[f"command:touch {tmp_path / 'ran'}"]), actor="t", dry_run=True
        )
        assert [change.change for change in dry.changes if change.kind == "master_key"] == ["changed"]
        assert not (tmp_path / "ran").exists()
        assert ids(host) == of(KEY)
        await host.apply(ConfigFile(master_key=[f"command:cat {second}", f"file:{first}"]), actor="t")
        assert ids(host) == of(LATER, KEY)
        first.write_text(LATER.hex())
        second.write_text(KEY.hex())
        await host.apply(ConfigFile(models=[ModelEntry(id="m", provider="demo")]), actor="t")
        assert ids(host) == of(KEY, LATER), "what the references name is read anew"
    async with opened(data, database_url) as host:
        assert ids(host) == of(KEY, LATER)
        await host.configurator.apply(ConfigFile(), actor="t", prune=True)
        assert ids(host) == []


async def test_keys_that_cannot_be_read_lock_the_ring_and_not_the_host(tmp_path: Path) -> None:
    file = tmp_path / "key"
    async with opened(tmp_path / "data") as host:
        diff = await host.apply(ConfigFile(master_key=[f"file:{file}"]), actor="t")
        assert [(one.kind, str(file) in one.problem) for one in diff.problems] == [("master_key", True)]
        with pytest.raises(KeyRingError, match="cannot be read"):
            ids(host)
    async with opened(tmp_path / "data") as host:
        assert [one.kind for one in await host.problems()] == ["master_key"]
        file.write_text(KEY.hex())
        await host.configurator.load()
        assert (await host.problems(), ids(host)) == ([], of(KEY))
        file.unlink()
        await host.configurator.load()
        assert [one.kind for one in await host.problems()] == ["master_key"]
        assert ids(host) == of(KEY), "a key that was read is not forgotten because its place is away"
        diff = await host.apply(ConfigFile(master_key=[f"file:{file}", "env:NOT_SET_ANYWHERE"]), actor="t")
        with pytest.raises(KeyRingError, match=r"cannot be read"):
            ids(host)


async def test_an_entry_that_this_version_cannot_read_locks(tmp_path: Path) -> None:
    def spoil(tx: Tx) -> None:
        for kind in ("master_key", "pause_key"):
            settings.put(tx, "default", kind, "policy", {})
        text = "UPDATE settings SET spec = '{\"keys\": 7}'"
        tx.run(Query("raw", text, text))

    async with opened(tmp_path) as host:
        await host.db.write(spoil)
    async with opened(tmp_path) as host:
        assert {one.kind for one in await host.problems()} == {"master_key", "pause_key"}
        with pytest.raises(KeyRingError, match="does not fit this version"):
            ids(host)
        with pytest.raises(SealedError, match="does not fit this version"):
            host.configurator.vault.new_key("p")


async def test_what_is_applied_together_with_its_first_master_key_is_sealed_at_once(
    tmp_path: Path, database_url: str
) -> None:
    """If the key cannot be read nothing is stored; once it is removed, new ones are in the clear."""
    first, config = tmp_path / "first", ConfigFile(models=[ModelEntry(id="m", api_key="sk-written-out")])
    first.write_text(KEY.hex())
    async with opened(tmp_path / "data", database_url) as host:
        away = msgspec.structs.replace(config, master_key=[f"file:{tmp_path / 'away'}"])
        with pytest.raises(KeyRingError, match="the file cannot be read"):
            await host.apply(away, actor="t")
        assert (await host.export()).models == []
        both = msgspec.structs.replace(config, master_key=[f"file:{first}"])
        assert (await host.apply(both, actor="t")).problems == []
        assert "sk-written-out" not in await host.db.read(everything)
        assert host.models.get("m").entry.api_key == "sk-written-out"
        again = await host.apply(both, actor="t")
        assert {change.change for change in again.changes} == {"unchanged"}
        removed = await host.apply(config, actor="t", prune=True)
        assert [one.name for one in removed.problems if one.kind == "model"] == ["m"], "it stays sealed"
        await host.apply(ConfigFile(models=[ModelEntry(id="n", api_key="sk-another")]), actor="t")
        assert "sk-another" in await host.db.read(everything)


async def test_a_key_that_leaves_takes_nothing_with_it(tmp_path: Path, database_url: str) -> None:
    """Rotated twice at once, and a key file that is written over: all moves before the old key is gone."""
    files = [tmp_path / name for name in ("first", "second", "third")]
    for path in files:
        path.write_text(new_key().hex())
    first, second, third = (f"file:{path}" for path in files)
    model = ModelEntry(id="m", api_key="sk-written-out")
    async with opened(tmp_path / "data", database_url) as host:
        await host.apply(ConfigFile(master_key=[first], models=[model]), actor="t")
        await host.secrets.set("default", "workspace", "token", "a secret value", "t")
        await host.db.write(
            lambda tx: plugin_storage.set(tx, "default", "author/name", "key", b"content that is sealed")
        )

        async def change(keys: list[str]) -> list[str]:
            diff = await host.apply(ConfigFile(master_key=keys), actor="t")
            return [problem.sentence for problem in diff.problems if problem.severity == "error"]

        assert await change([second, first]) == []
        assert await change([third, second]) == []
        assert [key.uses for key in await host.master_key.keys()][1] == {}
        assert await change([third]) == []
        files[2].write_text((later := new_key()).hex())
        diff = await host.apply(ConfigFile(models=[ModelEntry(id="n")]), actor="t")
        assert [problem for problem in diff.problems if problem.kind == "master_key"] == []
        (key,) = await host.master_key.keys()
        assert (key.key_id, set(key.uses)) == (
            KeyRing([later]).current_id,
            {"secrets", "keys of content", "keys of written-out secrets"},
        )
    async with opened(tmp_path / "data", database_url) as host:
        assert [problem for problem in await host.problems() if problem.kind == "master_key"] == []
        found = await host.db.read(lambda tx: plugin_storage.get(tx, "default", "author/name", "key"))
        assert found == b"content that is sealed"
        assert host.models.get("m").entry.api_key == "sk-written-out"
        shown, _ = await host.secrets.page("default", "workspace", "", 10)
        assert await host.secrets.known("default", "workspace") == {"token": None}
        assert [facts.name for facts in shown] == ["token"]
