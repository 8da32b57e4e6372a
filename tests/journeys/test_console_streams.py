"""What the console's pages follow: one stream per window, whatever it shows, and nothing missed between."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.chromium import NEEDS_CHROMIUM, Page
from support.console import say, shown, sign_in, there
from support.console_words import in_languages
from support.http_host import Served, serving

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
WATCHED = """
window.streams = [];
window.held = [];
const real = window.fetch;
/** Streams are noted; what `holds` says is answered by the host, and let through by `go()`. */
window.holds = (to) => false;
window.go = () => { window.holds = () => false; for (const one of held.splice(0)) one(); };
window.fetch = async (to, options) => {
  const url = new URL(to, location);
  const {pathname, search} = url, signal = options?.signal;
  if (pathname.endsWith('/stream')) streams.push({url: pathname + search, signal});
  const answer = await real(to, options);
  if (window.holds(url)) await new Promise((go) => held.push(go));
  return answer;
};
const later = window.setTimeout;
window.setTimeout = (call, ms, ...rest) => later(call, ms === 10000 ? 10 : ms, ...rest);
let away = false;
Object.defineProperty(document, 'hidden', {get: () => away});
window.look = (here) => { away = !here; document.dispatchEvent(new Event('visibilitychange')); };
"""
"""A tab that is hidden lets its stream go after ten seconds: here after ten milliseconds."""
SUMS = (
    "Object.fromEntries([...document.querySelectorAll('.sums > div')]"
    ".map((one) => [...one.children].map((part) => part.innerText)))"
)
OPEN = "streams.filter((one) => !one.signal.aborted && one.url.startsWith('/v1/stream'))"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


@in_languages("en", "zh")
async def test_four_windows_are_live_at_once(served: Served, page: Page) -> None:
    """A browser has six connections to a host for all its windows."""
    held = (await served.say("hold", wait=None, conversation_id="a"))["run"]["run_id"]
    await sign_in(served, page, "/settings")
    async with contextlib.AsyncExitStack() as stack:
        windows = [page, *[await stack.enter_async_context(page.another()) for _ in range(3)]]
        paths = (f"/runs/{held}", "/chat/a", "/runs", "/agents")
        for window, path in zip(windows, paths, strict=True):
            await window.on_each_page(WATCHED)
            await window.open(f"{served.url}{path}")
            await window.until(f"{there('main#main h1')} && !{there('.loading')}")
        await windows[0].until(there(".actions .danger"))
        await windows[1].until(shown("holding"))
        # what happens in one is seen in all of them, and each of them still reads and writes
        await windows[0].evaluate("document.querySelector('.actions .danger').click()")
        await windows[0].until(shown("Run again"))
        await windows[1].until(f"!{shown('holding')} || {shown('cancelled')}")
        await windows[2].until(shown("cancelled"))
        await served.say("say 1", conversation_id="b")
        await windows[2].until(f"{shown('completed')} && {shown('b')}")
        await windows[3].until(shown("completed"))
        held = (await served.say("hold", wait=None, conversation_id="a"))["run"]["run_id"]
        await windows[1].until(shown("holding"))
        for window in windows:
            await window.until(f"{OPEN}.length === 1")
            assert window.complaints == []


@in_languages("en", "zh")
async def test_one_stream_goes_with_the_reader_from_page_to_page(served: Served, page: Page) -> None:
    await page.on_each_page(WATCHED)
    held = (await served.say("hold", wait=None, conversation_id="a"))["run"]["run_id"]
    await sign_in(served, page, "/runs")
    await page.until(shown("running"))
    assert await page.evaluate(f"{OPEN}.length") == 1
    # to a conversation and back: it goes on where it was, and there is one of it
    visited = (("/chat/a", "conversation_id=a"), ("/runs", "?type=run.status"), (f"/runs/{held}", "=a"))
    for path, wanted in visited:
        to = f"history.pushState(null, '', {json.dumps(path)})"
        await page.evaluate(f"({to}, dispatchEvent(new PopStateEvent('popstate')))")
        await page.until(f"{OPEN}.length === 1 && {OPEN}[0].url.includes({json.dumps(wanted)})")
    await page.until(there(".actions .danger"))
    # nobody looks: it is let go, and once somebody does, what has happened is there
    await page.evaluate("look(false)")
    await page.until(f"{OPEN}.length === 0")
    await served.client.post(f"/v1/runs/{held}/cancel", json={})
    await page.evaluate("look(true)")
    await page.until(shown("Run again"))
    assert await page.evaluate(f"{OPEN}.length") == 1
    # runs of two conversations beside each other take one more, for as long as they are looked at
    ids = [(await served.say("hold", wait=None, conversation_id=name))["run"]["run_id"] for name in "ab"]
    await page.open(f"{served.url}/runs/{ids[0]}/compare/{ids[1]}")
    await page.until(f"{OPEN}.length === 2")
    await page.evaluate("document.querySelector('nav a[href=\"/runs\"]').click()")
    await page.until(f"{OPEN}.length === 1 && {shown('running')}")
    assert page.complaints == []


@in_languages("en", "zh")
async def test_a_run_that_begins_while_the_list_is_read_is_in_it(served: Served, page: Page) -> None:
    await page.on_each_page(WATCHED)
    await page.on_each_page("holds = (url) => url.pathname === '/v1/runs'")
    await served.say("say 1", conversation_id="before")
    await sign_in(served, page, "/settings")
    await page.open(f"{served.url}/runs")
    await page.until("held.length > 0")
    await served.say("say 1", conversation_id="between")
    await page.evaluate("go()")
    await page.until(f"{shown('before')} && {shown('between')}")
    # whether a new run says what is looked for is known to the host alone: it is not shown unasked
    await page.open(f"{served.url}/runs?status=completed&text=zebra")
    await page.until("held.length > 0")
    await page.evaluate("go()")
    await page.until(shown("No run matches"))
    await served.say("say 1", conversation_id="later")
    await page.until(there(".head button.chip"))
    assert not await page.evaluate(shown("later"))


@in_languages("en", "zh")
async def test_a_filtered_list_and_its_totals_are_as_runs_are_now(served: Served, page: Page) -> None:
    runs, failed, not_over = (
        f"{SUMS}[{json.dumps(say(f'runs.{one}'))}]" for one in ("total", "failures", "open")
    )
    older = (await served.say("hold", wait=None, conversation_id="older"))["run"]["run_id"]
    newer = (await served.say("hold", wait=None, conversation_id="newer"))["run"]["run_id"]
    await served.client.post(f"/v1/runs/{newer}/cancel", json={})
    await sign_in(served, page, "/runs?status=cancelled")
    await page.until(f"{shown('newer')} && !{shown('older')}")
    async with page.another() as all_runs:
        await all_runs.open(f"{served.url}/runs")
        await all_runs.until(f"{not_over} === '1' && {runs} === '2'")
        failing = (await served.say("fail", conversation_id="failing"))["run_id"]
        assert failing
        await all_runs.until(f"{runs} === '3' && {failed}.startsWith('1 ')")
        # an older run belongs to the one list only now, and is open no more in the other one
        await served.client.post(f"/v1/runs/{older}/cancel", json={})
        await page.until(f"{there('.head button.chip')} || {shown('older')}")  # a stream may have begun anew
        await page.evaluate("(document.querySelector('.head button.chip')?.click(), true)")
        await page.until(f"{shown('newer')} && {shown('older')} && !{shown('failing')}")
        await all_runs.until(f"{not_over} === undefined && {runs} === '3'")
        assert all_runs.complaints == []
    assert page.complaints == []
