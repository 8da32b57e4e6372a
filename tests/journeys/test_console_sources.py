"""Channels, hooks and schedules in a real browser: how they stand, what was sent, and what people change."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.channels import ChannelEntry
from hostler.domain.hooks import Hook, HookMapping, Verifier
from hostler.domain.schedules import Schedule
from hostler.host.config import ConfigFile
from support.channel_host import WIRES, entry_for
from support.chat_platform import ChatPlatform, platform
from support.chromium import NEEDS_CHROMIUM, browsing
from support.console import HOSTILE, choose, click, hrefs, look_at_all, say, shown, sign_in, there, verbatim
from support.console_words import candidates, in_languages
from support.hooked import SECRET, Sender
from support.http_host import Served, serving
from support.trust import trusted

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
EVENING = there('.table a[href="/schedules/evening"]')
MESSAGES = "(document.querySelectorAll('.table')[1]?.querySelectorAll('tbody tr').length === {})"
"""How many messages are listed."""
PATHS = (
    "/channels",
    "/channels?status=failed",
    "/channels/chat",
    "/channels?new=",
    "/hooks",
    "/hooks/bell",
    "/hooks?new=",
    "/schedules",
    "/schedules/morning",
)

DISABLED = "(document.querySelector('#hooks--verify')?.disabled === true)"


def events() -> str:
    """A selector of the links of the events that came last."""
    (label,) = candidates("Last events")
    return f".table[aria-label='{label}'] a, [aria-label='{label}'] .table a"


def verifier(name: str) -> str:
    """The value by which the form has a verifier."""
    return str(get_args(Verifier).index(name))


def wrong(place: str) -> str:
    """An expression: what is said to be wrong at a field."""
    at = json.dumps(f'[data-place="{place}"] .wrong')
    return f"(document.querySelector({at})?.innerText ?? '')"


@contextlib.asynccontextmanager
async def a_host(tmp_path: Path) -> AsyncIterator[tuple[Served, ChatPlatform, Sender]]:
    """A host with a chat, a hook and schedules, in which something happened."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    hook = Hook(
        name="bell", verify="stripe", secrets=[f"file:{secret}"], agent="echo", map=HookMapping(text="'hi'")
    )
    async with platform() as chat, serving(tmp_path / "data", agent=False) as served:
        other = ChannelEntry(name="quiet", channel="plugin:test/wires/keyed", enabled=False)
        config = ConfigFile(
            plugins=[trusted(WIRES)],
            agents=[AgentSpec(name="echo", runner="plugin:test/wires/echo")],
            channels=[entry_for(chat.port, tmp_path / "token", agent="echo"), other],
            hooks=[hook, Hook(name="open-to-all", verify="none", agent="echo")],
            schedules=[
                Schedule(
                    name="morning", cron="0 8 * * 1-5", timezone="Europe/Berlin", agent="echo", text=HOSTILE
                ),
                Schedule(name="often", every=3600, agent="echo", text="again"),
            ],
        )
        await served.host.apply(config, actor="test")
        async with served.as_key(None) as client:
            yield served, chat, Sender(client, hook)


