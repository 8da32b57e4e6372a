"""The chat of the console in a real browser: it streams, steers, decides, uploads, forks and deletes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from hostler_protocol.ids import new_id
from support.chat_page import (
    MODULE,
    TEXTS,
    at_chat,
    begin,
    choose,
    click,
    conversation_of,
    history_of,
    last_said,
    press,
    same_as_the_history,
    write,
)
from support.chromium import NEEDS_CHROMIUM, Page
from support.console import say, shown, there
from support.console_words import in_languages
from support.editors import delta, result, said, steps
from support.server_process import HostProcess
from support.shop import calling
from support.unix_gate import Gate
from support.wire_client import ask

MOST_TOLD = 1000
ANNOUNCED = (
    "(window.announced = [], new MutationObserver(() => {"
    " const said = document.querySelector('p.hidden[role=status]')?.textContent;"
    " if (said && said !== window.announced.at(-1)) window.announced.push(said);"
    " }).observe(document.body, {subtree: true, childList: true, characterData: true}))"
)
"""A statement: from now on what a screen reader is told of the chat is in `window.announced`."""
STEPS = "[...document.querySelectorAll('.beside .small-row')].map((one) => one.innerText)"

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM]


@in_languages("en", "zh")
async def test_a_day_at_the_chat(tmp_path: Path) -> None:
    async with at_chat(tmp_path) as (host, page):
        for scenario in (
            a_long_answer_costs_as_little_at_its_end,
            a_message_steers_and_stop_stops,
            decisions_are_made_in_place,
            files_go_and_come,
            conversations_are_found_renamed_and_forked,
        ):
            await scenario(host, page, tmp_path)
            assert page.complaints == [], scenario


async def a_long_answer_costs_as_little_at_its_end(host: HostProcess, page: Page, tmp_path: Path) -> None:
    words = "w **b** "
    half: list[Any] = [["deltas", 61, words], delta("\n\n")] * 40
    text = (words * 61 + "\n\n") * 80
    await begin(page, "helper")
    async with Gate(tmp_path) as gate:
        await page.evaluate(
            "(window.longest = 0, new PerformanceObserver((list) => { for (const one of list.getEntries())"
            " window.longest = Math.max(window.longest, one.duration); }).observe({type: 'longtask'}), true)"
        )
        looks = f"{MODULE}.then(({{rendered}}) => ({{...rendered}}))"
        before = await page.evaluate(looks)
        await page.evaluate(f"({ANNOUNCED}, true)")
        await write(page, steps(*half, ["gate", gate.path], *half, said(text)))
        conversation = await conversation_of(page)
        await page.until("document.querySelectorAll('.growing .block').length === 40")
        middle = await page.evaluate(looks)
        gate.open()
        await page.until(
            f"!{there('.growing')} && document.querySelectorAll('.by-agent .block').length === 80"
        )
        end = await page.evaluate(looks)
        first, second = (
            {name: b[name] - a[name] for name in a} for a, b in ((before, middle), (middle, end))
        )
        print(
            "first half", first, "second half", second, "longest task", await page.evaluate("longest"), "ms"
        )
        for one in (first, second):
            # each look renders what is open and what was closed since: a paragraph has 488 characters
            assert one["blocks"] <= one["looks"] + 40 + 1
            assert one["characters"] <= (one["looks"] + 41) * 2 * 61 * len(words)
        assert await page.evaluate("longest") < 5000
        await same_as_the_history(host, page, conversation)
        await an_answer_is_announced_once(page, text)


async def an_answer_is_announced_once(page: Page, text: str) -> None:
    """A screen reader is told that the agent works, and then the begin of what it has said."""
    told = [say("chat.works"), f"{say('chat.agent_said')} {text[:MOST_TOLD]}…"]
    await page.until(f"window.announced.length === {len(told)}")
    assert await page.evaluate("window.announced") == told
    while not (spoken := await statuses(page, told[-1])):
        await page.evaluate("new Promise(requestAnimationFrame)")  # the tree follows the page
    properties = {one["name"]: one["value"]["value"] for one in spoken[0]["properties"]}
    assert (properties["live"], properties["atomic"]) == ("polite", True)


async def statuses(page: Page, text: str) -> list[dict[str, Any]]:
    """Nodes of the accessibility tree that tell a state in these words."""
    nodes = (await page.command("Accessibility.getFullAXTree"))["nodes"]
    names = {one["nodeId"]: " ".join(one.get("name", {}).get("value", "").split()) for one in nodes}
    wanted = " ".join(text.split())
    return [
        one
        for one in nodes
        if one.get("role", {}).get("value") == "status"
        and wanted in [names.get(child) for child in one["childIds"]]
    ]


async def a_message_steers_and_stop_stops(host: HostProcess, page: Page, tmp_path: Path) -> None:
    await begin(page, "ears")
    await choose(page, "ears")
    go_on = tmp_path / "go-on"
    await write(page, f"wait {go_on}")
    conversation = await conversation_of(page)
    await page.until(there(".strip.works"))
    # its steps are beside it, while they are made
    await press(page, ".strip .tools button")
    await page.until(f"{STEPS}.length > 1 && {there('.strip.works')}")
    before = await page.evaluate(STEPS)
    assert not await page.evaluate(there(".beside .of-steer"))
    await write(page, "rather tea")
    await page.until(shown("Handed to the agent, not read yet"))
    await page.until(f"{STEPS}.length > {len(before)} && {there('.beside .of-steer')}")
    go_on.touch()
    await page.until(shown("Read by the agent at step"))
    ended = json.dumps(f"{say('step.status')} {say('status.completed')}")
    await page.until(f"{STEPS}.at(-1).replace(/\\s+/g, ' ').startsWith({ended})")
    assert (await page.evaluate(STEPS))[: len(before)] == before
    await page.until("document.querySelector('.strip.over') !== null")
    (run,) = (await ask(host.url, "GET", f"/v1/runs?conversation_id={conversation}")).json()["items"]
    (steer,) = (await ask(host.url, "GET", f"/v1/runs/{run['run_id']}/steering")).json()["items"]
    link = "document.querySelector('.receipt.good').getAttribute('href')"
    assert await page.evaluate(link) == f"/runs/{run['run_id']}#step-{steer['step']}"
    await same_as_the_history(host, page, conversation)
    await write(page, "hold")
    await page.until(there(".composer .danger"))
    await page.evaluate(click(".composer .danger"))
    await page.until(f"{shown('cancelled')} && !{there('.composer .danger')}")


async def decisions_are_made_in_place(host: HostProcess, page: Page, tmp_path: Path) -> None:
    form = {
        "kind": "form",
        "title": "Which size?",
        "fields": [
            {"name": "size", "type": "select", "options": ["s", "m"], "required": True},
            {"name": "note", "type": "text"},
        ],
    }
    tool = {"kind": "client_tool", "tool_name": "camera", "arguments": {"zoom": 2}, "call_id": new_id()}
    await begin(page, "keeper")
    await write(
        page, steps(calling("shop.book", kind="double"), ["call", "interaction.request", form], ["tell"])
    )
    await page.until(shown("shop.book"))
    await page.until(shown('"kind": "double"'))
    await press(page, ".call-card .primary:not(:disabled)")
    await page.until(shown("Which size?"))
    await page.until(there(".call-card select"))
    await page.evaluate(
        "(() => { const field = document.querySelector('.call-card select'); field.selectedIndex = 2;"
        " field.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    await page.type_into(".call-card input[type=text]", "for Ada")
    await press(page, ".call-card .primary:not(:disabled)")
    await page.until(f"{TEXTS}.length === 1")
    told = await last_said(host, page)
    assert told[1]["values"] == {"size": "m", "note": "for Ada"}
    pause = json.dumps({"1": [result("run.paused", pending=[tool], state={})], "else": [["show_context"]]})
    await write(page, pause)
    await press(page, ".call-card .decide-bar button")
    await page.until(there(".call-card textarea"))
    await page.type_into(".call-card textarea", '{"seen": "a cat"}')
    await press(page, ".call-card .primary:not(:disabled)")
    await page.until(f"{TEXTS}.length === 2")
    context = await last_said(host, page)
    assert context["continuation"]["decisions"][0]["result"] == {"seen": "a cat"}


async def files_go_and_come(host: HostProcess, page: Page, tmp_path: Path) -> None:
    picture = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    made = [
        result(
            "artifact.created",
            artifact_type="image",
            name="dot.png",
            mime_type="image/png",
            content_base64=picture,
        ),
        result(
            "artifact.created",
            artifact_type="file",
            name="report\u202efdp.exe",
            mime_type="text/html",
            content_base64=base64.b64encode(b"<script>alert(1)</script>").decode(),
        ),
    ]
    await begin(page, "helper")
    event = "new {}('{}', {{bubbles: true, cancelable: true, {}: files}})"
    for kind, name, field in (
        ("ClipboardEvent", "paste", "clipboardData"),
        ("DragEvent", "drop", "dataTransfer"),
    ):
        await page.evaluate(
            "(() => { const files = new DataTransfer();"
            f" files.items.add(new File(['content of {name}'], '{name}.txt', {{type: 'text/plain'}}));"
            f" const made = {event.format(kind, name, field)};"
            " document.querySelector('.composer textarea').dispatchEvent(made); })()"
        )
    await page.until("document.querySelectorAll('.composer .file').length === 2")
    await page.until(f"!{there('.composer progress')}")
    await write(page, steps(*made, ["show_context"]))
    conversation = await conversation_of(page)
    await page.until(f"{TEXTS}.length === 1")
    context = await last_said(host, page)
    assert [one["name"] for one in context["input"]["attachments"]] == ["paste.txt", "drop.txt"]
    await page.until("document.querySelector('.strip .picture img')?.naturalWidth === 1")
    names = "[...document.querySelectorAll('.strip .file-name bdi')].map((one) => one.textContent)"
    assert await page.evaluate(names) == ["report\ufffdfdp.exe"]
    own = "[...document.querySelectorAll('.by-person .file')].map((one) => one.getAttribute('href'))"
    links = await page.evaluate(own)
    texts = [await page.evaluate(f"fetch({json.dumps(one)}).then((one) => one.text())") for one in links]
    assert texts == ["content of paste", "content of drop"]
    await page.open(f"{host.url}/chat/{conversation}")
    await page.until("document.querySelector('.strip .picture img')?.naturalWidth === 1")
    assert await page.evaluate(names) == ["report\ufffdfdp.exe"]


async def conversations_are_found_renamed_and_forked(host: HostProcess, page: Page, tmp_path: Path) -> None:
    await begin(page, "helper")
    for number in range(3):
        text = steps(said(f"answer {number} about zebras" if number else "answer 0"))
        event = {
            "event_type": "message.received",
            "agent": "helper",
            "conversation_id": "zoo",
            "input": {"text": text},
        }
        await ask(host.url, "POST", "/v1/events?wait=30", event)
    await page.until(f"{there('.conversation-links a')} && {shown('answer 2')}")
    await page.type_into(".conversations-head input", "zebras answer")
    await page.until("document.querySelectorAll('.conversation-links mark').length === 4")
    found = await page.evaluate("location.href")
    assert found.endswith("?q=zebras+answer")
    await page.evaluate("(window.before = true, location.reload())")
    await page.until("!window.before && document.querySelectorAll('.conversation-links mark').length === 4")
    assert await page.evaluate("document.querySelector('.conversations-head input').value") == "zebras answer"
    await page.evaluate("document.querySelectorAll('.conversation-links a')[2].click()")
    await page.until("document.querySelector('.by-agent.marked')?.textContent.includes('answer 1') === true")
    await page.evaluate(click(".chat-head button:nth-last-of-type(2)"))
    await page.type_into(".title-form input", "Animals \u202e<b>")
    await page.press("Enter")
    await page.until("document.querySelector('.chat-head h1')?.textContent === 'Animals \\u202e<b>'")
    await page.type_into(".conversations-head input", "")
    await page.evaluate(
        "document.querySelector('.conversations-head input')"
        ".dispatchEvent(new Event('input', {bubbles: true}))"
    )
    await page.until(
        "document.querySelector('.conversation-links strong')?.textContent === 'Animals \\u202e<b>'"
    )
    # from an answer on: all up to it; from one's own message on: what came before, and the text to edit
    await page.evaluate(click(".by-agent.marked .tools button:last-child"))
    await page.until("location.pathname !== '/chat/zoo' && location.pathname.startsWith('/chat/')")
    fork = await conversation_of(page)
    await page.until(f"{TEXTS}.length === 2")
    assert (await history_of(host, fork)) == (await history_of(host, "zoo"))[:4]
    await page.evaluate("[...document.querySelectorAll('.by-person .tools button:last-child')][1].click()")
    await page.until(f"location.pathname !== '/chat/{fork}' && {TEXTS}.length === 1")
    await page.until("document.querySelector('.composer textarea').value.includes('answer 1')")
    await page.evaluate(click(".chat-head button:last-of-type"))
    await page.until(there("dialog .danger"))
    await page.evaluate(click("dialog .danger"))
    await page.until("location.pathname === '/chat'")
    left = {one["conversation_id"]: one["title"] for one in await conversations(host)}
    assert {name for name, title in left.items() if title == "Animals \u202e<b>"} == {"zoo", fork}
    await page.until(f"document.querySelectorAll('.conversation-links a').length === {len(left)}")


async def conversations(host: HostProcess) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await ask(host.url, "GET", "/v1/conversations")).json()["items"]
    return items
