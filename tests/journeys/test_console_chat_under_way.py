"""What is on its way in a chat, while tabs and hosts come and go and the network hangs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.chat_page import (
    TEXTS,
    begin,
    choose,
    conversation_of,
    last_said,
    press,
    same_as_the_history,
    write,
)
from support.chat_tabs import COMPOSED, FILES, at_tabs, attach, reload, shows_once
from support.chromium import NEEDS_CHROMIUM
from support.console import say, shown, there
from support.console_words import in_languages
from support.editors import said, steps
from support.unix_gate import Gate
from support.wire_client import ask

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
BIG = 3_000_000
"""More bytes than a network that hangs takes up on the way."""
SLOW = 20_000
"""Bytes a second: minutes for a big file."""


@in_languages("en", "zh")
async def test_a_steer_keeps_its_receipt(tmp_path: Path) -> None:
    async with at_tabs(tmp_path) as tabs:
        page = tabs.page
        await begin(page)
        handed = say("receipt.steered")
        async with Gate(tmp_path) as never, Gate(tmp_path) as gate:
            pulls = [["gate", gate.path], ["call", "steering.pull", {}], said("听到了。")]
            await choose(page, "steered")
            await write(page, json.dumps({"1": [["gate", never.path]], "else": pulls}))
            await page.until(there(".strip.works"))
            await write(page, "先喝茶")
            await page.until(shown(handed))
            tabs.network.hang()
            await write(page, "再喝咖啡")
            await page.until(shown(say("chat.sending")))
            await shows_once(page, "再喝咖啡")
            tabs.network.join()
            receipts = "[...document.querySelectorAll('.by-person .receipt')].map((one) => one.textContent)"
            both = f"{receipts}.length === 2 && {receipts}.every((one) => one === {json.dumps(handed)})"
            await page.until(both)
            async with tabs.another() as second:
                await second.until(both)
                for lose in (reload(page), tabs.killed()):
                    await lose
                    for tab in (page, second):
                        await tab.until(f"{both} && !{shown(say('state.reconnecting'))}")
                        for text in ("先喝茶", "再喝咖啡"):
                            await shows_once(tab, text)
                gate.open()
                for tab in (page, second):
                    await tab.until(f"{TEXTS}.at(-1) === '听到了。'")
                    await tab.until("document.querySelectorAll('.by-person .receipt.good').length === 2")
                    history = await same_as_the_history(tabs.host, tab, await conversation_of(page))
        assert [text for role, text in history if role == "user"][1:] == ["先喝茶", "再喝咖啡"]
        assert page.complaints == []


@in_languages("en", "zh")
async def test_an_upload_is_there_once_or_has_failed(tmp_path: Path) -> None:
    async with at_tabs(tmp_path) as tabs:
        page, host = tabs.page, tabs.host
        await begin(page)
        await choose(page, "helper")
        await write(page, steps(said("好。")))
        conversation = await conversation_of(page)
        await page.until(f"{TEXTS}.at(-1) === '好。' && {there('.strip.over')}")

        async def stored() -> list[str]:
            path = f"/v1/artifacts?conversation_id={conversation}"
            return [one["name"] for one in (await ask(host.url, "GET", path)).json()["items"]]

        # the host is killed in mid upload: the file is sent again, and is there once
        tabs.network.hang()
        await attach(page, "一.bin", BIG)
        await page.until(there(".composer progress"))
        await page.type_into(".composer textarea", "看看这")
        tabs.kill()
        tabs.network.cut()
        tabs.network.join()
        await host.start()
        await page.until(
            f"{FILES} === 1 && !{there('.composer progress')} && !{there('.composer .file.bad')}"
        )
        assert await stored() == ["一.bin"]
        # one is on its way when the page is loaded anew: it says so, and the other one is still there
        await page.network(sent_per_second=SLOW)
        await attach(page, "二.bin", BIG)
        await page.until(f"document.querySelector('.composer progress')?.value > 0 && {FILES} === 2")
        await reload(page)
        await page.until(f"{FILES} === 2 && {shown(say('files.cut_off'))}")
        assert await page.evaluate(COMPOSED) == "看看这"
        assert await page.evaluate("document.querySelector('.composer-line .primary').disabled")
        await page.network()
        again = "document.querySelector('.composer .file.bad input[type=file]')"
        await page.evaluate(
            "(() => { const files = new DataTransfer();"
            f" files.items.add(new File([new Uint8Array({BIG})], '二.bin', {{type: 'image/x-dot'}}));"
            f" const field = {again}; field.files = files.files;"
            " field.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )
        await page.until(
            f"{FILES} === 2 && !{there('.composer progress')} && !{there('.composer .file.bad')}"
        )
        # one goes elsewhere meanwhile, and comes back
        await page.network(sent_per_second=SLOW)
        await attach(page, "三.bin", BIG)
        await page.until(there(".composer progress"))
        await press(page, ".conversations-head a")
        await page.until(f"location.pathname === '/chat' && {FILES} === 0")
        await page.evaluate("(history.back(), true)")
        await page.until(f"location.pathname !== '/chat' && {FILES} === 3 && {there('.composer progress')}")
        await page.network()
        await page.until(
            f"{FILES} === 3 && !{there('.composer progress')} && !{there('.composer .file.bad')}"
        )
        assert sorted(await stored()) == ["一.bin", "三.bin", "二.bin"]
        # the host is away for long: it has failed, and is sent again by hand
        tabs.kill()
        await attach(page, "四.bin", 10)
        await page.until(f"{there('.composer .file.bad')} && {shown(say('state.unreachable'))}")
        await host.start()
        await press(page, ".composer .file.bad button")
        await page.until(
            f"{FILES} === 4 && !{there('.composer progress')} && !{there('.composer .file.bad')}"
        )
        assert len(await stored()) == 4
        async with tabs.another() as second:
            await write(page, steps(["show_context"]))
            await page.until(f"{TEXTS}.length === 2 && !{there('.growing')}")
            names = [one["name"] for one in (await last_said(host, page))["input"]["attachments"]]
            assert names == ["一.bin", "二.bin", "三.bin", "四.bin"]
            for tab in (page, second):
                await tab.until("document.querySelectorAll('.by-person .file').length === 4")
                await same_as_the_history(host, tab, conversation)
        assert page.complaints == []
