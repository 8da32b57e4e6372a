"""The chat of the console in a real browser: it streams, steers, decides, uploads, and loses nothing."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler_protocol.ids import new_id
from support.chromium import NEEDS_CHROMIUM, Page, browsing
from support.cut_network import network_to
from support.editor_hosts import a_host, agent
from support.editors import delta, result, said, steps
from support.server_process import HostProcess
from support.shop import calling
from support.unix_gate import Gate
from support.wire_client import ask

pytestmark = [pytest.mark.gate("console"), pytest.mark.timeout(60), NEEDS_CHROMIUM]
EARS = {"name": "ears", "runner": "plugin:test/listener/default"}
TEXTS = (
    "[...document.querySelectorAll('.chat-rows > .by-agent')]"
    ".map((one) => one.querySelector('.markdown').textContent.trim())"
)
CHANGED = "field.dispatchEvent(new Event('change', {bubbles: true}));"
TYPED = "[...document.querySelectorAll('.chat-rows > .by-person .typed')].map((one) => one.textContent)"
MODULE = (
    "import(document.querySelector('script[src$=\"console.js\"]').src.replace('console.js', "
    "'components/markdown_blocks.js'))"
)


def shown(text: str) -> str:
    return f"document.body.innerText.includes({json.dumps(text)})"


def there(selector: str) -> str:
    return f"(document.querySelector({json.dumps(selector)}) !== null)"


def click(selector: str) -> str:
    return f"(document.querySelector({json.dumps(selector)}).click(), true)"


@contextlib.asynccontextmanager
async def at_chat(tmp_path: Path, *agents: dict[str, Any]) -> AsyncIterator[tuple[HostProcess, Page]]:
    async with a_host(tmp_path, *(agents or (agent(), EARS))) as host, browsing(tmp_path) as page:
        code = (await ask(host.url, "POST", "/v1/auth/links", {})).json()["code"]
        await page.resize(1280, 900)
        await page.open(f"{host.url}/chat#sign-in={code}")
        await page.until(there(".composer textarea"))
        await choose(page, "helper")
        yield host, page


async def press(page: Page, selector: str) -> None:
    await page.until(f"{there(selector)} && {click(selector)}")


async def choose(page: Page, name: str) -> None:
    await page.until("document.querySelectorAll('.composer option').length > 1")
    await page.evaluate(
        "(() => { const field = document.querySelector('.composer select');"
        f" field.value = {json.dumps(name)}; {CHANGED} }})()"
    )


async def write(page: Page, text: str) -> None:
    await page.type_into(".composer textarea", text)
    await page.until("!document.querySelector('.composer-line .primary').disabled")
    await page.press("Enter")


async def conversation_of(page: Page) -> str:
    place: str = await page.until("location.pathname.startsWith('/chat/') && location.pathname.slice(6)")
    return place


async def history_of(host: HostProcess, conversation: str) -> list[tuple[str, str]]:
    """Role and text of each message, oldest first, with those that wait."""
    found = (await ask(host.url, "GET", f"/v1/conversations/{conversation}/history?limit=100")).json()
    items = [*found["items"][::-1], *found.get("waiting", [])]
    return [(item["role"], item["content_json"]["content"]) for item in items]


async def same_as_the_history(host: HostProcess, page: Page, conversation: str) -> list[tuple[str, str]]:
    """The page shows each message once, and no other."""
    history = await history_of(host, conversation)
    own = [text for role, text in history if role == "user"]
    await page.until(f"{TYPED}.length === {len(own)}")
    assert [text[:6000] for text in own] == await page.evaluate(TYPED)
    answers = [text for role, text in history if role == "assistant"]
    await page.until(f"{TEXTS}.length === {len(answers)} && !{there('.growing')}")
    return history


async def last_said(host: HostProcess, page: Page) -> Any:
    """What an agent said last, as JSON."""
    history = await history_of(host, await conversation_of(page))
    return json.loads(next(text for role, text in reversed(history) if role == "assistant"))


async def test_five_thousand_tokens_cost_as_little_at_the_end_as_at_the_beginning(tmp_path: Path) -> None:
    words = "w **b** "
    half: list[Any] = [["deltas", 61, words], delta("\n\n")] * 40
    text = (words * 61 + "\n\n") * 80
    async with at_chat(tmp_path) as (host, page), Gate(tmp_path) as gate:
        await page.evaluate(
            "(window.longest = 0, new PerformanceObserver((list) => { for (const one of list.getEntries())"
            " window.longest = Math.max(window.longest, one.duration); }).observe({type: 'longtask'}), true)"
        )
        looks = f"{MODULE}.then(({{rendered}}) => ({{...rendered}}))"
        before = await page.evaluate(looks)
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


async def test_a_reload_a_killed_host_and_a_second_tab_lose_and_double_nothing(tmp_path: Path) -> None:
    async with at_chat(tmp_path) as (host, page), Gate(tmp_path) as gate, Gate(tmp_path) as later:
        program = json.dumps(
            {
                "1": [
                    ["deltas", 50, "one "],
                    said("one"),
                    ["deltas", 50, "two "],
                    ["gate", gate.path],
                    ["gate", later.path],
                ],
                "else": [["deltas", 50, "again "], said("Back again.")],
            }
        )
        await write(page, program)
        conversation = await conversation_of(page)
        await page.until(f"{TEXTS}.length === 2 && {TEXTS}[1].endsWith('two')")
        async with page.another() as second:
            await second.resize(1280, 900)
            await second.open(f"{host.url}/chat/{conversation}")
            for tab in (page, second):
                if tab is page:
                    await page.open(f"{host.url}/chat/{conversation}")  # in mid stream
                await tab.until(f"{TEXTS}.length === 2 && {TEXTS}[0] === 'one'")
                await tab.until(f"{TEXTS}[1].split(' ').length === 50")
            # what is typed while the host is away waits, also over a reload
            port = int(host.url.rpartition(":")[2])
            await page.type_into(".composer textarea", "half a thou")
            host.kill()
            await page.until(shown("Not connected"))
            await write(second, steps(said("from the second tab")))
            await second.until(shown("Being sent"))
            host.options += ["--port", str(port)]
            await host.start()
            for tab in (page, second):
                await tab.until(f"{shown('Back again.')} && {shown('from the second tab')}")
                history = await same_as_the_history(host, tab, conversation)
            assert [text for role, text in history if role == "user"][1:] == [
                steps(said("from the second tab"))
            ]
            assert await page.evaluate("document.querySelector('.composer textarea').value") == "half a thou"
            # one writes, the other sees it
            await write(page, steps(said("seen in both")))
            await second.until(f"{TEXTS}.at(-1) === 'seen in both'")
            await same_as_the_history(host, second, conversation)
        # typed while nothing is reached, and the tab is loaded anew before it was sent
        await page.network(offline=True)
        await write(page, steps(said("kept")))
        await page.until(shown("Being sent"))
        await page.network()
        await page.open(f"{host.url}/chat/{conversation}")
        await page.until(f"{TEXTS}.at(-1) === 'kept'")
        history = await same_as_the_history(host, page, conversation)
        assert [text for role, text in history].count(steps(said("kept"))) == 1
        assert page.complaints == []


async def test_a_network_that_is_slow_and_cut_only_delays(tmp_path: Path) -> None:
    async with (
        at_chat(tmp_path) as (host, page),
        network_to(int(host.url.rpartition(":")[2])) as network,
        Gate(tmp_path) as gate,
    ):
        code = (await ask(host.url, "POST", "/v1/auth/links", {})).json()["code"]
        await page.open(f"{network.url}/chat#sign-in={code}")
        await page.network(latency_ms=100, bytes_per_second=100_000)
        await choose(page, "helper")
        program = [["deltas", 200, "slow "], ["gate", gate.path], ["deltas", 200, "fast "], said("Through.")]
        await write(page, steps(*program))
        conversation = await conversation_of(page)
        await page.until(f"{TEXTS}.at(-1)?.split(' ').length === 200")
        network.cut()
        await page.until(shown("Not connected"))
        gate.open()
        await write(page, steps(said("Next.")))
        await page.until(shown("Being sent"))
        network.join()
        await page.until(f"{TEXTS}.at(-1) === 'Next.' && !{shown('Not connected')}")
        assert await page.evaluate(TEXTS) == ["Through.", "Next."]
        await same_as_the_history(host, page, conversation)


async def test_a_message_steers_and_says_when_it_was_read_and_stop_stops(tmp_path: Path) -> None:
    async with at_chat(tmp_path) as (host, page):
        await choose(page, "ears")
        go_on = tmp_path / "go-on"
        await write(page, f"wait {go_on}")
        conversation = await conversation_of(page)
        await page.until(there(".strip.works"))
        await write(page, "rather tea")
        await page.until(shown("Handed to the agent, not read yet"))
        go_on.touch()
        await page.until(shown("Read by the agent at step"))
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


async def test_decisions_forms_and_client_tools_are_answered_in_place(tmp_path: Path) -> None:
    form = {
        "kind": "form",
        "title": "Which size?",
        "fields": [
            {"name": "size", "type": "select", "options": ["s", "m"], "required": True},
            {"name": "note", "type": "text"},
        ],
    }
    tool = {"kind": "client_tool", "tool_name": "camera", "arguments": {"zoom": 2}, "call_id": new_id()}
    async with at_chat(tmp_path, agent(runner="keeper")) as (host, page):
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
        pause = json.dumps(
            {"1": [result("run.paused", pending=[tool], state={})], "else": [["show_context"]]}
        )
        await write(page, pause)
        await press(page, ".call-card .decide-bar button")
        await page.until(there(".call-card textarea"))
        await page.type_into(".call-card textarea", '{"seen": "a cat"}')
        await press(page, ".call-card .primary:not(:disabled)")
        await page.until(f"{TEXTS}.length === 2")
        context = await last_said(host, page)
        assert context["continuation"]["decisions"][0]["result"] == {"seen": "a cat"}


async def test_files_go_and_come(tmp_path: Path) -> None:
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
    async with at_chat(tmp_path) as (host, page):
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


async def test_conversations_are_found_renamed_forked_and_deleted(tmp_path: Path) -> None:
    async with at_chat(tmp_path) as (host, page):
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
        await page.evaluate("document.querySelectorAll('.conversation-links a')[2].click()")
        await page.until(
            "document.querySelector('.by-agent.marked')?.textContent.includes('answer 1') === true"
        )
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
        await page.evaluate(
            "[...document.querySelectorAll('.by-person .tools button:last-child')][1].click()"
        )
        await page.until(f"location.pathname !== '/chat/{fork}' && {TEXTS}.length === 1")
        await page.until("document.querySelector('.composer textarea').value.includes('answer 1')")
        await page.evaluate(click(".chat-head button:last-of-type"))
        await page.until(there("dialog .danger"))
        await page.evaluate(click("dialog .danger"))
        await page.until("location.pathname === '/chat'")
        left = (await ask(host.url, "GET", "/v1/conversations")).json()["items"]
        assert {one["conversation_id"] for one in left} == {"zoo", fork}
        assert {one["title"] for one in left} == {"Animals \u202e<b>"}
        await page.until("document.querySelectorAll('.conversation-links a').length === 2")
