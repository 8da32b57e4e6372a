"""A host is killed while it stores values and wraps keys anew: each secret has its old or its new value."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hostler.host.secret_store import SecretStore
from hostler.secrets.key_ring import KeyRing, LiveKeyRing, new_key
from hostler.secrets.resolver import SecretUnreadableError
from hostler.storage.port import Query
from hostler.storage.sql.connect import open_database

pytestmark = pytest.mark.gate("stored-secrets")

KILLS = 40 if os.environ.get("HOSTLER_SOAK") else 8
SECRETS = 30
WORK = """
import asyncio, itertools, sys
from hostler.host.secret_store import SecretStore
from hostler.secrets.key_ring import KeyRing, LiveKeyRing
from hostler.storage.sql.connect import open_database

where, first, one, two = sys.argv[1:]
keys = [bytes.fromhex(one), bytes.fromhex(two)]

async def main():
    ring = LiveKeyRing()
    ring.replace(KeyRing(keys))
    store = SecretStore(open_database(where), "w", ring, lambda *_: {})
    print("ready", flush=True)
    for number in itertools.count(int(first)):
        name = f"s{number % SECRETS}"
        await store.set("w", "workspace", name, f"value {number}", "test")
        print(number, flush=True)
        if number % 7 == 0:
            keys.reverse()
            ring.replace(KeyRing(keys))
            await store.rewrap()

asyncio.run(main())
""".replace("SECRETS", str(SECRETS))


async def values(where: str, keys: list[bytes]) -> dict[str, int]:
    """The numbers of the values, as each opens."""
    ring = LiveKeyRing()
    ring.replace(KeyRing(keys))
    database = open_database(where)
    store = SecretStore(database, "w", ring, lambda *_: {})
    facts, _ = await store.page("w", "workspace", "", SECRETS + 1)
    found = await store.for_run("w", [one.name for one in facts], "run")
    await database.close()
    return {name: int(value.removeprefix("value ")) for name, value in found.items()}


async def test_an_interrupted_change_leaves_the_old_or_the_new_value(
    tmp_path: Path, database_url: str
) -> None:
    where = database_url if database_url.startswith("postgresql:") else str(tmp_path / "secrets.db")
    keys, chance = [new_key(), new_key()], random.Random(7)
    await open_database(where).close()
    confirmed, first, killed = dict[str, int](), 0, 0
    for _ in range(KILLS):
        arguments = [where, str(first), *(key.hex() for key in keys)]
        process = subprocess.Popen(
            [sys.executable, "-c", WORK, *arguments], stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(chance.randrange(1, 25)):
            number = int(process.stdout.readline())
            confirmed[f"s{number % SECRETS}"] = number
        time.sleep(chance.random() * 0.01)  # the moment is what the test varies; it waits for nothing
        process.kill()
        for line in process.stdout.read().splitlines():
            confirmed[f"s{int(line) % SECRETS}"] = int(line)
        process.wait()
        killed += 1
        found = await values(where, keys)
        last = max(confirmed.values())
        next_name = f"s{(last + 1) % SECRETS}"
        for name in {*found, *confirmed}:
            wanted = {confirmed.get(name), last + 1 if name == next_name else confirmed.get(name)}
            assert found.get(name) in wanted, (name, wanted)
        confirmed, first = dict(found), last + 2
    assert killed == KILLS
    assert len(confirmed) >= min(SECRETS, KILLS)


@pytest.mark.parametrize("owner", ["workspace", "installation"])
async def test_sealed_values_of_one_place_open_in_no_other(tmp_path: Path, owner: str) -> None:
    """Whoever writes to the database cannot give one workspace the secret of another."""
    ring = LiveKeyRing()
    ring.replace(KeyRing([new_key()]))
    database = open_database(str(tmp_path / "secrets.db"))
    store = SecretStore(database, "w", ring, lambda *_: {})
    await store.set("w", "workspace", "a", "the value of a", "test")
    text = (
        "INSERT INTO secrets SELECT {ws}, '{owner}', {name}, version, data_key, value, set_by, set_at, "
        "created_at, used_by, used_at FROM secrets"
    )
    moves = {"v": "a", "w": "b"} if owner == "workspace" else {"w": "a"}
    for workspace, name in moves.items():
        sql = text.format(ws=f"'{workspace}'", owner=owner, name=f"'{name}'")
        sql += " WHERE workspace_id = 'w' AND name = 'a' AND owner = 'workspace'"
        await database.write(lambda tx, sql=sql: tx.run(Query("t", sql, sql)))  # type: ignore[misc]
        if owner == "workspace":
            with pytest.raises(SecretUnreadableError, match="altered, or belongs to another place"):
                await store.for_run(workspace, [name], "run")
        else:
            await store.load()
            assert "altered, or belongs" in (store.own.unreadable(f"secret://{name}") or "")
    await database.close()
