"""What comes before a page of the console is seen, on a host with much in it: bytes, requests, time."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from support.chromium import NEEDS_CHROMIUM, Page, browsing
from support.console import sign_in
from support.console_scene import scene
from support.console_walk import navigation
from support.console_weight import MOST_BYTES, full_weights
from support.examples import SOAK

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM, pytest.mark.timeout(600)]
MOST_PAINT_MS = 300 if SOAK else math.inf
"""From the beginning of a visit until its content is painted. Beside other tests nothing is promised."""
VISITS = 5 if SOAK else 1
MOST_REQUESTS = 12
"""Addresses of the API that are asked before there is content; some again where that takes long."""
MOST_NODES = 4_000
PAINTED = """
(() => {
  const fetched = window.fetch, asked = [];
  window.fetch = (to, options) => {
    const { pathname } = new URL(String(to), location.href);
    if (pathname.startsWith("/v1/")) asked.push(pathname);
    return fetched(to, options);
  };
  const content = new MutationObserver(() => {
    const main = document.querySelector("main#main");
    if (!main?.querySelector("h1, h2, .composer") || main.querySelector(".loading")) return;
    content.disconnect();
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => (window.painted = { ms: performance.now(), asked: [...asked] });
      port2.postMessage(null);
    });
  });
  content.observe(document, { childList: true, subtree: true });
})();
"""
"""A script: `window.painted` says when the content of the page was painted, and what was asked before."""


async def visit(page: Page, url: str) -> dict[str, Any]:
    """Open a page as one who comes to it, and return what there was until it was painted."""
    await page.open("about:blank")
    await page.open(url)
    painted: dict[str, Any] = await page.until("window.painted")
    return painted


async def test_little_comes_before_a_page_is_seen(tmp_path: Path) -> None:
    async with scene(tmp_path / "data") as made, browsing() as page:
        url = made.served.url
        await sign_in(made.served, page, "/settings")
        for language in ("en", "zh"):
            await page.evaluate(f"localStorage.setItem('hostler-language', '{language}')")
            weights = await full_weights(page, made)
            assert max(weights.values()) < MOST_BYTES, (language, weights)
        await page.on_each_page(PAINTED)
        things = (f"/runs/{made.run_id}", "/chat/ada", "/agents/reception", f"/approvals/{made.pause_id}")
        late: dict[str, list[float]] = {}
        for path in (*await navigation(page), *things):
            visits = [await visit(page, f"{url}{path}") for _ in range(VISITS)]
            late[path] = [one["ms"] for one in visits]
            asked = [sorted(set(one["asked"])) for one in visits]
            assert all(len(one) <= MOST_REQUESTS for one in asked), (path, asked)
            nodes = "document.querySelectorAll('*').length"
            assert await page.evaluate(nodes) < MOST_NODES, path
            print(path, "first content, ms:", *late[path], "after", visits[-1]["asked"])
        assert page.complaints == []
    too_late = {path: ms for path, ms in late.items() if statistics.median(ms) >= MOST_PAINT_MS}
    assert too_late == {}
