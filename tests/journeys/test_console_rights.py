"""Who sees and can do what in the console: strangers, readers, owners, people of another workspace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.domain.members import ROLE_RIGHTS
from support.chromium import NEEDS_CHROMIUM, Page
from support.console_walk import answers, navigation, remember_answers, shown, sign_in, sign_out, walk
from support.http_host import ADMIN_KEY, OTHER, WORKSPACE, Served, serving
from support.pauses import call, open_pause, open_run, rule

pytestmark = [pytest.mark.gate("console"), pytest.mark.timeout(300), NEEDS_CHROMIUM]
OURS = "only-in-our-workspace"
REFUSED = (401, 403)
WRITES = {"POST", "PUT", "PATCH", "DELETE"}
PRESS_ALL = (
    "[...document.querySelectorAll('main button:not(:disabled)')].slice(0, 25)"
    ".forEach((one) => one.isConnected && one.click())"
)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def something_there(served: Served) -> str:
    """A run, and one that waits for everybody; the first one's id."""
    run = await served.say("say 1", conversation_id=OURS)

    def wait(tx: object) -> None:
        open_run(tx, "waits", WORKSPACE, conversation_id=OURS, requester=OURS)  # type: ignore[arg-type]
        open_pause(tx, call(rule=rule("*")), run_id="waits", pause_id="waits")  # type: ignore[arg-type]

    await served.host.db.write(wait)
    run_id: str = run["run_id"]
    return run_id


async def test_each_page_asks_and_offers_what_the_key_allows(served: Served, page: Page) -> None:
    run_id = await something_there(served)
    await remember_answers(page)
    for path in ("/", "/runs", f"/runs/{run_id}", "/approvals/waits", "/chat", "/agents/puppet", "/settings"):
        await page.open(served.url + path)
        await page.until("document.querySelector('#key') !== null")
        assert OURS not in await page.evaluate("document.documentElement.outerHTML"), path
        assert {status for _, to, status in await answers(page) if to.startswith("/v1/runs")} <= {401}
    pages: dict[str, list[str]] = {}
    for role in ("reader", "approver", "operator", "owner"):
        key = await served.key(WORKSPACE, *ROLE_RIGHTS[role], subject=role)
        await sign_in(page, served.url, key)
        pages[role] = await navigation(page)
        async for address in walk(page, served.url, deep=role == "reader"):
            told = await answers(page)
            assert [one for one in told if one[2] in REFUSED] == [], (role, address)
            if role == "reader" and not address.startswith("/settings"):
                await page.evaluate(PRESS_ALL)
                await shown(page)
                told = await answers(page)
                assert [one for one in told if one[0] in WRITES and one[2] in REFUSED] == [], address
        await page.open(f"{served.url}/settings")
        await shown(page)
        await sign_out(page)
    assert "/approvals" not in pages["reader"]
    assert "/approvals" in pages["approver"]
    assert set(pages["reader"]) <= set(pages["operator"]) <= set(pages["owner"])
    assert (await served.client.get("/v1/pauses/waits")).json()["calls"][0]["decision"] == "undecided"


async def test_nothing_of_a_workspace_is_shown_to_people_of_another(served: Served, page: Page) -> None:
    run_id = await something_there(served)
    await sign_in(page, served.url, await served.key(OTHER, "admin", subject="stranger"))
    seen = [address async for address in walk(page, served.url)]
    for address in (
        *seen,
        f"/runs/{run_id}",
        "/runs/waits",
        "/approvals/waits",
        "/agents/puppet",
        f"/chat/{OURS}",
    ):
        await page.open(served.url + address)
        await shown(page)
        text = await page.evaluate("document.querySelector('main').innerText")
        assert OURS not in text.replace(f"/chat/{OURS}", "") or address.endswith(OURS), address
        assert "done: say 1" not in text, address
    await page.open(f"{served.url}/approvals/waits")
    await page.until("document.body.innerText.includes('There is no such approval')")
    await sign_out(page)
    await sign_in(page, served.url, ADMIN_KEY)
    await page.open(f"{served.url}/approvals/waits")
    await page.until("document.querySelector('.call-card .approve') !== null")
