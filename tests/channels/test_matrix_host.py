"""An account of Matrix on a whole host: the sandboxed plugin, an agent that answers, deaths in between."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.channels import ChannelAccess, ChannelEntry
from hostler.host.config import ConfigFile, PluginEntry
from support.channel_host import LOOK_SECONDS, WIRES
from support.databases import TEST_SECONDS
from support.http_host import Served
from support.http_host import serving as serving_host
from support.matrix_desk import FOLDER, config_of, serving
from support.matrix_server import ADA, BOB, DM, GROUP, MatrixServer
from support.shipped_host import lend
from support.trust import trusted

pytestmark = pytest.mark.timeout(TEST_SECONDS + 60)
KEY = "hostler/matrix"
CODE = "```python\n" + "print('a line of code')\n" * 1_000 + "```"
LONG = f"# Long\n\n{'Some **bold** words. ' * 300}\n\n{CODE}\n\nThe end."


@pytest.fixture
def lent(tmp_path: Path) -> Path:
    """A folder for a host that has what the plugin requires."""
    return lend(tmp_path, FOLDER)


@asynccontextmanager
async def connected(folder: Path, **fields: Any) -> AsyncIterator[tuple[Served, MatrixServer]]:
    """A host whose account is connected, and has looked at its rooms."""
    async with (
        asyncio.timeout(TEST_SECONDS),
        serving() as server,
        serving_host(folder / "host", agent=False) as served,
    ):
        served.host.channels.hurry(0.05)
        (folder / "token").write_text(server.token)
        config = config_of(server) | {"access-token": f"file:{folder / 'token'}"}
        entry = ChannelEntry(name="bot", channel="plugin:hostler/matrix/matrix", config=config, **fields)
        matrix = PluginEntry(path=str(FOLDER), network=[f"127.0.0.1:{server.port}"])
        echo = AgentSpec(name="echo", runner="plugin:test/wires/echo")
        file = ConfigFile(plugins=[matrix, trusted(WIRES)], agents=[echo], channels=[entry])
        await served.host.apply(file, actor="test")
        await server.until_synced()
        yield served, server


async def kill(served: Served) -> None:
    """Kill the process of the plugin."""
    (pid,) = [one.pid for one in served.host.supervisor.status() if one.key == KEY]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


async def runs(served: Served) -> list[str]:
    found = (await served.client.get("/v1/runs")).json()["items"]
    return [run["status"] for run in found]


async def answers(served: Served) -> list[str]:
    found = (await served.client.get("/v1/outbox")).json()["items"]
    return [one["status"] for one in found]


async def test_a_long_answer_with_code_is_split_and_its_parts_are_whole(lent: Path) -> None:
    async with connected(lent) as (_, server):
        server.say(LONG)
        server.say("and a short one")
        while server.texts()[-1:] != ["and a short one"]:
            await asyncio.sleep(LOOK_SECONDS)
        *parts, _ = server.sent()
        bodies = [one["content"]["body"] for one in parts]
        assert len(bodies) == 3
        assert all(len(body.encode()) <= 16_000 for body in bodies)
        assert [body.count("```") for body in bodies] == [0, 2, 2]
        assert sum(body.count("a line of code") for body in bodies) == 1_000
        assert "<h1>Long</h1>" in parts[0]["content"]["formatted_body"]
        for one in parts[1:]:
            rich = one["content"]["formatted_body"]
            assert rich.count('<pre><code class="language-python">') == rich.count("</code></pre>") == 1


async def test_those_whom_the_channel_lets_in_may_invite_it_and_hear_what_it_cannot_read(
    lent: Path,
) -> None:
    async with connected(lent, allow=ChannelAccess(people=[ADA])) as (served, server):
        secret = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "Aw"}
        server.invite("!of-bob:hs.example", by=BOB)
        server.say("not for you", by=BOB)
        server.happen("m.room.encrypted", secret, by=BOB, room=GROUP)
        server.invite("!of-ada:hs.example", by=ADA)
        await server.until("join")
        server.say("hello", room="!of-ada:hs.example")
        while server.texts("!of-ada:hs.example") != ["hello"]:
            await asyncio.sleep(LOOK_SECONDS)
        server.happen("m.room.encrypted", secret)
        (_, told) = await server.until("send", 2)
        assert (told.params["room"], "cannot read" in told.body["body"]) == (DM, True)
        assert [call.params["room"] for call in server.called("join")] == ["!of-ada:hs.example"]
        assert server.texts(GROUP) == []
        while await runs(served) != ["completed"]:
            await asyncio.sleep(LOOK_SECONDS)
        found = (await served.client.get("/v1/events")).json()["items"]
        kinds = {one["event_type"] for one in found}
        assert kinds == {"group.bot_invited", "message.received", "platform.m.room.encrypted"}


@pytest.mark.parametrize("steps", [("get_state", "messages"), ("answer of send", "send")])
async def test_a_death_at_each_step_loses_nothing_and_says_it_once(
    lent: Path, steps: tuple[str, ...]
) -> None:
    async with connected(lent) as (served, server):
        said = []
        for step in steps:
            server.silent = step == "answer of send"
            if not server.silent:
                server.refusals[step] = ["held"]
            if step == "messages":  # a gap
                server.most = 2
                said += [f"gap {number}" for number in range(4)]
                for text in said[-4:]:
                    server.stream.add(DM, "m.room.message", {"msgtype": "m.text", "body": text}, ADA)
            said.append(f"held at {step}")
            sent = len(server.called("send"))
            server.say(said[-1])
            await (server.until("send", sent + 1) if server.silent else server.until_held(step))
            await kill(served)
            server.silent = False
            while server.texts() != said:
                await asyncio.sleep(LOOK_SECONDS)
        while await runs(served) != ["completed"] * len(said):
            await asyncio.sleep(LOOK_SECONDS)
        while await answers(served) != ["sent"] * len(said):
            await asyncio.sleep(LOOK_SECONDS)
