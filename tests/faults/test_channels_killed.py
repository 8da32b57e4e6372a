"""kill -9 of the host between any two steps of an event and a message: nothing is lost, nothing said twice.

Where the platform lets nobody know whether it has got a message, it is left to the operator, and said so.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from support.channel_process import SECONDS, world
from support.examples import SOAK

MOMENTS = 60 if SOAK else 5
STEPS = ("event", "delivering", "delivered", "send", "sending", "sent")
"""Before an event is delivered, while it is, and after; before a message is sent, while it is, and after."""
pytestmark = [pytest.mark.timeout(SECONDS + 30), pytest.mark.gate("killed-hosts")]


@pytest.mark.parametrize("step", STEPS)
async def test_a_host_that_is_killed_at_a_step_says_everything_once(tmp_path: Path, step: str) -> None:
    async with world(tmp_path, "keyed") as here:
        here.kill_at(step)
        here.chat.say("one")
        here.chat.say("two")
        await here.died()
        await here.host.start()
        assert sorted(await here.chat.until(2)) == ["one", "two"]
        sent = await here.settled(2)
        assert [(one["status"], one["maybe_twice"]) for one in sent] == [("sent", False)] * 2
        assert sorted(here.chat.by_bot()) == ["one", "two"]


@pytest.mark.parametrize("step", ["send", "sending", "sent"])
async def test_a_platform_that_can_be_searched_is(tmp_path: Path, step: str) -> None:
    async with world(tmp_path, "searched") as here:
        here.kill_at(step)
        here.chat.say("one")
        await here.died()
        await here.host.start()
        assert await here.chat.until(1) == ["one"]
        assert [one["status"] for one in await here.settled(1)] == ["sent"]
        assert here.chat.by_bot() == ["one"]


@pytest.mark.parametrize("step", ["send", "sending", "sent"])
async def test_where_nobody_can_know_it_is_in_doubt(tmp_path: Path, step: str) -> None:
    async with world(tmp_path, "blind") as here:
        here.kill_at(step)
        here.chat.say("one")
        await here.died()
        await here.host.start()
        (only,) = await here.settled(1)
        assert only["status"] == "in_doubt"
        assert here.chat.by_bot() == ([] if step == "send" else ["one"])


async def test_hosts_that_are_killed_at_any_moment_lose_nothing(tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("HOSTLER_SEED", "7")))
    async with world(tmp_path, "keyed") as here:
        said: list[str] = []
        for moment in range(MOMENTS):
            for number in range(5):
                said.append(f"{moment} {number}")
                here.chat.say(said[-1], chat=f"room {number % 2}")
            await asyncio.sleep(chance.uniform(0.0, 0.6))
            here.host.kill()
            await here.host.start()
        await here.chat.until(3 * MOMENTS, "room 0")
        await here.chat.until(2 * MOMENTS, "room 1")
        await here.settled(len(said))
        answers = [*here.chat.by_bot("room 0"), *here.chat.by_bot("room 1")]
        assert sorted(answers) == sorted(said)
