"""The agents in a real browser: a first one, its form and policy, versions, and who may do what."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.model_entries import ModelEntry
from hostler.host.config import ConfigFile, PluginEntry
from support.axe import serious_mistakes
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import FITS, nothing_from_elsewhere, shown, there
from support.console_words import candidates, in_languages
from support.http_host import PUPPET_RUNNER, Served, serving

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
HOSTILE = '<img src=x onerror="window.broken=1"> \u202egnp.exe ' + "W" * 150
NAME = "ä/b?c#d"
COUNT_DELETES = """
((real) => {
  window.deletes = 0;
  window.fetch = (to, given) => (window.deletes += given?.method === "DELETE" ? 1 : 0, real(to, given));
})(fetch)
"""
FORM = """
plugin: {author: test, name: form, version: 1.0.0}
runners:
  - name: default
    entry: "form:Form"
    label: {en: A form, zh: 一个表单}
    config:
      - {name: line, type: string, required: true, label: {en: Line, zh_Hans: 一行}, description: {en: Help}}
      - {name: text, type: text, default: "as it is"}
      - {name: count, type: integer, default: 3}
      - {name: part, type: float}
      - {name: flag, type: boolean, default: true}
      - {name: choice, type: select, options: [{name: a, label: {en: Choice A}}, b], default: b}
      - {name: many, type: multiselect, options: [x, 7, z]}
      - {name: hidden, type: string, required: true, show_if: {choice: a}}
      - {name: secret, type: secret}
      - {name: other-secret, type: secret}
      - {name: prompt, type: prompt-editor, default: [{role: system, content: "Be brief."}]}
      - {name: model, type: model-fallback-selector}
      - {name: tools, type: tool-multi-selector}
      - {name: free, type: json}
