"""How the chat of the console looks and to whom: languages, widths, keyboard, hostile content, rights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.axe import serious_mistakes
from support.chat_page import at_chat, begin, conversation_of, write
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import FITS, nothing_from_elsewhere, say, shown, there
from support.console_words import in_languages
from support.editors import delta, result, said, steps
from support.server_process import HostProcess
from support.shop import calling
from support.wire_client import ask

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
HOSTILE = (
    '<script>window.broken=1</script><img src=x onerror="window.broken=1"> [a](javascript:window.broken=1) '
    "![p](http://127.0.0.1:9/picture.png) <iframe src='/'></iframe> <style>*{display:none}</style> "
    "\u202egnp.exe "
)
STRANGE = "main img, main script, main iframe, main style, main a[href^=javascript]"
SIDEWAYS = f"!({FITS})"


async def test_in_both_languages_on_phones_and_by_keyboard(tmp_path: Path) -> None:
    async with at_chat(tmp_path) as (host, page):
        text = steps(delta("# So\n\n- a"), calling("shop.book", kind="double"))
        await begin(page)
        await write(page, text)
        conversation = await conversation_of(page)
        await page.until(f"{there('.call-card')} && {there('.growing')}")
        for language, title in (("en", "Untitled conversation"), ("zh", "未命名的对话")):
            await page.evaluate(f"localStorage.setItem('hostler-language', '{language}')")
            for width, theme in ((360, "dark"), (1440, "light"), (360, "light"), (1440, "dark")):
                await page.resize(width, 800)
                await page.wish(theme)
                for path in (f"/chat/{conversation}", "/chat"):
                    await page.open(f"{host.url}{path}")
                    await page.until(there(".composer textarea"))
                    if path != "/chat":
                        await page.until(f"{there('.call-card')} && {shown(title)}")
                    if theme == ("dark" if width == 360 else "light"):  # each width once: axe takes its time
                        assert await serious_mistakes(page) == [], (path, language, width)
                    assert not await page.evaluate(SIDEWAYS)
                    await nothing_from_elsewhere(page, host.url)
        await by_keyboard(page, f"{host.url}/chat/{conversation}")
        await nothing_from_elsewhere(page, host.url)
        assert page.complaints == []


async def by_keyboard(page: Page, url: str) -> None:
    """Everything is reached by Tab, in an order that makes sense, and what has the focus shows it."""
    await page.open(url)
    await page.until(there(".call-card .primary:not(:disabled)"))
    await page.evaluate("(document.activeElement.blur(), document.querySelector('.skip').focus(), true)")
    reached = []
    for _ in range(60):
        await page.press("Tab")
        found = "document.activeElement.getAttribute('aria-label') || document.activeElement.innerText"
        name = await page.evaluate(f"{found} || document.activeElement.tagName")
        reached.append(name)
        if await page.evaluate("document.activeElement === document.body"):
            break
        shows = "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
        own = "document.activeElement.closest('.composer') !== null"  # its form shows it
        assert await page.evaluate(f"{shows} || {own}"), name
    texts = " ".join(reached)
    for wanted in ("新对话", "重命名", "删除", "步骤", "停止"):
        assert wanted in texts, (wanted, reached)


async def test_hostile_content_does_nothing(tmp_path: Path) -> None:
    async with at_chat(tmp_path) as (host, page):
        program = steps(
            delta(HOSTILE),
            delta("W" * 100_000),
            said(HOSTILE + "\n\n" + "W" * 100_000),
            said("x" * 500_000),
            result("artifact.created", artifact_type="file", name=HOSTILE[:400], content_base64="aGk="),
            result("run.failed", code="a.b", error=HOSTILE + "W" * 5000),
        )
        event = {"event_type": "message.received", "conversation_id": HOSTILE[:100]}
        for name, text in (("helper", program), ("echo", HOSTILE + "W" * 10_000)):
            sent = {**event, "agent": name, "input": {"text": text}}
            await ask(host.url, "POST", "/v1/events?wait=60", sent)
        await page.until(there(".conversation-links a"))
        await page.evaluate("document.querySelector('.conversation-links a').click()")
        await page.until(f"{there('.strip .wrong')} && document.querySelectorAll('.by-agent').length === 3")
        for width in (360, 1440):
            await page.resize(width, 800)
            assert not await page.evaluate(SIDEWAYS), width
            log = "document.querySelector('.chat-log')"
            assert not await page.evaluate(f"{log}.scrollWidth > {log}.clientWidth"), width
        assert await page.evaluate(f"document.querySelectorAll({json.dumps(STRANGE)}).length") == 0
        assert await page.evaluate("window.broken") is None
        assert all("has been blocked" in one for one in page.complaints), page.complaints


@in_languages("en", "zh")
async def test_each_sees_and_does_what_the_key_allows(tmp_path: Path) -> None:
    async with at_chat(tmp_path) as (host, page):
        event = {"event_type": "message.received", "agent": "helper", "conversation_id": "c"}
        await ask(host.url, "POST", "/v1/events?wait=30", {**event, "input": {"text": steps(said("Hello."))}})
        await with_rights(host, page, "conversations:read", "runs:read")
        await page.until(f"{shown('Hello.')} && {shown('Your key can read here, but not write.')}")
        assert not await page.evaluate(there(".composer"))
        assert not await page.evaluate(there(".chat-head button:not(.list-toggle)"))
        for forks in ("chat.edit", "chat.fork"):
            assert not await page.evaluate(there(f".said .tools [aria-label='{say(forks)}']"))
        await with_rights(host, page, "conversations:read", "runs:read", "events:write")
        await page.until(there(".composer textarea"))
        assert not await page.evaluate(there(f".composer [aria-label='{say('files.add')}']"))
        await write(page, steps(said("Written.")))
        await page.until(shown("Written."))
        await with_rights(host, page, "usage:read")
        await page.until(shown("can neither read conversations nor send messages"))
        # another workspace has nothing of it
        await with_rights(host, page, "admin", workspace_id="other")
        await page.until(f"{there('.chat-head')} && !{there('.loading')}")
        assert not await page.evaluate(shown("Hello."))


async def with_rights(host: HostProcess, page: Page, *rights: str, **more: str) -> None:
    """Open the conversation `c` signed in with a key of these rights."""
    async with host.client() as client:
        made = await client.post("/v1/keys", json={"name": "k", "rights": list(rights), **more})
        assert made.status_code == 201, made.text
        headers = {"authorization": f"Bearer {made.json()['key']}"}
        code = (await client.post("/v1/auth/links", json={}, headers=headers)).json()["code"]
    await page.open("about:blank")
    await page.open(f"{host.url}/chat/c#sign-in={code}")
