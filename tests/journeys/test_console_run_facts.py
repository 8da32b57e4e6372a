"""What the page of a run tells: attempts and the cost of a crash, effects, bars, state, a file, a steer."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.model_entries import ModelEntry, Price
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from support.agent_host import shop
from support.axe import serious_mistakes
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import FITS, click, nothing_from_elsewhere, say, sign_in, speak, texts
from support.console_words import in_languages
from support.editors import result, said, steps
from support.http_host import Served, serving
from support.model_server import ModelServer
from support.shop import calling
from support.stepping import RUNNER, STEPPER, Latch
from support.trust import plugin_entry, trusted

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
LIST = {"scope": "conversation", "key": "list"}
FILE = "milk\ntea\n"
STEER = "rather coffee"
QUESTION = {"model_id": "main", "messages": [{"role": "user", "content": "What do we need?"}]}
TOOLBOX = STEPPER.with_name("toolbox")
TOKENS, COST = 18, 11
"""What the model server says that one answer took (11 of them in), and what that costs at the price below."""
EFFECTS = {
    "shop.prices": "pure",
    "shop.book": "idempotent",
    "shop.pay": "reconcilable",
    "shop.send": "default",
}
FORMAT = (
    "import(document.querySelector('script[src$=\"console.js\"]').src.replace('console.js', 'lib/format.js'))"
)
LINES = (
    "[...document.querySelectorAll('.plain-list > .line')]"
    ".map((line) => [...line.children].map((one) => one.textContent).filter(Boolean))"
)
MARKS = (
    "Object.fromEntries([...document.querySelectorAll('.step.of-tool')].map((one) =>"
    " [one.querySelector('strong').textContent,"
    "  [...one.querySelectorAll('.mark')].map((mark) => mark.textContent)]))"
)
BARS = (
    "[...document.querySelectorAll('.step')].map((one) => {"
    " const box = one.querySelector('.bar').getBoundingClientRect();"
    " const bar = one.querySelector('.bar span').getBoundingClientRect();"
    " return [one.querySelector('strong').textContent,"
    "  (bar.left - box.left) / box.width, (bar.right - box.left) / box.width]; })"
)
"""Title of each step, and where its bar begins and ends in the room that it has."""
NARROWEST = 0.004
PIXEL = 0.02
"""More than one pixel of the room that a bar has."""


def errands(crash: Latch, steer: Latch) -> str:
    """A message whose run is killed once, behind one gate, and goes on up to another, where it is steered."""
    encoded = base64.b64encode(FILE.encode()).decode()
    return steps(
        ["call", "model.invoke", QUESTION],
        ["call", "state.set", {**LIST, "value": {"milk": 2}}],
        calling("shop.prices"),
        calling("shop.book", kind="double"),
        calling("shop.pay", booking="B1", amount=120),
        ["at", 1, [["gate", crash.path], ["crash"]]],
        calling("shop.send", to="ada", text="on my way"),
        ["gate", steer.path],
        ["call", "steering.pull", {}],
        result("state.updated", **LIST, value={"milk": 3}),
        result(
            "artifact.created",
            artifact_type="file",
            name="list.txt",
            mime_type="text/plain",
            content_base64=encoded,
        ),
        said("All is done."),
    )


@contextlib.asynccontextmanager
async def serving_errands(tmp_path: Path) -> AsyncIterator[Served]:
    """A host with a model that has a price, a shop, and the agent `errands`, which goes on after a crash."""
    policy = {"allowed_tool_names": ["shop.*"], "allowed_model_ids": ["main"]}
    spec = {"name": "errands", "runner": f"{RUNNER}steered", "resource_policy": policy}
    async with ModelServer() as model, serving(tmp_path / "data", agent=False) as served:
        model.always("Milk and tea.")
        price = Price(input=1_000_000.0, output=0.0)
        config = ConfigFile(
            plugins=[plugin_entry(STEPPER), trusted(shop(tmp_path))],
            models=[ModelEntry(id="main", base_url=model.base_url, model="x", price=price)],
            agents=[convert(spec, AgentSpec, "errands")],
        )
        await served.host.apply(config, actor="test")
        yield served


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_run_that_was_killed_once_tells_all_of_it(tmp_path: Path, page: Page, language: str) -> None:
    text = texts(language)
    place: dict[str, Any] = {"agent": "errands", "conversation_id": "c"}
    await page.resize(1440, 3000)
    await speak(page, language)
    async with (
        serving_errands(tmp_path) as served,
        Latch(tmp_path, "crash") as crash,
        Latch(tmp_path, "steer") as steer,
    ):
        await served.say(steps(["call", "state.set", {**LIST, "value": {"milk": 1}}]), **place)
        run_id = (await served.say(errands(crash, steer), wait=None, **place))["run"]["run_id"]
        await crash.reached()
        await sign_in(served, page, f"/runs/{run_id}")
        await page.until(f"{MARKS}['shop.pay'] !== undefined")
        assert await page.evaluate(LINES) == []
        crash.open()
        await steer.reached()
        await page.until(f"{LINES}.length === 2")
        steered = await served.say(STEER, wait=None, **place)
        assert steered["outcome"] == "steered"
        steer.open()
        ended = "document.querySelector('.head .status').textContent.trim()"
        await page.until(f"{ended} === {json.dumps(text('status.completed'))}")
        run = (await served.client.get(f"/v1/runs/{run_id}")).json()
        entries = (await served.client.get(f"/v1/runs/{run_id}/journal?limit=500")).json()["items"]
        await page.until(f"{BARS}.at(-1)?.[0] === {json.dumps(text('status.completed'))}")
        await the_crash_and_its_cost(page, text, entries)
        await effects_and_bars(page, text, run, entries)
        await state_file_and_steer(page, text)
        assert await serious_mistakes(page) == []
        await nothing_from_elsewhere(page, served.url)
        assert page.complaints == []


async def the_crash_and_its_cost(page: Page, text: Callable[..., str], entries: list[dict[str, Any]]) -> None:
    """Each attempt has a line: what it took, why it ended, and how long the next one was waited for."""
    before, after = ([one for one in entries if one["attempt"] == number] for number in (1, 2))
    cause = next(one["data"]["cause"] for one in after if one["type"] == "attempt.started")
    assert cause == "the plugin process ended during the run; it resumes from its journal"
    idle = min(one["at"] for one in after) - max(one["at"] for one in before)
    parts = [
        text("run.model_calls", count=1),
        text("run.tool_calls", count=3),
        text("runs.tokens", tokens=TOKENS),
        str(COST),
    ]
    first, second = await page.evaluate(LINES)
    assert first[0] == text("run.attempt", number=1)
    assert first[2:4] == [" · ".join(parts), text("run.ended_by", cause=cause)]
    time = await page.evaluate(f"{FORMAT}.then((format) => format.duration({idle}))")
    assert first[4:] == (
        [text("run.idle", time=time)] if idle > 0 else []
    )  # it may begin within a millisecond
    # what was paid for before the crash is not paid for again
    assert second[0] == text("run.attempt", number=2)
    assert second[2:] == [text("run.tool_calls", count=1)]
    begins = "[...document.querySelectorAll('.step.begins .mark:first-child')].map((one) => one.textContent)"
    assert await page.evaluate(begins) == [text("run.attempt", number=number) for number in (1, 2)]


async def effects_and_bars(
    page: Page, text: Callable[..., str], run: dict[str, Any], entries: list[dict[str, Any]]
) -> None:
    """Each tool call has its effect class; each bar is where its step was, by the journal."""
    marks = await page.evaluate(MARKS)
    assert marks == {name: [text(f"step_effect.{effect}")] for name, effect in EFFECTS.items()}
    bars = await page.evaluate(BARS)
    assert all(0 <= begin < end <= 1 + PIXEL for _, begin, end in bars), bars
    shown = {title: (begin, end) for title, begin, end in bars}
    first, last = entries[0]["at"], max(entries[-1]["at"], run["finished_at"])
    for name in EFFECTS:
        own = [one for one in entries if one["data"].get("params", {}).get("tool_name") == name]
        # what has an effect begins with its intent, a call without one as long before its answer as it took
        assert [one["kind"] for one in own] == (["call"] if name == "shop.prices" else ["intent", "call"])
        began = own[0]["at"] - own[0]["data"].get("ms", 0) / 1000
        begin, end = ((at - first) / (last - first) for at in (began, own[-1]["at"]))
        wanted = begin, max(end, begin + NARROWEST)
        assert shown[name] == pytest.approx(wanted, abs=PIXEL), (name, bars)
    assert shown["shop.pay"][1] < shown["shop.send"][0]


async def state_file_and_steer(page: Page, text: Callable[..., str]) -> None:
    """A value is there as it was and as it became, a file with its content, and what a person sent."""
    await opened(page, "state", 2)
    await page.until("document.querySelectorAll('.diff').length === 2")
    side = "[...document.querySelectorAll('.diff .diff-side.{} .diff-text')].map((one) => one.textContent)"
    assert await page.evaluate(side.format("gone")) == ['  "milk": 1', '  "milk": 2']
    assert await page.evaluate(side.format("new")) == ['  "milk": 2', '  "milk": 3']
    heads = "[...document.querySelectorAll('.diff-head > span')].map((one) => one.textContent)"
    assert await page.evaluate(heads) == [text("part.before"), text("part.after")] * 2
    await opened(page, "artifact", 1)
    link = "document.querySelector('.details a[download=\"list.txt\"]')"
    preview = f"[...{link}.closest('.details').querySelectorAll('.value')].map((one) => one.textContent)"
    await page.until(f"{preview}.includes({json.dumps(FILE)})")
    assert await page.evaluate(f"fetch({link}.href).then((answer) => answer.text())") == FILE
    await opened(page, "steer", 3)
    values = "[...document.querySelectorAll('.details .value')].map((one) => one.textContent)"
    await page.until(f"{values}.filter((one) => one === {json.dumps(STEER)}).length === 2")


async def opened(page: Page, kind: str, count: int) -> None:
    """Open the steps of a kind, of which there are so many."""
    rows = f"[...document.querySelectorAll('.step.of-{kind} .row')]"
    assert await page.evaluate(f"({rows}.map((one) => one.click()).length)") == count
    await page.until(f"{rows}.every((one) => one.getAttribute('aria-expanded') === 'true')")


@in_languages("en", "zh")
async def test_a_call_of_unknown_outcome_is_marked_until_a_person_says_what_it_was(
    tmp_path: Path, page: Page
) -> None:
    marks = f"{MARKS}['toolbox.die']"
    async with serving(tmp_path / "data", agent=False) as served:
        policy = {"allowed_tool_names": ["toolbox.*"]}
        spec = {"name": "dies", "runner": f"{RUNNER}resumable", "resource_policy": policy}
        config = ConfigFile(
            plugins=[plugin_entry(STEPPER), plugin_entry(TOOLBOX)], agents=[convert(spec, AgentSpec, "dies")]
        )
        await served.host.apply(config, actor="test")
        sent = await served.say(steps(calling("toolbox.die"), ["tell"]), wait=None, agent="dies")
        run_id = sent["run"]["run_id"]
        await page.resize(1440, 3000)
        await sign_in(served, page, f"/runs/{run_id}")
        await page.until(f"{marks}?.includes({json.dumps(say('run.in_doubt'))})")
        # it stays so, on a page that is opened now, too
        await page.open(f"{served.url}/runs/{run_id}")
        await page.until(f"{marks}?.includes({json.dumps(say('run.in_doubt'))})")
        assert await serious_mistakes(page) == []
        await page.resize(360, 800)
        assert await page.evaluate(FITS)
        await page.resize(1440, 3000)
        await click(page, "It happened", ".run-pauses")
        await click(page, "It happened, with this result", ".run-pauses")
        await page.until(f"!{marks}.includes({json.dumps(say('run.in_doubt'))})")
        await page.until(f"{BARS}.at(-1)?.[0] === {json.dumps(say('status.completed'))}")
        assert page.complaints == []