"""


async def sign_in(served: Served, page: Page, path: str, token: str | None = None) -> None:
    async with served.as_key(token) as other:
        client = served.client if token is None else other
        code = (await client.post("/v1/auth/links", json={})).json()["code"]
    await page.open(f"{served.url}{path}#sign-in={code}")
    await page.until(there("main#main h1, main#main h2"))


def press(text: str) -> str:
    """Click the button or link with a text."""
    is_it = f"(one) => {json.dumps(candidates(text))}.includes(one.textContent.trim())"
    found = f"[...document.querySelectorAll('button, a')].find({is_it})"
    return f"((found) => found && !found.disabled && (found.click(), true))({found})"


def option(selector: str, text: str) -> str:
    """The value of the option whose label has a text; undefined until there is one."""
    options = f"[...(document.querySelector({json.dumps(selector)})?.options ?? [])]"
    return f"{options}.find((one) => one.text.includes({json.dumps(text)}))?.value"


def choose(selector: str, value: str) -> str:
    return (
        f"((field) => field && (field.value = {json.dumps(value)}, "
        f"field.dispatchEvent(new Event('change', {{bubbles: true}})), true))"
        f"(document.querySelector({json.dumps(selector)}))"
    )


def typed(selector: str, text: str) -> str:
    """Type a text in place of what a field has."""
    return (
        f"((field) => (field.value = {json.dumps(text)}, "
        f"field.dispatchEvent(new Event('input', {{bubbles: true}})), true))"
        f"(document.querySelector({json.dumps(selector)}))"
    )


@in_languages("en", "zh")
async def test_from_an_empty_host_to_a_first_answer(tmp_path: Path, page: Page) -> None:
    await page.on_each_page("delete Crypto.prototype.randomUUID")  # as on a page without TLS
    async with serving(tmp_path / "data", agent=False) as served:
        await page.on_each_page("delete Crypto.prototype.randomUUID")  # as on a page without TLS
        await sign_in(served, page, "/settings")
        await page.resize(360, 800)
        await page.open(served.url)
        await page.until(shown("Begin with an agent"))
        await page.until(shown("hostler new runner my-agent"))
        await page.until(shown("Local agent"))
        assert await page.evaluate(FITS)
        assert await serious_mistakes(page) == []
        await page.resize(1440, 800)
        await page.until(press("Add them"))
        await page.until("location.pathname === '/agents/guide'")
        await page.type_into(".try-form textarea", "my name is Ada")
        await page.press("Enter")
        await page.until(f"{shown('Ada')} && {shown('completed')}")
        link = "document.querySelector('.turn-end a').getAttribute('href')"
        run_id = (await page.evaluate(link)).removeprefix("/runs/")
        run = (await served.client.get(f"/v1/runs/{run_id}")).json()
        assert (run["agent"], run["status"]) == ("guide", "completed")
        assert run["conversation_id"].startswith("try-")
        await page.evaluate(press("All agents") + " || document.querySelector('.back').click()")
        await page.until(f"{shown('echo')} && {shown('1 run in 7 days')}")
        assert page.complaints == []


@in_languages("en", "zh")
async def test_an_agent_is_made_changed_compared_and_taken_back(tmp_path: Path, page: Page) -> None:
    async with serving(tmp_path / "data") as served:
        await sign_in(served, page, "/agents?new=")
        await page.until(f"document.querySelectorAll('#agent-runner option').length > 3 && {press('Create')}")
        await page.until(shown("2 mistakes; nothing was saved"))
        await page.type_into("#agent-name", NAME)
        runner = await page.until(option("#agent-runner", "plugin:test/puppet"))
        await page.evaluate(choose("#agent-runner", runner))
        await page.until(shown("Settings of the runner"))
        await page.until(press("Create"))
        await page.until(f"location.pathname === {json.dumps('/agents/' + quote(NAME, safe=''))}")
        agent = f"/v1/agents/{quote(NAME, safe='')}"
        assert (await served.client.get(agent)).json()["spec"]["event_types"] == []

        # a draft outlives a reload, and what the host refuses is said at its field
        await page.until(press("Policy"))
        await page.until(shown("It may not start runs of agents."))
        await page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        await page.type_into("#budget-max_cost_per_day", "-4")
        await page.until(shown("All its runs of a day may not use more than a cost of -4."))
        await page.open(await page.evaluate("location.href"))
        await page.until(shown("All its runs of a day may not use more than a cost of -4."))
        await page.until(press("Save"))
        await page.until(shown("1 mistake; nothing was saved"))
        await page.until(press("resource_policy.budget.max_cost_per_day"))
        await page.until("document.activeElement?.id === 'budget-max_cost_per_day'")
        assert await page.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"
        await page.type_into("#budget-max_cost_per_day", "4")
        await page.until(press("Save"))
        await page.until(shown("version 2"))
        stored = (await served.client.get(agent)).json()
        assert stored["spec"]["resource_policy"]["budget"]["max_cost_per_day"] == 4

        # what another saved meanwhile is not overwritten
        await page.type_into("#budget-max_cost_per_day", "5")
        theirs = {**stored["spec"], "priority": 7}
        assert (await served.client.put(agent, json=theirs)).json()["version"] == 3
        await page.until(press("Save"))
        await page.until(shown("Version 3 was saved meanwhile (admin)"))
        assert (await served.client.get(agent)).json()["spec"]["priority"] == 7
        await page.until(press("Drop my changes"))
        await page.until(f"!{shown('Changes that are not saved')} && {shown('version 3')}")

        # back to the first version, as a new one
        await page.until(press("Versions"))
        await page.until(f"document.querySelectorAll('.version').length === 3 && {there('.diff mark')}")
        await page.evaluate("document.querySelectorAll('.version')[2].click()")
        await page.until(press("Back to version 1"))
        await page.until(shown("version 4"))
        again = (await served.client.get(agent)).json()
        assert (again["version"], again["spec"]["priority"]) == (4, 0)
        await page.until(press("File"))
        await page.until(shown("- name: ä/b?c#d"))

        # an event, and why it is not the agent's
        await page.until(press("Events"))
        await page.until(press("Ask"))
        await page.until(f"{shown('takes it')} && {shown('the type of the event is none of its own')}")
        await page.until(press("Disable"))
        await page.until(shown("disabled"))
        await page.until(press("Delete"))
        await page.until(f"{there('dialog')} && {shown('Its runs under way finish')}")
        await page.evaluate(COUNT_DELETES)
        await page.until(f"{press('Delete it')} && {press('Delete it')}")  # a double click
        await page.until("location.pathname === '/agents'")
        assert (await served.client.get(agent)).status_code == 404
        assert await page.evaluate("window.deletes") == 1
        assert page.complaints == []


@in_languages("en", "zh")
async def test_each_kind_of_field_gives_the_value_that_the_runner_gets(tmp_path: Path, page: Page) -> None:
    folder = tmp_path / "form"
    folder.mkdir()
    (folder / "hostler.yaml").write_text(FORM)
    (folder / "form.py").write_text(
        "from hostler_sdk import Runner, message\n\n\nclass Form(Runner):\n    async def run(self, ctx):\n"
        "        yield message(repr(sorted(ctx.config.items())))\n"
    )
    async with serving(tmp_path / "data", agent=False) as served:
        models = [ModelEntry(id=name, provider="demo") for name in ("big", "small")]
        plugin = PluginEntry(path=str(folder), level="trusted")
        await served.host.apply(ConfigFile(plugins=[plugin], models=models), actor="test")
        await sign_in(served, page, f"/agents?new={quote('plugin:test/form/default', safe='')}")
        await page.until(there("#config-config-line"))
        await page.type_into("#agent-name", "filled")
        assert not await page.evaluate(there("#config-config-hidden"))
        await page.until(press("Create"))
        await page.until(f"{shown('1 mistake; nothing was saved')} && {shown('config.line')}")
        await page.type_into("#config-config-line", "一 line")
        assert await page.evaluate("document.querySelector('#config-config-line-wrong')") is None
        await page.evaluate(typed("#config-config-count", "1e"))
        await page.until(press("Create"))
        await page.until(shown("Write a whole number."))
        assert await page.evaluate("document.querySelector('#config-config-count').value") == "1e"
        for selector, text in (("count", "0"), ("part", "2.50"), ("free", '{"a": [1, null]}')):
            await page.evaluate(typed(f"#config-config-{selector}", text))
        await page.evaluate("document.querySelector('#config-config-flag').click()")
        await page.evaluate(choose("#config-config-choice", "0"))
        await page.until(there("#config-config-hidden"))
        await page.type_into("#config-config-hidden", "seen")
        for number in (1, 2):
            await page.evaluate(f"document.querySelectorAll('.of-multiselect input')[{number}].click()")
        await page.type_into("#config-config-secret", "hunter2")
        await page.evaluate(choose("[data-place='config.other-secret'] select", "env"))
        await page.evaluate(typed("#config-config-other-secret", "HOME"))
        await page.evaluate(typed("#config-config-prompt", "Be kind."))
        await page.until(press("Add a message"))
        await page.until("document.querySelectorAll('.prompt textarea').length === 2")
        await page.evaluate(typed(".prompt .item:nth-child(2) textarea", "hi"))
        await page.until(f"{option('#config-config-model', 'big')}")
        await page.evaluate(choose("#config-config-model", "big"))
        await page.type_into("#config-config-model-fallbacks", "small")
        await page.press("Enter")
        await page.evaluate(choose("#config-config-tools", "some"))
        await page.until(press("Create"))
        await page.until("location.pathname === '/agents/filled'")
        stored = (await served.client.get("/v1/agents/filled")).json()["spec"]["config"]
        assert stored == {
            "line": "一 line", "count": 0, "part": 2.5, "flag": False, "choice": "a", "hidden": "seen",
            "many": [7, "z"], "secret": "***", "other-secret": "env:HOME", "free": {"a": [1, None]},
            "prompt": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}],
            "model": {"primary": "big", "fallbacks": ["small"]}, "tools": [],
        }  # fmt: skip
        said = await served.say("x", agent="filled")
        assert "hunter2" in said["output"]["text"], "the runner got what was typed"

        # a stored secret is not shown, stays when others change, and is replaced when it is asked
        await page.until(shown("A secret is stored. It is never shown."))
        # a word without an end is not wrapped, which would take the browser seconds, and widens nothing
        await page.evaluate(typed("#config-config-text", "W" * 200_000))
        field = "document.querySelector('#config-config-text')"
        await page.until(f"getComputedStyle({field}).whiteSpace === 'pre'")
        assert await page.evaluate(FITS)
        await page.evaluate(typed("#config-config-text", "changed"))
        await page.until(press("Save"))
        await page.until(shown("Saved as version 2."))
        assert "hunter2" in (await served.say("x", agent="filled"))["output"]["text"]
        await page.until(press("back to the default"))
        await page.evaluate("document.querySelector('[data-place=\"config.secret\"] button').click()")
        await page.type_into("#config-config-secret", "better")
        await page.until(press("Save"))
        await page.until(shown("Saved as version 3."))
        assert "better" in (await served.say("x", agent="filled"))["output"]["text"]

        await page.evaluate("localStorage.setItem('hostler-language', 'zh')")
        await page.open(f"{served.url}/agents/filled")
        await page.until(f"{shown('一行')} && {shown('Help')} && {shown('Choice A')}")
        assert page.complaints == []


@in_languages("en", "zh")
async def test_each_sees_and_may_do_what_the_key_allows(tmp_path: Path, page: Page) -> None:
    async with serving(tmp_path / "data") as served:
        await served.client.post("/v1/agents", json={"name": HOSTILE, "runner": PUPPET_RUNNER})
        file = AgentSpec(name="of-file", runner=PUPPET_RUNNER, event_types=[])
        await served.host.apply(ConfigFile(agents=[file]), actor="config file")
        await page.open(f"{served.url}/agents")
        await page.until(there("#key"))

        reader = await served.key("default", "agents:read", "plugins:read")
        await sign_in(served, page, "/agents/puppet", reader)
        await page.until(shown("Your key may look at agents and not change them"))
        await page.until(there("#agent-runner"))
        assert await page.evaluate("document.querySelector('#agent-runner').disabled") is True
        for absent in ("Save", "Disable", "Delete", "Send", "Runs"):
            assert not await page.evaluate(press(absent)), absent
        await page.evaluate("document.querySelector('.person button').click()")
        await page.until(there("#key"))

        # the agents of a stranger's workspace are not there
        await sign_in(served, page, "/agents", await served.key("other", "admin"))
        await page.until(shown("Begin with an agent"))
        assert not await page.evaluate(shown("puppet"))
        await page.evaluate("document.querySelector('.person button').click()")
        await page.until(there("#key"))

        await sign_in(served, page, "/agents/of-file")
        await page.until(shown("This version comes from the configuration file"))
        # secrets that are typed are kept nowhere
        await page.open(f"{served.url}/agents?new={quote('plugin:hostler/n8n/default', safe='')}")
        await page.until(there("#config-config-auth-type"))
        basic = await page.until(option("#config-config-auth-type", "basic"))
        await page.evaluate(choose("#config-config-auth-type", basic))
        await page.type_into("#agent-name", "n8n")
        await page.type_into("#config-config-basic-username", "ada")
        await page.type_into("#config-config-basic-password", "hunter2-typed")
        await page.until("JSON.stringify({...sessionStorage}).includes('ada')")
        stored = await page.evaluate(
            "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
        )
        assert "hunter2" not in stored
        await page.open(f"{served.url}/agents")
        await page.until(f"{there('.agent .name')} && {shown('onerror')}")
        await page.evaluate("document.querySelector('.agent .name').click()")
        await page.until("document.querySelector('h1 bdi')?.textContent.includes('onerror') === true")
        assert await page.evaluate("window.broken") is None
        assert page.complaints == []


async def test_it_is_usable_by_all_on_each_screen_in_both_languages(tmp_path: Path, page: Page) -> None:
    async with serving(tmp_path / "data") as served:
        rule = {"subjects": ["role:boss"], "min_approvals": 2, "editable": True}
        policy = {
            "tool_approval": {"a.*": rule, HOSTILE + "*": "required"},
            "budget": {"max_calls_per_run": 3, "on_exceeded": "ask"},
        }
        made = await served.client.post(
            "/v1/agents", json={"name": HOSTILE, "runner": PUPPET_RUNNER, "resource_policy": policy}
        )
        assert made.status_code == 201, made.text
        await served.client.put(
            f"/v1/agents/{quote(HOSTILE, safe='')}", json={**made.json()["spec"], "priority": -1}
        )
        await served.say("say 1")
        await sign_in(served, page, "/agents")
        one = f"/agents/{quote(HOSTILE, safe='')}"
        screens = (("en", 1440, "light"), ("zh", 360, "dark"))
        for language, width, theme in screens:
            await page.evaluate(f"localStorage.setItem('hostler-language', '{language}')")
            await page.resize(width, 800)
            await page.wish(theme)
            for path in (
                "/agents",
                "/agents?tab=event",
                "/agents?new=",
                one,
                *(f"{one}?tab={tab}" for tab in ("policy", "bindings", "versions", "raw")),
            ):
                await page.open(f"{served.url}{path}")
                await page.until(f"{there('main h1')} && !{there('.loading')}")
                await page.evaluate(
                    "document.querySelectorAll('details').forEach((one) => (one.open = true))"
                )
                assert await serious_mistakes(page) == [], (path, width)
                fits = await page.evaluate(FITS)
                assert fits, (path, width)
                await nothing_from_elsewhere(page, served.url)
        assert await page.evaluate("window.broken") is None
        assert page.complaints == []

        # the event's form by keyboard alone
        await page.open(f"{served.url}/agents?tab=event")
        await page.until(there("#event--event_type"))
        for _ in range(40):
            await page.press("Tab")
            if await page.evaluate("document.activeElement.matches('form button.primary')"):
                break
        await page.press("Enter")
        await page.until(there(".answer"))
