"""Pictures of the pages of the console in docs/console: HOSTLER_WRITE_PAGES=1 writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostler.storage.port import Tx
from hostler.storage.stores import outbox
from hostler.storage.stores.outbox_rows import NewDelivery, Outbound
from hostler_protocol.channels import ChannelMessage, ChannelTarget
from support.chromium import NEEDS_CHROMIUM, Page, browsing
from support.console import FITS
from support.console_scene import Scene, scene
from support.http_host import WORKSPACE

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "console"
WIDE, PHONE = (1440, 900, "light", "en"), (360, 780, "dark", "zh")
PAGES = {
    "chat": "/chat/ada",
    "runs": "/runs",
    "run": "/runs/{run}",
    "compare": "/runs/{run}/compare/{other}",
    "approvals": "/approvals",
    "approval": "/approvals/{pause}",
    "agents": "/agents",
    "agent": "/agents/reception",
    "plugins": "/plugins",
    "models": "/models",
    "new-model": "/models?new=",
    "knowledge": "/knowledge/house-rules?q=dogs+at+breakfast",
    "tools": "/tools",
    "tool": "/tools/shop.book",
    "channels": "/channels",
    "channel": "/channels/help-bot",
    "hook": "/hooks/code",
    "schedule": "/schedules/morning-report",
    "workers": "/workers",
    "worker": "/workers/gpu-1",
    "usage": "/usage",
    "audit": "/audit",
    "settings": "/settings",
}


async def sources(made: Scene) -> None:
    """A channel with messages, a hook, and a schedule that has fired."""
    client = made.served.client
    bot = {"name": "help-bot", "channel": "plugin:hostler/telegram/telegram", "enabled": False}
    code = {
        "name": "code",
        "verify": "github",
        "secrets": ["env:GITHUB_SECRET"],
        "agent": "reception",
        "map": {"conversation_id": "body.repository.full_name", "text": "body.issue.title"},
    }
    report = {"name": "morning-report", "cron": "0 8 * * 1-5", "timezone": "Europe/Berlin", "agent": "echo"}
    for path, body in (
        ("/v1/config/channels", {**bot, "config": {"token": "env:TELEGRAM_TOKEN"}, "agent": "reception"}),
        ("/v1/config/hooks", code),
        ("/v1/schedules", {**report, "text": "Write the report of yesterday."}),
        ("/v1/schedules/morning-report/run", {}),
    ):
        answer = await client.post(path, json=body)
        assert answer.is_success, (path, answer.text)

    def write(tx: Tx) -> None:
        for number, text in enumerate(("A double room is €120 a night.", "Your room is booked.")):
            said = Outbound(ChannelTarget(chat_id="40281"), ChannelMessage(text=text))
            outbox.add(tx, WORKSPACE, NewDelivery(delivery_id=str(number), channel="help-bot", outbound=said))

    await made.served.host.db.write(write)


async def at_rest(page: Page) -> None:
    """Wait until a page has its heading, and for half a second nothing has changed."""
    await page.until("document.querySelector('main#main h1, main#main h2') !== null")
    await page.evaluate(
        "new Promise((done) => { let timer; const rest = () => { clearTimeout(timer);"
        " timer = setTimeout(done, 500); }; new MutationObserver(rest).observe(document.body,"
        " {subtree: true, childList: true}); rest(); setTimeout(done, 5000); })"
    )


async def names_in_addresses(made: Scene) -> dict[str, str]:
    """The run of the scene, another one of its agent, and what waits."""
    found = (await made.served.client.get("/v1/runs?agent=reception&status=completed")).json()["items"]
    other = next(run["run_id"] for run in found if run["run_id"] != made.run_id)
    return {"run": made.run_id, "other": other, "pause": made.pause_id}


async def shown(page: Page, address: str) -> bytes:
    """Open a page, and return its picture."""
    await page.open(address)
    await at_rest(page)
    assert await page.evaluate(FITS), f"{address} scrolls sideways"
    failure = await page.evaluate("document.querySelector('.failure')?.innerText ?? null")
    assert failure is None, f"{address}: {failure}"
    return await page.picture()


async def test_each_page_has_its_pictures_in_the_documentation(tmp_path: Path) -> None:
    writes = os.environ.get("HOSTLER_WRITE_PAGES") == "1"
    sizes = {"wide": WIDE, "phone": PHONE}
    text = (ROOT / "docs" / "console.md").read_text()
    async with scene(tmp_path / "data") as made, browsing() as page:
        await sources(made)
        names = await names_in_addresses(made)
        code = (await made.served.client.post("/v1/auth/links", json={})).json()["code"]
        await page.open(f"{made.served.url}/runs#sign-in={code}")
        await at_rest(page)
        links = await page.evaluate(
            "[...document.querySelectorAll('nav.navigation li a')].map((a) => a.getAttribute('href'))"
        )
        named = {path.split("/")[1] for path in PAGES.values()}
        assert {link.split("/")[1] for link in links} <= named, "each page of the navigation has a picture"
        for size, (width, height, theme, language) in sizes.items():
            await page.resize(width, height)
            await page.wish(theme)
            await page.evaluate(f"localStorage.setItem('hostler-language', '{language}')")
            for name, path in PAGES.items():
                picture = await shown(page, made.served.url + path.format(**names))
                assert picture[8:12] == b"WEBP"
                file = PICTURES / f"{name}-{size}.webp"
                if writes:
                    file.parent.mkdir(exist_ok=True)
                    file.write_bytes(picture)
        assert page.complaints == []
    wanted = {f"{name}-{size}.webp" for name in PAGES for size in sizes}
    assert {file.name for file in PICTURES.iterdir()} == wanted, "HOSTLER_WRITE_PAGES=1 makes them"
    assert {name for name in wanted if f"console/{name}" not in text} == set(), "docs/console.md shows each"
