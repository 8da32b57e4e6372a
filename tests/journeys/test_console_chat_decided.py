"""What waits for a decision in a chat, while tabs and hosts come and go: asked once, decided once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.chat_page import (
    CHANGED,
    TEXTS,
    begin,
    conversation_of,
    last_said,
    press,
    same_as_the_history,
    write,
)
from support.chat_tabs import COMPOSED, DECIDED, OPEN, at_tabs, reload
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import click, say, shown, there
from support.console_words import in_languages
from support.editors import said, steps
from support.shop import asking, calling

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
FORM = asking(
    kind="form",
    title="Which size?",
    fields=[
        {"name": "size", "type": "select", "options": ["s", "m"], "required": True},
        {"name": "note", "type": "text"},
    ],
)
NOTE = "document.querySelector('.call-card.is-open .stacked textarea')?.value"
FILLED = (
    "[document.querySelector('.call-card.is-open select')?.selectedOptions[0]?.text,"
    " document.querySelector('.call-card.is-open input[type=text]')?.value]"
)
LAST = "[...document.querySelectorAll('.call-card.is-decided')].at(-1)?.innerText"


@in_languages("en", "zh")
async def test_an_approval_outlives_reloads_and_kills(tmp_path: Path) -> None:
    async with at_tabs(tmp_path) as tabs:
        page = tabs.page
        await begin(page, "both")
        await write(page, steps(calling("shop.book", kind="double"), ["tell"]))
        await page.until(f"{OPEN} === 1 && {shown('shop.book')}")
        await click(page, say("decision.comment"), ".call-card")
        await page.until(there(".call-card .stacked textarea"))
        await page.type_into(".call-card .stacked textarea", "as agr")
        await page.type_into(".composer textarea", "half a thou")
        for lose in (reload(page), tabs.killed()):
            await lose
            await page.until(f"{OPEN} === 1 && {NOTE} === 'as agr' && !{shown('Not connected')}")
            assert await page.evaluate(COMPOSED) == "half a thou"
        # what is pressed while nothing answers is said, and can be pressed again
        tabs.kill()
        await page.until(shown("Not connected"))
        await press(page, ".call-card .approve:not(:disabled)")
        await page.until(f"{OPEN} === 1 && {shown(say('state.unreachable'))}")
        await tabs.host.start()
        await page.until(f"!{shown('Not connected')}")
        async with tabs.another() as second:
            await second.until(f"{OPEN} === 1 && {shown('shop.book')}")
            await press(page, ".call-card .approve:not(:disabled)")
            for tab in (page, second):
                await tab.until(f"{OPEN} === 0 && {DECIDED} === 1 && {LAST}.includes('admin')")
                await tab.until(
                    f"{LAST}.includes('{say('decision.was.approved')}') && {LAST}.includes('as agr')"
                )
                await tab.until(f"{TEXTS}.length === 1")
        history = await same_as_the_history(tabs.host, page, await conversation_of(page))
        assert len(history) == 2
        (booked,) = await last_said(tabs.host, page)
        assert booked["result"]["booking"] == "B1"
        assert page.complaints == []


@in_languages("en", "zh")
async def test_who_was_second_sees_what_was_decided(tmp_path: Path) -> None:
    async with at_tabs(tmp_path) as tabs:
        page = tabs.page
        await begin(page, "both")
        await write(page, steps(calling("shop.book", kind="single"), said("And so on.")))
        async with tabs.person("rita") as rita:
            for tab in (page, rita):
                await tab.until(f"{OPEN} === 1 && {shown('single')}")
                await tab.until(there(".call-card.is-open .approve:not(:disabled)"))
            tabs.network.hang()
            await press(page, ".call-card.is-open .approve")
            await click(rita, say("decision.deny_with"), ".call-card.is-open")
            await rita.type_into(".call-card.is-open .stacked textarea", "Too dear.")
            await click(rita, say("decision.deny"), ".call-card.is-open")
            await rita.until(f"{OPEN} === 0 && {LAST}.includes('rita')")
            tabs.network.join()
            faster = say("decision.already_decided", by="rita", what=say("decision.was.denied"), at="")
            await page.until(f"{OPEN} === 0 && {LAST}.includes({json.dumps(faster.rstrip('.。 ,，'))})")
            for tab in (page, rita):
                told = json.dumps([say("decision.was.denied"), "rita", "Too dear."])
                await tab.until(f"{told}.every((one) => {LAST}.includes(one))")
                await tab.until(f"{TEXTS}.at(-1) === 'And so on.'")
                assert not await tab.evaluate(there(".call-card .wrong"))
            assert rita.complaints == []
        assert page.complaints == []


@in_languages("en", "zh")
async def test_a_half_filled_form_outlives_reloads_and_kills(tmp_path: Path) -> None:
    async with at_tabs(tmp_path) as tabs:
        page = tabs.page
        await begin(page, "both")
        await write(page, steps(FORM, ["tell"]))
        await choose_size(page, 2)
        await page.type_into(".call-card.is-open input[type=text]", "for A")
        for lose in (reload(page), tabs.killed()):
            await lose
            await page.until(f"{OPEN} === 1 && {FILLED}.join() === 'm,for A' && !{shown('Not connected')}")
        async with tabs.person("ada") as ada:
            await choose_size(ada, 1)
            await press(ada, ".call-card.is-open .primary:not(:disabled)")
            told = json.dumps([say("decision.was.answered"), "ada"])
            for tab in (ada, page):
                await tab.until(f"{OPEN} === 0 && {told}.every((one) => {LAST}.includes(one))")
                await tab.until(f"{TEXTS}.at(-1).includes('\"size\"')")
        (given,) = await last_said(tabs.host, page)
        assert given["values"]["size"] == "s"
        assert page.complaints == []


async def choose_size(page: Page, index: int) -> None:
    await page.until(there(".call-card.is-open select"))
    await page.evaluate(
        "(() => { const field = document.querySelector('.call-card.is-open select');"
        f" field.selectedIndex = {index}; {CHANGED} }})()"
    )
