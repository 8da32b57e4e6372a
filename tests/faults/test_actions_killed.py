"""kill -9 of the host around an action on a platform: it is done once, or people say what became of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.channel_process import LOOK_SECONDS, SECONDS, World, world
from support.wire_client import ask

pytestmark = [pytest.mark.timeout(SECONDS + 30), pytest.mark.gate("killed-hosts")]
POLICY = {"allowed_actions": ["*"], "actions_without_approval": ["*"]}


def acts(folder: Path) -> list[dict[str, Any]]:
    """What the platform did."""
    done = folder / "acts"
    return [json.loads(line) for line in done.read_text().splitlines()] if done.exists() else []


def say(here: World, name: str, **fields: Any) -> None:
    here.chat.say(json.dumps({"action": name, **fields}))


async def in_review(here: World) -> dict[str, Any]:
    while True:
        items = (await ask(here.host.url, "GET", "/v1/pauses")).json()["items"]
        if found := [one for one in items if one["status"] == "needs_review"]:
            pause: dict[str, Any] = (await ask(here.host.url, "GET", f"/v1/pauses/{found[0]['id']}")).json()
            return pause
        await asyncio.sleep(LOOK_SECONDS)


@pytest.mark.parametrize("step", ["act", "acted"])
async def test_what_may_be_done_twice_is_done_again_under_its_key(tmp_path: Path, step: str) -> None:
    async with world(tmp_path, "keyed", acts=tmp_path / "acts", policy=POLICY) as here:
        here.kill_at(step)
        say(here, "message.react", payload={"emoji": "+"})
        await here.died()
        await here.host.start()
        assert await here.chat.until(1) == ['done {"did": "message.react"}']
        done = acts(tmp_path)
        assert len(done) == 1 + (step == "acted")
        assert len({one["key"] for one in done}) == 1


@pytest.mark.parametrize("step", ["act", "acted"])
async def test_what_may_not_is_never_done_twice(tmp_path: Path, step: str) -> None:
    async with world(tmp_path, "keyed", acts=tmp_path / "acts", policy=POLICY) as here:
        here.kill_at(step)
        say(here, "member.kick", target="bob")
        await here.died()
        await here.host.start()
        pause = await in_review(here)
        assert len(acts(tmp_path)) == (step == "acted")
        (question,) = await here.chat.until(1)
        assert question.startswith("echo asks: Did platform.member_kick do its work?")
        call = pause["calls"][0]["call_id"]
        told = {"outcome": "happened", "result": "yes"} if step == "acted" else {"outcome": "not_happened"}
        await ask(here.host.url, "POST", f"/v1/pauses/{pause['id']}/calls/{call}/resolve", told)
        answer = 'done "yes"' if step == "acted" else 'done {"did": "member.kick"}'
        asked, decided, answered = await here.chat.until(3)
        assert (asked, answered) == (question, answer)
        assert decided.startswith("Did platform.member_kick do its work?: admin says that it")
        assert len(acts(tmp_path)) == 1


@pytest.mark.parametrize("step", ["act", "acted"])
async def test_an_action_without_an_answer_is_done_or_in_doubt(tmp_path: Path, step: str) -> None:
    async with world(tmp_path, "keyed", acts=tmp_path / "acts", policy=POLICY) as here:
        here.kill_at(step)
        say(here, "member.kick", target="bob", later=True)
        await here.died()
        await here.host.start()
        assert await here.chat.until(1) == ["asked"]
        found = {one["action"]: one["status"] for one in await here.settled(2)}
        assert found == {"member.kick": "in_doubt", None: "sent"}
        assert len(acts(tmp_path)) == (step == "acted")
