"""The settings in a real browser: keys, members, retention, webhooks; to each what the key allows."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest

from hostler.console.files import FOLDER
from hostler.domain.members import ROLES
from hostler.domain.webhooks import EVENTS
from hostler.http.auth import Right
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import HOSTILE, choose, click, look_at_all, say, shown, sign_in, there, verbatim
from support.console_words import candidates, in_languages
from support.http_host import Served, serving

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
TABS = "[...document.querySelectorAll('main .tabs a')].map((one) => one.pathname.split('/')[2] ?? '')"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


def test_rights_roles_and_events_are_those_of_the_api() -> None:
    def listed(path: str, name: str) -> list[str]:
        text = (FOLDER / path).read_text("utf-8")
        return re.findall(r'"([^"]+)"', text.split(f"const {name} = [")[1].split("]")[0])

    assert set(listed("lib/rights.js", "RIGHTS")) == set(get_args(Right)) - {"plugins:connect"}
    assert set(listed("lib/rights.js", "ROLES")) == set(ROLES)
    assert listed("settings/webhooks.js", "EVENTS") == list(EVENTS)


@in_languages("en", "zh")
async def test_a_key_is_made_shown_once_replaced_and_revoked(served: Served, page: Page) -> None:
    await sign_in(served, page, "/settings/keys")
    await click(page, "New key")
    await page.type_into(".form input[name=name]", "for the dashboard")
    await click(page, "Create")
    await page.until(there(".once .secret"))
    secret = await page.evaluate("document.querySelector('.once .secret').textContent")
    # a browser that does not copy is not believed: the key would be lost
    await page.evaluate(
        "(Object.defineProperty(navigator, 'clipboard', {value: undefined}),"
        " document.execCommand = () => false)"
    )
    await click(page, "Copy", ".once")
    await page.until(shown("It was not copied"))
    async with served.as_key(secret) as made:
        assert (await made.get("/v1/runs")).status_code == 200
        assert (await made.get("/v1/keys")).status_code == 403
    stored = await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert secret not in stored
    await page.open(f"{served.url}/settings/keys?again")
    await page.until(shown("for the dashboard"))
    assert not await page.evaluate(f"document.documentElement.outerHTML.includes('{secret}')")
    await click(page, "Replace: for the dashboard")
    await page.until(shown("Make another one like it?"))
    await click(page, "Replace", "dialog")
    await page.until(there(".once .secret"))
    other = await page.evaluate("document.querySelector('.once .secret').textContent")
    keys = (await served.client.get("/v1/keys")).json()["items"]
    (old, new) = [key for key in keys if key["name"] == "for the dashboard"]
    assert {**old, "key_id": "", "created_at": 0, "expires_at": 0} == {
        **new,
        "key_id": "",
        "created_at": 0,
        "expires_at": 0,
    }
    await page.until("document.querySelectorAll('main tbody tr').length === 2")
    # Escape takes the question back, and leaves the focus where it was
    await click(page, "Revoke: for the dashboard")
    await page.until("document.querySelector('dialog')?.contains(document.activeElement)")
    await page.press("Escape")
    (label,) = candidates("Revoke: for the dashboard")
    await page.until(f"!{there('dialog')} && document.activeElement.ariaLabel === '{label}'")
    await click(page, "Revoke: for the dashboard")
    await click(page, "Revoke", "dialog")
    await page.until("document.querySelectorAll('main tbody tr').length === 1")
    answers = []
    for token in (secret, other):
        async with served.as_key(token) as made:
            answers.append((await made.get("/v1/runs")).status_code)
    assert sorted(answers) == [200, 401]


@in_languages("en", "zh")
async def test_members_are_invited_and_change_their_role(served: Served, page: Page) -> None:
    await sign_in(served, page, "/settings/members")
    await page.until(shown("No members"))
    await page.type_into("input[name=email]", "ada@example.com")
    await page.press("Enter")
    await page.until(f"{shown('ada@example.com')} && {there('tbody select')}")
    await choose(page, "tbody select", "operator")
    await page.until(shown("The role is changed."))
    (member,) = (await served.client.get("/v1/members")).json()["items"]
    assert (member["email"], member["role"]) == ("ada@example.com", "operator")
    await click(page, "Remove: ada@example.com")
    await click(page, "Remove", "dialog")
    await page.until(shown("No members"))


@in_languages("en", "zh")
async def test_retention_and_webhooks_are_changed(served: Served, page: Page) -> None:
    await sign_in(served, page, "/settings/retention")
    await page.type_into(".form label:nth-of-type(4) input", "30")
    await page.until(shown("is deleted within an hour"))
    await click(page, "Store")
    await page.until(shown("Change how long data is kept?"))
    await click(page, "Store", "dialog")
    await page.until(shown("Stored."))
    (policy,) = (await served.client.get("/v1/config/retention")).json()["items"]
    assert policy["entry"] == {"deltas": 30}
    await page.open(f"{served.url}/settings/webhooks")
    await click(page, "New receiver")
    await page.type_into(".form input[name=name]", "ops")
    await page.type_into(".form input[name=url]", "ftp://hooks.example.com/x")
    await page.type_into(".form input[name=secret]", "env:HOOK")
    await click(page, "Store", ".form")
    await page.until(there(".notice.bad"))  # says what is wrong, and keeps what was typed
    assert await page.evaluate("document.querySelector('.form input[name=name]').value") == "ops"
    await page.type_into(".form input[name=url]", "https://hooks.example.com/x")
    await page.evaluate("document.querySelector('.form input[value=\"run.failed\"]').click()")
    await click(page, "Store", ".form")
    await page.until(f"!{there('.form')} && {shown('https://hooks.example.com/x')} && {shown('run.failed')}")
    (webhook,) = (await served.client.get("/v1/config/webhooks")).json()["items"]
    assert (webhook["name"], webhook["entry"]["secret"]) == ("ops", "env:HOOK")
    assert webhook["entry"]["events"] == ["run.failed"]


@in_languages("en", "zh")
async def test_a_secret_is_written_and_never_shown(served: Served, page: Page, tmp_path: Path) -> None:
    master = tmp_path / "master"
    master.write_text(base64.b64encode(os.urandom(32)).decode(), "utf-8")
    master.chmod(0o600)
    config = {"master_key": [f"file:{master}"]}
    assert (await served.client.post("/v1/config", json=config)).is_success
    await sign_in(served, page, "/settings/secrets")
    await click(page, "New secret")
    await page.type_into(".form input[name=name]", "api-key")
    for version, value in ((1, "hush-one"), (2, "hush-two")):
        await page.type_into(".form input[name=value]", value)
        await click(page, "Store", ".form")
        await page.until(f"!{there('.form')} && {shown('secret://api-key')}")
        (kept,) = (await served.client.get("/v1/secrets")).json()["items"]
        assert kept["version"] == version
        assert not await page.evaluate("document.documentElement.outerHTML.includes('hush')")
        await click(page, "New value: api-key")
    await click(page, "Remove: api-key")
    await click(page, "Remove", "dialog")
    await page.until(shown("No secret is stored"))
    await page.open(f"{served.url}/settings/encryption")
    await page.until(f"{shown('current')} && {shown(str(master))}")


@in_languages("en", "zh")
async def test_browsers_that_sign_in_and_out_elsewhere_are_seen(served: Served, page: Page) -> None:
    await sign_in(served, page, "/settings")
    looked = "document.dispatchEvent(new Event('visibilitychange'))"  # as when one comes back to the page
    sessions = "document.querySelectorAll('main .plain-list li').length"
    await page.until(f"{sessions} === 1")
    code = (await served.client.post("/v1/auth/links", json={})).json()["code"]
    async with served.as_key(None) as other:
        own = {"origin": served.url}
        assert (await other.post("/v1/auth/session", json={"code": code}, headers=own)).is_success
        await page.until(f"({looked}, {sessions} === 2)")
        await click(page, "Sign out")
        await page.until(f"{sessions} === 1")
        assert (await other.get("/v1/auth/session")).status_code == 401
    assert page.complaints == []


@in_languages("en", "zh")
async def test_each_sees_what_the_key_allows(served: Served, page: Page) -> None:
    whole = "keys tokens members secrets quotas webhooks"
    for rights, tabs in (
        (("runs:read",), "about"),
        (("usage:read", "secrets:read"), "secrets quotas about"),
        (("admin",), f"{whole} about"),
        ((), f"{whole} retention backup encryption about"),
    ):
        key = await served.key("default", *rights) if rights else None
        await sign_in(served, page, "/settings", key)
        assert await page.evaluate(TABS) == ["", *tabs.split()], rights
    await sign_in(served, page, "/settings/retention", await served.key("default", "runs:read"))
    await page.until(verbatim(say("settings.no_right_text", right="installation")))
    await page.open(f"{served.url}/settings/about")
    await page.until(shown("What holds on this host is for its administrator"))
    await sign_in(served, page, "/settings/about")
    await page.until(f"{shown('nothing is wrong')} && {shown('test/puppet is ready')}")


async def test_it_looks_well_in_every_way(served: Served, page: Page) -> None:
    made = {"name": HOSTILE[:200], "rights": ["runs:read"], "roles": [HOSTILE[:200]]}
    assert (await served.client.post("/v1/keys", json=made)).status_code == 201
    invited = {"email": "ada@example.com", "role": "reader", "name": HOSTILE[:200]}
    assert (await served.client.post("/v1/members", json=invited)).status_code == 201
    assert (await served.client.post("/v1/tokens", json={"agent": "puppet"})).status_code == 201
    tabs = ("keys", "tokens", "members", "secrets", "quotas", "webhooks", "retention", "encryption")
    await sign_in(served, page, "/settings")
    await look_at_all(
        served, page, ["/settings", *(f"/settings/{tab}" for tab in (*tabs, "none"))], each=False
    )
