"""Prompts of agents in a real browser: an agent's form has them, and a chat that begins offers them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.axe import serious_mistakes
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import click, nothing_from_elsewhere, shown, sign_in, speak, texts, there, verbatim
from support.console_words import in_languages
from support.http_host import PUPPET_RUNNER, Served, serving

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
MARKUP = '<img src=x onerror="window.broken=1"> <b>bold</b> {not one} \u202egnp.exe '
HELLO = {"name": "hello", "text": "say 1"}
WEEK: dict[str, Any] = {
    "name": "week",
    "title": (MARKUP + "一周 🙂")[:100],
    "description": MARKUP + "W" * 150,
    "text": MARKUP + '总结 {team} 的一周。{tone} {"keep": {}} 🙂',
    "arguments": [
        {"name": "team", "description": MARKUP + "哪个团队", "required": True},
        {"name": "tone", "description": None, "required": False},
    ],
}
BARE: dict[str, Any] = {"title": None, "description": None, "arguments": []}
COMPOSER = "document.querySelector('.composer textarea')"
TYPED = f"{COMPOSER}.value"
NEW_LINE = "\n"
IN_COMPOSER = "document.activeElement?.matches('.composer textarea')"
OPEN_ALL = "document.querySelectorAll('details').forEach((one) => (one.open = true))"


def at(place: str, element: str = "input") -> str:
    return f"[data-place={json.dumps(place)}] {element}"


def suggestion(number: int) -> str:
    return f"document.querySelectorAll('.prompts button')[{number}]"


async def store(served: Served, *prompts: dict[str, Any], name: str = "desk") -> None:
    spec = {"name": name, "runner": PUPPET_RUNNER, "prompts": list(prompts)}
    answer = await served.client.put(f"/v1/agents/{name}", json=spec)
    assert answer.status_code == 200, answer.text


async def stored(served: Served) -> Any:
    return (await served.client.get("/v1/agents/desk/prompts")).json()["items"]


@in_languages("en", "zh")
async def test_prompts_are_added_changed_and_removed(tmp_path: Path, page: Page) -> None:
    async with serving(tmp_path / "data", agent=False) as served:
        await served.agent()
        await store(served)
        await sign_in(served, page, "/agents/desk")
        await page.until(there("#agent--prompts"))
        await page.evaluate(OPEN_ALL)
        await page.evaluate("document.querySelector('#agent--prompts').click()")
        await page.until(there(at("prompts[0].name")))
        await page.type_into(at("prompts[0].name"), "week of")
        await page.type_into(at("prompts[0].text", "textarea"), "总结 {team} 的一周 🙂")
        await click(page, "Save")
        await page.until(shown("2 mistakes; nothing was saved"))
        await page.until(verbatim("a name has 1 to 64 letters from a to z, digits, _ and -"))
        await page.until(verbatim("{team} is no argument: add one of this name, or take the braces away"))
        await page.type_into(at("prompts[0].name"), "week")
        await page.evaluate(
            f"document.querySelector({json.dumps(at('prompts[0].arguments', 'button'))}).click()"
        )
        await page.until(there(at("prompts[0].arguments[0].name")))
        await page.type_into(at("prompts[0].arguments[0].name"), "team")
        await page.evaluate(
            f"document.querySelector({json.dumps(at('prompts[0].arguments[0].required'))}).click()"
        )
        await click(page, "Save")
        await page.until(shown("version 2"))
        argument = {"name": "team", "description": None, "required": True}
        week = BARE | {"name": "week", "text": "总结 {team} 的一周 🙂", "arguments": [argument]}
        assert await stored(served) == [week]
        await page.type_into(at("prompts[0].title"), MARKUP)
        await click(page, "Save")
        await page.until(shown("version 3"))
        assert await stored(served) == [week | {"title": MARKUP}]
        await page.evaluate(
            "document.querySelector('[data-place=prompts] > .nested > .item > .item-actions button').click()"
        )
        await click(page, "Save")
        await page.until(shown("version 4"))
        assert await stored(served) == []
        assert await page.evaluate("window.broken") is None
        assert page.complaints == []


@in_languages("en", "zh")
async def test_a_chat_that_begins_offers_the_prompts_of_its_agent(tmp_path: Path, page: Page) -> None:
    async with serving(tmp_path / "data", agent=False) as served:
        await served.agent()
        await store(served, WEEK, HELLO, {"name": "bye", "text": "say 3"})
        await store(served, {"name": "other", "text": "say 2"}, name="other")
        await served.agent("puppet")
        await sign_in(served, page, "/chat?agent=desk")
        await page.until("document.querySelectorAll('.prompts button').length === 3")
        assert await page.evaluate("document.querySelectorAll('.prompts :is(img, b)').length") == 0
        said = await page.evaluate(f"{suggestion(0)}.textContent.trim()")
        assert said == WEEK["title"] + WEEK["description"]

        # one without arguments is in the field at once, and one that is picked next takes its place
        await page.evaluate(f"{suggestion(1)}.click()")
        await page.until(f"{TYPED} === 'say 1' && {IN_COMPOSER}")

        # one with arguments asks for them; the keyboard does it all
        await page.evaluate(f"{suggestion(0)}.focus()")
        await page.press("Enter")
        await page.until("document.activeElement === document.querySelector('dialog textarea')")
        assert await page.evaluate("document.querySelectorAll('dialog :is(img, b)').length") == 0
        await page.press("Escape")
        await page.until(f"!{there('dialog')} && document.activeElement === {suggestion(0)}")
        assert await page.evaluate(TYPED) == "say 1"
        await page.press("Enter")
        await page.until("document.activeElement === document.querySelector('dialog textarea')")
        await page.type_into("dialog label:nth-of-type(2) textarea", "{team} $& 友好")
        await page.press("Enter")
        await page.until(there("dialog textarea:invalid"))
        await page.type_into("dialog label:nth-of-type(1) textarea", "<i>{tone}</i> 客服 🙂")
        await page.press("Enter")
        await page.until(f"!{there('dialog')} && {IN_COMPOSER}")
        text = MARKUP + '总结 <i>{tone}</i> 客服 🙂 的一周。{team} $& 友好 {"keep": {}} 🙂'
        assert await page.evaluate(TYPED) == text

        # what somebody wrote stays; another agent has prompts of its own
        await page.type_into(".composer textarea", "I wrote this")
        for number, picked in ((1, "say 1"), (2, "say 3")):
            await page.evaluate(f"{suggestion(number)}.click()")
            await page.until(f"{TYPED} === {json.dumps(f'I wrote this{2 * NEW_LINE}{picked}')}")
        for name, count in (("other", 1), ("puppet", 0)):
            await page.evaluate(
                "(() => { const field = document.querySelector('.composer select');"
                f" field.value = '{name}'; field.dispatchEvent(new Event('change', {{bubbles: true}})); }})()"
            )
            await page.until(f"document.querySelectorAll('.prompts button').length === {count}")

        await page.evaluate(
            f"(({COMPOSER}.value = ''), {COMPOSER}.dispatchEvent(new Event('input', {{bubbles: true}})))"
        )
        await page.open(f"{served.url}/chat?agent=desk")
        await page.until("document.querySelectorAll('.prompts button').length === 3")
        await page.evaluate(f"{suggestion(1)}.click()")
        await page.until(f"{TYPED} === 'say 1' && {IN_COMPOSER}")
        await page.press("Enter")
        place = await page.until("location.pathname.startsWith('/chat/') && location.pathname.slice(6)")
        await page.until("document.querySelectorAll('.chat-rows > .by-agent').length === 1")
        history = (await served.client.get(f"/v1/conversations/{place}/history")).json()["items"]
        assert history[-1]["content_json"]["content"] == "say 1"
        assert await page.evaluate("window.broken") is None
        assert page.complaints == []


@pytest.mark.parametrize(
    ("language", "width", "theme"),
    [("en", 1440, "light"), ("zh", 360, "dark"), ("zh", 1440, "dark"), ("en", 360, "light")],
)
async def test_it_is_usable_by_all(tmp_path: Path, page: Page, language: str, width: int, theme: str) -> None:
    async with serving(tmp_path / "data", agent=False) as served:
        await served.agent()
        more = [HELLO | {"name": f"p{number}", "title": "标题 " * 10} for number in range(20)]
        await store(served, WEEK, HELLO, *more)
        await speak(page, language)
        await page.resize(width, 800)
        await page.wish(theme)
        await sign_in(served, page, "/chat?agent=desk")
        await page.until("document.querySelectorAll('.prompts button').length === 22")
        await right(page)
        await page.evaluate(f"{suggestion(0)}.click()")
        await page.until(there("dialog textarea"))
        await right(page)
        await page.open(f"{served.url}/agents/desk")
        await page.until(there("#agent--prompts"))
        await page.evaluate(OPEN_ALL)
        await page.until(shown(texts(language)("agents.field.prompt_arguments")))
        await right(page)
        await nothing_from_elsewhere(page, served.url)
        assert await page.evaluate("window.broken") is None
        assert page.complaints == []


async def right(page: Page) -> None:
    """Everybody can use the page, which is not wider than the screen."""
    assert await serious_mistakes(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
