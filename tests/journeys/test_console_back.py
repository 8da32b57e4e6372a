"""From page to page in a real browser: Back shows the rows one came from, and the focus is where one is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.host.data_directory import own_database
from hostler.storage.port import Tx
from hostler.storage.stores import audit
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import choose, click, shown, sign_in, there
from support.console_scene import scene
from support.console_words import in_languages
from support.http_host import Served, serving
from support.many_runs import insert_runs

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
MANY = 12_000
IN_VIEW = (
    "[...document.querySelectorAll('.rows .slot')].filter((one) => { const at = one.getBoundingClientRect();"
    " return at.top >= 0 && at.bottom <= innerHeight; })"
)
ROWS = f"JSON.stringify({IN_VIEW}.map((one) => one.querySelector('a')?.getAttribute('href') ?? null))"
"""The addresses in the rows that are wholly in view; null for a row that is not read."""
READ = f"{IN_VIEW}.length > 3 && !{ROWS}.includes('null')"
FOCUS = "document.activeElement"
ON_HEADING = f"{FOCUS}?.matches('main h1')"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def scroll(page: Page, part: float) -> str:
    """Scroll to a part of a list, and return the rows that are in view there."""
    wanted = f"Math.round({part} * (document.documentElement.scrollHeight - innerHeight))"
    await page.until(f"(scrollTo(0, {wanted}), scrollY === {wanted} && {READ})")
    # once it is painted, and nothing of it moves any more
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    await page.until(f"scrollY === {wanted} && {READ}")
    rows: str = await page.evaluate(ROWS)
    return rows


async def follow(page: Page, link: str) -> None:
    """Follow a link by keyboard."""
    await page.until(f"({link}.focus({{preventScroll: true}}), {FOCUS} === {link})")
    await page.press("Enter")


async def at_a_run(page: Page) -> None:
    await page.until(f"location.pathname.startsWith('/runs/') && {there('.run-facts')}")


async def test_back_shows_the_runs_that_one_came_from(tmp_path: Path, served: Served, page: Page) -> None:
    insert_runs(own_database(tmp_path / "data"), MANY)
    await page.resize(1440, 900)
    await sign_in(served, page, "/runs")
    await page.until("document.querySelector('.sums')?.getAttribute('aria-busy') === 'false'")
    for query, part in (("", 0.9), ("?agent=agent-7", 0.6), ("?status=completed", 0.7)):
        await page.open(f"{served.url}/runs{query}")
        await page.until(f"document.querySelector('.sums')?.getAttribute('aria-busy') === 'false' && {READ}")
        if "status" in query:  # is read page by page
            await page.until("(scrollTo(0, document.body.scrollHeight), scrollY > 12000)")
        rows = await scroll(page, part)
        place = json.loads(rows)[2]
        await follow(page, f"document.querySelector('main a[href={json.dumps(place)}]')")
        await at_a_run(page)
        assert await page.evaluate("scrollY") == 0
        await served.say("say 1", conversation_id="meanwhile")  # is above the list
        await page.evaluate("history.back()")
        await page.until(f"{ROWS} === {json.dumps(rows)}")
        # who walks by keyboard goes on from there
        await page.until(f"{FOCUS}.getAttribute('href') === {json.dumps(place)}")
        assert await page.evaluate("location.search") == query
        # forward, and back by the arrow of the page
        await page.evaluate("history.forward()")
        await at_a_run(page)
        await follow(page, "document.querySelector('h1 .back')")
        await page.until(f"{ROWS} === {json.dumps(rows)}")
        # a reload, and a visit elsewhere
        await page.evaluate("(window.before = true, location.reload())")
        await page.until(f"window.before === undefined && {ROWS} === {json.dumps(rows)}")
        await page.open("about:blank")
        await page.evaluate("history.back()")
        await page.until(f"{ROWS} === {json.dumps(rows)}")
        # other filters are another list
        await choose(page, "select[name=status]", "failed")
        await page.until(f"location.search.includes('status=failed') && !{there('main .loading')}")
        await page.until(f"{ROWS} !== {json.dumps(rows)}")
    # a new visit begins at the top
    await page.evaluate("document.querySelector('.navigation a[href=\"/runs\"]').click()")
    await page.until(f"location.search === '' && scrollY === 0 && {READ}")
    assert page.complaints == []


async def test_back_shows_the_entries_of_the_audit_log(served: Served, page: Page) -> None:
    run = await served.say("say 1")

    def add(tx: Tx, count: int, target: str) -> None:
        for number in range(count):
            audit.record(tx, "default", "ada", "run.retried", f"{target}{number}", {})

    await served.host.db.write(lambda tx: audit.record(tx, "default", "ada", "run.forked", run["run_id"], {}))
    await served.host.db.write(lambda tx: add(tx, 250, "before-"))
    await page.resize(1440, 900)
    await sign_in(served, page, "/audit?action=run")
    link = f"document.querySelector('.what a[href=\"/runs/{run['run_id']}\"]')"
    await page.until(f"(scrollTo(0, document.body.scrollHeight), {link} !== null)")
    await page.until(f"(scrollTo(0, document.body.scrollHeight - innerHeight - 100), {READ})")
    targets = f"JSON.stringify({IN_VIEW}.map((one) => one.querySelector('.what').innerText))"
    rows = await page.evaluate(targets)
    await follow(page, link)
    await at_a_run(page)
    await served.host.db.write(lambda tx: add(tx, 150, "meanwhile-"))
    await page.evaluate("history.back()")
    await page.until(f"{targets} === {json.dumps(rows)}")
    assert page.complaints == []


@in_languages("en", "zh")
async def test_the_focus_is_at_the_heading_of_each_page(served: Served, page: Page) -> None:
    run = await served.say("say 1", conversation_id="c")
    await page.resize(1440, 900)
    await sign_in(served, page, "/runs")
    row = f"document.querySelector('.rows a[href=\"/runs/{run['run_id']}\"]')"
    await page.until(f"{row} !== null")
    assert await page.evaluate(f"{FOCUS} === document.body"), "a first page leaves it"
    await follow(page, row)
    await page.until(f"{ON_HEADING} && {FOCUS}.innerText.includes('puppet')")
    assert await page.evaluate("document.querySelector('h1').tabIndex") == -1
    await page.press("Tab")
    assert await page.evaluate(f"{FOCUS}.matches('h1 .back')"), "Tab goes on from the heading"
    for name in ("agents", "usage", "settings"):
        await follow(page, f"document.querySelector('.navigation a[href=\"/{name}\"]')")
        await page.until(f"location.pathname === '/{name}' && {ON_HEADING}")
    # a tab of a page is no other page
    await follow(page, "document.querySelector('.tabs a[href=\"/settings/about\"]')")
    await page.until(f"location.pathname === '/settings/about' && {there('.facts')}")
    assert await page.evaluate(f"{FOCUS}.getAttribute('href')") == "/settings/about"
    await page.evaluate("history.go(-3)")
    await page.until(f"location.pathname === '/agents' && {ON_HEADING}")
    # nor are filters
    await page.evaluate("document.querySelector('.navigation a[href=\"/runs\"]').click()")
    await page.until(f"location.pathname === '/runs' && {ON_HEADING}")
    await page.until(f"(document.querySelector('select[name=status]').focus(), {FOCUS}.name === 'status')")
    await choose(page, "select[name=status]", "failed")
    await page.until(shown("No run matches these filters"))
    assert await page.evaluate(f"{FOCUS}.name") == "status"
    # the chat gives it to the text that is to be written
    await follow(page, "document.querySelector('.navigation a[href=\"/chat\"]')")
    await page.until(f"location.pathname === '/chat' && {FOCUS}.matches('.composer textarea')")
    assert page.complaints == []


async def test_what_a_run_names_is_a_link(served: Served, page: Page) -> None:
    held = (await served.say("hold", wait=None, conversation_id="c"))["run"]["run_id"]
    body = {"reason": "enough"}
    assert (await served.client.post(f"/v1/runs/{held}/cancel", json=body)).is_success
    await sign_in(served, page, f"/runs/{held}")
    await page.until(shown("enough"))
    links = "[...document.querySelectorAll('.run-facts a')].map((one) => one.getAttribute('href'))"
    found = await page.evaluate(links)
    assert {"/agents/puppet", "/plugins/test%2Fpuppet"} <= set(found)
    assert any(one.startswith("/audit?actor=") for one in found)
    await click(page, "puppet", ".run-facts")
    await page.until(f"location.pathname === '/agents/puppet' && {ON_HEADING}")
    # who may not read those pages is led to none of them
    await sign_in(served, page, f"/runs/{held}", await served.key("default", "runs:read"))
    await page.until(shown("enough"))
    assert {one.split("?")[0] for one in await page.evaluate(links)} == {"/runs"}
    assert page.complaints == []


async def test_what_a_step_names_is_a_link(tmp_path: Path, page: Page) -> None:
    links = "[...document.querySelectorAll('.details .actions-of a')].map((one) => one.getAttribute('href'))"
    unfold = "document.querySelectorAll('.step .row[aria-expanded=\"false\"]').forEach((one) => one.click())"
    async with scene(tmp_path / "data") as made:
        pause = (await made.served.client.get(f"/v1/pauses/{made.pause_id}")).json()
        for run_id, kind, link in (
            (made.run_id, "tool", "/tools/shop.prices"),
            (pause["run_id"], "pause", f"/approvals/{made.pause_id}"),
        ):
            await sign_in(made.served, page, f"/runs/{run_id}?kind={kind}")
            await page.until(f"({unfold}, {links}.includes({json.dumps(link)}))")
        assert page.complaints == []
