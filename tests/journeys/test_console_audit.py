"""The audit log in a real browser: live, by filters in the address, whole entries, verification, export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.storage.port import Tx
from hostler.storage.stores import audit
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import HOSTILE, SAVED, choose, click, look_at_all, shown, sign_in, there
from support.console_words import in_languages
from support.http_host import Served, serving

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
ACTIONS = "[...document.querySelectorAll('.fact .action')].map((one) => one.innerText)"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def record(served: Served, action: str, target: str, actor: str = "ada", count: int = 1) -> None:
    def add(tx: Tx) -> None:
        for number in range(count):
            audit.record(tx, "default", actor, action, target, {"run_id": "r1", "number": number})

    await served.host.db.write(add)


@in_languages("en", "zh")
async def test_entries_come_by_themselves_and_are_found_by_filters(served: Served, page: Page) -> None:
    await record(served, "tool.refused", "mcp:files")
    await record(served, "run.retried", "r1", "bea", count=150)
    await sign_in(served, page, "/audit?actor=ada")
    await page.until(f"{ACTIONS}.join() === 'tool.refused'")
    await record(served, "secret.used", "KEY")
    await page.until(f"{ACTIONS}.join() === 'secret.used,tool.refused'")
    await choose(page, ".filters select", "refused")
    await page.until(f"{ACTIONS}.join() === 'tool.refused'")
    assert await page.evaluate("location.search") == "?actor=ada&outcome=refused"
    await page.open(f"{served.url}/audit?action=run")
    await page.until(f"{ACTIONS}.length > 10")
    assert await page.evaluate("document.querySelector('.fact .what a').getAttribute('href')") == "/runs/r1"
    # a long list is windowed, and goes on to its end
    rows = "document.querySelector('.rows').getBoundingClientRect().height / 44"
    await page.until(f"(scrollTo(0, document.body.scrollHeight), {rows} === 150)")
    assert await page.evaluate("document.querySelectorAll('.fact').length") < 80
    await page.evaluate(f"({SAVED}, true)")
    await click(page, "Export CSV")
    assert (await page.evaluate("window.saved")).count("\r\n") == 151
    await choose(page, ".filters input", "nobody")
    await page.until(shown("No entry matches these filters"))
    await click(page, "Show all entries")
    await page.until(f"location.search === '' && {ACTIONS}.length > 10")


@in_languages("en", "zh")
async def test_an_entry_is_opened_by_keyboard_and_its_ids_are_links(served: Served, page: Page) -> None:
    await record(served, "key.revoked", HOSTILE, HOSTILE)
    await sign_in(served, page, "/audit?action=key")
    await page.until(there(".fact .action"))
    await page.evaluate("(document.querySelector('.fact .action').focus(), true)")
    await page.press("Enter")
    await page.until(f"document.querySelector('dialog').open && {shown('Place in the chain')}")
    links = "[...document.querySelectorAll('dialog a')].map((one) => one.getAttribute('href').split('?')[0])"
    assert await page.evaluate(links) == ["/audit", "/settings/keys", "/audit", "/runs/r1"]
    await page.press("Escape")
    await page.until(f"!{there('dialog')}")
    assert await page.evaluate("document.activeElement.className.includes('action')")
    assert await page.evaluate("location.search") == "?action=key"
    # it has an address, whatever the list shows
    await page.press("Enter")
    await page.until(there("dialog[open]"))
    entry = (await page.evaluate("location.search")).split("&")[1]
    await page.open("about:blank")
    await page.open(f"{served.url}/audit?actor=nobody&{entry}")
    await page.until(f"document.querySelector('dialog').open && {shown('Place in the chain')}")
    await page.evaluate("document.querySelector('dialog a[href=\"/settings/keys\"]').click()")
    await page.until(f"location.pathname === '/settings/keys' && !{there('dialog')}")
    await page.evaluate("history.back()")
    await page.until("document.querySelector('dialog')?.open")
    await page.press("Escape")
    await page.until(f"!{there('dialog')} && location.search === '?actor=nobody'")
    await page.open(f"{served.url}/audit?entry=1-1")
    await page.until(f"{shown('There is no such entry.')} && {there('.fact .action')}")
    await page.evaluate("(document.querySelector('.fact .action').focus(), true)")
    # a link leads to another list, and nothing stands over it
    await page.press("Enter")
    await click(page, "all of this object", "dialog")
    await page.until(f"!{there('dialog')} && location.search.startsWith('?target=')")


async def test_what_entries_are_about_is_a_link_for_who_may_open_it(served: Served, page: Page) -> None:
    about = {
        "channel.restarted": ("desk", "/channels/desk"),
        "channel.file_refused": ("r1", "/runs/r1"),
        "hook.refused": ("shop", "/hooks/shop"),
        "knowledge_base.added": ("house", "/knowledge/house"),
        "knowledge_document.put": ("house/a.md", "/knowledge/house"),
        "plugin.added": ("/srv/echo", "/plugins"),
        "plugin.restarted": ("acme/echo", "/plugins/acme%2Fecho"),
        "schedule.added": ("every day", "/schedules/every%20day"),
        "worker.joined": ("gpu-1", "/workers/gpu-1"),
    }
    for action, (target, _) in about.items():
        await record(served, action, target)
    await sign_in(served, page, "/audit?actor=ada")
    await page.until(f"{ACTIONS}.length === {len(about)}")
    links = (
        "Object.fromEntries([...document.querySelectorAll('.fact')].map((one) =>"
        " [one.querySelector('.action').innerText, one.querySelector('.what a')?.getAttribute('href')]))"
    )
    assert await page.evaluate(links) == {action: link for action, (_, link) in about.items()}
    await sign_in(served, page, "/audit?actor=ada", await served.key("default", "audit:read", "runs:read"))
    await page.until(f"{ACTIONS}.length === {len(about)}")
    found = {action: link for action, link in (await page.evaluate(links)).items() if link}
    assert found == {"channel.file_refused": "/runs/r1"}


@in_languages("en", "zh")
async def test_the_chains_are_verified_and_a_change_is_told(served: Served, page: Page) -> None:
    await served.say("say 1")
    await sign_in(served, page, "/audit/verify")
    await click(page, "Verify now")
    await page.until(f"{shown('Every chain is whole.')} && {shown('No file of anchors')}")
    await served.host.audit_heads.try_note()
    heads = served.host.settings.data_dir / "audit-heads.json"
    head = (await served.client.get("/v1/audit/verification")).json()["chains"][0]["head"]
    heads.write_text(heads.read_text("utf-8").replace(head, "0" * len(head)), "utf-8")
    await click(page, "Verify now")
    await page.until(f"{shown('Something is wrong.')} && {shown('the log was rewritten')}")
    await sign_in(served, page, "/audit/verify", await served.key("default", "audit:read"))
    await page.until(shown("Only administrators verify the chains."))
    await sign_in(served, page, "/audit", await served.key("default", "runs:read"))
    await page.until(shown("You may not do this"))
    assert not await page.evaluate(there(".navigation a[href='/audit']"))


async def test_it_looks_well_in_every_way(served: Served, page: Page) -> None:
    await sign_in(served, page, "/audit?actor=nobody")
    await page.until(shown("No entry matches these filters"))
    await record(served, "tool.refused", HOSTILE, HOSTILE)
    await look_at_all(served, page, ["/audit", "/audit/verify"])
