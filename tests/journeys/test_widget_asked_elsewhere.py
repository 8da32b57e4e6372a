"""A visitor of a page asks for something, and an operator in a chat approves it there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.channel_process import LOOK_SECONDS, items
from support.chat_platform import TOKEN, platform
from support.chromium import NEEDS_CHROMIUM, browsing
from support.server_process import PLUGINS, HostProcess, config_file, serving
from support.widget_page import site

pytestmark = [pytest.mark.gate("widgets", "channels"), pytest.mark.timeout(300), NEEDS_CHROMIUM]
ROOT = "document.querySelector('#hostler-widget-help').shadowRoot"
SHOWN = f"{ROOT}.querySelector('.log').innerText"


def configured(folder: Path, origin: str, port: int) -> Path:
    """A widget whose agent asks in the chat `desk` of a channel, where zoe decides."""
    token = folder / "token"
    token.write_text(TOKEN)
    rule = {"player.book": {"approval": "required", "subjects": ["person:ops/zoe"]}}
    agent = {
        "name": "helper",
        "runner": "plugin:test/player/default",
        "resource_policy": {"allowed_tool_names": ["player.*"], "tool_approval": rule},
        "delivery_policy": {"ask_in": ["ops/desk"]},
    }
    channel: dict[str, Any] = {"name": "ops", "channel": "plugin:test/wires/rich"}
    channel["config"] = {"port": port, "token": f"file:{token}"}
    return config_file(
        folder / "hostler.yaml",
        plugins=[PLUGINS / "player", PLUGINS / "wires"],
        agents=[agent],
        channels=[channel],
        widgets=[{"name": "help", "agent": "helper", "origins": [origin]}],
    )


async def test_what_a_visitor_asks_for_is_approved_by_an_operator_in_a_chat(tmp_path: Path) -> None:
    booked = tmp_path / "booked"
    async with asyncio.timeout(240), platform() as ops:
        with site() as place:
            config = configured(tmp_path, place.origin, ops.port)
            async with serving(HostProcess(tmp_path / "data", config)) as host, browsing() as page:
                while (await items(host, "/v1/channels"))[0]["health"] != "connected":
                    await asyncio.sleep(LOOK_SECONDS)
                await page.open(place.show("/", host.url, "help"))
                await page.until("window.Hostler !== undefined")
                await page.evaluate("Hostler.open()")
                await page.until(f"{ROOT}.activeElement?.tagName === 'TEXTAREA'")
                script = json.dumps([["tool", "player.book", {"path": str(booked)}, "a"]])
                await page.insert(script)
                await page.press("Enter")
                await page.until(f"{SHOWN}.includes('Waiting for a person to decide')")
                (asked,) = await ops.until(1, "desk")
                assert str(booked) in asked, "the arguments are seen where it is decided"
                number = next(int(one["number"]) for one in ops.said if one["said"] == asked)
                ops.press(number, "Approve", by="mallory")
                await ops.holds(lambda: ops.notices)
                assert ops.notices[0][1].startswith("This is not yours to decide")
                assert not booked.exists()

                await page.open(place.show("/", host.url, "help"))  # the visitor reloads meanwhile
                await page.until(f"{SHOWN}.includes('Waiting for a person to decide')")
                ops.press(number, "Approve", by="zoe")
                await page.until(f"{SHOWN}.includes('A person has approved it')")
                await page.until(f"{SHOWN}.includes('player.book: \"booked\"')")
                assert booked.read_text() == "booked\n"
                await ops.holds(lambda: number in ops.edits)
                assert ops.said[number - 1]["said"].endswith("Approved by Zoe.")
                assert len(ops.by_bot("desk")) == 1, "the answer is the visitor's alone"
                assert page.complaints == []
