"""Every page of the console in both languages, on a phone, a desk and a wall: all can use it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hostler.console.files import PAGES
from support.axe import serious_mistakes
from support.chromium import NEEDS_CHROMIUM, Page, browsing
from support.console import FITS, nothing_from_elsewhere, sign_in, speak, texts
from support.console_scene import scene
from support.console_things import something_of_each
from support.console_walk import navigation, shown, walk
from support.console_weight import MOST_BYTES, weight
from support.http_host import serving

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM, pytest.mark.timeout(600)]  # every page, one by one
Look = tuple[int, str]
LOOKS: dict[str, Sequence[Look]] = {
    "en": ((2560, "light"), (360, "dark")),
    "zh": ((360, "dark"), (1440, "light")),
}
"""Of each language: widths and themes. In the last one the page is looked at by axe, which takes the time."""
SETTLED = "!document.getAnimations().some((one) => one instanceof CSSTransition)"


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_each_page_of_a_new_host_can_be_used_by_all(tmp_path: Path, language: str) -> None:
    async with serving(tmp_path / "data", agent=False) as served, browsing() as page:
        await speak(page, language)
        await sign_in(served, page, "/settings")
        wrong, walked = await mistakes_of_each(page, served.url, LOOKS[language])
        assert page.complaints == []
    assert wrong == {}
    assert {urlsplit(address).path.split("/")[1] for address in walked} == PAGES - {""}


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_each_page_can_be_used_by_all(tmp_path: Path, language: str) -> None:
    async with scene(tmp_path / "data") as made, browsing() as page:
        await something_of_each(made, tmp_path)
        await speak(page, language)
        await sign_in(made.served, page, "/settings")
        pages = await navigation(page)
        wrong, walked = await mistakes_of_each(page, made.served.url, LOOKS[language])
        assert page.complaints == []
    assert wrong == {}
    assert set(pages) <= set(walked)
    assert {urlsplit(address).path.split("/")[1] for address in walked} == PAGES - {""}
    titles = {title.rpartition(") ")[2] for title in walked.values()}  # (3) of approvals that wait
    assert {f"{texts(language)(key)} · Hostler" for key in ("page.settings", "page.audit")} <= titles


async def mistakes_of_each(
    page: Page, url: str, looks: Sequence[Look]
) -> tuple[dict[tuple[str, int], object], dict[str, str]]:
    """Walk over all pages. Return what is wrong, by address and width, and each address with its title."""
    wrong: dict[tuple[str, int], object] = {}
    walked: dict[str, str] = {}
    async for address in walk(page, url):
        walked[address] = await page.evaluate("document.title")
        for width, theme in looks:
            await wear(page, width, theme)
            if not await page.evaluate(FITS):
                wrong[address, width] = "scrolls sideways"
        if mistakes := await serious_mistakes(page):
            wrong[address, width] = mistakes
        await nothing_from_elsewhere(page, url)
        if (weighs := await weight(page)) >= MOST_BYTES:
            wrong[address, 0] = f"weighs {weighs} bytes"
    return wrong, walked


async def wear(page: Page, width: int, theme: str) -> None:
    """Give a page a width and a theme, and wait until it looks so."""
    await page.resize(width, 900)
    await page.wish(theme)
    await page.until(f"matchMedia('(width: {width}px) and (prefers-color-scheme: {theme})').matches")
    await page.until(f"new Promise(requestAnimationFrame).then(() => {SETTLED})")
    await shown(page)
