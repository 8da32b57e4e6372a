"""The inbox of approvals in a real browser: seen at once, and decided exactly as it was shown."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.pause_values import NewCall
from hostler.host.config import ConfigFile
from hostler.storage.port import Tx
from hostler.storage.sql.statements import parse
from hostler.storage.stores import agents
from hostler_protocol.pausing import FormField, InteractionAction
from support.axe import serious_mistakes
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import FITS, hrefs, nothing_from_elsewhere, shown, texts, there
from support.console_words import candidates, in_languages
from support.http_host import WORKSPACE, Served, serving
from support.pauses import call, open_pause, open_run, rule
from support.trust import trusted

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]
SHOP = Path(__file__).parents[2] / "examples" / "shop"
BOOKING: dict[str, Any] = {"customer_id": "c7", "seats": 2}
SCHEMA = {
    "type": "object",
    "properties": {"customer_id": {"type": "string"}, "seats": {"type": "integer", "minimum": 1}},
}
SECRETS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pin": {"type": "string", "writeOnly": True},
        "token": {"type": "string", "format": "password"},
        "note": {"type": "string"},
    },
}
FORM = [FormField(name="size", type="select", options=["s", "xl"], required=True)]
BUTTONS = [
    InteractionAction(name="order", label="Order it"),
    InteractionAction(name="drop", label="Forget it"),
]
BUDGET = {
    "account": "run.0.r-budget",
    "budget": "cost",
    **{"limit": 1.0, "used": 0.9, "reserved": 0.0, "needs": 0.5, "added": 1_000_000.0},
    "call": {"method": "model.invoke", "id": "m", "nth": 1},
    "top_up": {"cost": 0.5},
}
BUDGET_SCHEMA = {
    "type": "object",
    "properties": {"top_up": {"type": "object", "properties": {"cost": {"type": "number"}}}},
}
BY_ANOTHER = parse(
    "-- name: by_another\nUPDATE approval_rules SET key_id = :key_id WHERE rule_id = :rule_id", "t"
)
HIDDEN = "report\u202egnp.exe"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def opens(served: Served, name: str, *calls: NewCall, **run: Any) -> None:
    """A run that waits, as the pause `name`."""

    def work(tx: Tx) -> None:
        open_run(tx, f"r-{name}", WORKSPACE, **{"conversation_id": f"of {name}", **run})
        open_pause(tx, *calls, run_id=f"r-{name}", pause_id=name)

    await served.host.db.write(work)


async def look(served: Served, page: Page, path: str, key: str | None = None) -> None:
    async with served.as_key(key) as other:
        client = served.client if key is None else other
        code = (await client.post("/v1/auth/links", json={})).json()["code"]
    await page.open(f"{served.url}{path}#sign-in={code}")
    await page.until(there("main#main h1"))


async def pause_of(served: Served, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (await served.client.get(f"/v1/pauses/{name}")).json()
    return found


async def press(page: Page, text: str) -> None:
    """Press the button with this text, once it can be pressed."""
    buttons = "[...document.querySelectorAll('button, .button')]"
    named = f"{json.dumps(candidates(text))}.includes(one.textContent.trim())"
    wanted = f"{buttons}.find((one) => {named} && !one.disabled)"
    await page.until(f"(() => {{ const it = {wanted}; it?.focus(); it?.click(); return it != null; }})()")


@in_languages("en", "zh")
async def test_a_call_is_seen_at_once_edited_and_carried_out_as_it_was_approved(
    tmp_path: Path, served: Served, page: Page
) -> None:
    shutil.copytree(SHOP, tmp_path / "shop", ignore=shutil.ignore_patterns("*.sqlite3*", "__pycache__"))
    await served.host.apply(ConfigFile(plugins=[trusted(tmp_path / "shop")]), actor="test")
    policy: dict[str, Any] = {"allowed_tool_names": ["shop.*"]}
    rule = {"approval": "required", "editable": True, "locked": ["kind"], "expires_in": 590}
    policy["tool_approval"] = {"shop.*": rule}
    spec = AgentSpec(name="clerk", runner="plugin:acme/shop/default", resource_policy=policy)  # type: ignore[arg-type]
    await served.host.db.write(lambda tx: agents.apply(tx, WORKSPACE, spec))
    served.host.event_router.changed(WORKSPACE)
    (title,) = candidates("Approvals")
    await page.resize(1440, 900)
    await look(served, page, "/approvals")
    await page.until(f"{shown('Nothing waits for you')} && document.title === '{title} · Hostler'")
    line = 'shop.book {"kind": "double", "nights": 1}'
    run_id = (await served.say("\n".join([line] * 3), wait=None, agent="clerk"))["run"]["run_id"]
    await page.until(f"{shown('May shop.book be called?')} && document.title === '(1) {title} · Hostler'")
    await page.until("document.querySelector('.waiting-count').textContent === '1'")
    await page.evaluate("document.querySelector('.pause-row a').click()")
    await page.until(there(".call-card .until"))
    left = await page.evaluate("document.querySelector('.call-card .until').textContent")
    await page.until(f"document.querySelector('.call-card .until').textContent !== {json.dumps(left)}")
    await press(page, "Edit arguments")
    await page.until(there(".editing input"))
    fields = "[...document.querySelectorAll('.editing .entry-name')].map((one) => one.textContent.trim())"
    assert await page.evaluate(fields) == ["nights"]
    await page.type_into(".editing input", "99")
    await press(page, "Approve with changes")
    await page.until(shown("At most 30."))
    await page.type_into(".editing input", "3")
    await press(page, "Add a note")
    await page.type_into(".stacked textarea", "three nights")
    await press(page, "Approve with changes")
    await page.until(f"{shown('Approved')} && {shown('three nights')}")
    # the second call is approved on the page of its run, which says that it waits
    await page.open(f"{served.url}/runs/{run_id}")
    status = "document.querySelector('.head .status')?.textContent.trim()"
    await page.until(f"{json.dumps(candidates('waits'))}.includes({status})")
    await press(page, "Approve")
    await page.until(there(".run-pauses .outcome.of-approved"))
    # the third one is denied elsewhere while it is looked at here
    await page.open(f"{served.url}/approvals")
    await page.until(there(".pause-row"))
    await page.until("document.querySelectorAll('.waiting-count').length === 1")
    again = (await served.client.get("/v1/pauses?status=open")).json()["items"][0]
    await page.evaluate("document.querySelector('.pause-row a').click()")
    await page.until(f"location.pathname === '/approvals/{again['id']}' && {there('.call-card.is-open')}")
    one = again["calls"][0]
    act = {
        "call_id": one["call_id"],
        "type": "deny",
        "args_hash": one["args_hash"],
        "comment": "enough rooms",
    }
    body = {"revision": again["revision"], "actions": [act]}
    assert (await served.client.post(f"/v1/pauses/{again['id']}/actions", json=body)).status_code == 202
    await page.until(f"{shown('Denied')} && {shown('enough rooms')} && !{there('.decide-bar')}")
    run = await served.client.get(f"/v1/runs/{run_id}", params={"wait": 30})
    while run.json()["status"] != "completed":
        run = await served.client.get(f"/v1/runs/{run_id}", params={"wait": 30})
    assert "'nights': 3" in json.dumps(run.json()).replace('\\"', "'")
    await page.until(f"{shown('Nothing waits for you')} && document.title === '{title} · Hostler'")
    await page.open(f"{served.url}/approvals?tab=decided")
    await page.until("document.querySelectorAll('.pause-row').length === 3")
    # the run tells who decided each of them
    decided = (await served.client.get(f"/v1/pauses?run_id={run_id}")).json()["items"]
    (by,) = {call["decided_by"] for pause in decided for call in pause["calls"]}
    await page.resize(1440, 3000)
    await page.open(f"{served.url}/runs/{run_id}")
    whose = "[...document.querySelectorAll('.step.of-pause .what')].map((one) => one.textContent.trim())"
    decisions = [f"pause.call.approved {by} · approve"] * 2 + [f"pause.call.denied {by} · deny"]
    wanted = json.dumps(json.dumps(decisions))
    told = f"JSON.stringify({whose}.filter((one) => one.startsWith('pause.call.')))"
    await page.until(f"JSON.stringify(JSON.parse({wanted})) === {told}")
    assert page.complaints == []


@in_languages("en", "zh")
async def test_each_kind_is_decided_and_never_something_that_was_not_shown(
    served: Served, page: Page
) -> None:
    two = rule("*", needed=2)
    await opens(served, "two", call(arguments=BOOKING, args_schema=SCHEMA, editable=True, rule=two))
    await opens(served, "question", call("q", "question", title="Which size?", fields=FORM, actions=BUTTONS))
    await opens(served, "doubt", call("d", "in_doubt", tool_name="bank.pay", effect_key="e"))
    shown_budget = call("b", "budget", arguments=BUDGET, args_schema=BUDGET_SCHEMA, editable=True)
    await opens(served, "budget", shown_budget)
    await opens(served, "hidden", call(arguments={"path": HIDDEN}), requester="W" * 300)
    secret_call = call("s", arguments={"pin": "0000", "note": "n"}, args_schema=SECRETS, editable=True)
    await opens(served, "secrets", secret_call, call("c", "client_tool", result_schema=SECRETS))
    finn = await served.key(WORKSPACE, "pauses:write", "pauses:read", subject="finn")

    await look(served, page, "/approvals/two")
    await page.until(there(".call-card.is-open"))
    one = (await pause_of(served, "two"))["calls"][0]
    edited = {"call_id": "k1", "type": "approve", "args_hash": one["args_hash"]}
    edited |= {"edited_args": BOOKING | {"seats": 9}}
    async with served.as_key(finn) as client:
        body = {"revision": 1, "actions": [edited]}
        assert (await client.post("/v1/pauses/two/actions", json=body)).status_code == 202
    await page.until(shown("The arguments have changed while you were looking"))
    assert not await page.evaluate(there(".decide-bar"))
    await page.until(f"{shown('1 of 2 approvals')} && {shown('finn')}")
    await press(page, "I have seen it")
    await press(page, "Approve")
    await page.until(there(".outcome.of-approved"))
    call_two = (await pause_of(served, "two"))["calls"][0]
    assert (call_two["decision"], call_two["args"]["seats"]) == ("approved", 9)
    assert await page.evaluate("document.activeElement.classList.contains('call-card')")

    await page.open(f"{served.url}/approvals/question")
    await press(page, "Order it")
    await page.until(shown("Needed."))
    choose = "field.value = '1'; field.dispatchEvent(new Event('change', {bubbles: true}))"
    await page.evaluate(
        f"(() => {{ const field = document.querySelector('.schema-form select'); {choose}; }})()"
    )
    await page.open(f"{served.url}/approvals/question")  # what was chosen outlives a reload
    await page.until("document.querySelector('.schema-form select')?.value === '1'")
    await press(page, "Order it")
    await page.until(there(".outcome.of-answered"))
    answered = (await pause_of(served, "question"))["calls"][0]
    assert (answered["values"], answered["action"]) == ({"size": "xl"}, "order")

    await page.open(f"{served.url}/approvals/doubt")
    await press(page, "It happened")
    await page.type_into(".schema-form textarea", '{"receipt": 7}')
    await press(page, "It happened, with this result")
    await page.until(there(".outcome.of-answered"))
    assert (await pause_of(served, "doubt"))["calls"][0]["result"] == {"receipt": 7}

    await page.open(f"{served.url}/approvals/budget")
    await press(page, "Edit arguments")
    await page.type_into(".editing input", "2.5")
    await press(page, "Add and go on")
    await page.until(there(".outcome.of-approved"))
    assert (await pause_of(served, "budget"))["calls"][0]["args"]["top_up"] == {"cost": 2.5}

    # what a schema says is a secret is in no storage of the browser; everything else outlives a reload
    await page.open(f"{served.url}/approvals/secrets")
    await press(page, "Edit arguments")
    await press(page, "Give the result in its place")
    for form in (".editing", ".call-card:nth-of-type(2)"):
        for number in (0, 1):
            await page.evaluate(
                f"(document.querySelectorAll('{form} input[type=password]')[{number}].id = 'hush', true)"
            )
            await page.type_into("#hush", "hush-hush")
            await page.evaluate("(document.querySelector('#hush').id = '', true)")
        await page.type_into(f"{form} .schema-form input[type=text]", f"of {form}")
    kept = await page.evaluate("JSON.stringify({...sessionStorage})")
    assert "of .editing" in kept
    assert "of .call-card" in kept
    assert "hush" not in kept
    assert "0000" not in kept
    await page.open(f"{served.url}/approvals/secrets?again")
    await page.until("document.querySelector('.editing input[type=text]')?.value === 'of .editing'")
    await press(page, "Approve with changes")
    await page.until(there(".outcome.of-approved"))
    decided = (await pause_of(served, "secrets"))["calls"][0]
    assert decided["args"] == {"pin": "0000", "note": "of .editing"}

    await page.open(f"{served.url}/approvals/hidden")
    await page.until("document.querySelector('.arguments .unseen')?.textContent === 'U+202E'")
    await press(page, "Deny …")
    await page.type_into(".stacked textarea", "what is this file?")
    await press(page, "Deny")
    await page.until(f"{there('.outcome.of-denied')} && {shown('what is this file?')}")
    assert (await pause_of(served, "hidden"))["calls"][0]["comment"] == "what is this file?"
    assert page.complaints == []


@in_languages("en", "zh")
async def test_several_are_decided_together_once_all_were_shown_and_calls_of_a_batch_too(
    served: Served, page: Page
) -> None:
    for name in ("one", "two", "three"):
        await opens(served, name, call(tool_name=f"files.{name}", arguments={"path": f"/data/{name}"}))
    edited = call("a", arguments=BOOKING, args_schema=SCHEMA, editable=True, rule=rule("*", needed=2))
    await opens(served, "batch", edited, call("b"), call("c", "question", title="Why?", fields=FORM))
    await look(served, page, "/approvals?order=oldest")
    await page.until("document.querySelectorAll('.pause-row').length === 4")
    assert await page.evaluate(hrefs(".slot:first-child .pause-who a")) == [
        "/agents/shop",
        "/audit?actor=rita",
        "/chat/of%20one",
    ]
    assert await page.evaluate("document.querySelectorAll('.pick').length") == 3
    await page.evaluate(
        "[...document.querySelectorAll('.pick input')].slice(0, 2).forEach((one) => one.click())"
    )
    await press(page, "Look and decide together")
    await page.until("document.querySelector('dialog[open]') !== null")
    text = "document.querySelector('dialog').innerText"
    assert all([await page.evaluate(f"{text}.includes('/data/{name}')") for name in ("one", "two")])
    await page.press("Escape")
    await page.until("document.querySelector('dialog') === null")
    (label,) = candidates("Look and decide together")
    assert await page.evaluate("document.activeElement.textContent.trim()") == label
    await press(page, "Look and decide together")
    await press(page, "Approve all 2")
    await page.until("document.querySelectorAll('.pause-row').length === 2")
    decisions = {
        name: (await pause_of(served, name))["calls"][0]["decision"] for name in ("one", "two", "three")
    }
    assert decisions == {"one": "approved", "two": "approved", "three": "undecided"}

    await page.open(f"{served.url}/approvals/batch")
    await page.until(shown("Approve all 2 calls"))
    # somebody else edits one of them: none is decided before it was seen as it is now
    batch = await pause_of(served, "batch")
    changed = {"call_id": "a", "type": "approve", "args_hash": batch["calls"][0]["args_hash"]}
    changed |= {"edited_args": BOOKING | {"seats": 9}}
    async with served.as_key(await served.key(WORKSPACE, "pauses:write", subject="finn")) as client:
        body = {"revision": batch["revision"], "actions": [changed]}
        assert (await client.post("/v1/pauses/batch/actions", json=body)).status_code == 202
    await page.until(shown("The arguments have changed while you were looking"))
    assert await page.evaluate(shown("Look at those calls first"))
    assert not await page.evaluate(there(".together"))
    await page.until(f"(document.querySelector('.changed .primary')?.click(), {there('.together')})")
    await press(page, "Deny all 2 calls")
    await page.until("document.querySelectorAll('.outcome.of-denied').length === 2")
    assert [one["decision"] for one in (await pause_of(served, "batch"))["calls"]] == [
        "denied",
        "denied",
        "undecided",
    ]
    await press(page, "Stop the run")
    await page.until("document.querySelector('dialog[open]') !== null")
    await page.evaluate("document.querySelector('dialog .danger').click()")
    await page.until(shown("This was cancelled, and its run with it."))

    # similar calls are approved ahead, within bounds
    await page.open(f"{served.url}/approvals/three")
    await press(page, "Approve similar calls, too")
    await page.type_into(".similar input", "500")
    await press(page, "Approve")
    await page.until(shown("Calls: a whole number from 1 to 100."))
    await page.type_into(".similar input", "3")
    await press(page, "Approve")
    await page.until(there(".outcome.of-approved"))
    # they are listed, and asked about again once that is revoked
    (made,) = (await served.client.get("/v1/approval-rules")).json()["items"]
    assert (made["tool"], made["uses_left"], made["pause_id"]) == ("files.three", 3, "three")
    await page.open(f"{served.url}/approvals?tab=similar")
    row = "document.querySelector('.table tbody tr')?.innerText"
    await page.until(f"/files.three[^]*shop[^]*rita[^]*admin[^]*3[^]*29 min/.test({row})")
    assert await serious_mistakes(page) == []
    # one whose approver may not approve any more lets nothing through, and says so
    lapsed = "Not in force: who approved it may not do so now, so people are asked"
    assert not await page.evaluate(shown(lapsed))

    def away(tx: Tx) -> None:
        tx.run(BY_ANOTHER.by_another, rule_id=made["rule_id"], key_id="revoked-since")

    await served.host.db.write(away)
    await page.until(shown(lapsed))
    await page.resize(360, 740)
    assert await page.evaluate(FITS)
    await page.evaluate("document.querySelector('.table .danger').click()")
    await page.until(there("dialog[open]"))
    await page.evaluate("document.querySelector('dialog .danger').click()")
    await page.until(shown("No similar calls are approved ahead"))
    assert (await served.client.get("/v1/approval-rules")).json()["items"] == []
    assert page.complaints == []


async def test_who_may_not_decide_is_told_why_and_works_by_keyboard_in_both_languages(
    served: Served, page: Page
) -> None:
    await opens(served, "theirs", call(rule=rule("user:finn", "requester", separation=True)))
    arguments = {"path": HIDDEN, "text": "W" * 2000}
    await opens(served, "mine", call(rule=rule("*"), arguments=arguments, changed=True))
    reader = await served.key(WORKSPACE, "pauses:read", "runs:read", subject="rita")
    await look(served, page, "/approvals", reader)
    await page.until(shown("Your key may look, but decides nothing"))
    await page.open(f"{served.url}/approvals/theirs?tab=others")
    # who may not read agents, messages and the audit log has no links to them
    await page.until("document.querySelectorAll('.pause-head bdi').length === 3")
    links = "/runs/r-theirs /runs?conversation=of+mine /runs?conversation=of+theirs"
    found = f"[...new Set({hrefs('.pause-who a, .pause-head a')})].sort().join(' ')"
    await page.until(f"{found} === {json.dumps(links)}")
    await page.until(f"{shown('it lacks the right pauses:write')} && !{there('.decide-bar')}")
    await page.until(shown("May decide: finn, who asked for the run. Not who asked for the run."))
    await page.evaluate("document.querySelector('.person button').click()")
    await page.until(there("#key"))

    await look(served, page, "/approvals")
    await page.until(there(".pause-row"))
    at_desk, at_phone = ("/approvals", "/approvals/mine"), ("/approvals?tab=others", "/approvals/mine")
    for language, width, theme, paths in (("en", 1440, "light", at_desk), ("zh", 360, "dark", at_phone)):
        await page.evaluate(f"localStorage.setItem('hostler-language', '{language}')")
        await page.resize(width, 740)
        await page.wish(theme)
        for path in paths:
            await page.open(f"{served.url}{path}")
            await page.until(f"{there('.pause-row, .empty, .call-card')} && !{there('.loading')}")
            assert await serious_mistakes(page) == [], path
            assert await page.evaluate(FITS), path
            await nothing_from_elsewhere(page, served.url)
        told = json.dumps(texts(language)("decision.tool_changed"))
        assert await page.evaluate(f"document.querySelector('.call-card .warning').innerText === {told}")
    await page.open(f"{served.url}/approvals")
    await page.until(there(".pause-row"))
    for wanted in ("A approval k1", "BUTTON 批准"):
        for _ in range(40):
            await page.press("Tab")
            focused = await page.evaluate(
                "document.activeElement.tagName + ' ' + document.activeElement.innerText.trim()"
            )
            if focused.startswith(wanted):
                break
        assert focused.startswith(wanted), focused
        await page.press("Enter")
        await page.until(f"{there('.call-card')} && !{there('.decide-bar button:disabled')}")
    await page.until(there(".outcome.of-approved"))
    await nothing_from_elsewhere(page, served.url)
    assert page.complaints == []
