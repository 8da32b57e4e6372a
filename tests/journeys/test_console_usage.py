"""The page of use in a real browser: charts and their numbers, periods in the address, export, budgets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from hostler.domain.budgets import Account, AccountLimits, Names
from hostler.domain.reservations import Need
from hostler.storage.port import Tx
from hostler.storage.stores import budgets, model_calls
from hostler.storage.stores.budgets import Charge
from hostler.storage.stores.model_calls import ModelCall
from hostler_protocol.content import Usage
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import HOSTILE, SAVED, choose, click, hrefs, look_at_all, shown, sign_in, there
from support.console_words import in_languages
from support.http_host import Served, serving

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def run_id(served: Served) -> str:
    found: str = (await served.client.get("/v1/runs")).json()["items"][0]["run_id"]
    return found


async def call_models(served: Served, *models: str) -> None:
    """Calls of models as runs of other agents make them."""
    run = await run_id(served)

    def add(tx: Tx) -> None:
        for model in models:
            used = ModelCall(model, "completed", 1200, Usage(input_tokens=5, output_tokens=7), Decimal("0.5"))
            model_calls.add(tx, run, used)

    await served.host.db.write(add)


@in_languages("en", "zh")
async def test_what_was_used_is_shown_drawn_and_saved(served: Served, page: Page) -> None:
    for text in ("say 1", "say 2", "fail"):
        await served.say(text)
    await call_models(served, "large", "large", HOSTILE)
    await sign_in(served, page, "/usage")
    await page.until(f"document.querySelectorAll('.chart canvas').length === 5 && {shown('In numbers')}")
    tiles = "[...document.querySelectorAll('.tiles dd')].map((one) => one.textContent)"
    assert (await page.evaluate(tiles))[:1] == ["3"]
    assert await page.evaluate("document.querySelector('.tiles').innerText.includes('33.3 %')")
    # the picture is told in words, and its numbers are a table
    told = await page.evaluate("document.querySelector('.chart .canvas').getAttribute('aria-label')")
    assert told.endswith("puppet 3")
    await click(page, "As a table", ".chart")
    numbers = "[...document.querySelectorAll('.chart tbody tr')].map((row) => row.lastChild.textContent)"
    await page.until(f"{numbers}.length === 31")
    assert max(await page.evaluate(numbers)) == "3"
    # grouping and period are in the address
    await choose(page, ".filters select:nth-of-type(1)", "week")
    await page.until("location.search === '?period=week'")
    await page.open(f"{served.url}/usage?by=model&period=week")
    await page.until(f"{shown('Calls of models')} && {shown('large')} && {shown('=HYPERLINK')}")
    assert (await page.evaluate(tiles))[:2] == ["2", "3"]  # one run of each model
    await page.evaluate(f"({SAVED}, true)")
    await click(page, "Export CSV")
    lines = (await page.evaluate("window.saved")).removeprefix("\ufeff").split("\r\n")
    assert lines[0].startswith('"from","seconds","model","title","runs","calls"')
    (hostile,) = [line for line in lines if "HYPERLINK" in line]
    assert ",\"'=HYPERLINK(" in hostile  # a spreadsheet takes it for a text
    (large,) = [line for line in lines if '"large"' in line]
    assert ",1,2,2,0,10,14," in large
    # by person, which leads to what they did, and by workspace
    row = "document.querySelector('main > .table-frame tbody tr')"
    for by, name in (("person", "admin"), ("workspace", "default")):
        await choose(page, ".filters label:nth-of-type(2) select", by)
        told = f"[{row}.querySelector('bdi').textContent, {row}.cells[1].innerText]"
        await page.until(f"location.search.includes('by={by}') && {told}.join() === '{name},3'")
    await choose(page, ".filters label:nth-of-type(2) select", "person")
    await page.until(f"{hrefs('main > .table-frame tbody a')}.join() === '/audit?actor=admin'")
    await choose(page, ".filters label:nth-of-type(2) select", "model")
    await page.until(f"{shown('large')} && {shown('=HYPERLINK')}")
    # rows are sorted by what is pressed
    rows = "[...document.querySelectorAll('main > .table-frame tbody tr')]"
    names = f"{rows}.map((row) => row.innerText.slice(0, 5))"
    await click(page, "Model", "main > .table-frame thead")
    assert (await page.evaluate(names))[-1] == "large"
    await click(page, "Calls of models", "main > .table-frame thead")
    assert (await page.evaluate(names))[0] == "large"


@in_languages("en", "zh")
async def test_the_host_goes_and_comes_and_the_page_goes_on(tmp_path: Path, page: Page) -> None:
    async with serving(tmp_path / "data") as served:
        await served.say("say 1")
        await sign_in(served, page, "/usage/budgets")
        await page.until(shown("No budget was used yet"))
        port = served.port
    await page.evaluate("(document.dispatchEvent(new Event('visibilitychange')), true)")
    await page.until(shown("Not connected; trying again"))
    async with serving(tmp_path / "data", port=port):
        await page.until(f"!{shown('Not connected')} && {shown('No budget was used yet')}")


@in_languages("en", "zh")
async def test_a_budget_is_looked_at_and_added_to(served: Served, page: Page) -> None:
    account = Account("day", "a", AccountLimits(calls=4), names=Names(HOSTILE))
    await served.host.db.write(lambda tx: budgets.charge(tx, Charge("default", (account,), Need())))
    await sign_in(served, page, "/usage/budgets?span=day")
    await page.until(f"{shown('Agent, one day')} && {there('.meter')}")
    await click(page, "Add", ".budget")
    await page.type_into(".budget input[name=calls]", "6")
    await page.type_into(".budget input[name=comment]", "for today")
    await page.press("Enter")
    await page.until(shown("(with 6 added)"))
    (budget,) = (await served.client.get("/v1/budgets", params={"span": "day"})).json()["items"]
    assert budget["added"] == {"calls": 6}
    async with served.as_key(await served.key("default", "budgets:read", "usage:read")) as reader:
        code = (await reader.post("/v1/auth/links", json={})).json()["code"]
    await page.open(f"{served.url}/usage/budgets#sign-in={code}")
    await page.until(shown("(with 6 added)"))
    assert not await page.evaluate(there(".budget button"))


async def test_it_looks_well_in_every_way(served: Served, page: Page) -> None:
    await sign_in(served, page, "/usage")
    await page.until(shown("Nothing ran in this period"))
    await served.say("say 1")
    await call_models(served, HOSTILE, *(f"model {number}" for number in range(9)))
    await look_at_all(served, page, ["/usage"])
    await look_at_all(
        served, page, ["/usage?by=model&period=day", "/usage/budgets", "/usage/none"], each=False
    )
