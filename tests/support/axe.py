"""What axe-core finds in a page: mistakes that shut people out."""

from __future__ import annotations

from support.chromium import Page
from support.node_clients import node_clients

AXE = "axe-core@4.14.1"
SERIOUS = ("serious", "critical")


async def serious_mistakes(page: Page) -> list[tuple[str, str]]:
    """Return each serious mistake: its rule, and the first element that breaks it."""
    script = node_clients(AXE).module("axe-core") / "axe.min.js"
    await page.evaluate(f"{script.read_text('utf-8')}; typeof axe")
    found = await page.evaluate("axe.run({resultTypes: ['violations']}).then((result) => result.violations)")
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in SERIOUS]
