"""kill -9 of the host while an answer grows: it ends whole, and once wherever that can be known.

And two hosts on one database, of which one has the channel and the other makes the answer.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support.channel_process import SECONDS, World, world
from support.chat_platform import TOKEN, platform
from support.server_process import PLUGINS, HostProcess, config_file
from support.two_hosts import LEASE, LOOKS

PIECES = ["The beginning", " and the middle", " and the end."]
WHOLE = "".join(PIECES)
FIRST = ("send", "sending", "sent")
"""Before the first text is sent, while it is, and after."""
LATER = ("growing", "grown", "edit", "edited")
"""Before and after an edit in between, and the last edit."""
pytestmark = [pytest.mark.timeout(SECONDS + 30), pytest.mark.gate("killed-hosts")]


def go(tmp_path: Path, number: int) -> None:
    """Let the pieces up to this one pass."""
    new = tmp_path / "go.new"
    new.write_text(str(number))
    new.replace(tmp_path / "go")


async def begin(here: World, tmp_path: Path) -> None:
    here.chat.say(json.dumps({"grow": PIECES, "go": str(tmp_path / "go")}))


@pytest.mark.parametrize("step", [*FIRST, *LATER])
async def test_an_answer_is_whole_and_there_once_whenever_the_host_is_killed(
    tmp_path: Path, step: str
) -> None:
    async with world(tmp_path, "rich") as here:
        if step in FIRST:
            here.kill_at(step)
            await begin(here, tmp_path)
        else:
            await begin(here, tmp_path)
            await here.chat.until(1)
            here.kill_at(step)
            go(tmp_path, 1 if step in {"growing", "grown"} else 9)
        await here.died()
        await here.host.start()
        go(tmp_path, 9)
        await here.chat.holds(lambda: here.chat.by_bot() == [WHOLE])
        (only,) = await here.settled(1)
        assert (only["status"], only["text"]) == ("sent", WHOLE)
        assert here.chat.by_bot() == [WHOLE]


@pytest.mark.parametrize("step", [*FIRST, *LATER])
async def test_where_nobody_can_know_people_have_the_whole_answer(tmp_path: Path, step: str) -> None:
    async with world(tmp_path, "dim") as here:
        if step in FIRST:
            here.kill_at(step)
            await begin(here, tmp_path)
        else:
            await begin(here, tmp_path)
            await here.chat.until(1)
            here.kill_at(step)
            go(tmp_path, 1 if step in {"growing", "grown"} else 9)
        await here.died()
        await here.host.start()
        go(tmp_path, 9)
        await here.chat.holds(lambda: here.chat.by_bot()[-1:] == [WHOLE])
        (only,) = await here.settled(1)
        assert (only["status"], only["text"]) == ("sent", WHOLE)
        said = here.chat.by_bot()
        assert said[-1] == WHOLE
        assert len(said) <= (2 if step in FIRST else 1)
        assert only["maybe_twice"] == (step in FIRST)


async def test_an_answer_whose_run_is_given_up_is_marked(tmp_path: Path) -> None:
    async with world(tmp_path, "rich", failure_text="") as here:
        await begin(here, tmp_path)
        await here.chat.until(1)
        here.host.kill()
        await here.host.start()
        async with here.host.client() as client:
            (run,) = (await client.get("/v1/runs")).json()["items"]
            await client.post(f"/v1/runs/{run['run_id']}/cancel", json={"grace": 0})
        await here.chat.holds(lambda: here.chat.by_bot()[0].endswith("[This answer was not finished.]"))
        assert len(await here.settled(1)) == 1


@pytest.mark.parametrize(
    "database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
async def test_an_answer_grows_whichever_host_makes_it(tmp_path: Path, database_url: str) -> None:
    (tmp_path / "token").write_text(TOKEN)
    async with platform() as chat:
        config = {"port": chat.port, "token": f"file:{tmp_path / 'token'}"}
        entry = {"name": "chat", "channel": "plugin:test/wires/rich", "config": config}
        echo = {"name": "echo", "runner": "plugin:test/wires/echo", "concurrency": {"max_runs": 1}}
        file = config_file(
            tmp_path / "config.yaml", plugins=[PLUGINS / "wires"], agents=[echo], channels=[entry]
        )
        hosts = [
            HostProcess(tmp_path / name, file, database_url, options=[*LEASE], constants=LOOKS)
            for name in ("first", "second")
        ]
        rooms = ["one", "two"]
        try:
            async with asyncio.timeout(SECONDS):
                for host in hosts:
                    await host.start()
                for room in rooms:  # each host makes one answer, for it makes one at a time
                    said = {"grow": PIECES, "go": str(tmp_path / "go")}
                    chat.say(json.dumps(said), chat=room)
                    await chat.holds(lambda room=room: chat.by_bot(room) == ["The beginning"])
                go(tmp_path, 1)
                for room in rooms:
                    await chat.holds(lambda room=room: chat.by_bot(room) == ["".join(PIECES[:2])])
                go(tmp_path, 9)
                for room in rooms:
                    await chat.holds(lambda room=room: chat.by_bot(room) == [WHOLE])
        except BaseException:
            print(hosts[0].log, hosts[1].log, sep="\n---\n")
            raise
        finally:
            for host in hosts:
                host.end()
