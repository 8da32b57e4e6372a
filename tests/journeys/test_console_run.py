"""The page of a run in a real browser: everything in order, live, and what can be done from there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.axe import serious_mistakes
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import FITS, say, speak, texts, written
from support.console_words import in_languages
from support.editor_hosts import a_host
from support.editors import delta, result, said, steps
from support.http_host import Served, serving
from support.server_process import KEY
from support.wire_client import ask

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
HOSTILE = (
    '<script>window.broken=1</script><img src=x onerror="window.broken=1"> [a](javascript:window.broken=1) '
    "![p](http://127.0.0.1:9/picture.png) <svg><a xlink:href='javascript:window.broken=1'>x</a></svg> "
    "[fine](https://example.org) <iframe src='/'></iframe> <style>*{display:none}</style> **bold**"
)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def look(page: Page, url: str, code: str, run_id: str) -> None:
    await page.open(f"{url}/runs/{run_id}#sign-in={code}")
    await page.until("document.querySelector('.steps .step') !== null")


async def look_at(served: Served, page: Page, run_id: str) -> None:
    code = (await served.client.post("/v1/auth/links", json={})).json()["code"]
    await look(page, served.url, code, run_id)


TITLES = "[...document.querySelectorAll('.step')].map((one) => one.querySelector('.what').textContent.trim())"


@in_languages("en", "zh")
async def test_what_was_said_called_and_logged_is_there_in_order(tmp_path: Path, page: Page) -> None:
    program = steps(
        delta("Hello "),
        delta("**world** 你好"),
        said("Hello **world** 你好"),
        result("log", level="info", text="looking"),
        result("tool.call.started", tool_call_id="c1", tool_name="files.read", parameters={"path": "a.txt"}),
        result("tool.call.completed", tool_call_id="c1", tool_name="files.read", result={"text": "Ä"}),
        result("tool.call.started", tool_call_id="c2", tool_name="files.write", parameters={"path": "b.txt"}),
        result("tool.call.completed", tool_call_id="c2", tool_name="files.write", error="read only"),
        said("Done."),
    )
    async with a_host(tmp_path) as host:
        event = {"event_type": "message.received", "agent": "helper", "input": {"text": program}}
        run = (await ask(host.url, "POST", "/v1/events?wait=30", event)).json()
        code = (await ask(host.url, "POST", "/v1/auth/links", {})).json()["code"]
        await look(page, host.url, code, run["run_id"])
        titles = await page.evaluate(TITLES)
        assert titles.pop(1).startswith(say("run.context"))
        assert titles == [
            f"{say('status.claimed')} opened",
            f"{say('status.running')} the plugin took it",
            f"{say('run.message')} Hello **world** 你好",
            "info looking",
            "files.read",
            "files.write",
            f"{say('run.message')} Done.",
            "run.completed",
            f"{say('status.completed')} stop",
        ]
        assert await page.evaluate("document.querySelector('.said strong').textContent") == "world"
        assert await page.evaluate("document.querySelectorAll('.step.bad').length") == 1
        await page.evaluate("document.querySelectorAll('.step.of-tool .row').forEach((one) => one.click())")
        for text in ('"path": "a.txt"', '"text": "Ä"', "read only", "Arguments", "Result", "Error"):
            await page.until(written(text))
        assert await serious_mistakes(page) == []
        assert page.complaints == []
        answer = await page.evaluate(
            "fetch([...document.querySelectorAll('.actions a')].at(-1).href).then((one) => one.json())"
        )
        assert answer["run"]["run_id"] == run["run_id"]
        assert KEY not in json.dumps(answer)


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_run_is_followed_stopped_run_again_and_forked(
    served: Served, page: Page, language: str
) -> None:
    text = texts(language)
    await speak(page, language)
    held = (await served.say("hold", wait=None, conversation_id="c"))["run"]["run_id"]
    await look_at(served, page, held)
    await page.until(written(text("status.running")))
    await page.evaluate("document.querySelector('.actions .danger').click()")
    await page.until(f"{written(text('status.cancelled'))} && {written(text('run.retry'))}")
    run = await served.say("say 2", conversation_id="d")
    await look_at(served, page, run["run_id"])
    await page.until(written("done: say 2."))
    await page.evaluate("document.querySelector('.actions button').click()")
    repeats = written(text("run.retry_of"))
    await page.until(f"!location.pathname.endsWith({json.dumps(run['run_id'])}) && {repeats}")
    await page.until(written("done: say 2."))
    await page.until("document.querySelectorAll('.step .row').length > 2")
    await page.evaluate("document.querySelectorAll('.step .row')[2].click()")
    await page.until("document.querySelector('.actions-of button') !== null")
    again = await page.evaluate("location.pathname")
    await page.evaluate("document.querySelector('.actions-of button').click()")
    await page.until("document.querySelector('.card .primary:enabled') !== null")
    await page.evaluate("document.querySelector('.card .primary').click()")
    await page.until(f"location.pathname !== {json.dumps(again)} && {written(text('run.forked_from'))}")
    await page.evaluate("history.back()")
    await page.until(f"location.pathname === {json.dumps(again)} && {repeats}")


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_another_run_is_chosen_to_compare_with(served: Served, page: Page, language: str) -> None:
    text = texts(language)
    await speak(page, language)
    one, other = [(await served.say(f"say {n}", conversation_id="c"))["run_id"] for n in (1, 2)]
    await look_at(served, page, one)
    await page.open(f"{served.url}/runs/{one}/compare")
    compared = f"location.pathname === '/runs/{one}/compare/{other}' && {written(text('compare.swap'))}"
    row = "document.querySelector('.plain-list a')"
    await page.until(f"{row}?.textContent === {json.dumps(other)}")
    await page.evaluate(f"{row}.click()")
    await page.until(compared)
    await page.evaluate("document.querySelector('.compare-totals .quiet').click()")
    await page.until(f"location.pathname === '/runs/{other}/compare/{one}'")
    # by its id, or by the address of its page
    for named in (other, f"{served.url}/runs/{other}"):
        await page.open(f"{served.url}/runs/{one}/compare")
        await page.until("document.querySelector('#other') !== null")
        await page.type_into("#other", named)
        await page.press("Enter")
        await page.until(compared)
    await page.open(f"{served.url}/runs/{one}/compare/none")
    await page.until("document.querySelector('.failure') !== null")
    assert page.complaints == []


@in_languages("en", "zh")
async def test_a_run_goes_on_in_the_page_after_the_host_was_gone(tmp_path: Path, page: Page) -> None:
    async with serving(tmp_path / "data", shutdown_grace_seconds=0.1) as served:
        held = (await served.say("hold", wait=None, conversation_id="c"))["run"]["run_id"]
        await look_at(served, page, held)
        await page.until(written("running"))
        port = served.port
    async with serving(tmp_path / "data", port=port) as served:
        await page.until(f"{written('Run again')} && {written('host.restarted')}")
        assert (await served.client.get(f"/v1/runs/{held}")).json()["status"] == "failed"


async def test_hostile_text_does_nothing(tmp_path: Path, page: Page) -> None:
    async with a_host(tmp_path) as host:
        text = steps(said(HOSTILE), result("log", level="info", text=HOSTILE), said("W" * 100_000))
        event = {"event_type": "message.received", "agent": "helper", "input": {"text": text}}
        run = (await ask(host.url, "POST", "/v1/events?wait=30", event)).json()
        code = (await ask(host.url, "POST", "/v1/auth/links", {})).json()["code"]
        await page.resize(360, 800)
        await look(page, host.url, code, run["run_id"])
        await page.until("document.querySelector('.said strong')?.textContent === 'bold'")
        await page.evaluate("document.querySelectorAll('.step .row').forEach((one) => one.click())")
        assert await page.evaluate("window.broken") is None
        strange = "main img, main script, main iframe, main style, main svg, main a[href^=javascript]"
        assert await page.evaluate(f"document.querySelectorAll({json.dumps(strange)}).length") == 0
        links = "[...document.querySelectorAll('.markdown a')].map((one) => [one.href, one.rel, one.target])"
        wanted = ["https://example.org/", "noopener noreferrer nofollow", "_blank"]
        assert wanted in await page.evaluate(links)
        assert await page.evaluate(FITS)
        # the same beside itself, entry by entry, and in the other language
        run_id = run["run_id"]
        await page.evaluate("localStorage.setItem('hostler-language', 'zh')")
        await page.open(f"{host.url}/runs/{run_id}/compare/{run_id}")
        await page.until("document.querySelectorAll('.pair.same').length > 4")
        assert await page.evaluate("document.title") == "对比运行 · Hostler"
        assert await page.evaluate("document.querySelector('.pair.changed, .pair.left, .pair.right')") is None
        await page.open(f"{host.url}/runs/{run_id}?tab=journal")
        await page.until("document.querySelectorAll('.journal-line .row').length > 4")
        await page.evaluate("document.querySelectorAll('.journal-line .row').forEach((one) => one.click())")
        await page.until("document.querySelectorAll('.journal-line + .flow pre, .flow pre').length > 2")
        assert await page.evaluate("window.broken") is None
        assert await page.evaluate(FITS)
        # text is looked through in a document that has the page's policy, which refuses what it would do
        assert all("has been blocked" in one for one in page.complaints), page.complaints


@in_languages("en", "zh")
async def test_a_run_of_another_workspace_is_not_there(served: Served, page: Page) -> None:
    run = await served.say("say 1")
    key = await served.key("other")
    async with served.as_key(key) as client:
        code = (await client.post("/v1/auth/links", json={})).json()["code"]
    await page.open(f"{served.url}/runs/{run['run_id']}#sign-in={code}")
    await page.until(written("That did not work"))
    assert await page.evaluate(written("there is no run"))


@in_languages("en", "zh")
async def test_who_may_only_read_has_no_buttons_that_write(served: Served, page: Page) -> None:
    run = await served.say("say 1")
    async with served.as_key(await served.key("default", "runs:read")) as client:
        code = (await client.post("/v1/auth/links", json={})).json()["code"]
    await look(page, served.url, code, run["run_id"])
    buttons = "[...document.querySelectorAll('.actions > *')].map((one) => one.textContent)"
    assert await page.evaluate(buttons) == [say("run.compare"), say("run.download")]
    await page.open(f"{served.url}/runs/{run['run_id']}?fork=0&replay=1")
    await page.until(written("This needs the right runs:write"))
    assert await page.evaluate("document.querySelector('.card .primary')") is None
