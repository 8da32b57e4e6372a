"""Why was this answer wrong? By the page of the run alone: its prompt, what the tool said, and what it cost.

Then the same message with another prompt, and both runs side by side.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.agent_host import COST, answering, ask, shop
from support.axe import serious_mistakes
from support.chromium import NEEDS_CHROMIUM, Page, browsing
from support.console import FITS, say, written
from support.console_words import candidates, in_languages
from support.http_host import Served
from support.model_answers import Answer, Recorded, wishes

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
WRONG = "You are a clerk. A double always costs 100, whatever a tool says."
RIGHT = "You are a clerk. Prices are what the tool says."
PRICE = '"double": 120'
POLICY = {"allowed_tool_names": ["shop.prices"]}


def clerk(asked: Recorded) -> Answer:
    """A model that does as its prompt says, once it has looked at the prices."""
    messages = asked.json["messages"]
    if not any(message["role"] == "tool" for message in messages):
        return wishes(("p", "shop_prices", {}))
    wrong = "always costs 100" in json.dumps(messages[0])
    return Answer(pieces=["A double costs 100." if wrong else "A double costs 120."])


async def sign_in(served: Served, page: Page, path: str, rights: list[str] | None = None) -> None:
    client = served.client
    if rights is not None:
        async with served.as_key(await served.key("default", *rights)) as narrow:
            code = (await narrow.post("/v1/auth/links", json={})).json()["code"]
    else:
        code = (await client.post("/v1/auth/links", json={})).json()["code"]
    await page.open(f"{served.url}{path}#sign-in={code}")


def press(selector: str, text: str = "") -> str:
    named = f"{json.dumps(candidates(text))}.some((name) => one.textContent.includes(name))"
    return (
        f"(() => {{ const one = [...document.querySelectorAll({json.dumps(selector)})]"
        f".find((one) => {named} && !one.disabled);"
        " if (!one) return false; one.click(); return true; })()"
    )


@in_languages("en", "zh")
async def test_a_wrong_answer_is_explained_and_put_right(tmp_path: Path) -> None:
    async with (
        answering(tmp_path / "data", plugins=[shop(tmp_path)], policy=POLICY, prompt=WRONG) as (
            served,
            model,
        ),
        browsing() as page,
    ):
        model.always(clerk)
        await ask(served, "what is a double?")
        run: dict[str, Any] = (await served.client.get("/v1/runs")).json()["items"][0]
        await page.resize(1440, 900)
        await sign_in(served, page, "/runs")
        await page.until(press(".run", "chat"))
        await page.until(f"{written('A double costs 100.')} && {written('what is a double?')}")
        # the prompt as it was sent, what the tool said, and what it cost
        await page.until(press(".step.of-model .row"))
        await page.until(
            f"document.querySelector('.prompt-message')?.textContent.includes({json.dumps(WRONG)}) === true"
        )
        await page.until(press(".step.of-tool .row", "shop.prices"))
        await page.until(f"document.querySelector('.details h3') !== null && {written(PRICE)}")
        facts = await page.evaluate("document.querySelector('.facts').innerText")
        assert f"{2 * COST:g}" in facts, facts
        assert await serious_mistakes(page) == []
        # it does the same again, and a replay says so
        await page.until(press(".actions button", "Replay"))
        await page.until(written("Identical: all"))
        # the same message, with another prompt
        await page.until(press(".actions button", "Fork"))
        await page.type_into(".schema-form textarea", RIGHT)
        assert await serious_mistakes(page) == []
        await page.evaluate("location.reload()")
        kept = f"document.querySelector('.schema-form textarea')?.value === {json.dumps(RIGHT)}"
        await page.until(kept)  # nothing that was typed is lost
        await page.until(press(".card .primary", "Start the fork"))
        await page.until(
            f"!location.pathname.includes({json.dumps(run['run_id'])}) && {written('A double costs 120.')}"
        )
        await page.until(press(".facts a", "compare both"))
        await page.until(f"location.pathname.includes('/compare/') && {written('Only what differs')}")
        await page.until("document.querySelectorAll('.diff mark').length >= 2")
        marks = await page.evaluate(
            "[...document.querySelectorAll('.diff mark')].map((one) => one.textContent)"
        )
        assert marks == ["100", "120"]
        await page.until("document.querySelector('.pair.changed .of-model') !== null")
        await page.until(press(".pair.changed .row", "model.stream"))
        await page.until(
            f"document.querySelector('.details .diff') !== null && {written('Prices are what the tool says')}"
        )
        same = "[...document.querySelectorAll('.pair.same .of-tool')].length"
        await page.until(f"{same} >= 1")
        assert await serious_mistakes(page) == []
        for width in (360, 1440):
            await page.resize(width, 800)
            assert await page.evaluate(FITS), width
        assert page.complaints == []


@in_languages("en", "zh")
async def test_a_replay_shows_the_first_difference(tmp_path: Path) -> None:
    async with (
        answering(tmp_path / "data", prompt=WRONG) as (served, model),
        browsing() as page,
    ):
        model.always("Hello.")
        await ask(served, "hi")
        run = (await served.client.get("/v1/runs")).json()["items"][0]
        changed = await served.client.post(
            f"/v1/runs/{run['run_id']}/replay", json={"config": {"prompt": RIGHT}}
        )
        found = changed.json()["difference"]
        assert found["kind"] == "call"
        assert WRONG in json.dumps(found["recorded"])
        assert RIGHT in json.dumps(found["replayed"])
        entry = (
            await served.client.get(
                f"/v1/runs/{run['run_id']}/journal", params={"after": found["position"] - 1, "limit": 1}
            )
        ).json()
        assert entry["items"][0]["type"] == "model.stream"
        # a link opens the panel, and the reader begins
        await sign_in(served, page, f"/runs/{run['run_id']}?replay=1")
        begins = "document.querySelector('section .actions button')"
        await page.until(f"{begins}?.textContent === {json.dumps(say('run.replay'))} && !{begins}.disabled")
        assert await page.evaluate("document.querySelector('section[aria-busy=true]')") is None
        # what a person sees of it: the answer of the host is put in the place of one that would be identical
        await sign_in(served, page, f"/runs/{run['run_id']}")
        await page.until(written("Everything in order"))
        body = json.dumps(json.dumps({"config": {"prompt": RIGHT}}))
        changed_request = f"String(to).endsWith('/replay') ? {{...given, body: {body}}} : given"
        await page.evaluate(
            f"(real => (window.fetch = (to, given) => real(to, {changed_request}), 1))(fetch)"
        )
        await page.until(press(".actions button", "Replay"))
        marked = "document.querySelectorAll('.diff mark').length > 1"
        await page.until(f"{written('It differs from the recording.')} && {marked}")
        await page.until(press("a", "show this step"))
        await page.until("document.querySelector('.of-model .row[aria-expanded=true]') !== null")
        # who may only look is told why there is no fork with another prompt
        await sign_in(served, page, f"/runs/{run['run_id']}?fork=0", ["runs:read", "runs:write"])
        await page.until(
            f"{written('needs the right agents:write')} && document.querySelector('.schema-form') === null"
        )
