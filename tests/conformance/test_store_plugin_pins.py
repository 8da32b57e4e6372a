"""Pins of plugins and locks of their requirements, on both databases."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hostler.domain.plugin_pins import PluginFacts
from hostler.storage.port import Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import audit, plugin_pins
from hostler_protocol.errors import NotFoundError
from support.databases import read, write

pytestmark = pytest.mark.gate("plugin-pins")

FACTS = PluginFacts("/srv/p", "1.0", ("tiny",), "f1")


def facts(**changes: Any) -> PluginFacts:
    known = {"source": "/srv/p", "version": "1.0", "requires": ("tiny",), "files": "f1"}
    return PluginFacts(**(known | changes))


def admit(database: SqlDatabase, now: PluginFacts, ws: str = "w") -> str | None:
    return write(database, lambda tx: plugin_pins.admit(tx, ws, "a/p", now))


def lock(database: SqlDatabase, target: str = "here") -> str | None:
    return read(database, lambda tx: plugin_pins.lock(tx, "w", "a/p", target))


def keep(database: SqlDatabase, plan: str, target: str = "here") -> str:
    return write(database, lambda tx: plugin_pins.keep_lock(tx, "w", "a/p", target, plan))


def test_the_first_sight_is_recorded_and_another_one_refused_until_it_is_confirmed(
    database: SqlDatabase,
) -> None:
    assert admit(database, FACTS) is None
    assert admit(database, FACTS) is None
    assert admit(database, facts(files="f2")) == "its files are other ones"
    assert admit(database, facts(files="f2"), ws="v") is None, "another workspace has its own"

    def confirm(tx: Tx) -> None:
        plugin_pins.confirm(tx, "w", "a/p", facts(files="f2"), actor="ada", new_lock=None)

    write(database, confirm)
    assert admit(database, facts(files="f2")) is None
    assert admit(database, FACTS) == "its files are other ones"
    pin = read(database, lambda tx: plugin_pins.find(tx, "w", "a/p"))
    assert pin is not None
    assert (pin.confirmed_by, pin.facts.files) == ("ada", "f2")
    actions = [one.action for one in read(database, lambda tx: audit.page(tx, "w", limit=10))]
    assert actions[::-1] == ["plugin.recorded", "plugin.confirmed"]


def test_the_first_lock_holds_for_each_kind_of_machine(database: SqlDatabase) -> None:
    admit(database, FACTS)
    assert keep(database, "tiny==1.0 --hash=sha256:" + "a" * 64) == keep(database, "tiny==2.0")
    assert keep(database, "tiny==3.0", "there") == "tiny==3.0"
    assert lock(database, "elsewhere") is None


def test_a_new_lock_takes_the_place_of_all(database: SqlDatabase) -> None:
    admit(database, FACTS)
    keep(database, "tiny==1.0")
    keep(database, "tiny==1.0", "there")

    def confirm(tx: Tx, plan: str) -> None:
        plugin_pins.confirm(tx, "w", "a/p", FACTS, actor="ada", new_lock=("here", plan))

    write(database, lambda tx: confirm(tx, "tiny==1.0"))
    assert lock(database, "there") == "tiny==1.0", "nothing changed"
    write(database, lambda tx: confirm(tx, "tiny==2.0"))
    assert (lock(database), lock(database, "there")) == ("tiny==2.0", None)


def test_another_folder_and_a_removed_one_lose_what_was_known(database: SqlDatabase) -> None:
    admit(database, FACTS)
    keep(database, "tiny==1.0")
    assert admit(database, facts(source="/srv/q")) is None
    assert lock(database) == "tiny==1.0", "the same requirements"
    assert admit(database, facts(source="/srv/r", requires=("other",))) is None
    assert lock(database) is None
    keep(database, "other==1.0")
    write(database, lambda tx: plugin_pins.forget(tx, "w", "/srv/p"))
    assert lock(database) == "other==1.0"
    write(database, lambda tx: plugin_pins.forget(tx, "w", "/srv/r"))
    assert lock(database) is None
    assert read(database, lambda tx: plugin_pins.find(tx, "w", "a/p")) is None


def test_what_was_never_started_cannot_be_confirmed(database: SqlDatabase) -> None:
    with pytest.raises(NotFoundError):
        write(database, lambda tx: plugin_pins.confirm(tx, "w", "a/p", FACTS, actor="ada", new_lock=None))


async def test_hosts_that_start_at_once_agree_on_one_lock(database_url: str) -> None:
    count = 1 if not database_url.startswith("postgres") else 3
    opened = [open_database(database_url) for _ in range(count)]
    try:

        async def start(n: int) -> str:
            database = opened[n % count]
            assert await database.write(lambda tx: plugin_pins.admit(tx, "w", "a/p", FACTS)) is None
            return await database.write(
                lambda tx: plugin_pins.keep_lock(tx, "w", "a/p", "here", f"tiny=={n}")
            )

        assert len(set(await asyncio.gather(*(start(n) for n in range(12))))) == 1
    finally:
        for database in opened:
            await database.close()
