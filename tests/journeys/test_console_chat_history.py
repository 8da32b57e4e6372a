"""A conversation of two thousand messages on the chat page: what is far away is not there; nothing jumps."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.domain.place import Place
from hostler.storage.port import Tx
from hostler.storage.stores import transcripts
from hostler_protocol.content import Message
from support.axe import serious_mistakes
from support.chat_rows import ANSWER, FILLED, FROM_MIDDLE, IN_VIEW, LOG, ROWS, SHOWN
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import sign_in
from support.examples import SOAK
from support.http_host import WORKSPACE, Served, serving
from support.main_thread import tasks_of

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
MANY = 2_000
PAGE = 50
MOST_MS = 50 if SOAK else 150
"""Processor time of one task. Beside other tests caches are cold, and each task takes longer."""
MOST_ROWS = 90
"""In a view of 900 pixels: those in it, and at most thirty on either side of it."""


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def opened(served: Served, page: Page) -> None:
    def fill(tx: Tx) -> None:
        for n in range(MANY):
            message = (
                Message(role="assistant", content=ANSWER.format(n=n))
                if n % 2
                else Message(role="user", content=f"question {n}")
            )
            transcripts.append(
                tx, WORKSPACE, transcripts.item_of(message, Place(conversation_id="long"), created_at=n + 1)
            )

    await served.host.db.write(fill)
    await page.resize(1280, 900)
    await sign_in(served, page, "/chat")


async def test_two_thousand_messages_are_read_upwards(served: Served, page: Page) -> None:
    await opened(served, page)
    most = 0
    async with tasks_of(page) as tasks:
        await page.open(f"{served.url}/chat/long")
        await page.until(f"{FILLED} && {IN_VIEW}.at(-1).textContent.includes('{MANY - 1}')")
        for number in range(1, MANY // PAGE):
            await page.evaluate(f"({LOG}.scrollTop = 0, true)")
            await page.until(FILLED)
            await page.evaluate(SHOWN)
            held = f"document.getElementById({json.dumps(await page.evaluate(f'{IN_VIEW}[0].id'))})"
            before = await page.evaluate(f"{held}.getBoundingClientRect().top")
            await page.evaluate("(document.querySelector('.older').click(), true)")
            top = f"parseFloat({ROWS}[0].previousElementSibling?.style.height ?? 0)"
            await page.until(
                f"{top} > 0" if number < MANY // PAGE - 1 else "document.querySelector('.older') === null"
            )
            await page.until(FILLED)
            await page.evaluate(SHOWN)
            after = await page.evaluate(f"{held}.getBoundingClientRect().top")
            assert abs(after - before) <= 2, (number, before, after)
            most = max(most, await page.evaluate("document.querySelectorAll('.chat-rows > li').length"))
        await page.evaluate(f"({LOG}.scrollTop = 0, true)")
        await page.until(f"{FILLED} && {IN_VIEW}[0].textContent.includes('question 0')")
    print("longest tasks, ms:", *tasks.longest(), "most rows:", most)
    assert tasks.longest_ms < MOST_MS, tasks.longest()
    assert most <= MOST_ROWS
    places = f"{ROWS}.map((one) => [one.ariaPosInSet, one.ariaSetSize])"
    found = await page.evaluate(places)
    assert found[:20] == [[str(at + 1), str(MANY)] for at in range(20)]
    assert [int(at) for at, _ in found] == sorted(int(at) for at, _ in found)
    assert await serious_mistakes(page) == []
    # back to the end, where nothing but the end is
    await page.evaluate("(document.querySelector('.to-end').click(), true)")
    await page.until(f"{FILLED} && {IN_VIEW}.at(-1).textContent.includes('{MANY - 1}')")
    assert await page.evaluate(f"{LOG}.scrollHeight - {LOG}.scrollTop - {LOG}.clientHeight") < 2
    assert await page.evaluate(f"{ROWS}.length") <= MOST_ROWS
    assert page.complaints == []


async def test_a_link_leads_to_a_message_and_what_has_the_focus_stays(served: Served, page: Page) -> None:
    await opened(served, page)
    address = "/v1/conversations/long/history?limit=100"
    history = (await served.client.get(address)).json()
    for _ in range(5):
        history = (await served.client.get(f"{address}&before={history['next_cursor']}")).json()
    wanted = history["items"][40]["transcript_id"]
    await page.open(f"{served.url}/chat/long?at={wanted}")
    box = "document.querySelector('.marked').getBoundingClientRect()"
    await page.until(f"document.querySelector('.marked') !== null && {FILLED} && {FROM_MIDDLE} < 5")
    number = await page.evaluate(f"{ROWS}.indexOf(document.querySelector('.marked'))")
    assert 0 < number < await page.evaluate(f"{ROWS}.length - 1")
    # what is said meanwhile moves nothing, and is followed by whoever looks at the end
    top, height = await page.evaluate(f"[{box}.top, {LOG}.scrollHeight]")
    last = f"{ROWS}.at(-1)"
    strips = "document.querySelectorAll('.strip.over').length"
    await served.say("say 1", conversation_id="long")
    await page.until(f"{LOG}.scrollHeight > {height}")
    await page.evaluate(SHOWN)
    assert abs(await page.evaluate(f"{box}.top") - top) <= 2
    await page.evaluate("(document.querySelector('.to-end').click(), true)")
    await page.until(f"{strips} === 1 && {FILLED} && {IN_VIEW}.includes({last})")
    await served.say("say 1", conversation_id="long")
    await page.until(f"{strips} === 2 && {FILLED} && {IN_VIEW}.includes({last})")
    # whoever has something in hand keeps it, however far they look
    await page.open(f"{served.url}/chat/long?at={wanted}")
    await page.until(f"document.querySelector('.marked') !== null && {FILLED} && {FROM_MIDDLE} < 5")
    await page.evaluate("(document.querySelector('.marked button').focus(), true)")
    for top in (0, 10**7):
        await page.evaluate(f"({LOG}.scrollTop = {top}, true)")
        await page.until(f"{FILLED} && !{IN_VIEW}.includes(document.querySelector('.marked'))")
        assert await page.evaluate("document.activeElement.closest('.marked') !== null")
    await page.press("Tab")
    await page.until(f"{FILLED} && {IN_VIEW}.some((one) => one.contains(document.activeElement))")
    assert await page.evaluate(f"{ROWS}.length") <= MOST_ROWS
    assert page.complaints == []
