"""A hundred thousand runs in a list, and runs of thousands of steps: what is far away is not in the page."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.host.data_directory import own_database
from support.axe import serious_mistakes
from support.chromium import NEEDS_CHROMIUM, Page
from support.examples import SOAK
from support.http_host import Served, serving
from support.many_runs import insert_journal, insert_runs, run_row

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
MANY = 100_000
MOST_NODES = 4_000
"""Elements and texts of a page, however long its list is."""
ROWS = "[...document.querySelectorAll('.rows .slot, .rows .slot-of-step')]"
FILLED = f"{ROWS}.length > 10 && {ROWS}.every((one) => one.querySelector('a, button') !== null)"
NODES = (
    "(() => { let n = 0; const walk = document.createTreeWalker(document); while (walk.nextNode()) n++;"
    " return n; })()"
)
GAPS = """
(() => {
  const list = document.querySelector('.rows').getBoundingClientRect(), gaps = [];
  for (let at = Math.max(list.top, 0) + 2; at < Math.min(list.bottom, innerHeight) - 2; at += 8) {
    const slot = document.elementsFromPoint(list.left + list.width / 2, at)
      .map((one) => one.closest('.slot, .slot-of-step')).find((one) => one !== null);
    if (!slot?.querySelector('a, button')) gaps.push(at);
  }
  return gaps;
})()
"""
"""An expression: the heights in the view at which there is no row of the list, or an empty one."""
COUNT = "function () { return this.flatMap((one) => [...one._pages.values()].flat()).length; }"
FRAME = "await new Promise(requestAnimationFrame)"
AT_REST = f"(async () => {{ const at = scrollY; {FRAME}; {FRAME}; return scrollY === at && ({FILLED}); }})()"
AT_END = "scrollY >= document.documentElement.scrollHeight - innerHeight - 1"
KEPT_PAGES, PAGE = 30, 100
"""Of a list that the page keeps, however far one has read."""
MOST_PAINT_MS = 300 if SOAK else math.inf
"""From the beginning of a visit until its first row is painted. Beside other tests nothing is promised."""
VISITS = 5 if SOAK else 1
PAINTED = """
(() => {
  const rows = new MutationObserver(() => {
    if (document.querySelector('.rows :is(.slot, .slot-of-step) :is(a, button)') === null) return;
    rows.disconnect();
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => (window.painted = performance.now());
      port2.postMessage(null);
    });
  });
  rows.observe(document, { childList: true, subtree: true });
})();
"""
"""A script: `window.painted` is when the first row was painted, in milliseconds since the visit began.

A message that is sent before a frame is painted comes after it.
"""
REQUESTS = (
    "performance.getEntriesByType('resource').map((one) => one.name).filter((one) => one.includes('/v1/'))"
)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def sign_in(served: Served, page: Page) -> None:
    code = (await served.client.post("/v1/auth/links", json={})).json()["code"]
    await page.open(f"{served.url}/settings#sign-in={code}")
    await page.until("document.querySelector('main h1') !== null")


async def heap(page: Page) -> int:
    """Bytes that the page's scripts hold."""
    await page.command("HeapProfiler.collectGarbage")
    return int((await page.command("Runtime.getHeapUsage"))["usedSize"])


async def first_row(page: Page, url: str, name: str) -> None:
    """Visit a page, and hold the median time of its first row against what is promised."""
    taken: list[float] = []
    for _ in range(VISITS):
        await page.open("about:blank")
        await page.open(url)
        taken.append(await page.until("window.painted"))
    print(f"first row of {name}, ms:", *taken)
    assert statistics.median(taken) < MOST_PAINT_MS, taken


async def roll(page: Page, down: int, times: int) -> tuple[int, int]:
    """Turn the wheel; at each rest the view is full. Return the first and last row of those there at last."""
    for _ in range(times):
        before = await page.evaluate("scrollY")
        await page.scroll(down)
        await page.until(f"scrollY !== {before} || {AT_END if down > 0 else 'scrollY === 0'}")
        await page.until(AT_REST)
        assert await page.evaluate(GAPS) == [], before
        assert await page.evaluate(NODES) < MOST_NODES
    places: list[int] = await page.evaluate(f"{ROWS}.map((one) => Number(one.dataset.index))")
    assert sorted(places) == list(range(min(places), max(places) + 1))
    return min(places), max(places)


