"""A server whose secret changed is connected anew: at once if it is idle, else after the calls at work."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from hostler.secrets.stored import OpenedSecret, StoredSecrets
from support.mcp_bench import Bench, benched, http_server, on_loop, over_http, over_stdio

pytestmark = pytest.mark.timeout(300)
REFERENCE = "secret://server"


def store(value: str) -> StoredSecrets:
    secrets = StoredSecrets()
    rotate(secrets, value)
    return secrets


def rotate(secrets: StoredSecrets, *values: str) -> None:
    found = {"server": OpenedSecret(len(values), values[-1])}
    secrets.replace(found)


async def key_of(bench: Bench) -> str:
    around = json.loads(await bench.text("around"))
    return str(around["environment"].get("KEY") or around["headers"]["authorization"])


@on_loop
async def test_a_command_gets_the_new_value_in_its_environment(tmp_path: Path) -> None:
    folder, secrets = tmp_path / "server", store("the first")
    entry = over_stdio(folder, environment={"KEY": REFERENCE})
    async with benched(entry, folder, tmp_path / "data", secrets=secrets) as bench:
        assert await key_of(bench) == "the first"
        working = asyncio.ensure_future(bench.tools.call(bench.invocation("wait", {"seconds": 1})))
        await bench.until(lambda: bench.begun("wait"))
        rotate(secrets, "the first", "the second")
        bench.tools.renew([REFERENCE, "secret://another"])
        asked = asyncio.ensure_future(key_of(bench))
        assert "waited" in str(await working), "the call at work was not cut off"
        assert await asked == "the second", "the call waited for the new connection"
        assert bench.state == ("ready", "")
        assert bench.failures == 0
        assert {use[:2] for use in secrets.take_uses()} == {("server", "tool mcp:s")}
        bench.tools.renew(["secret://another"])
        assert await key_of(bench) == "the second"


@on_loop
async def test_a_server_at_an_address_gets_the_new_token(tmp_path: Path) -> None:
    folder, secrets = tmp_path / "server", store("the-first")
    with http_server(folder) as url:
        entry = over_http(url, token=REFERENCE)
        async with benched(entry, folder, tmp_path / "data", secrets=secrets) as bench:
            assert await key_of(bench) == "Bearer the-first"
            rotate(secrets, "the-first", "the-second")
            bench.tools.renew([REFERENCE])
            assert await key_of(bench) == "Bearer the-second"


@on_loop
async def test_a_server_that_lacks_its_secret_is_connected_once_there_is_one(tmp_path: Path) -> None:
    folder, secrets = tmp_path / "server", StoredSecrets()
    entry = over_stdio(folder, environment={"KEY": REFERENCE})
    async with benched(entry, folder, tmp_path / "data", secrets=secrets, ready=False) as bench:
        await bench.until(lambda: "there is no such secret of the installation" in bench.state[1])
        rotate(secrets, "the first")
        bench.tools.renew([REFERENCE])
        await bench.until_ready()
        assert await key_of(bench) == "the first"
