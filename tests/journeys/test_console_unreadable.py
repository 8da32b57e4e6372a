"""Entries of the configuration that this version cannot read: the console tells of each, and removes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.host.config_entries import entry_kind
from hostler.storage.port import Tx
from hostler.storage.stores import settings
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import FITS, click, shown, sign_in, there
from support.console_words import in_languages
from support.http_host import WORKSPACE, Served, serving

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
LISTED = {"models": "old-model", "channels": "old-chat", "hooks": "old-hook", "plugins": "/srv/old-plugin"}
"""By kind, which is the path of its page, too: those that the list of the page does not have."""
TOOLS = ("mcp:old-files", "openapi:old-pets")
"""These are among the sources of tools, and each has a page."""
ASKED = """
window.asked = [];
const { fetch } = window;
window.fetch = (address, ...more) => {
  asked.push(new URL(address, location).pathname);
  return fetch(address, ...more);
};
"""
"""A script: `asked` has the paths that the page has requested, whether or not they are answered yet."""
WITHOUT_THE_RIGHT = "Your key does not have the right to see this"
FROM_LATER = {"of_a_later_version": True}


def store(tx: Tx) -> None:
    """Entries as a later version might have left them."""
    for kind, name in LISTED.items():
        settings.put(tx, WORKSPACE, entry_kind(kind).kind, name, FROM_LATER)
    for name in TOOLS:
        settings.put(tx, WORKSPACE, "tool", name, FROM_LATER)


async def left(served: Served, kind: str) -> list[tuple[str, object]]:
    items = (await served.client.get(f"/v1/config/{kind}")).json()["items"]
    return [(one["name"], one["entry"]) for one in items]


@in_languages("en", "zh")
async def test_an_entry_that_cannot_be_read_is_removed(tmp_path: Path, page: Page) -> None:
    async with serving(tmp_path / "data", agent=False) as served:
        await served.host.db.write(store)
        before = {kind: await left(served, kind) for kind in LISTED}
        await page.resize(360, 800)
        await sign_in(served, page, "/settings")
        for kind, name in LISTED.items():
            assert (name, None) in before[kind], kind
            await page.open(f"{served.url}/{kind}")
            await page.until(f"{shown('Entries that this version of the host cannot read')} && {shown(name)}")
            assert await page.evaluate(shown("does not fit this version")), kind
            assert await page.evaluate(FITS), kind
            await click(page, f"Remove: {name}")
            await click(page, "Remove", within="dialog")
            await page.until(f"!{shown('Entries that this version of the host cannot read')}")
            assert await left(served, kind) == [one for one in before[kind] if one[0] != name]
        for name in TOOLS:
            await page.open(f"{served.url}/tools")
            await click(page, name)
            await page.until(shown("This version of the host cannot read the entry."))
            await click(page, f"Remove: {name}")
            await click(page, "Remove", within="dialog")
            await page.until(f"location.pathname + location.search === '/tools' && {there('main h1')}")
        assert await left(served, "tools") == []
        assert page.complaints == []


@pytest.mark.parametrize("may", [False, True])
async def test_they_are_requested_only_for_those_who_may_configure(
    tmp_path: Path, page: Page, may: bool
) -> None:
    async with serving(tmp_path / "data", agent=False) as served:
        await served.host.db.write(store)
        await page.on_each_page(ASKED)
        await sign_in(served, page, "/settings", None if may else await served.key(WORKSPACE, "admin"))
        for kind in LISTED:
            await page.open(f"{served.url}/{kind}")
            # what a page shows at first is requested at once; it is there when its list is answered
            begun = f"(asked.includes('/v1/{kind}') || {shown(WITHOUT_THE_RIGHT)})"
            await page.until(f"{begun} && {there('main#main h1')} && !{there('.loading')}")
            assert await page.evaluate(f"asked.includes('/v1/config/{kind}')") == may, kind
        assert page.complaints == []
