"""kill -9 of the host while the chats of a platform are each at another step of their way.

One host has a question that was just decided, a run that is going, an answer whose edit is on its way, a
message that was not sent, one that was, an event that is not stored, and what only this platform has. It is
killed once, and all of them go on: no event is lost or run twice, no message is lost, and one is sent twice
only where the platform gives no way to know, and is marked then.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.certificates import tls_for
from support.channel_process import LOOK_SECONDS, items
from support.databases import TEST_SECONDS
from support.server_process import HostProcess
from support.shipped_channels import PLATFORMS, platform_of, question
from support.shipped_host import CHANNELS, host_with, lend
from support.shipped_platform import Hold, Platform

BOUND_SECONDS = 2 * TEST_SECONDS
"""Of a life and a half of a host, with its chats."""
pytestmark = [pytest.mark.timeout(BOUND_SECONDS + 60), pytest.mark.gate("killed-hosts")]
PIECES = ["The beginning", " and the middle", " and the end."]
WHOLE = "".join(PIECES)
ASKED, GOING, EDITED, UNSENT, SENT, UNREAD, OWN = range(7)
"""Which chat is at which step."""


async def until(holds: Any) -> Any:
    """Wait until something holds."""
    while not (found := holds()):
        await asyncio.sleep(LOOK_SECONDS)
    return found


@pytest.fixture
def lent(tmp_path: Path, name: str) -> Path:
    """A folder for a host that has what the plugin of a platform requires."""
    return lend(tmp_path, CHANNELS / name)


@asynccontextmanager
async def world(folder: Path, name: str) -> AsyncIterator[tuple[HostProcess, Platform]]:
    """A host that has a channel to a platform."""
    tls, _ = tls_for("127.0.0.1", folder)
    async with asyncio.timeout(BOUND_SECONDS), platform_of(name, tls) as platform:
        given: dict[str, Any] = {"secrets": platform.secrets, "ports": platform.ports}
        given["on_doubt"] = "send_again"
        async with host_with(folder, f"{name}/{name}", platform.config, **given) as host:
            platform.host = host
            await connected(host)
            yield host, platform


async def connected(host: HostProcess) -> None:
    """Wait until the channel is connected."""
    while (await items(host, "/v1/channels"))[0]["health"] != "connected":
        await asyncio.sleep(LOOK_SECONDS)


def grow(go: Path) -> str:
    """What makes the agent answer in pieces."""
    return json.dumps({"grow": PIECES, "go": str(go)})


async def held_at(platform: Platform, step: Hold, place: int, act: Any) -> None:
    """Do something, and wait until the bot is held up at the step that it comes to by that in a place."""
    platform.hold(step, place)
    act()
    await until(platform.held)


async def bring_to_their_steps(host: HostProcess, platform: Platform, folder: Path) -> tuple[int, list[str]]:
    """Let every chat come to its step but UNREAD.

    Return how many messages agents got, and what the bot is to say in OWN.
    """
    here = platform
    own: list[str] = []
    said = [question("Which size?", "Small", "Large"), grow(folder / "going")]
    here.say(ASKED, said[0])
    await until(lambda: here.seen(ASKED))
    here.say(GOING, said[1])
    if here.edits:
        await until(lambda: here.seen(GOING) == PIECES[:1])
        said.append(grow(folder / "edited"))
        here.say(EDITED, said[2])
        await until(lambda: here.seen(EDITED) == PIECES[:1])
        await held_at(here, "edited", EDITED, lambda: (folder / "edited").write_text("9"))
    while "running" not in {one["status"] for one in await items(host, "/v1/runs")}:
        await asyncio.sleep(LOOK_SECONDS)
    await held_at(here, "edited", ASKED, lambda: here.choose(ASKED, 2))
    if here.own is not None:
        await held_at(here, here.own, OWN, lambda: own.extend(here.say_own(OWN)))
    await held_at(here, "sent", SENT, lambda: here.say(SENT, "sent"))
    await held_at(here, "send", UNSENT, lambda: here.say(UNSENT, "not sent"))
    return len([*said, *own, "not sent", "sent"]), own


async def all_settled(host: HostProcess, runs: int, messages: int) -> list[dict[str, Any]]:
    """Wait until so many runs are over and so many messages at least are settled; return the messages."""
    while True:
        ended = [one["status"] for one in await items(host, "/v1/runs?limit=100")]
        found = await items(host, "/v1/outbox?limit=100")
        if (
            ended == ["completed"] * runs
            and len(found) >= messages
            and all(one["due_at"] is None for one in found)
        ):
            return found
        assert len(ended) <= runs, "an event was run twice"
        await asyncio.sleep(LOOK_SECONDS)


@pytest.mark.parametrize("name", PLATFORMS)
async def test_a_host_that_dies_between_any_two_steps_goes_on_with_all_of_them(lent: Path, name: str) -> None:
    async with world(lent, name) as (host, here):
        said, own = await bring_to_their_steps(host, here, lent)
        before = {one["event_id"] for one in await items(host, "/v1/events?limit=100")}
        await held_at(here, "event", UNREAD, lambda: here.say_held(UNREAD, here.unread))
        host.kill()
        assert here.seen(UNREAD) == []
        await here.again()
        for go in ("going", "edited"):
            (lent / go).write_text("9")
        await host.start()
        await until(lambda: here.seen(UNREAD))
        await here.acknowledged()
        found = await all_settled(host, said + 1, said + 2)
        assert {one["status"] for one in found} == {"sent"}
        events = await items(host, "/v1/events?limit=100")
        assert {one["event_id"] for one in events} > before
        asked = here.seen(ASKED)
        assert ("Answered by" in asked[0]) == here.edits
        assert [one for one in asked if one.startswith("answered")] == asked[-1:]
        assert here.seen(GOING) == [WHOLE]
        assert here.seen(EDITED) == [WHOLE] * here.edits
        assert here.seen(UNSENT) == ["not sent"]
        assert here.seen(SENT) == ["sent"] * (1 if "sent" in here.knows else 2)
        assert len([one for one in here.seen(UNREAD) if one.startswith(here.unread)]) == 1
        marked = sorted(one["text"] for one in found if one["maybe_twice"])
        if here.own is not None:
            assert here.seen(OWN) == [*own, *(one for one in own if one in marked)]
        unsure = {"not sent": "send", "sent": "sent"}
        assert [one for one in marked if one in unsure] == [
            text for text, step in unsure.items() if step not in here.knows
        ]
        assert here.edits is False or set(marked) <= set(unsure)
