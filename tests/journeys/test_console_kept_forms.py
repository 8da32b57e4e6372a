"""What was typed into a form outlives a reload, but for secrets, and is gone once it is saved or given up."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.channels import ChannelEntry
from hostler.domain.hooks import Hook
from hostler.domain.schedules import Schedule
from hostler.host.config import ConfigFile
from support.channel_host import WIRES
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import choose, click, shown, sign_in, there
from support.console_words import candidates, in_languages
from support.http_host import Served, serving
from support.trust import trusted

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
KEPT = "Object.keys(sessionStorage).filter((one) => /^hostler-typed (?!.* places$)/.test(one)).length"
STORED = "JSON.stringify([{...localStorage}, {...sessionStorage}])"
PLAIN = "hunter2-in-plain"
TALKER = """
plugin: {author: acme, name: talker, version: 1.0.0, label: {en: Talker}}
runners: [{name: default, entry: "talker:Talker"}]
"""
TALKS = """
from hostler_sdk import RunContext, Runner, message


class Talker(Runner):
    async def run(self, ctx: RunContext):
        yield message("said")
"""


@dataclass(frozen=True)
class Secret:
    """A field that takes where a secret is, and how that is said; `kind`: its list of kinds."""

    name: str
    given: str
    kind: tuple[str, str] | None = None


@dataclass(frozen=True)
class Form:
    """A form at a page: what opens it, what is chosen, typed and ticked by selector, and what saves it."""

    path: str
    typed: dict[str, str]
    stored_at: str
    saves: str
    opens: tuple[str, ...] = ()
    chosen: dict[str, str] = field(default_factory=dict)
    ticked: tuple[str, ...] = ()
    secret: Secret | None = None
    asks: bool = False
    within: str = "main form"

    @property
    def told(self) -> str:
        """An expression: all of it is in the form, and seen."""
        texts = [f"{_of(name)}.value === {json.dumps(text)}" for name, text in self.typed.items()]
        choices = [f"{_ends(label)}({_of(name)}.selectedOptions[0])" for name, label in self.chosen.items()]
        seen = [f"{_of(name)}.checkVisibility()" for name in (*self.typed, *self.chosen)]
        return " && ".join([*texts, *choices, *seen])


def _ends(label: str) -> str:
    """A function of an option: it is read so, or its end is."""
    said = json.dumps(candidates(label))
    return f"((option) => {said}.some((one) => option.text.endsWith(one)))"


def _of(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)})"


async def _choose(page: Page, selector: str, label: str) -> None:
    """Choose by what is read."""
    options = f"[...document.querySelectorAll({json.dumps(f'{selector} option')})]"
    await choose(
        page,
        selector,
        await page.until(f"{options}.find({_ends(label)}).value"),
    )


async def _reload(page: Page) -> None:
    await page.evaluate("(window.before = true, location.reload())")
    await page.until(f"!window.before && {there('main#main h1')}")


@contextlib.asynccontextmanager
async def a_host(tmp_path: Path) -> AsyncIterator[Served]:
    """A host with one of each."""
    folder = tmp_path / "talker"
    folder.mkdir()
    (folder / "hostler.yaml").write_text(TALKER)
    (folder / "talker.py").write_text(TALKS)
    (tmp_path / "token").write_text("secret")
    skill = tmp_path / "skills" / "brewing"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: brewing\ndescription: How to brew\n---\nSlowly.\n")
    async with serving(tmp_path / "data") as served:
        config = ConfigFile(
            plugins=[trusted(WIRES)],
            agents=[AgentSpec(name="echo", runner="plugin:test/wires/echo")],
            channels=[ChannelEntry(name="quiet", channel="plugin:test/wires/keyed", enabled=False)],
            hooks=[Hook(name="bell", verify="none", agent="echo")],
            schedules=[Schedule(name="morning", cron="0 8 * * 1-5", agent="echo", text="Good morning.")],
        )
        await served.host.apply(config, actor="test")
        yield served


def forms(tmp_path: Path) -> list[Form]:
    return [
        Form(
            "/hooks?new=",
            {
                "#hooks--name": "code",
                "#hooks--map-map-text": "body.issue.title",
                "#hooks-more--tolerance_seconds": "299",
            },
            "/v1/config/hooks/code",
            "Add it",
            opens=("More settings",),
            chosen={"#hooks--verify": "github"},
            secret=Secret("#hooks--secrets-0", "CODE_SECRET", ('[data-place="secrets[0]"] select', "env")),
        ),
        Form("/hooks/bell", {"#hooks--agent": "puppet"}, "/v1/config/hooks/bell", "Save"),
        Form(
            "/channels?new=",
            {
                "#channels--name": "second",
                "#channels--config-config-port": "9",
                "#channels-more--failure_text": "Sorry.",
            },
            "/v1/config/channels/second",
            "Add it",
            opens=("More settings",),
            chosen={"#channels--channel": "plugin:test/wires/keyed"},
            ticked=("#channels--enabled",),
            secret=Secret(
                "#channels--config-config-token",
                str(tmp_path / "token"),
                ('[data-place="config.token"] select', "file"),
            ),
        ),
        Form("/channels/quiet", {"#channels--agent": "puppet"}, "/v1/config/channels/quiet", "Save"),
        Form(
            "/models?new=",
            {
                "#models--id": "second",
                "#models--base_url": "http://127.0.0.1:9/v1",
                "#models-more--max_retries": "7",
            },
            "/v1/config/models/second",
            "Add it",
            opens=("More settings",),
            chosen={"#models--type": "(rerank)"},
            secret=Secret("#models--api_key", "MODEL_KEY", ('[data-place="api_key"] select', "env")),
        ),
        Form("/models/second", {"#models--model": "big-one"}, "/v1/config/models/second", "Save"),
        Form(
            "/mcp-servers?new=",
            {
                "#tools--name": "web",
                "#tools--url": "http://127.0.0.1:9/mcp",
                "#tools-more--seconds": "59",
            },
            "/v1/config/tools/mcp:web",
            "Add it",
            opens=("More settings",),
            chosen={"#tools--reached": "an address (streamable HTTP)"},
            secret=Secret("#tools--token", "WEB_TOKEN", ('[data-place="token"] select', "env")),
        ),
        Form(
            "/tools?new=",
            {"#tools--name": "pages", "#tools-more--page_kib": "99"},
            "/v1/config/tools/fetch:pages",
            "Add it",
            opens=("More settings",),
            chosen={"#tools--kind": "pages and files of the web"},
        ),
        Form("/skills?new=", {"#skills--path": str(tmp_path / "skills")}, "/v1/config/skills", "Add it"),
        Form(
            "/schedules",
            {
                "form input[name=name]": "evening",
                "form input[name=when]": "30 20 * * *",
                "form input[name=agent]": "echo",
                "form textarea[name=text]": "Good evening.",
            },
            "/v1/schedules/evening",
            "Store",
            opens=("New schedule",),
        ),
        Form(
            "/schedules/morning",
            {"form input[name=when]": "7200", "form textarea[name=text]": "Good morning to you."},
            "/v1/schedules/morning",
            "Store",
            opens=("Change",),
            chosen={"form select[name=way]": "at an interval"},
        ),
        Form(
            "/knowledge",
            {
                "form input[name=kb_id]": "house",
                "form input[name=name]": "The house",
                "form textarea": "Pets and pools.",
            },
            "/v1/knowledge/house",
            "Store",
            opens=("New knowledge base",),
        ),
        Form(
            "/knowledge/house",
            {"form textarea[name=description]": "Pets alone.", "form input[name=passage_chars]": "900"},
            "/v1/knowledge/house",
            "Store",
            opens=("Change",),
        ),
        Form(
            "/plugins",
            {"#plugin--path": str(tmp_path / "talker")},
            "/v1/config/plugins",
            "Add it",
            opens=("Add a plugin",),
            chosen={"#plugin--level": "trusted"},
        ),
        Form(
            "/plugins/acme%2Ftalker",
            {"#plugin-more--limits-limits-open_files": "1234"},
            "/v1/config/plugins",
            "Save",
            opens=("Its entry in the configuration", "Wheels and limits"),
        ),
        Form(
            "/settings/keys",
            {
                "form input[name=name]": "dashboard",
                "form input[name=subject]": "ada",
                "form input[name=roles]": "eng",
            },
            "/v1/keys",
            "Create",
            opens=("New key",),
            chosen={"form select[name=days]": "in 7 days"},
        ),
        Form(
            "/settings/webhooks",
            {"form input[name=name]": "ops", "form input[name=url]": "https://hooks.example.com/x"},
            "/v1/config/webhooks",
            "Store",
            opens=("New receiver",),
            ticked=("form input[value='pause.opened']",),
            secret=Secret("form input[name=secret]", "env:HOOK"),
        ),
        Form(
            "/settings/webhooks",
            {"form input[name=url]": "https://hooks.example.com/other"},
            "/v1/config/webhooks",
            "Store",
            opens=("Change: ops",),
        ),
        Form(
            "/settings/retention",
            {".form label:nth-of-type(4) input": "31"},
            "/v1/config/retention",
            "Store",
            asks=True,
        ),
        Form(
            "/settings/members",
            {"form input[name=email]": "ada@example.com"},
            "/v1/members",
            "Invite",
            chosen={"form select[name=role]": "operator"},
        ),
    ]


async def _fill(page: Page, form: Form) -> None:
    for label in form.opens:
        await click(page, label)
    for selector, label in form.chosen.items():
        await _choose(page, selector, label)
    for selector, text in form.typed.items():
        await page.type_into(selector, text)
    for selector in form.ticked:
        await page.evaluate(f"{_of(selector)}.click()")
    if form.secret:
        await page.type_into(form.secret.name, PLAIN)
    await page.until(form.told)


async def _save(page: Page, form: Form) -> None:
    if form.secret:
        if form.secret.kind:
            await choose(page, *form.secret.kind)
        await page.type_into(form.secret.name, form.secret.given)
    # in Chinese what adds an entry is called as what adds a part of it
    within = f"{form.within} .buttons" if form.saves == "Add it" else form.within
    await click(page, form.saves, within=within)
    if form.asks:
        await click(page, form.saves, within="dialog")


@in_languages("en", "zh")
async def test_each_form_is_there_after_a_reload_and_gone_once_it_is_saved(
    tmp_path: Path, page: Page
) -> None:
    async with a_host(tmp_path) as served:
        await sign_in(served, page, "/settings")
        for form in forms(tmp_path):
            await page.open(f"{served.url}{form.path}")
            await _fill(page, form)
            ticks = [await page.evaluate(f"{_of(one)}.checked") for one in form.ticked]
            assert PLAIN not in await page.evaluate(STORED), form
            await _reload(page)
            await page.until(form.told)
            assert [await page.evaluate(f"{_of(one)}.checked") for one in form.ticked] == ticks, form
            if form.secret:
                assert await page.evaluate(f"{_of(form.secret.name)}.value") == "", form
            await _save(page, form)
            await page.until(f"{KEPT} === 0")
            answer = (await served.client.get(form.stored_at)).text
            assert [text for text in form.typed.values() if text not in answer] == [], form
        assert page.complaints == []
        for path, selector in (
            ("/hooks?new=", "#hooks--name"),
            ("/channels?new=", "#channels--name"),
            ("/models?new=", "#models--id"),
            ("/tools?new=", "#tools--name"),
            ("/skills?new=", "#skills--path"),
            ("/settings/members", "form input[name=email]"),
            ("/plugins", "#plugin--path"),
        ):
            await page.open(f"{served.url}{path}")
            await page.until(f"{_of(selector)}.value === ''")
        for path in (
            "/schedules",
            "/schedules/morning",
            "/knowledge",
            "/settings/keys",
            "/settings/webhooks",
        ):
            await page.open(f"{served.url}{path}")
            await page.until(f"{there('main .table')} || {there('main .facts')}")
            assert not await page.evaluate(there("main form")), path


@in_languages("en", "zh")
async def test_a_tool_and_a_server_that_are_half_filled_in_are_kept_apart(tmp_path: Path, page: Page) -> None:
    async with a_host(tmp_path) as served:
        await sign_in(served, page, "/tools?new=")
        typed = {"/tools?new=": "pages", "/mcp-servers?new=": "files"}
        for path, name in typed.items():
            await page.open(f"{served.url}{path}")
            await page.until(f"{_of('#tools--name')}.value === ''")
            await page.type_into("#tools--name", name)
        assert await page.evaluate(KEPT) == len(typed)
        for path, name in typed.items():
            await page.open(f"{served.url}{path}")
            await page.until(f"{_of('#tools--name')}.value === {json.dumps(name)}")
        await _choose(page, "#tools--reached", "an address (streamable HTTP)")
        await page.type_into("#tools--url", "http://127.0.0.1:9/mcp")
        await click(page, "Add it", within=".buttons")
        await page.until(f"location.pathname === '/mcp-servers/files' && {KEPT} === 1")
        await page.open(f"{served.url}/tools?new=")
        await page.until(f"{_of('#tools--name')}.value === 'pages'")
        assert page.complaints == []


@in_languages("en", "zh")
async def test_what_is_given_up_is_gone_and_what_another_changed_stays(tmp_path: Path, page: Page) -> None:
    async with a_host(tmp_path) as served:
        await sign_in(served, page, "/schedules")
        await click(page, "New schedule")
        await page.type_into("form input[name=name]", "evening")
        await page.until(f"{KEPT} === 1")
        await click(page, "Cancel")
        await page.until(f"{KEPT} === 0 && !{there('main form')}")
        await _reload(page)
        await page.until(there("main .table"))
        assert not await page.evaluate(there("main form"))

        # what was changed of a field while it was away is in the form, beside what was typed
        await page.open(f"{served.url}/hooks/bell")
        await page.type_into("#hooks--agent", "nobody")
        changed = {"name": "bell", "verify": "none", "agent": "echo", "map": {"text": "body.title"}}
        assert (await served.client.put("/v1/config/hooks/bell", json=changed)).is_success
        await _reload(page)
        await page.until(f"{_of('#hooks--agent')}.value === 'nobody'")
        assert await page.evaluate(f"{_of('#hooks--map-map-text')}.value") == "body.title"
        await click(page, "Discard")
        await page.until(f"{_of('#hooks--agent')}.value === 'echo' && {KEPT} === 0")
        # typed back to what it was, nothing is left to keep
        await page.type_into("#hooks--agent", "nobody")
        await page.until(f"{KEPT} === 1")
        await page.type_into("#hooks--agent", "echo")
        await page.until(f"{KEPT} === 0 && !{shown('Discard')}")
        # nor is it once the entry is removed
        await page.type_into("#hooks--agent", "nobody")
        await click(page, "Remove")
        await click(page, "Remove", within="dialog")
        await page.until(f"location.pathname === '/hooks' && {KEPT} === 0")
        assert page.complaints == []