@in_languages("en", "zh")
async def test_a_chat_its_messages_and_what_was_given_up(tmp_path: Path) -> None:
    async with a_host(tmp_path) as (served, chat, _), browsing() as page:
        chat.fates = ["refused"]
        chat.say(f"lost {HOSTILE}")  # too long for one message: the first half is refused
        chat.say("heard")
        await chat.until(2)
        await sign_in(served, page, "/channels")
        await page.until(shown("connected"))
        await page.until(f"{shown('disabled')} && {shown('plugin:test/wires/keyed')}")
        await page.until(there('.table a[href="/channels?status=failed&channel=chat"]'))
        await page.evaluate("document.querySelector('.table a[href*=\"status=failed\"]').click()")
        await page.until(f"{MESSAGES.format(1)} && {shown('given up')}")
        assert not await page.evaluate("window.broken === 1")
        await click(page, "Send again", within=".row-buttons")
        await click(page, "Send again", within="dialog")
        await chat.until(3)
        await page.until(shown("There is no such message"))
        await choose(page, ".section-head select", "sent")
        await page.until(MESSAGES.format(3))
        await page.open(f"{served.url}/channels/chat")
        runs = [one["run_id"] for one in (await served.client.get("/v1/runs")).json()["items"]]
        links = f"{hrefs(events())}.filter((one) => one.startsWith('/runs/'))"
        await page.until(f"{links}.join() === {json.dumps(','.join(f'/runs/{one}' for one in runs))}")
        assert await page.evaluate(f"{shown('started a run')} && window.broken === undefined")
        await page.open(f"{served.url}/channels")
        before = chat.logins
        await click(page, "Connect again: chat")
        while chat.logins == before:
            await page.evaluate("new Promise((done) => setTimeout(done, 20))")


@in_languages("en", "zh")
async def test_a_hook_says_who_sent_what(tmp_path: Path) -> None:
    async with a_host(tmp_path) as (served, _, sender), browsing() as page:
        request = sender.request()
        assert [(await sender.send(request)).status_code for _ in range(2)] == [202, 202]
        liar = Sender(sender.client, sender.hook, "another secret")
        assert (await liar.post()).status_code == 401
        accepted, repeated = (f"{candidates(outcome)[0]} 1" for outcome in ("accepted", "repeated"))
        await sign_in(served, page, "/hooks")
        await page.until(f"{shown('/v1/hooks/bell')} && {shown(accepted)} && {shown(repeated)}")
        refused = say("hook_outcome.refused", reason="").rstrip(")）")
        assert await page.evaluate(f"{shown('not verified')} && {shown(refused)}")
        # what came last, and the run that it started
        await page.open(f"{served.url}/hooks/bell")
        (run,) = (await served.client.get("/v1/runs")).json()["items"]
        await page.until(f"{shown('started a run')} && {hrefs(events())}.includes('/runs/{run['run_id']}')")
        assert await page.evaluate("document.querySelectorAll('.table tbody tr').length") == 1
        await page.open(f"{served.url}/hooks/open-to-all")
        await page.until(shown("No event came yet."))
        key = await served.key("default", "plugins:read", "agents:read")
        await sign_in(served, page, "/hooks", key)
        await page.until(verbatim("installation"))
        assert not await page.evaluate(shown("/v1/hooks/bell"))


@in_languages("en", "zh")
async def test_a_hook_is_added_changed_and_removed(tmp_path: Path) -> None:
    async with a_host(tmp_path) as (served, _, _), browsing() as page:

        async def entry() -> dict[str, object]:
            found: dict[str, object] = (await served.client.get("/v1/config/hooks/code")).json()["entry"]
            return found

        await sign_in(served, page, "/hooks")
        await click(page, "New hook")
        await page.type_into("#hooks--name", "code")
        await choose(page, "#hooks--verify", verifier("hmac"))
        await page.type_into("#hooks--secrets-0", "no name")
        await page.type_into("#hooks--hmac-hmac-header", "X-Signature")
        await page.type_into("#hooks--map-map-text", "body.(")
        await click(page, "Add it", within=".buttons")
        # what the host says stands at the fields that it is about, and the form stays as it is
        await page.until(f"{wrong('map.text')}.includes('is not CEL')")
        assert "names no stored secret" in await page.evaluate(wrong("secrets[0]"))
        await page.type_into("#hooks--map-map-text", "body.issue.title")
        await page.until(f"{wrong('map.text')} === ''")
        await choose(page, '[data-place="secrets[0]"] select', "env")
        await page.type_into("#hooks--secrets-0", "CODE_SECRET")
        await click(page, "Add it", within=".buttons")
        await page.until("location.pathname === '/hooks/code'")
        await page.until(shown("CODE_SECRET is not set"))
        assert await entry() == {
            "name": "code",
            "verify": "hmac",
            "secrets": ["env:CODE_SECRET"],
            "hmac": {"header": "X-Signature"},
            "map": {"text": "body.issue.title"},
        }
        # what belongs to another way of signing goes with it
        await choose(page, "#hooks--verify", verifier("github"))
        await page.type_into("#hooks--agent", "echo")
        await click(page, "Save")
        await page.until(there('.facts a[href="/agents/echo"]'))
        changed = await entry()
        assert (changed["verify"], changed["agent"], "hmac" in changed) == ("github", "echo", False)
        # an entry of the file that the server was started with says so
        config = ConfigFile(hooks=[Hook(name="code", verify="none", agent="echo")])
        await served.host.apply(config, actor="config file")
        await page.open(f"{served.url}/hooks/code")
        await page.until(f"{shown('comes from the configuration file')} && {DISABLED}")
        await click(page, "Change it here all the same")
        await page.until(f"!{DISABLED}")
        await click(page, "Remove")
        await click(page, "Remove", within="dialog")
        await page.until(f"location.pathname === '/hooks' && {shown('/v1/hooks/bell')}")
        assert (await served.client.get("/v1/config/hooks/code")).status_code == 404
        assert page.complaints == []


