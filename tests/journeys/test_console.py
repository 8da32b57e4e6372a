"""The console in a real browser: sign-in, the live list of runs, both languages and themes."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from hostler.storage.port import Tx
from hostler.storage.sql.statements import parse
from support.axe import serious_mistakes
from support.chromium import NEEDS_CHROMIUM, Page
from support.command_line import CommandLine
from support.console import FITS, choose, click, hrefs, nothing_from_elsewhere, shown, speak, texts, there
from support.console_words import in_languages
from support.http_host import ADMIN_KEY, WORKSPACE, Served, serving
from support.pauses import open_run

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
NO_SESSION = """
((real) => {
  window.fetch = async (to, given) => {
    const answer = localStorage.answer ?? "none";
    if (!String(to).startsWith("/v1/auth/session") || answer === "real") return real(to, given);
    if (answer === "none") throw new TypeError("Failed to fetch");
    return new Response("{}", { status: Number(answer) });
  };
})(fetch);
"""
"""A script: what a browser hears of its session is in `localStorage.answer`."""
SIGN_OUT = (
    "fetch('/v1/auth/session').then((answer) => answer.json()).then(({csrf_token}) =>"
    " fetch('/v1/auth/sign-out', {method: 'POST', headers: {'x-csrf-token': csrf_token}}))"
    ".then((answer) => answer.ok)"
)
EARLIER = parse("-- name: earlier\nUPDATE runs SET created_at = :at WHERE run_id = :run_id", "t")
HOSTILE = '<img src=x onerror="window.broken=1"> \u202egnp.exe ' + "W" * 300


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def sign_in(served: Served, page: Page, *, path: str = "/") -> None:
    code = (await served.client.post("/v1/auth/links", json={})).json()["code"]
    await page.open(f"{served.url}{path}#sign-in={code}")
    await page.until(there("main#main h1"))


@in_languages("en", "zh")
async def test_a_link_signs_in_and_leaves_no_code_in_the_address(served: Served, page: Page) -> None:
    await sign_in(served, page, path="/settings?a=b")
    assert await page.evaluate("location.pathname + location.search + location.hash") == "/settings?a=b"
    await page.until(shown("this one"))
    await page.evaluate("document.querySelector('.person button').click()")
    await page.until(there("#key"))
    assert await page.evaluate("fetch('/v1/runs').then((answer) => answer.status)") == 401


@in_languages("en", "zh")
async def test_a_key_is_pasted_and_a_wrong_one_is_told(served: Served, page: Page) -> None:
    await page.open(f"{served.url}/runs?status=failed")
    await page.until("document.activeElement?.id === 'key'")
    for key, told in (("", "Paste a key first"), ("wrong", "this key is not valid")):
        await page.type_into("#key", key)
        await page.press("Enter")
        await page.until(shown(told))
    await page.type_into("#key", ADMIN_KEY)
    await page.press("Enter")
    await page.until(shown("No run matches these filters"))
    assert await page.evaluate("location.pathname + location.search") == "/runs?status=failed"
    stored = await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert ADMIN_KEY not in stored


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_runs_appear_and_change_by_themselves_also_after_the_host_was_gone(
    tmp_path: Path, page: Page, language: str
) -> None:
    text = texts(language)
    await speak(page, language)
    async with serving(tmp_path / "data") as served:
        await sign_in(served, page)
        await page.until(shown(text("runs.none")))
        await served.say("say 1", conversation_id="first")
        await page.until(f"{shown('first')} && {shown(text('status.completed'))}")
        held = (await served.say("hold", wait=None, conversation_id="second"))["run"]["run_id"]
        await page.until(f"{shown('second')} && {shown(text('status.running'))}")
        port = served.port
        await served.client.post(f"/v1/runs/{held}/cancel", json={})
        await page.until(shown(text("status.cancelled")))
    await page.until(shown(text("state.reconnecting")))
    async with serving(tmp_path / "data", port=port) as served:
        await served.say("say 1", conversation_id="third")
        await page.until(f"{shown('third')} && !{shown(text('state.reconnecting'))}")
        order = "[...document.querySelectorAll('.run-row .id')].map((one) => one.textContent).join()"
        assert await page.evaluate(order) == "third,second,first"


@in_languages("en", "zh")
async def test_a_host_that_does_not_say_who_has_signed_in_is_asked_again(served: Served, page: Page) -> None:
    again = "(document.querySelector('.failure button')?.click(), true)"
    await page.on_each_page(NO_SESSION)
    code = (await served.client.post("/v1/auth/links", json={})).json()["code"]
    await page.open(f"{served.url}/settings#sign-in={code}")
    await page.until(shown("does not answer"))
    for status in ("429", "503"):
        await page.evaluate(f"(localStorage.answer = '{status}', {again})")
        await page.until(shown(status))
        assert not await page.evaluate(there("#key")), status
    await page.evaluate(f"(localStorage.answer = 'real', {again})")
    await page.until(f"{shown('this one')} && location.hash === ''")


@in_languages("en", "zh")
async def test_nothing_of_one_person_is_left_for_the_next_in_the_same_tab(served: Served, page: Page) -> None:
    keys = {name: await served.key(WORKSPACE, "admin", subject=name) for name in ("ada", "finn")}
    text = "document.querySelector('#event--text')"
    same_page = "window.mark === 1"

    async def enter(name: str) -> None:
        await page.until(f"!({same_page}) && document.activeElement?.id === 'key'")
        await page.type_into("#key", keys[name])
        await page.press("Enter")
        await page.until(f"{text} !== null")

    await page.open(f"{served.url}/agents?tab=event")
    await enter("ada")
    await page.type_into("#event--text", "what only ada thinks")
    await page.evaluate("window.mark = 1")
    await page.evaluate("document.querySelector('.person button').click()")
    await enter("finn")
    assert await page.evaluate(f"{text}.value") == "hello"
    # a session that is over elsewhere: nothing of its page is left in memory for another person
    await page.evaluate("window.mark = 1")
    assert await page.evaluate(SIGN_OUT)
    await page.evaluate("document.querySelector('.navigation a[href=\"/settings\"]').click()")
    await page.until(there("#key"))
    await page.type_into("#key", keys["ada"])
    await page.press("Enter")
    await page.until(f"!({same_page}) && {shown('this one')}")
    await page.open(f"{served.url}/agents?tab=event")
    await page.until(f"{text}?.value === 'what only ada thinks'")


@in_languages("en", "zh")
async def test_filters_are_in_the_address_and_back_leads_back(served: Served, page: Page) -> None:
    await served.say("say 1", conversation_id="good")
    await served.say("fail", conversation_id="bad")
    await sign_in(served, page)
    await page.until(f"{shown('good')} && {shown('bad')}")
    await page.evaluate(
        "(() => { const field = document.querySelector('.filters select'); field.value = 'failed';"
        " field.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    await page.until(f"!{shown('good')} && {shown('bad')}")
    assert await page.evaluate("location.search") == "?status=failed"
    await page.open(f"{served.url}/runs?conversation=good")
    await page.until(f"{shown('completed')} && !{shown('bad')}")
    await page.evaluate("document.querySelector('.navigation a[href=\"/settings\"]').click()")
    await page.until(shown("Appearance"))
    await page.evaluate("history.back()")
    await page.until(f"{shown('completed')} && location.search === '?conversation=good'")


@in_languages("en", "zh")
async def test_runs_are_found_by_when_they_began(served: Served, page: Page) -> None:
    now = datetime.now(UTC)
    ages = {"new": timedelta(), "hours": timedelta(hours=5), "days": timedelta(days=3)}
    for name, age in ages.items():
        await served.host.db.write(partial(began, name, now - age))
    await sign_in(served, page, path="/runs")
    names = "[...document.querySelectorAll('.run-row .id')].map((one) => one.textContent).join()"
    await page.until(f"{names} === 'new,hours,days'")
    totals = "document.querySelector('.sums dd').textContent"
    for period, left in (("hour", "new"), ("day", "new,hours"), ("week", "new,hours,days")):
        await choose(page, "select[name=period]", period)
        await page.until(f"location.search === '?period={period}' && {names} === {json.dumps(left)}")
        await page.until(f"{totals} === '{len(left.split(','))}'")
    # between two moments, in the reader's own time; the address has them
    await click(page, "More filters")
    for name, age in (("since", timedelta(days=1)), ("until", timedelta(hours=1))):
        moment = int((now - age).timestamp() * 1000)
        local = (
            f"new Date({moment} - new Date({moment}).getTimezoneOffset() * 60000).toISOString().slice(0, 16)"
        )
        field = f"document.querySelector('input[name={name}]')"
        changed = f"{field}.dispatchEvent(new Event('change', {{bubbles: true}}))"
        await page.evaluate(f"({field}.value = {local}, {changed})")
    await page.until(f"{names} === 'hours' && {totals} === '1'")
    await page.evaluate("(window.before = true, location.reload())")
    await page.until(f"!window.before && {names} === 'hours'")
    await choose(page, "select[name=period]", "week")
    await page.until(f"location.search === '?period=week' && {names} === 'new,hours,days'")


def began(name: str, at: datetime, tx: Tx) -> None:
    """A run of this name that began then."""
    open_run(tx, f"r-{name}", WORKSPACE, conversation_id=name)
    tx.run(EARLIER.earlier, run_id=f"r-{name}", at=int(at.timestamp() * 1000))


async def test_texts_change_with_the_language_and_stay_so(served: Served, page: Page) -> None:
    await sign_in(served, page, path="/settings")
    choose = (
        "(() => { const field = document.querySelector('.card select'); field.value = 'zh';"
        " field.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    await page.evaluate(choose)
    await page.until(shown("已登录的浏览器"))
    assert await page.evaluate("document.documentElement.lang") == "zh-Hans"
    await page.open(f"{served.url}/runs")
    await page.until(shown("还没有运行"))
    assert await page.evaluate("document.title") == "运行 · Hostler"


async def test_hostile_names_are_text_and_break_no_layout(served: Served, page: Page) -> None:
    await served.say("fail", conversation_id="short")
    await served.say("say 1", conversation_id=HOSTILE)
    await sign_in(served, page)
    await page.until("document.querySelector('.run-row .id')?.textContent.includes('onerror') === true")
    assert await page.evaluate("window.broken") is None
    assert not await page.evaluate(there("main img"))
    for width in (360, 1440):
        await page.resize(width, 800)
        assert await page.evaluate(FITS), width
    # conversations are below each other, whatever else there is to tell of a run, and lead to their messages
    ids = "[...document.querySelectorAll('.run-row .id')]"
    assert len(set(await page.evaluate(f"{ids}.map((one) => one.getBoundingClientRect().left)"))) == 1
    await page.evaluate("document.querySelector('.run-row .id a').click()")
    await page.until(f"location.pathname === '/chat/' + encodeURIComponent({json.dumps(HOSTILE)})")
    await page.until(
        "(document.querySelector('.strip .quiet-link')?.click(), location.pathname.startsWith('/runs/'))"
    )
    links = hrefs(".run-facts a")
    to = quote(HOSTILE, safe="!'()*~")
    found = await page.until(f"({links}.length > 3 && {links})")
    assert f"/chat/{to}" in found
    assert f"/runs?{urlencode({'conversation': HOSTILE}, safe='*')}" in found


async def test_the_list_of_many_runs_has_few_rows_in_the_page(served: Served, page: Page) -> None:
    for number in range(150):
        await served.say("say 1", conversation_id=f"c{number}")
    await sign_in(served, page)
    await page.until("document.querySelectorAll('.run').length > 10")
    last = "[...document.querySelectorAll('.run-row .id')].at(-1)?.textContent === 'c0'"
    bottom = f"(scrollTo(0, document.body.scrollHeight), {last})"
    await page.until(bottom)
    assert await page.evaluate("document.querySelectorAll('.run').length") < 60
    tops = "[...document.querySelectorAll('.slot')].map((one) => one.getBoundingClientRect().top)"
    found = await page.evaluate(tops)
    assert [round(b - a) for a, b in itertools.pairwise(found)] == [44] * (len(found) - 1)


async def test_axe_finds_nothing_serious_and_nothing_leaves_the_host(served: Served, page: Page) -> None:
    await served.say("say 1", conversation_id="c")
    await page.open(served.url)
    wrong: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for language in ("en", "zh"):
        await page.evaluate(f"localStorage.setItem('hostler-language', '{language}')")
        for path in ("/runs", "/runs?status=failed", "/settings", "/nothing-of-ours", "/"):
            if path == "/nothing-of-ours":
                nowhere = "history.pushState(null, '', '/runs/a/b/c'), dispatchEvent(new Event('popstate'))"
                await page.evaluate(f"({nowhere}, true)")
            elif path == "/":
                await page.evaluate("document.querySelector('.person button').click()")
                await page.until(there("#key"))
            elif path == "/runs":
                await sign_in(served, page, path=path)
            else:
                await page.open(f"{served.url}{path}")
            await page.until(f"{there('main')} && !{there('.loading')}")
            await nothing_from_elsewhere(page, served.url)
            async for look in looks(page):
                if found := await serious_mistakes(page):
                    wrong[language, path, *look] = found
    assert wrong == {}
    assert page.complaints == []


async def looks(page: Page) -> AsyncIterator[tuple[str, str]]:
    """Show a page on a phone and wide, light and dark, once each is as it stays."""
    for width, theme in itertools.product((360, 1440), ("light", "dark")):
        await page.resize(width, 800)
        await page.wish(theme)
        await page.until(f"innerWidth === {width} && matchMedia('(prefers-color-scheme: {theme})').matches")
        changes = "document.getAnimations().some((one) => one instanceof CSSTransition)"
        await page.until(f"new Promise(requestAnimationFrame).then(() => !({changes}))")
        yield str(width), theme


def test_the_command_prints_a_link_that_signs_in(hostler: CommandLine) -> None:
    hostler.cwd.joinpath("hostler.yaml").write_text("agents: []\n")
    refused = hostler("console", "--no-browser")
    assert refused.status != 0
    assert "hostler serve" in refused.err
    with hostler.serving("--config", hostler.cwd / "hostler.yaml") as server:
        made = hostler("console", "--no-browser")
        assert made.out.startswith(f"{server.url}/#sign-in=")
        assert "for one browser, until" in made.err
        record: dict[str, Any] = hostler("console", "--json").json
        assert set(record) == {"url", "expires_at"}
