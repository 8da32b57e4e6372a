"""The example channel on a whole host: its sandboxed process speaks TCP through the sandbox's proxy."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.host.config import ConfigFile
from hostler.host.config_file import parse_config
from support.channel_host import LOOK_SECONDS
from support.databases import TEST_SECONDS
from support.http_host import Served, serving
from support.shout_server import TOKEN, ShoutServer

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "channels.md"
pytestmark = pytest.mark.timeout(TEST_SECONDS + 60)


def shouting(lobby: int, hall: int) -> ConfigFile:
    """The configuration of the page, with the server of the test, and a channel to another one."""
    (text,) = re.findall(r"```yaml\n(# hostler\.yaml\n.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    config = parse_config(text.replace("7000", str(lobby)), name="hostler.yaml", base=ROOT)
    (entry,) = config.channels
    other = msgspec.structs.replace(entry, name="hall", config={**entry.config, "port": hall})
    return msgspec.structs.replace(config, channels=[entry, other])


async def connection(served: Served, name: str, *wanted: str) -> dict[str, Any]:
    """Wait until a channel stands so."""
    while True:
        found: dict[str, Any] = (await served.client.get(f"/v1/channels/{name}")).json()
        if found.get("health") in wanted:
            return found
        await asyncio.sleep(LOOK_SECONDS)


async def test_it_is_answered_and_a_server_that_is_not_allowed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOUT_TOKEN", TOKEN)
    server, other = ShoutServer(), ShoutServer()
    await server.start()
    await other.start()
    async with asyncio.timeout(TEST_SECONDS), serving(tmp_path / "host", agent=False) as served:
        await served.host.apply(shouting(server.port, other.port), actor="test")
        await connection(served, "lobby", "connected")
        server.say("not me", by="mallory")
        server.say("Does it rain?")
        assert await server.until(1) == ["Does it rain?!"]
        refused = await connection(served, "hall", "failed")
        assert f'network: ["127.0.0.1:{other.port}"]' in refused["reason"]
        assert other.logins == 0
        await server.stop()  # that it is gone is another matter
        gone = await connection(served, "lobby", "failed")
        while "cannot be reached" not in gone["reason"]:
            gone = await connection(served, "lobby", "failed")
        assert "network" not in gone["reason"]
    await other.stop()
