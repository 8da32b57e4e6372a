"""The console in a browser: signed in, looked at by axe, at both widths, in both themes and languages."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from hostler.console.files import FOLDER
from support.axe import serious_mistakes
from support.chromium import Page
from support.console_words import candidates, first_language, spoken
from support.http_host import Served

HOSTILE = '=HYPERLINK("http://127.0.0.1:9") <img src=x onerror="window.broken=1"> \u202egnp.exe ' + "W" * 100
LOOKS = ((360, "dark", "zh"), (1440, "light", "en"))
"""Width, theme and language: all of each, in two looks."""

FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
"""An expression: the page does not scroll sideways. On phones `innerWidth` grows with what is too wide."""
SAVED = (
    "window.saved = new Promise((found) => {"
    " URL.createObjectURL = (blob) => { found(blob.text()); return 'blob:x'; }; })"
)
"""A statement: from now on the page's files are the value of `window.saved`."""


def shown(text: str) -> str:
    """An expression: the text is on the page, in the language that is spoken."""
    said = json.dumps(candidates(text))
    return f"({said}.some((one) => document.body?.innerText.includes(one) ?? false))"


def written(text: str) -> str:
    """An expression: the text is on the page, seen or folded, in the language that is spoken."""
    said = json.dumps(candidates(text))
    return f"({said}.some((one) => document.body?.textContent.includes(one) ?? false))"


def verbatim(text: str) -> str:
    """An expression: the text, which the host or a person wrote, is on the page as it is."""
    return f"(document.body?.innerText.includes({json.dumps(text)}) ?? false)"


def there(selector: str) -> str:
    """An expression: the element is on the page."""
    return f"(document.querySelector({json.dumps(selector)}) !== null)"


def hrefs(selector: str) -> str:
    """An expression: where links lead, without the host."""
    found = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return f"{found}.map((one) => one.pathname + one.search)"


def texts(language: str) -> Callable[..., str]:
    """What the console says in a language: a function of the key of a text and of its fields."""
    found = json.loads((FOLDER / "locales" / f"{language}.json").read_text("utf-8"))

    def text(key: str, **fields: Any) -> str:
        if "count" in fields:
            key += ".one" if language == "en" and fields["count"] == 1 else ".other"
        said: str = found[key].format(**fields)
        return said

    return text


def say(key: str, **fields: Any) -> str:
    """What the console says for a key, in the language that is spoken."""
    return texts(spoken())(key, **fields)


async def speak(page: Page, language: str) -> None:
    """From now on each page is in a language, as for a reader who has chosen it before."""
    await page.on_each_page(first_language(language))


async def sign_in(served: Served, page: Page, path: str, key: str | None = None) -> None:
    """Sign in with the administrator's key, or another one, at a page."""
    async with served.as_key(key) as other:
        client = served.client if key is None else other
        code = (await client.post("/v1/auth/links", json={})).json()["code"]
    await page.open("about:blank")  # from the same page only the code would change, and nothing be loaded
    await page.open(f"{served.url}{path}#sign-in={code}")
    await page.until(there("main#main h1"))


async def click(page: Page, label: str, within: str = "main") -> None:
    """Press the button, or follow the link, that is called so, once it is there."""
    find = f"[...document.querySelectorAll({json.dumps(within)} + ' :is(button, a, summary)')]"
    names = json.dumps(candidates(label))
    named = f"[one.innerText.trim(), one.ariaLabel].some((name) => {names}.includes(name))"
    found = f"{find}.find((one) => !one.disabled && ({named}))"
    await page.until(f"{found} !== undefined")
    await page.evaluate(f"({found}.click(), true)")


async def choose(page: Page, selector: str, value: str) -> None:
    """Choose a value of a field, as a person does."""
    field = f"document.querySelector({json.dumps(selector)})"
    await page.until(there(selector))
    changed = "dispatchEvent(new Event('change', {bubbles: true}))"
    await page.evaluate(f"({field}.value = {json.dumps(value)}, {field}.{changed})")


async def nothing_from_elsewhere(page: Page, url: str) -> None:
    """The page that is open has requested nothing of another host. Pages before it are not seen here."""
    loaded = await page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
    assert loaded
    foreign = [name for name in loaded if not name.startswith((f"{url}/", "data:", "blob:"))]
    assert foreign == [], await page.evaluate("location.href")


async def look_at_all(served: Served, page: Page, paths: Sequence[str], *, each: bool = True) -> None:
    """Look at pages in each of the looks: no serious mistake, nothing too wide, nothing from elsewhere.

    Without `each` every page is looked at in one of them, by turns.
    """
    for number, (width, theme, language) in enumerate(LOOKS):
        await page.resize(width, 800)
        await page.wish(theme)
        await page.evaluate(f"localStorage.setItem('hostler-language', '{language}')")
        for path in paths if each else paths[number :: len(LOOKS)]:
            await page.open(f"{served.url}{path}")
            await page.until(f"{there('main#main h1')} && !{there('.loading')}")
            assert await serious_mistakes(page) == [], (path, width)
            assert await page.evaluate(FITS), (path, width)
            await nothing_from_elsewhere(page, served.url)
    await page.evaluate(f"localStorage.setItem('hostler-language', '{spoken()}')")
    assert page.complaints == []
    assert await page.evaluate("window.broken") is None
