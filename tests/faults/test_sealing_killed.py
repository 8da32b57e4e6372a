"""A host is killed while it seals what was stored in the clear: each entry has its old or new text."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.secret_refs import is_sealed
from hostler.host.entry_sealing import EntrySealing
from hostler.secrets.key_ring import KeyRing, LiveKeyRing, new_key
from hostler.storage.sql.connect import open_database
from hostler.storage.stores import agents
from support.every_row import everything

pytestmark = pytest.mark.gate("sealed-entries")
KILLS = 30 if os.environ.get("HOSTLER_SOAK") else 6
AGENTS = 60
RUNNER = "plugin:test/keeper/default"
WORK = """
import asyncio, sys
from hostler.host import entry_sealing
from hostler.secrets.key_ring import KeyRing, LiveKeyRing
from hostler.storage.sql.connect import open_database

entry_sealing.PAGE = 2  # many transactions

async def main():
    ring = LiveKeyRing()
    ring.replace(KeyRing([bytes.fromhex(sys.argv[2])]))
    db = open_database(sys.argv[1])
    sealing = entry_sealing.EntrySealing(db, "w", ring, lambda _: {"key": "secret"}, db.truncate_log)
    await sealing.load()
    print("ready", flush=True)
    await sealing.keep()
    print("done", flush=True)
    await db.close()

asyncio.run(main())
"""


async def test_an_interrupted_pass_goes_on_where_it_was(tmp_path: Path, database_url: str) -> None:
    where = database_url if database_url.startswith("postgresql:") else str(tmp_path / "entries.db")
    key, chance, ring = new_key(), random.Random(11), LiveKeyRing()
    db = open_database(where)
    for number in range(AGENTS):
        spec = AgentSpec(name=f"a{number}", runner=RUNNER, config={"key": f"canary {number:04}"})
        await db.write(lambda tx, spec=spec: agents.apply(tx, "w", spec))  # type: ignore[misc]
    await db.close()
    ring.replace(KeyRing([key]))
    sealed = 0
    for kill in range(KILLS + 1):
        arguments = [sys.executable, "-c", WORK, where, key.hex()]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if kill < KILLS:
            time.sleep(chance.random() * 0.03)  # the moment is what the test varies; it waits for nothing
            process.kill()
        out, _ = process.communicate()
        assert kill < KILLS or out == "done\n"
        db = open_database(where)
        sealing = EntrySealing(db, "w", ring, lambda _: {"key": "secret"})
        found = await db.read(lambda tx: agents.active(tx, "w"))
        for agent in found:
            opened = await sealing.for_run("w", agent.name, {"key": agent.spec.config["key"]})
            assert opened["key"] == f"canary {int(agent.name[1:]):04}"
        before, sealed = sealed, sum(is_sealed(agent.spec.config["key"]) for agent in found)
        assert sealed >= before
        assert {agent.version for agent in found} == {1}
        await db.close()
    assert sealed == AGENTS
    db = open_database(where)
    assert "canary" not in await db.read(everything)
    await db.close()
    if where.endswith(".db"):
        assert b"canary" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