async def kept(page: Page) -> int:
    """Runs that the lists in the memory of the page have."""
    script = "document.querySelector('script[src$=\"console.js\"]').src"
    module = f"import({script}.replace('console.js', 'lib/run_pages.js'))"
    expression = f"{module}.then(({{ RunPages }}) => RunPages.prototype)"
    prototype = (await page.command("Runtime.evaluate", expression=expression, awaitPromise=True))["result"]
    lists = await page.command("Runtime.queryObjects", prototypeObjectId=prototype["objectId"])
    counted = await page.command(
        "Runtime.callFunctionOn",
        objectId=lists["objects"]["objectId"],
        functionDeclaration=COUNT,
        returnByValue=True,
    )
    return int(counted["result"]["value"])


async def far_and_back(page: Page) -> None:
    """Read on by the wheel past what is kept of a list, and back to its beginning."""
    first, _ = await roll(page, PAGE * 44, KEPT_PAGES + 5)
    assert first > KEPT_PAGES * PAGE
    assert 0 < await kept(page) <= KEPT_PAGES * PAGE
    await page.evaluate("performance.clearResourceTimings()")
    assert (await roll(page, -5 * PAGE * 44, 8))[0] == 0
    assert 0 < await kept(page) <= KEPT_PAGES * PAGE
    asked = [one for one in await page.evaluate(REQUESTS) if one.split("?")[0].endswith("/v1/runs")]
    assert asked, "what was let go is read again"


async def test_a_hundred_thousand_runs_scroll(tmp_path: Path, served: Served, page: Page) -> None:
    insert_runs(own_database(tmp_path / "data"), MANY)
    await page.resize(1440, 900)
    await page.on_each_page(PAINTED)
    await sign_in(served, page)
    before = await heap(page)
    await page.evaluate("performance.clearResourceTimings()")
    await page.open(f"{served.url}/runs")
    await page.until(FILLED)
    asked = await page.evaluate(REQUESTS)
    lists = [one for one in asked if one.split("?")[0].endswith("/v1/runs")]
    assert len(lists) == 1, asked
    assert "limit=100" in lists[0]
    await first_row(page, f"{served.url}/runs", "100,000 runs")
    await page.until(f"document.querySelector('.sums')?.innerText.includes('{MANY:,}') === true")
    await page.until("document.querySelector('.sums').getAttribute('aria-busy') === 'false'")
    totals = await page.evaluate("document.querySelector('.sums').innerText.replaceAll('\\n', ' ')")
    assert "2,000 (2 %)" in totals, totals
    await far_and_back(page)
    for part in (0.5, 1, 0.25):  # as one who drags the bar
        await page.evaluate(f"scrollTo(0, {part} * document.body.scrollHeight)")
        wanted = int((MANY - 30) * part)
        place = f"Math.abs(Number({ROWS}[0].dataset.index) - {wanted}) < 150"
        await page.until(f"{place} && ({FILLED})")
        shown = await page.evaluate(f"{ROWS}.map((one) => [Number(one.dataset.index), one.innerText])")
        for index, text in shown:
            assert f"conversation {index}" in text.splitlines(), (index, text)
        assert await page.evaluate(NODES) < MOST_NODES
    await page.evaluate("document.querySelector('.rows a').focus()")
    await page.press("End")
    await page.until(f"document.activeElement?.closest('[data-index]')?.dataset.index === '{MANY - 1}'")
    await page.press("Home")
    await page.until("document.activeElement?.closest('[data-index]')?.dataset.index === '0'")
    await page.press("ArrowDown")
    await page.until("document.activeElement?.closest('[data-index]')?.dataset.index === '1'")
    grown = await heap(page) - before
    print("heap of the list:", grown)
    assert grown < 16_000_000
    await served.say("say 1", conversation_id="brand new")
    await page.until("document.querySelector('.rows .slot')?.innerText.includes('brand new') === true")
    assert await serious_mistakes(page) == []
    await filters(served, page)
    assert page.complaints == []


