"""A message that was searched for, anywhere in a conversation of ten thousand: the chat opens around it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hostler.domain.place import Place
from hostler.storage.port import Tx
from hostler.storage.stores import transcripts
from hostler_protocol.content import Message
from support.chat_rows import ANSWER, FILLED, IN_VIEW, LOG, MARKED, ROWS, SHOWN, painted_top
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import click, say, sign_in, there
from support.console_words import in_languages
from support.http_host import WORKSPACE, Served, serving
from support.pauses import open_run

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
MANY = 10_000
FOUND = 5_001
OF_ONE_RUN = 37
"""Messages that one run has to do with: more than once a page begins in the midst of them."""
PAGES = 4
READS = "performance.getEntriesByType('resource').filter((one) => one.name.includes('/history')).length"
NUMBERS = (
    f"{ROWS}.filter((one) => one.matches('.said')).map((one) => Number(one.ariaPosInSet)"
    " - Number(/(?:question|Answer) (\\d+)/.exec(one.querySelector('.typed, .markdown').textContent)?.[1]))"
)


def fill(tx: Tx) -> None:
    """Ten thousand messages, of which one is about zebras."""
    open_run(tx, run_of(FOUND), WORKSPACE, conversation_id="another")
    for n in range(MANY):
        text = ANSWER.format(n=n) + ("about zebras" if n == FOUND else "")
        message = (
            Message(role="assistant", content=text)
            if n % 2
            else Message(role="user", content=f"question {n}")
        )
        item = transcripts.item_of(
            message,
            Place(conversation_id="long"),
            run_id=run_of(n) if n % 2 else None,
            created_at=n + 1,
        )
        transcripts.append(tx, WORKSPACE, item)


def run_of(n: int) -> str:
    return f"r-{n // OF_ONE_RUN}"


@in_languages("en", "zh")
async def test_a_message_is_found_wherever_it_is(tmp_path: Path, page: Page) -> None:
    async with serving(tmp_path / "data") as served:
        await served.host.db.write(fill)
        await page.resize(1280, 900)
        await sign_in(served, page, "/chat/long")
        await page.until(FILLED)
        reads = await page.evaluate(READS)
        await search(page)
        assert await page.evaluate(READS) - reads <= 2
        await read_on_both_ways(page)
        await to_the_latest(served, page)
        await it_links_its_run(page)
        assert page.complaints == []


async def search(page: Page) -> None:
    """Search, and go where the message is."""
    await page.type_into(".conversations-head input", "zebras")
    await page.until("document.querySelectorAll('.conversation-links .excerpt').length === 1")
    await page.evaluate("(document.querySelector('.conversation-links a').click(), true)")
    await page.until(MARKED)
    await page.evaluate(SHOWN)
    assert await page.evaluate(MARKED)
    assert await page.evaluate("document.querySelector('.marked').textContent.includes('about zebras')")


async def read_on_both_ways(page: Page) -> None:
    """Page by page up and down: nothing is missing, comes twice or jumps."""
    for button, end, place in (
        (".older", 0, f"{ROWS}[0].previousElementSibling"),
        (".later", 10**7, f"{ROWS}.at(-1).nextElementSibling"),
    ):
        seen = "0" if end == 0 else "-1"
        for _ in range(PAGES):
            await page.evaluate(f"({LOG}.scrollTop = {end}, true)")
            await page.until(f"{place} === null && {FILLED}")
            await page.evaluate(SHOWN)
            held = f"document.getElementById({json.dumps(await page.evaluate(f'{IN_VIEW}.at({seen}).id'))})"
            before = await page.evaluate(painted_top(held))
            await page.evaluate(f"(document.querySelector({json.dumps(button)}).click(), true)")
            await page.until(f"{place} !== null && {FILLED}")
            await page.evaluate(SHOWN)
            after = await page.evaluate(painted_top(held))
            assert abs(after - before) <= 2, (button, before, after)
            assert len(set(await page.evaluate(NUMBERS))) == 1


async def to_the_latest(served: Served, page: Page) -> None:
    """What is said meanwhile moves nothing; one comes to it, and to what one says oneself."""
    await search(page)
    top = painted_top("document.querySelector('.marked')")
    before = await page.evaluate(top)
    reads = await page.evaluate(READS)
    await served.say("say 1", conversation_id="long")
    await page.until(f"{READS} > {reads}")
    await page.evaluate(SHOWN)
    assert abs(await page.evaluate(top) - before) <= 2
    await click(page, f"↓ {say('chat.to_end')}")
    last = f"{IN_VIEW}.includes({ROWS}.at(-1))"
    await page.until(f"{FILLED} && {last} && {ROWS}.at(-1).matches('.strip.over')")
    assert not await page.evaluate(there(".later"))
    assert await page.evaluate("location.search") == "?q=zebras"
    numbers = await page.evaluate(f"{NUMBERS}.filter((one) => !Number.isNaN(one))")
    assert len(set(numbers)) == 1
    await search(page)
    await page.type_into(".composer textarea", "say 1")
    await page.until("!document.querySelector('.composer-line .primary').disabled")
    await page.press("Enter")
    await page.until("document.querySelectorAll('.strip.over').length === 2")
    await page.until(f"{FILLED} && {last} && !{there('.later')}")


async def it_links_its_run(page: Page) -> None:
    """Also after the page was loaded anew."""
    await search(page)
    await page.evaluate("(window.before = true, location.reload())")
    await page.until(f"!window.before && {MARKED}")
    link = "document.querySelector('.marked .tools a')"
    assert await page.evaluate(f"{link}.getAttribute('href')") == f"/runs/{run_of(FOUND)}"
    await page.evaluate(f"({link}.click(), true)")
    await page.until(f"location.pathname === '/runs/{run_of(FOUND)}' && {there('main#main h1')}")