@in_languages("en", "zh")
async def test_a_channel_is_added_changed_and_removed(tmp_path: Path) -> None:
    async with a_host(tmp_path) as (served, chat, _), browsing() as page:
        await sign_in(served, page, "/channels?new=")
        await page.type_into("#channels--name", "second")
        options = "[...document.querySelectorAll('#channels--channel option')]"
        index = f"{options}.find((one) => one.text.endsWith('plugin:test/wires/keyed'))?.value"
        await choose(page, "#channels--channel", await page.until(index))
        await page.until(there('[data-place="config.token"]'))
        kinds = (
            "[...document.querySelectorAll('[data-place=\"config.token\"] option')].map((one) => one.value)"
        )
        assert await page.evaluate(kinds) == ["stored", "env", "file"]  # never typed: the host refuses that
        await page.type_into("#channels--config-config-port", str(chat.port))
        await page.type_into("#channels--agent", "nobody")
        await click(page, "Add it", within=".buttons")
        await page.until(f"{wrong('config.token')} !== ''")
        await choose(page, '[data-place="config.token"] select', "file")
        await page.type_into("#channels--config-config-token", str(tmp_path / "token"))
        await page.evaluate("document.querySelector('#channels--enabled').click()")
        await click(page, "Add it", within=".buttons")
        await page.until(f"location.pathname === '/channels/second' && {shown('disabled')}")
        stored = (await served.client.get("/v1/config/channels/second")).json()["entry"]
        assert stored["config"] == {"port": chat.port, "token": f"file:{tmp_path / 'token'}"}
        assert (stored["agent"], stored["enabled"]) == ("nobody", False)
        await page.type_into("#channels--agent", "echo")
        await click(page, "Save")
        await page.until(there('.facts a[href="/agents/echo"]'))
        await click(page, "Remove")
        await click(page, "Remove", within="dialog")
        await page.until("location.pathname === '/channels'")
        assert (await served.client.get("/v1/config/channels/second")).status_code == 404
        key = await served.key("default", "plugins:read")
        await sign_in(served, page, "/channels/chat", key)
        await page.until(shown("with the right “installation”"))
        assert await page.evaluate("document.querySelectorAll('main button, main form').length") == 0
        assert page.complaints == []