async def filters(served: Served, page: Page) -> None:
    """Each filter in the address, with what it finds, and a list that is read step by step."""
    for query, count, first in (
        ("min_cost=5", 100, "conversation 0"),
        ("tool=rare.tool", 10, "conversation 9999"),
        ("status=failed&agent=agent-17", 1000, "conversation 97"),
        ("text=say", 1, "brand new"),
    ):
        await page.open(f"{served.url}/runs?{query}")
        sums = "document.querySelector('.sums')"
        await page.until(f"{sums}?.getAttribute('aria-busy') === 'false'")
        assert await page.evaluate(f"{sums}.querySelector('dd').textContent") == f"{count:,}", query
        text = "document.querySelector('.rows .slot').innerText"
        assert first in await page.evaluate(text), query
    await page.open(f"{served.url}/runs?min_cost=5")
    await page.until(FILLED)
    await page.until(
        f"scrollTo(0, document.body.scrollHeight), {ROWS}.some((one) => one.dataset.index === '99')"
    )
    await page.until(FILLED)
    await page.open(f"{served.url}/runs?min_cost=500")
    await page.until("document.body.innerText.includes('No run matches these filters')")


async def test_runs_of_any_length_are_few_nodes(tmp_path: Path, served: Served, page: Page) -> None:
    database = own_database(tmp_path / "data")
    insert_runs(database, 1)
    run_id = run_row(0)[1]
    await page.resize(1440, 900)
    await page.on_each_page(PAINTED)
    await sign_in(served, page)
    sizes: dict[int, dict[str, Any]] = {}
    for steps in (200, 2_000, 20_000):
        insert_journal(database, run_id, steps)
        if steps == 2_000:
            await first_row(page, f"{served.url}/runs/{run_id}", "2,000 steps")
        await page.open(f"{served.url}/settings")
        await page.until("document.querySelector('main h1') !== null")
        await page.open(f"{served.url}/runs/{run_id}")
        await page.until(
            f"document.querySelector('.step-tools')?.innerText.includes('{steps:,} step') === true"
        )
        await page.until(FILLED)
        for part in (0.5, 1):
            await page.evaluate(f"scrollTo(0, {part} * document.body.scrollHeight)")
            await page.until(
                f"Number({ROWS}.at(-1).dataset.index) >= {int(part * steps * 0.95) - 1} && ({FILLED})"
            )
        if steps == 2_000:
            await roll(page, -6_000, 16)
            await roll(page, 6_000, 16)
        sizes[steps] = {"nodes": await page.evaluate(NODES), "heap": await heap(page)}
    print("a run's page by its steps:", json.dumps(sizes))
    assert max(one["nodes"] for one in sizes.values()) < MOST_NODES
    each = (sizes[20_000]["heap"] - sizes[2_000]["heap"]) / 18_000
    assert each < 700, "of each step only an overview is kept: its texts alone have up to 1,400 bytes"
    # a link to a step leads there, and what it holds is read then
    await page.open(f"{served.url}/settings")
    await page.until("document.querySelector('main h1') !== null")
    await page.open(f"{served.url}/runs/{run_id}#step-15002")
    await page.until(
        "document.querySelector('.details .prompt-message')?.innerText.includes('prompt 15001 ') === true"
    )
    # a search looks through all texts, also those that are not in the page
    await page.open(f"{served.url}/runs/{run_id}?find=PROMPT+12001")
    await page.until("document.querySelector('.step-tools')?.innerText.includes('1 step') === true")
    assert await page.evaluate(f"{ROWS}.length") == 1
    await page.open(f"{served.url}/runs/{run_id}?tab=journal")
    await page.until(f"{ROWS}.length > 10 && {ROWS}[0].getAttribute('aria-setsize') === '20000'")
    assert await page.evaluate(NODES) < MOST_NODES
    assert page.complaints == []
