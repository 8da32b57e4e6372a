"""The chat of the console, as a person at a browser uses it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from support.chromium import Page, browsing
from support.console import there
from support.editor_hosts import a_host, agent
from support.server_process import HostProcess
from support.wire_client import ask

AGENTS = (
    agent(),
    {"name": "ears", "runner": "plugin:test/listener/default"},
    agent("keeper", runner="keeper"),
)
TEXTS = (
    "[...document.querySelectorAll('.chat-rows > .by-agent')]"
    ".map((one) => one.querySelector('.markdown').textContent.trim())"
)
CHANGED = "field.dispatchEvent(new Event('change', {bubbles: true}));"
TYPED = "[...document.querySelectorAll('.chat-rows > .by-person .typed')].map((one) => one.textContent)"
MODULE = (
    "import(document.querySelector('script[src$=\"console.js\"]').src.replace('console.js', "
    "'components/markdown_blocks.js'))"
)


def click(selector: str) -> str:
    return f"(document.querySelector({json.dumps(selector)}).click(), true)"


@contextlib.asynccontextmanager
async def at_chat(tmp_path: Path) -> AsyncIterator[tuple[HostProcess, Page]]:
    async with a_host(tmp_path, *AGENTS) as host, browsing() as page:
        await page.resize(1280, 900)
        await page.open(f"{host.url}/chat#sign-in={await code_of(host)}")
        yield host, page


async def code_of(host: HostProcess, **more: Any) -> str:
    """A code that signs a browser in."""
    code: str = (await ask(host.url, "POST", "/v1/auth/links", {}, **more)).json()["code"]
    return code


async def begin(page: Page, name: str = "helper") -> None:
    """Go to a new conversation with an agent."""
    await page.until(there(".conversations-head a"))
    await page.evaluate(click(".conversations-head a"))
    await page.until(f"location.pathname === '/chat' && {there('.composer textarea')}")
    await choose(page, name)


async def press(page: Page, selector: str) -> None:
    await page.until(f"{there(selector)} && {click(selector)}")


async def choose(page: Page, name: str) -> None:
    await page.until("document.querySelectorAll('.composer option').length > 1")
    await page.evaluate(
        "(() => { const field = document.querySelector('.composer select');"
        f" field.value = {json.dumps(name)}; {CHANGED} }})()"
    )


async def write(page: Page, text: str) -> None:
    await page.type_into(".composer textarea", text)
    await page.until("!document.querySelector('.composer-line .primary').disabled")
    await page.press("Enter")


async def conversation_of(page: Page) -> str:
    place: str = await page.until("location.pathname.startsWith('/chat/') && location.pathname.slice(6)")
    return place


async def history_of(host: HostProcess, conversation: str) -> list[tuple[str, str]]:
    """Role and text of each message, oldest first, with those that wait."""
    found = (await ask(host.url, "GET", f"/v1/conversations/{conversation}/history?limit=100")).json()
    items = [*found["items"][::-1], *found.get("waiting", [])]
    return [(item["role"], item["content_json"]["content"]) for item in items]


async def same_as_the_history(host: HostProcess, page: Page, conversation: str) -> list[tuple[str, str]]:
    """The page shows each message once, and no other."""
    history = await history_of(host, conversation)
    own = [text for role, text in history if role == "user"]
    await page.until(f"{TYPED}.length === {len(own)}")
    assert [text[:6000] for text in own] == await page.evaluate(TYPED)
    answers = [text for role, text in history if role == "assistant"]
    await page.until(f"{TEXTS}.length === {len(answers)} && !{there('.growing')}")
    return history


async def last_said(host: HostProcess, page: Page) -> Any:
    """What an agent said last, as JSON."""
    history = await history_of(host, await conversation_of(page))
    return json.loads(next(text for role, text in reversed(history) if role == "assistant"))
