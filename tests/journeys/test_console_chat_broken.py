"""The chat of the console in a real browser: whatever breaks, nothing is lost or doubled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.chat_page import TEXTS, at_chat, begin, choose, conversation_of, same_as_the_history, write
from support.chromium import NEEDS_CHROMIUM
from support.console import shown
from support.console_words import in_languages
from support.cut_network import network_to
from support.editors import said, steps
from support.unix_gate import Gate
from support.wire_client import ask

FILL = """(() => {
  for (let size = 1 << 20, count = 0; size; )
    try { sessionStorage.setItem(`full ${count++}`, "x".repeat(size)); } catch { size >>= 1; }
})()"""
"""A script: from now on the storage of the tab is full."""
pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]


@in_languages("en", "zh")
async def test_a_reload_a_killed_host_and_a_second_tab_lose_and_double_nothing(tmp_path: Path) -> None:
    async with at_chat(tmp_path) as (host, page), Gate(tmp_path) as gate, Gate(tmp_path) as later:
        program = json.dumps(
            {
                "1": [
                    ["deltas", 50, "one "],
                    said("one"),
                    ["deltas", 50, "two "],
                    ["gate", gate.path],
                    ["gate", later.path],
                ],
                "else": [["deltas", 50, "again "], said("Back again.")],
            }
        )
        await begin(page)
        await write(page, program)
        conversation = await conversation_of(page)
        await page.until(f"{TEXTS}.length === 2 && {TEXTS}[1].endsWith('two')")
        async with page.another() as second:
            await second.resize(1280, 900)
            await second.open(f"{host.url}/chat/{conversation}")
            for tab in (page, second):
                if tab is page:
                    await page.open(f"{host.url}/chat/{conversation}")  # in mid stream
                await tab.until(f"{TEXTS}.length === 2 && {TEXTS}[0] === 'one'")
                await tab.until(f"{TEXTS}[1].split(' ').length === 50")
            # what is typed while the host is away waits, also over a reload
            port = int(host.url.rpartition(":")[2])
            await page.type_into(".composer textarea", "half a thou")
            host.kill()
            await page.until(shown("Not connected"))
            await write(second, steps(said("from the second tab")))
            await second.until(shown("Being sent"))
            host.options += ["--port", str(port)]
            await host.start()
            for tab in (page, second):
                await tab.until(f"{shown('Back again.')} && {shown('from the second tab')}")
                history = await same_as_the_history(host, tab, conversation)
            assert [text for role, text in history if role == "user"][1:] == [
                steps(said("from the second tab"))
            ]
            assert await page.evaluate("document.querySelector('.composer textarea').value") == "half a thou"
            # one writes, the other sees it
            await write(page, steps(said("seen in both")))
            await second.until(f"{TEXTS}.at(-1) === 'seen in both'")
            await same_as_the_history(host, second, conversation)
        # typed while nothing is reached, and the tab is loaded anew before it was sent
        await page.network(offline=True)
        await write(page, steps(said("kept")))
        await page.until(shown("Being sent"))
        await page.network()
        await page.open(f"{host.url}/chat/{conversation}")
        await page.until(f"{TEXTS}.at(-1) === 'kept'")
        history = await same_as_the_history(host, page, conversation)
        assert [text for role, text in history].count(steps(said("kept"))) == 1
        # a browser that keeps nothing more: messages are sent all the same, one after the other
        await page.evaluate(FILL)
        for text in ("not kept", "nor this"):
            await write(page, steps(said(text)))
            await page.until(f"{TEXTS}.at(-1) === {json.dumps(text)}")
        assert page.complaints == []


@in_languages("en", "zh")
async def test_a_network_that_is_slow_and_cut_only_delays(tmp_path: Path) -> None:
    async with (
        at_chat(tmp_path) as (host, page),
        network_to(int(host.url.rpartition(":")[2])) as network,
        Gate(tmp_path) as gate,
    ):
        code = (await ask(host.url, "POST", "/v1/auth/links", {})).json()["code"]
        await page.open(f"{network.url}/chat#sign-in={code}")
        await page.network(latency_ms=100, bytes_per_second=100_000)
        await choose(page, "helper")
        program = [["deltas", 200, "slow "], ["gate", gate.path], ["deltas", 200, "fast "], said("Through.")]
        await write(page, steps(*program))
        conversation = await conversation_of(page)
        await page.until(f"{TEXTS}.at(-1)?.split(' ').length === 200")
        network.cut()
        await page.until(shown("Not connected"))
        gate.open()
        await write(page, steps(said("Next.")))
        await page.until(shown("Being sent"))
        network.join()
        await page.until(f"{TEXTS}.at(-1) === 'Next.' && !{shown('Not connected')}")
        assert await page.evaluate(TEXTS) == ["Through.", "Next."]
        await same_as_the_history(host, page, conversation)
