"""Models, tools and skills in a real browser: added, changed, removed; a first agent, which needs a model."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from hostler.domain.model_entries import ModelEntry
from hostler.host.config import ConfigFile
from support.chromium import NEEDS_CHROMIUM, Page, browsing
from support.console import HOSTILE, choose, click, look_at_all, shown, sign_in, there
from support.console_words import candidates, in_languages
from support.http_host import Served, serving
from support.mcp_bench import command
from support.model_server import ModelServer

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
NAME = "a/b " + HOSTILE[:150]
API = {
    "openapi": "3.0.0",
    "info": {"title": HOSTILE, "version": "1"},
    "servers": [{"url": "http://127.0.0.1:9"}],
    "paths": {"/pets": {"get": {"operationId": "pets", "responses": {"200": {"description": HOSTILE}}}}},
}
PATHS = (
    "/models?new=",
    "/mcp-servers?new=",
    "/tools",
    "/tools?new=",
    "/tools?source=openapi%3Apets",
    "/skills",
    "/skills?new=",
)
USE_LOCAL = 'a[href="/agents?new=plugin%3Ahostler%2Flocal-agent%2Fdefault"]'
ABSENT = "No such file or directory"
PETS = '.table a[href="/tools/pets.pets"]'


def wrong(place: str) -> str:
    """An expression: what is said to be wrong at a field."""
    at = json.dumps(f'[data-place="{place}"] .wrong')
    return f"(document.querySelector({at})?.innerText ?? '')"


async def pick(page: Page, selector: str, label: str) -> None:
    """Choose by what is read, in the language that is spoken."""
    options = f"[...document.querySelectorAll({json.dumps(f'{selector} option')})]"
    said = json.dumps(candidates(label))
    await choose(
        page, selector, await page.until(f"{options}.find((one) => {said}.includes(one.text.trim()))?.value")
    )


async def entry(served: Served, path: str) -> dict[str, Any] | None:
    """An entry of the configuration, as in a file; None if there is none."""
    answer = await served.client.get(f"/v1/config/{path}")
    found: dict[str, Any] | None = answer.json()["entry"] if answer.is_success else None
    return found


async def take_away(page: Page) -> None:
    """Remove the entry whose page is open."""
    await click(page, "Remove")
    await click(page, "Remove", within="dialog")


@contextlib.asynccontextmanager
async def a_host(tmp_path: Path) -> AsyncIterator[tuple[Served, Page]]:
    """A host that has nothing yet, and a browser."""
    async with serving(tmp_path / "data", agent=False) as served, browsing() as page:
        yield served, page


@in_languages("en", "zh")
async def test_what_agents_can_use_is_added_changed_and_removed(tmp_path: Path) -> None:
    # one host and one browser: each takes longer to start than most of what is done with it
    async with a_host(tmp_path) as (served, page):
        await a_model(served, page)
        await an_mcp_server(served, page, tmp_path)
        await an_openapi_document(served, page, tmp_path)
        await a_folder_of_skills(served, page, tmp_path)
        assert page.complaints == []
        assert await page.evaluate("window.broken") is None


async def a_model(served: Served, page: Page) -> None:
    await sign_in(served, page, "/models")
    await click(page, "New model")
    await page.type_into("#models--id", NAME)
    await page.type_into("#models--base_url", "nowhere")
    await click(page, "Add it", within=".buttons")
    # what the host says stands at the field that it is about, and the form stays as it is
    await page.until(f"{wrong('base_url')}.includes('must be an http address')")
    await page.type_into("#models--base_url", "http://127.0.0.1:9/v1")
    await choose(page, '[data-place="api_key"] select', "env")
    await page.type_into("#models--api_key", "NO_SUCH_KEY")
    await click(page, "Add it", within=".buttons")
    await page.until("location.pathname.startsWith('/models/')")
    await page.until(f"{shown('cannot be used')} && {shown('NO_SUCH_KEY is not set')}")
    (stored,) = (await served.client.get("/v1/config/models")).json()["items"]
    assert stored["entry"] == {"id": NAME, "base_url": "http://127.0.0.1:9/v1", "api_key": "env:NO_SUCH_KEY"}
    await choose(page, '[data-place="api_key"] select', "stored")  # and none of those
    await page.type_into("#models--model", "big-one")
    await page.press("Enter")
    await page.until(f"{shown('configured')} && !{shown('NO_SUCH_KEY is not set')}")
    facts = (await served.client.get("/v1/audit", params={"target": NAME})).json()["items"]
    assert {(one["action"], one["actor"]) for one in facts} == {
        ("model.added", "admin"),
        ("model.changed", "admin"),
    }
    # another one of that name is refused, and so is another name for a stored secret
    await page.open(f"{served.url}/models?new=")
    await page.type_into("#models--id", NAME)
    await click(page, "Add it", within=".buttons")
    await page.until(shown("already: change that one"))
    # an entry of the file that the server was started with says so
    await served.host.apply(ConfigFile(models=[ModelEntry(id="filed", provider="demo")]), actor="config file")
    await page.open(f"{served.url}/models/filed")
    await page.until(f"{shown('comes from the configuration file')} && !{there('.buttons')}")
    await click(page, "Change it here all the same")
    await take_away(page)
    await page.until(f"location.pathname === '/models' && !{shown('filed')}")
    # what misses it is named
    spec = {
        "name": "asker",
        "runner": "plugin:hostler/local-agent/default",
        "config": {"model": {"primary": NAME}},
    }
    assert (await served.client.post("/v1/agents", json=spec)).status_code == 201
    await click(page, NAME)
    await take_away(page)
    await page.until(f"location.pathname === '/models' && {shown('agent asker')}")
    assert (await served.client.get("/v1/config/models")).json()["items"] == []
    assert (await served.client.delete("/v1/agents/asker")).is_success


async def an_mcp_server(served: Served, page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    await sign_in(served, page, "/mcp-servers")
    await click(page, "New MCP server")
    await page.type_into("#tools--name", "s")
    await pick(page, "#tools--reached", "an address (streamable HTTP)")
    await page.type_into("#tools--url", "nowhere")
    await click(page, "Add it", within=".buttons")
    await page.until(f"{wrong('url')}.includes('is no address like')")
    # what belongs to another way of reaching it goes with it
    await pick(page, "#tools--reached", "a program that the host starts")
    for number, part in enumerate(command(folder)):
        if number:
            await page.evaluate("document.querySelector('[data-place=\"command\"] .nested > button').click()")
        await page.until(there(f"#tools--command-{number}"))
        await page.type_into(f"#tools--command-{number}", part)
    await pick(page, "#tools--level", "trusted")
    await page.type_into("#tools--environment", "API_TOKEN")
    await page.press("Enter")
    await page.type_into("#tools--environment-0", "abc")
    await click(page, "Add it", within=".buttons")
    await page.until(f"{wrong('environment.API_TOKEN')}.includes('looks like a secret')")
    assert "abc" not in await page.evaluate("JSON.stringify({...sessionStorage})")
    await page.type_into("#tools--environment-0", "env:PATH")
    await click(page, "Add it", within=".buttons")
    await page.until("location.pathname === '/mcp-servers/s'")
    await page.until(there('main a[href="/tools/s.say"]'))
    assert await entry(served, "tools/mcp:s") == {
        "mcp": {
            "name": "s",
            "command": command(folder),
            "level": "trusted",
            "environment": {"API_TOKEN": "env:PATH"},
        }
    }
    # approval by tool, and back to one answer for all
    await pick(page, "#tools--approval", "by tool …")
    await page.until(there('[data-place="approval"] .adding input'))
    await page.type_into("#tools--approval", "say")
    await page.press("Enter")
    await pick(page, "#tools--approval-0", "yes")
    await click(page, "Save")
    await page.until(f"!{shown('Discard')}")
    changed = await entry(served, "tools/mcp:s")
    assert changed is not None
    assert changed["mcp"]["approval"] == {"say": "required"}
    # from the page of one to that of another at once: what was typed there is of that one alone
    other = {"mcp": {"name": "other", "url": "http://127.0.0.1:9/mcp"}}
    assert (await served.client.post("/v1/config/tools", json=other)).is_success
    await page.evaluate("""document.querySelector('main [href="/mcp-servers"]:not(.back)').click()""")
    await click(page, "other")
    await page.type_into("#tools--url", "http://127.0.0.1:9/typed")
    await page.until(shown("Discard"))
    await page.evaluate("history.go(-2)")
    await page.until(f"location.pathname === '/mcp-servers/s' && {there('#tools--command-0')}")
    assert not await page.evaluate(shown("Discard"))
    assert (await served.client.delete("/v1/config/tools/mcp:other")).is_success
    await take_away(page)
    await page.until(f"location.pathname === '/mcp-servers' && {shown('No MCP server yet')}")
    assert await entry(served, "tools/mcp:s") is None


async def an_openapi_document(served: Served, page: Page, tmp_path: Path) -> None:
    (tmp_path / "api.json").write_text(json.dumps(API))
    await sign_in(served, page, "/tools")
    await click(page, "New tools")
    await pick(page, "#tools--kind", "pages and files of the web")
    await page.until(there("#tools--only"))
    await pick(page, "#tools--kind", "OpenAPI document")
    await page.type_into("#tools--name", "1pets")
    await page.type_into("#tools--document", str(tmp_path / "nothing.json"))
    await click(page, "Add it", within=".buttons")
    await page.until(f"{wrong('name')} !== ''")
    await page.type_into("#tools--name", "pets")
    await click(page, "Add it", within=".buttons")
    await page.until("new URLSearchParams(location.search).get('source') === 'openapi:pets'")
    await page.until(f"{shown('cannot be used')} && {shown(ABSENT)}")  # it is stored, and says why not
    await page.type_into("#tools--document", str(tmp_path / "api.json"))
    await click(page, "Save")
    await page.until(f"{shown('configured')} && !{shown(ABSENT)}")
    await page.evaluate("document.querySelector('h2 .back').click()")
    await page.until(there(PETS))
    await look_at_all(served, page, PATHS, each=False)
    await page.open(f"{served.url}/tools")
    await click(page, "openapi:pets")
    await take_away(page)
    await page.until(f"location.search === '' && !{there(PETS)}")
    assert await entry(served, "tools/openapi:pets") is None


async def a_folder_of_skills(served: Served, page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "skills"
    (folder / "brewing").mkdir(parents=True)
    (folder / "brewing" / "SKILL.md").write_text(f"---\nname: brewing\ndescription: '{HOSTILE}'\n---\nHi.\n")
    await sign_in(served, page, "/skills")
    await click(page, "New folder of skills")
    await page.type_into("#skills--path", "skills")
    await click(page, "Add it", within=".buttons")
    await page.until(f"{wrong('path')}.includes('relative path')")
    await page.type_into("#skills--path", str(folder))
    await click(page, "Add it", within=".buttons")
    await page.until("new URLSearchParams(location.search).has('folder')")
    await page.evaluate("document.querySelector('h2 .back').click()")
    await page.until(there('.table a[href="/skills/brewing"]'))
    await click(page, str(folder))
    await take_away(page)
    await page.until(f"{shown('No skill yet')} && location.search === ''")
    assert (await served.client.get("/v1/config/skills")).json()["items"] == []


@in_languages("en", "zh")
async def test_who_may_not_configure_sees_no_form(tmp_path: Path) -> None:
    async with a_host(tmp_path) as (served, page):
        model = ModelEntry(id="main", base_url="http://127.0.0.1:9/v1", api_key="hunter2-written-out")
        await served.host.apply(ConfigFile(models=[model]), actor="test")
        await sign_in(served, page, "/models/main")
        await page.until(shown("A secret is stored. It is never shown."))
        assert "hunter2" not in await page.evaluate("document.documentElement.outerHTML")
        key = await served.key("default", "admin")  # of a workspace, not of the installation
        await sign_in(served, page, "/models/main", key)
        await page.until(shown("with the right “installation”"))
        for path in ("/models?new=", "/mcp-servers?new=", "/tools?new=", "/skills?new=", "/tools?source=x"):
            await page.open(f"{served.url}{path}")
            await page.until(f"{there('main .empty')} || {there('main .table')}")
            assert not await page.evaluate(there("main form.card")), path
            assert not await page.evaluate(there("main a.button")), path
        # nor is anybody led to another host, however it is written
        await sign_in(served, page, "/models?new=&next=%2Fagents%3Fnew%3Dx")
        await page.until(there('h2 a.back[href="/agents?new=x"]'))
        for elsewhere in ("//evil.example", "/\\evil.example", "/\t/evil.example", "/.//evil.example", "/\\"):
            await page.open(f"{served.url}/models?{urlencode({'new': '', 'next': elsewhere})}")
            await page.until(there('h2 a.back[href="/models"]'))
        assert page.complaints == []


@in_languages("en", "zh")
async def test_a_first_agent_that_needs_a_model_ends_in_a_chat(tmp_path: Path) -> None:
    with ModelServer() as models:
        models.always("Good morning, Ada.")
        async with a_host(tmp_path) as (served, page):
            await sign_in(served, page, "/agents")
            await page.until(shown("The Local agent asks a model, and there is none yet."))
            # who adds the model is back where the first start was shown: at the runs, or at the agents
            for path in ("/runs", "/agents"):
                await page.open(f"{served.url}{path}")
                await click(page, "Add a model")
                await page.until(there(f'h2 a.back[href="{path}"]'))
                await page.evaluate("document.querySelector('h2 a.back').click()")
                await page.until(f"location.pathname === {json.dumps(path)} && {there(USE_LOCAL)}")
            await page.evaluate(f"document.querySelector({json.dumps(USE_LOCAL)}).click()")
            await page.type_into("#agent-name", "helper")
            await page.until(shown("There is no model yet."))
            await click(page, "Add a model")
            await page.until("location.pathname === '/models'")
            await page.type_into("#models--id", "main")
            await page.type_into("#models--base_url", models.base_url)
            await click(page, "Add it", within=".buttons")
            # back at the agent, as it was left
            await page.until("location.pathname === '/agents' && document.querySelector('#agent-name')")
            assert await page.evaluate("document.querySelector('#agent-name').value") == "helper"
            await pick(page, "#config-config-model", "main")
            await click(page, "Create")
            await page.until("location.pathname === '/agents/helper'")
            await click(page, "Chat")
            await page.until("location.pathname.startsWith('/chat')")
            await page.type_into(".composer textarea", "I am Ada.")
            await page.press("Enter")
            await page.until(shown("Good morning, Ada."))
            assert page.complaints == []
