"""A walk over every page of the console: those of its navigation, and those that they lead to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from support.chromium import Page

MOST_PAGES = 80
_LINKS = (
    "[...document.querySelectorAll('.navigation ul a, main a')].filter((one) => !one.target && !one.download)"
    ".map((one) => one.getAttribute('href')).filter((one) => one?.startsWith('/') && !one.startsWith('/v1/'))"
)
_SHOWN = (
    "(document.querySelector('main') !== null && document.querySelector('.loading') === null"
    " && document.querySelector('main').innerText.trim() !== '')"
)
_OPEN = (
    "document.querySelectorAll('main details:not([open]) > summary, main [aria-expanded=\"false\"]')"
    ".forEach((one, place) => place < 40 && one.click())"
)


async def sign_in(page: Page, url: str, key: str) -> None:
    """Sign in as a person does who has a key."""
    await page.open(f"{url}/settings")
    await page.until("document.activeElement?.id === 'key'")
    await page.type_into("#key", key)
    await page.press("Enter")
    await page.until("document.querySelector('.navigation') !== null")


async def sign_out(page: Page) -> None:
    """Sign out by the button."""
    await page.evaluate("document.querySelector('.person button').click()")
    await page.until("document.querySelector('#key') !== null")


async def shown(page: Page) -> None:
    """Wait until the page has what it shows."""
    await page.until(_SHOWN)


async def unfold(page: Page) -> None:
    """Open everything that is folded."""
    await page.evaluate(_OPEN)
    await shown(page)


async def navigation(page: Page) -> list[str]:
    """The addresses of the navigation."""
    found: list[str] = await page.evaluate(
        "[...document.querySelectorAll('.navigation ul a')].map((one) => one.getAttribute('href'))"
    )
    return found


async def walk(page: Page, url: str, *, deep: bool = True) -> AsyncIterator[str]:
    """Open each page that can be reached from where the browser is, and return its address.

    Without `deep` only those that are reached at once.
    """
    waiting, known, kinds = await _links(page), set[str](), Counter[Any]()
    while waiting:
        address = waiting.pop(0)
        kind = _kind(address)
        most = 2 if kind[1] > 1 and not kind[2] else 1  # two runs, two agents; their tabs once
        if address in known or kinds[kind] >= most:
            continue
        known.add(address)
        assert len(known) <= MOST_PAGES, "the pages of the console lead on and on"
        kinds[kind] += 1
        await page.open("about:blank")  # what the page before still does is over
        await page.open(url + address)
        await shown(page)
        if deep:
            waiting += await _links(page)
        yield address


async def _links(page: Page) -> list[str]:
    found: list[str] = await page.evaluate(_LINKS)
    return found


def _kind(address: str) -> tuple[str, int, str]:
    """What pages have in common that differ in ids and filters alone."""
    split = urlsplit(address)
    parts = split.path.strip("/").split("/")
    # each of the settings is a page of its own
    first = "/".join(parts) if parts[0] == "settings" else parts[0]
    return first, len(parts), dict(parse_qsl(split.query)).get("tab", "")


async def remember_answers(page: Page) -> None:
    """From now on keep what each request of the page is answered with, over all its pages."""
    script = (
        "const kept = window.fetch; window.answers = [];"
        "window.fetch = async (to, options) => { const answer = await kept(to, options);"
        " window.answers.push([options?.method ?? 'GET', String(to), answer.status]); return answer; };"
    )
    await page.on_each_page(script)


async def answers(page: Page) -> list[tuple[str, str, int]]:
    """What the requests of this page were answered with: method, address, status."""
    found = json.loads(await page.evaluate("JSON.stringify(window.answers)"))
    return [(method, to, status) for method, to, status in found]
