"""What pages of the console weigh: the files that a browser loads for one, as they are sent.

What the API answers is not of a page's weight: it is as long as what is shown.
"""

from __future__ import annotations

import json

from support.chromium import Page
from support.console import there
from support.console_scene import Scene

MOST_BYTES = 150_000
_LOADED = (
    "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
    ".map((one) => [one.name, one.encodedBodySize])"
)
_ENTRIES = 250
"""Browsers remember no more of a page."""
_OPEN = (
    "(document.querySelectorAll('main :is(.step .row, .small-row)[aria-expanded=\"false\"]')"
    ".forEach((one) => one.click()), document.querySelectorAll('main .details pre').length > 0)"
)
"""An expression: every step is opened, and something of them is read."""


async def weight(page: Page) -> int:
    """Return the bytes of the page itself, and of its scripts, styles and texts, compressed as they came."""
    loaded = await page.evaluate(_LOADED)
    sizes = {name: size for name, size in loaded if "/v1/" not in name}
    assert len(sizes) > 20, sizes
    assert len(loaded) < _ENTRIES, "each file has an entry"
    assert all(sizes.values()), "each file came"
    return sum(sizes.values())


async def full_weights(page: Page, made: Scene) -> dict[str, int]:
    """Return what the pages weigh that load most once one works with them, by address."""
    found: dict[str, int] = {}

    async def weigh(address: str, *contents: str) -> None:
        await page.open("about:blank")
        await page.open(f"{made.served.url}{address}")
        for content in contents:
            await page.until(content)
        found[address] = await weight(page)

    answer, decision = there(".by-agent .markdown table"), there("main .decision button")
    await weigh("/chat/ada", answer, decision, _pressed(".strip.over .tools button"), _OPEN)
    await weigh(f"/runs/{made.run_id}", there(".step-tools"), _OPEN, there("main .markdown table"))
    await weigh("/agents/reception", there(".try-form textarea:not(:disabled)"))
    await page.type_into(".try-form textarea", "Good evening")
    await page.until(_pressed(".try-form button:not(:disabled)"))
    await page.until(there(".try-turns .markdown"))
    found["/agents/reception"] = await weight(page)
    await weigh("/usage", there("main canvas"))
    return found


def _pressed(selector: str) -> str:
    """An expression: the button is there, and is pressed."""
    return f"({there(selector)} && (document.querySelector({json.dumps(selector)}).click(), true))"
