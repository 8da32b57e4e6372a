"""docs/widget.md, as printed, in a real browser."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from support.chromium import NEEDS_CHROMIUM, browsing
from support.command_line import EXAMPLES, CommandLine
from support.widget_page import site

pytestmark = [pytest.mark.gate("widgets"), pytest.mark.timeout(300)]
PAGE = Path(__file__).parents[2] / "docs" / "widget.md"
ROOT = "document.querySelector('#hostler-widget-help').shadowRoot"


def printed(language: str) -> str:
    """The first block of the page in this language."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@NEEDS_CHROMIUM
async def test_the_page_chats(hostler: CommandLine, tmp_path: Path) -> None:
    (hostler.cwd / "examples").symlink_to(EXAMPLES)
    config = hostler.cwd / "hostler.yaml"
    with site() as place:
        config.write_text(printed("yaml").replace("http://localhost:3000", place.origin), "utf-8")
        with hostler.serving("--config", config) as server:
            html = printed("html").replace("http://127.0.0.1:8420", server.url)
            place.pages["/"] = ({"content-type": "text/html"}, html.encode())
            async with asyncio.timeout(240), browsing() as page:
                await page.open(f"{place.origin}/")
                await page.until("window.Hostler !== undefined")
                await page.evaluate("Hostler.open()")
                await page.until(f"{ROOT}.activeElement?.tagName === 'TEXTAREA'")
                await page.insert("my name is Ada")
                await page.press("Enter")
                await page.until(
                    f"[...{ROOT}.querySelectorAll('.row.agent')].at(-1).innerText.includes('Ada')"
                )
                assert page.complaints == []
            listed = hostler("widgets", "list", "--json").json
            assert listed[0]["requests"]["message"] == 1


def test_the_commands_of_the_page(hostler: CommandLine) -> None:
    (hostler.cwd / "examples").symlink_to(EXAMPLES)
    config = hostler.cwd / "hostler.yaml"
    config.write_text(printed("yaml").partition("widgets:")[0])
    with hostler.serving("--config", config):
        for line in printed("sh").splitlines():
            words = [word.strip("'") for word in line.split()]
            done = hostler(*words[1:])
            assert done.status == 0, (line, done.error)
        assert hostler("widgets", "list", "--json").json == []
        wrong = hostler("widgets", "add", "help", "agent=guide", "origins=[]")
        assert (wrong.status != 0, "list the pages that may show it" in wrong.error) == (True, True)
