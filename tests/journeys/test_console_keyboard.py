"""Every page of the console by keyboard alone: all is reached in reading order and seen; dialogs let go."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from hostler.console.files import FOLDER
from support.chromium import NEEDS_CHROMIUM, Page, browsing
from support.console import sign_in, there
from support.console_scene import scene
from support.console_things import something_of_each
from support.console_walk import navigation, shown, walk
from support.keyboard import by_tab

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM, pytest.mark.timeout(600)]  # every page, one by one
DIALOGS = {
    "components/agent_head.js": ("/agents/echo", "Delete"),
    "components/channel_messages.js": ("/channels", "Remove: on its way"),
    "components/chat_head.js": ("/chat/ada", "Delete"),
    "components/chat_prompts.js": ("/chat?agent=echo", "The week"),
    "components/knowledge_base.js": ("/knowledge/house-rules", "Remove"),
    "components/knowledge_documents.js": ("/knowledge/house-rules", "Delete: house.md"),
    "components/pause_detail.js": ("/approvals/{pause}", "Stop the run"),
    "components/pause_several.js": ("/approvals", "Look and decide together"),
    "components/plugin_entry.js": ("/plugins/acme%2Fecho", "Remove"),
    "components/schedules.js": ("/schedules/morning", "Remove"),
    "components/similar_list.js": ("/approvals?tab=similar", "Revoke: shop.send"),
    "components/skill_folders.js": ("/skills?folder={skills}", "Remove"),
    "components/source_entry.js": ("/channels/chat", "Remove"),
    "components/tool_test.js": ("/tools/shop.book", "Call it"),
    "components/unreadable_entries.js": ("/hooks", "Remove: old-hook"),
    "components/worker_actions.js": ("/workers", "Remove: cpu-2"),
    "pages/audit.js": ("/audit", "agent.added"),
    "settings/keys.js": ("/settings/keys", "Revoke: wall"),
    "settings/members.js": ("/settings/members", "Remove: ada@example.com"),
    "settings/secrets.js": ("/settings/secrets", "Remove: api-key"),
    "settings/storage.js": ("/settings/retention", "Store"),
    "settings/webhooks.js": ("/settings/webhooks", "Remove: ops"),
}
"""Of each module that opens a dialog: where, and by which button."""


def button(label: str) -> str:
    """An expression: the button of that name, or undefined."""
    named = f"[one.ariaLabel, one.innerText.trim()].includes({json.dumps(label)})"
    return f"[...document.querySelectorAll('main button')].find((one) => !one.disabled && {named})"


async def test_each_page_and_each_dialog_is_walked_with_the_tab_key(tmp_path: Path) -> None:
    async with scene(tmp_path / "data") as made, browsing() as page:
        await something_of_each(made, tmp_path)
        await page.resize(1440, 900)
        await sign_in(made.served, page, "/settings")
        pages = await navigation(page)
        wrong, walked = {}, set[str]()
        async for address in walk(page, made.served.url):
            found = await by_tab(page)
            walked.add(address)
            if told := {name: said for name, said in found.items() if said and name != "count"}:
                wrong[address] = told
        assert wrong == {}
        assert set(pages) <= walked

        named = {"pause": made.pause_id, "skills": quote(str(tmp_path / "skills"), safe="")}
        for address, label in DIALOGS.values():
            await page.open(made.served.url + address.format(**named))
            await shown(page)
            await prepare(page, address)
            await a_dialog_keeps_the_focus_and_gives_it_back(page, button(label))
        # what is typed in place of a title is let go in the same way
        await page.open(f"{made.served.url}/chat/ada")
        await page.until(f"({button('Rename')}?.focus(), document.activeElement === {button('Rename')})")
        await page.press("Enter")
        await page.until("document.activeElement.matches('.title-form input')")
        await page.press("Escape")
        await page.until(f"document.activeElement === {button('Rename')}")
        # and a panel beside something else
        await a_panel_gives_the_focus_back(page, "Steps", ".beside")
        await page.open(f"{made.served.url}/runs/{made.run_id}")
        for label in ("Fork", "Replay"):
            await a_panel_gives_the_focus_back(page, label, f"section[aria-label='{label}']")
        assert page.complaints == []


def test_each_module_with_a_dialog_is_walked() -> None:
    opens = re.compile(r'from "[./a-z]*(?:dialog|confirm)\.js"')
    files = [
        path for folder in ("components", "pages", "settings") for path in (FOLDER / folder).glob("*.js")
    ]
    found = {path.relative_to(FOLDER).as_posix() for path in files if opens.search(path.read_text("utf-8"))}
    assert found - {"components/confirm.js"} == set(DIALOGS)
    own = {path.name for path in files if "<dialog" in path.read_text("utf-8")}
    assert own == {"dialog.js"}


async def prepare(page: Page, address: str) -> None:
    """What has to be there before the button is."""
    if address == "/approvals":
        await page.until("(document.querySelector('.several input:not(:checked)')?.click(), true)")
        await page.until(there(".several .primary"))
    elif address == "/tools/shop.book":
        await page.until(f"({button('Write JSON')}?.click(), {there('textarea.code')})")
        await page.type_into("textarea.code", '{"kind": "double"}')
    elif address.startswith("/plugins/"):
        await page.evaluate("document.querySelectorAll('main details').forEach((one) => (one.open = true))")
    elif address == "/settings/retention":
        await page.type_into(".form label:nth-of-type(4) input", "30")


async def a_panel_gives_the_focus_back(page: Page, label: str, panel: str) -> None:
    opener, close = button(label), f"{button('Close')}?.closest({json.dumps(panel)}) && {button('Close')}"
    await page.until(f"({opener}?.focus(), document.activeElement === {opener})")
    await page.press("Enter")
    await page.until(f"(({close})?.focus(), Boolean({close}) && document.activeElement === ({close}))")
    await page.press("Enter")
    await page.until(f"!({close}) && document.activeElement === {opener}")


async def a_dialog_keeps_the_focus_and_gives_it_back(page: Page, opener: str) -> None:
    await page.until(f"({opener}?.focus(), document.activeElement === {opener})")
    await page.press("Enter")
    await page.until("document.querySelector('dialog[open]')?.contains(document.activeElement)")
    found = await by_tab(page)
    assert found.pop("count") > 1, opener
    assert not any(found.values()), (opener, found)
    await page.press("Escape")
    await page.until(f"!{there('dialog')} && document.activeElement === {opener}")