@in_languages("en", "zh")
async def test_a_schedule_is_made_changed_fired_paused_and_removed(tmp_path: Path) -> None:
    async with a_host(tmp_path) as (served, _, _), browsing() as page:
        await sign_in(served, page, "/schedules")
        await page.until(f"{shown('0 8 * * 1-5 (Europe/Berlin)')} && {shown('every 1 h 0 min')}")
        await click(page, "New schedule")
        await page.type_into("form input[name=name]", "evening")
        await page.type_into("form input[name=when]", "61 20 * * *")
        await click(page, "Store")
        await page.until(shown("61"))  # the host says what is wrong, and the form stays
        assert await page.evaluate(there("form input[name=when]"))
        await page.evaluate("document.querySelector('form input[name=when]').value = ''")
        await page.type_into("form input[name=when]", "30 20 * * *")
        await page.type_into("form input[name=agent]", "echo")
        await page.type_into("form textarea[name=text]", "Good evening.")
        await click(page, "Store")
        await page.until(EVENING)
        await click(page, "evening")
        await page.until(
            f"document.querySelectorAll('ol.plain-list li').length === 10 && {shown('Good evening.')}"
        )
        await click(page, "Change")
        await choose(page, "form select[name=way]", "every")
        await page.type_into("form input[name=when]", "7200")
        await click(page, "Store")
        await page.until(f"{shown('every 2 h 0 min')} && document.querySelector('form') === null")
        stored = (await served.client.get("/v1/schedules/evening")).json()["spec"]
        assert (stored["every"], stored["cron"], stored["text"]) == (7200.0, None, "Good evening.")
        await click(page, "Fire now")
        await page.until("document.querySelectorAll('tbody tr a[href^=\"/runs/\"]').length === 1")
        await click(page, "Pause")
        await page.until(f"{shown('None is planned.')} && {shown('paused')}")
        await click(page, "Resume")
        await page.until("document.querySelectorAll('ol.plain-list li').length === 10")
        await click(page, "Remove")
        await click(page, "Remove", within="dialog")
        await page.until(f"location.pathname === '/schedules' && !{EVENING}")
        assert (await served.client.get("/v1/schedules/evening")).status_code == 404


@in_languages("en", "zh")
async def test_schedules_that_are_more_than_a_page_are_all_reached(tmp_path: Path) -> None:
    many = [Schedule(name=f"s{number:03}", every=86_400, agent="echo", text="again") for number in range(250)]
    rows = "document.querySelectorAll('.table tbody tr').length"
    async with a_host(tmp_path) as (served, _, _), browsing() as page:
        await served.host.apply(ConfigFile(schedules=many), actor="test")
        await sign_in(served, page, "/schedules")
        seen = []
        for last in ("s097", "s197", "s249"):  # after those that the host has had before
            await page.until(there(f'.table a[href="/schedules/{last}"]'))
            seen.append(await page.evaluate(rows))
            if last != "s249":
                await click(page, "Show more")
        assert seen == [100, 200, 252]
        await page.until(f"!{shown('Show more')}")
        # what is read again is all that was shown
        assert (await served.client.delete("/v1/schedules/s249")).is_success
        await page.until(f"(document.dispatchEvent(new Event('visibilitychange')), {rows} === 251)")
        assert page.complaints == []


@in_languages("en", "zh")
async def test_who_may_only_read_is_offered_nothing_else(tmp_path: Path) -> None:
    async with a_host(tmp_path) as (served, _, _), browsing() as page:
        key = await served.key("default", "plugins:read", "agents:read", "events:read")
        await sign_in(served, page, "/schedules/morning", key)
        await page.until("document.querySelectorAll('ol.plain-list li').length === 10")
        assert await page.evaluate("document.querySelectorAll('main button').length") == 0
        await page.open(f"{served.url}/channels")
        await page.until(f"{shown('connected')} && {shown('need the right “admin”')}")
        assert await page.evaluate("document.querySelectorAll('main td button').length") == 0


async def test_all_of_it_is_readable_at_every_width_theme_and_language(tmp_path: Path) -> None:
    async with a_host(tmp_path) as (served, chat, sender), browsing() as page:
        chat.fates = ["refused"]
        chat.say(HOSTILE)
        chat.say(HOSTILE)
        await chat.until(1)
        await sender.send(sender.request())
        await served.client.post("/v1/schedules/morning/run")
        await sign_in(served, page, "/channels")
        await page.until(shown("given up"))
        await look_at_all(served, page, PATHS)
