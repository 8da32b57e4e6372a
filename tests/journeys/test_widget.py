"""The widget in a real browser, in a page of another site under the strictest policy."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.axe import serious_mistakes
from support.chromium import NEEDS_CHROMIUM, Page, browsing
from support.command_line import CommandLine
from support.console import FITS
from support.loopback import NO_CERTIFICATES
from support.server_process import KEY, PLUGINS, HostProcess, config_file, serving
from support.widget_page import Site, site

pytestmark = [pytest.mark.gate("widgets"), pytest.mark.timeout(300), NEEDS_CHROMIUM]
RUNNER = "plugin:test/player/default"
ROOT = "document.querySelector('#hostler-widget-help').shadowRoot"
ROWS = (
    f"[...{ROOT}.querySelectorAll('.log > .row')]"
    ".map((one) => one.innerText.replace(/^(You|Answer): ?\\s*/, '').trim())"
)
SHOWN = f"{ROOT}.querySelector('.log').innerText"
BOOK = {
    "player.book": {"approval": "required", "subjects": ["role:admin"]},
    "player.order": {"approval": "required", "subjects": ["requester", "role:admin"]},
}


@dataclass
class Shop:
    """A host, a site with its widget, and a browser at it."""

    host: HostProcess
    site: Site
    page: Page

    async def configure(self, **fields: Any) -> None:
        """Change the entry of the widget."""
        async with self.host.client() as client:
            old = (await client.get("/v1/config/widgets/help")).json()["entry"]
            answer = await client.put("/v1/config/widgets/help", json={**old, **fields})
            assert answer.status_code == 200, answer.text

    async def runs(self) -> list[dict[str, Any]]:
        async with self.host.client() as client:
            found: list[dict[str, Any]] = (await client.get("/v1/runs?limit=100")).json()["items"]
            return found

    async def history(self) -> list[tuple[str, str]]:
        """Role and text of each message of the visitor's conversation, as the host has it."""
        (conversation,) = {run["conversation_id"] for run in await self.runs()}
        async with self.host.client() as client:
            items = (await client.get(f"/v1/conversations/{conversation}/history")).json()["items"]
        return [(item["role"], item["content"]) for item in sorted(items, key=lambda item: item["seq"])]

    async def visitor(self) -> httpx.AsyncClient:
        """A client with a token of the visitor in the browser."""
        kept = "JSON.parse(localStorage[Object.keys(localStorage).find((k) => k.endsWith(' visitor'))])"
        visitor, headers = await self.page.evaluate(kept), {"origin": self.site.origin}
        async with httpx.AsyncClient(
            base_url=self.host.url, headers=headers, verify=NO_CERTIFICATES
        ) as client:
            answer = await client.post("/v1/widgets/help/visitors", json={"visitor": visitor})
        assert answer.status_code == 201, answer.text
        headers["authorization"] = f"Bearer {answer.json()['token']}"
        return httpx.AsyncClient(base_url=self.host.url, headers=headers, verify=NO_CERTIFICATES)

    async def at(self, path: str = "/", **how: Any) -> None:
        """Open a page of the site and wait for its widget."""
        await self.page.open(self.site.show(path, self.host.url, "help", **how))
        await self.page.until("document.querySelector('#hostler-widget-help') !== null")


@contextlib.asynccontextmanager
async def at_shop(tmp_path: Path, **entry: Any) -> AsyncIterator[Shop]:
    agent = {
        "name": "helper",
        "runner": RUNNER,
        "resource_policy": {"allowed_tool_names": ["player.*"], "tool_approval": BOOK},
    }
    with site() as place:
        widget = {"name": "help", "agent": "helper", "origins": [place.origin], "title": "Help", **entry}
        path = tmp_path / "hostler.yaml"
        config = config_file(path, plugins=[PLUGINS / "player"], agents=[agent], widgets=[widget])
        async with serving(HostProcess(tmp_path / "data", config)) as host, browsing() as page:
            yield Shop(host, place, page)


def script(*steps: list[Any]) -> str:
    return json.dumps(steps)


async def open_it(page: Page) -> None:
    await page.evaluate("Hostler.open()")
    await page.until(f"!{ROOT}.querySelector('.panel').hidden")


async def write(page: Page, text: str) -> None:
    """Type a message and send it with Enter."""
    field = f"{ROOT}.querySelector('textarea')"
    await page.until(f"{field} && !{field}.disabled && ({field}.focus(), true)")
    await page.insert(text)
    await page.press("Enter")


def says(text: str) -> str:
    return f"{SHOWN}.includes({json.dumps(text)})"


def press(text: str) -> str:
    return (
        f"(() => {{ const one = [...{ROOT}.querySelectorAll('button')].find((one) => "
        f"[one.innerText.trim(), one.getAttribute('aria-label')].includes({json.dumps(text)})"
        " && !one.disabled && one.checkVisibility()); one?.click(); return Boolean(one); })()"
    )


async def test_a_visitors_conversation_is_resumed_after_a_reload_and_approved_by_an_operator_elsewhere(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with asyncio.timeout(240), at_shop(tmp_path, greeting="How can *I* help?") as shop:
        page, booked, go_on = shop.page, tmp_path / "booked", tmp_path / "go-on"
        await shop.at()
        await open_it(page)
        await page.until(says("How can I help?"))
        assert await page.evaluate("localStorage.length") == 0  # nobody has said anything yet
        await write(page, script(["delta", "Half of "], ["wait", str(go_on)], ["say", "Half of **all**."]))
        await page.until(says("Half of"))
        await shop.at()  # a reload in the middle of the answer: the panel is open again
        await page.until(says('["wait"'))
        go_on.touch()
        await page.until(f"{ROWS}.includes('Half of all.')")
        assert await page.evaluate(f"{ROOT}.querySelector('.agent strong:last-child').textContent") == "all"

        await write(page, script(["tool", "player.book", {"path": str(booked)}, "a"]))
        await page.until(says("Waiting for a person to decide"))
        assert not await page.evaluate(press("Approve"))
        assert not booked.exists()
        await shop.at("/other-page.html")  # of the same site
        await page.until(says("Waiting for a person to decide"))
        line = CommandLine(shop.host.data, folder)
        line.variables = {"HOSTLER_URL": shop.host.url, "HOSTLER_KEY": KEY}
        (pause,) = (await asyncio.to_thread(line, "pauses", "list", "--json")).json
        done = await asyncio.to_thread(line, "pauses", "approve", pause["id"])
        assert done.status == 0, done.error
        await page.until(says("A person has approved it"))
        await page.until(says('player.book: "booked"'))
        assert booked.read_text() == "booked\n"
        texts = [text for role, text in await shop.history() if role == "assistant"]
        assert texts == ["Half of **all**.", 'player.book: "booked"']
        assert (
            len(
                await page.evaluate(f"[...{ROOT}.querySelectorAll('.row.agent')].map((one) => one.innerText)")
            )
            == 3
        )
        assert page.complaints == []
        asked = [path for path in shop.site.asked if path != "/favicon.ico"]
        assert set(asked) == {"/", "/other-page.html"}

        # a new conversation has nothing of the old one, and the old one is out of reach
        assert await page.evaluate(press("Start a new conversation"))
        await page.until(f"!{says('Half of')}")
        await write(page, script(["say", "Anew."]))
        await page.until(f"{ROWS}.includes('Anew.')")
        assert len({run["conversation_id"] for run in await shop.runs()}) == 2


async def test_questions_are_answered_by_buttons_and_own_approvals_where_the_rule_names_the_visitor(
    tmp_path: Path,
) -> None:
    async with asyncio.timeout(240), at_shop(tmp_path, visitors_approve=True) as shop:
        page = shop.page
        await shop.at()
        await open_it(page)
        await write(page, script(["ask", "Which size?"]))
        await page.until(says("Which size?"))
        await page.until(press("xl"))
        await page.until(says('answered: {"size":"xl"}') + "||" + says('answered: {"size": "xl"}'))
        await write(page, script(["tool", "player.order", {"thing": "lamp"}, "b"]))
        await page.until(press("Approve"))
        await page.until(says('player.order: "ordered 1 lamp"'))
        await write(page, script(["tool", "player.order", {"thing": "sofa"}, "c"]))
        await page.until(press("Deny"))
        await page.until(says("player.order failed"))
        assert [role for role, _ in await shop.history()].count("user") == 3
        assert page.complaints == []


async def test_a_visitor_answers_and_approves_nothing_unless_the_entry_says_so(tmp_path: Path) -> None:
    async with asyncio.timeout(240), at_shop(tmp_path) as shop:
        page = shop.page
        await shop.at()
        await open_it(page)
        await write(page, script(["tool", "player.order", {"thing": "lamp"}, "b"]))
        await page.until(says("Waiting for a person to decide"))
        assert not await page.evaluate(press("Approve"))
        assert "lamp" not in str(await page.evaluate(SHOWN)).partition("Waiting")[2]
        (run,) = await shop.runs()
        async with await shop.visitor() as client:
            (pause,) = (await client.get("/v1/pauses")).json()["items"]
            (call,) = pause["calls"]
            assert (call["may_decide"], call["args"], call["title"]) == (False, {}, "")
            for kind in ("approve", "deny"):
                action = {"type": kind, "call_id": call["call_id"], "args_hash": call["args_hash"]}
                tried = await client.post(
                    f"/v1/pauses/{pause['id']}/actions",
                    json={"revision": pause["revision"], "actions": [action]},
                )
                assert (tried.status_code, "approve nothing" in tried.text) == (403, True), tried.text
            resolved = await client.post(
                f"/v1/pauses/{pause['id']}/calls/{call['call_id']}/resolve", json={"outcome": "not_happened"}
            )
            assert resolved.status_code in (403, 404), resolved.text
        assert (await shop.runs())[0]["status"] == run["status"]
        async with shop.host.client() as client:
            (pause,) = (await client.get("/v1/pauses")).json()["items"]
            action = {"type": "approve", "call_id": call["call_id"], "args_hash": call["args_hash"]}
            done = await client.post(
                f"/v1/pauses/{pause['id']}/actions",
                json={"revision": pause["revision"], "actions": [action]},
            )
            assert done.status_code == 202, done.text
        await page.until(says('player.order: "ordered 1 lamp"'))
        await write(page, script(["ask", "Which size?"]))
        await page.until(press("xl"))
        await page.until(says("answered:"))
        assert page.complaints == []


async def test_large_results_of_tools_are_no_downloads(tmp_path: Path) -> None:
    async with asyncio.timeout(240), at_shop(tmp_path) as shop:
        page = shop.page
        await shop.at()
        await open_it(page)
        large = ["quiet", "player.report", {"title": "CANARY", "size": 1_100_000}, "r"]
        await write(page, script(large, ["loose", "for you", "made.txt"], ["say", "Done."]))
        await page.until(f"{ROWS}.includes('Done.')")
        await page.until(says("made.txt"))
        assert not await page.evaluate(f"{SHOWN}.split('Done.')[1].includes('report')")
        (run,) = await shop.runs()
        async with shop.host.client() as client:
            files = (await client.get(f"/v1/artifacts?run_id={run['run_id']}")).json()["items"]
            kept = {one["name"]: one["artifact_id"] for one in files}
            assert set(kept) == {"made.txt", "player.report.txt"}
            whole = await client.get(f"/v1/artifacts/{kept['player.report.txt']}/content")
            assert whole.text.endswith("CANARY")
        async with await shop.visitor() as client:
            for query in ("", f"?run_id={run['run_id']}"):
                files = (await client.get(f"/v1/artifacts{query}")).json()["items"]
                assert [one["name"] for one in files] == ["made.txt"]
            for path in ("", "/content"):
                refused = await client.get(f"/v1/artifacts/{kept['player.report.txt']}{path}")
                assert (refused.status_code, "CANARY" in refused.text) == (404, False)
            assert (await client.get(f"/v1/artifacts/{kept['made.txt']}/content")).text == "for you"


TABS = """<!doctype html><title>Tabs</title><iframe src="/a.html"></iframe><iframe src="/b.html"></iframe>"""


async def test_two_tabs_share_a_conversation_and_lose_no_message_of_each_other(tmp_path: Path) -> None:
    """Two documents of one origin, as tabs are."""
    async with asyncio.timeout(240), at_shop(tmp_path) as shop:
        page = shop.page
        for path in ("/a.html", "/b.html"):
            shop.site.show(path, shop.host.url, "help")
        shop.site.pages["/tabs"] = ({"content-type": "text/html"}, TABS.encode())
        await page.open(f"{shop.site.origin}/tabs")
        root = "frames[{}].document.querySelector('#hostler-widget-help').shadowRoot"
        for tab in (0, 1):
            await page.until(f"frames[{tab}].Hostler?.open && (frames[{tab}].Hostler.open(), true)")
        say = (
            "(() => {{ const root = " + root + "; root.querySelector('textarea').value = {}; "
            "root.querySelector('form').requestSubmit(); return true; }})()"
        )
        keys = "Object.keys(localStorage).filter((key) => key.includes(' message ')).length"
        await page.network(offline=True)
        for tab, text in ((0, "one"), (1, "two")):
            await page.evaluate(say.format(tab, json.dumps(script(["say", text]))))
        await page.until(f"{keys} === 2")
        await page.network()
        shown = root + ".querySelector('.log').innerText"
        for tab in (0, 1):
            for text in ("one", "two"):  # as an answer, beside the script that asks for it
                await page.until(f"{shown.format(tab)}.split('\\n').some((row) => row.endsWith({text!r}))")
        await page.until(f"{keys} === 0")
        assert len({run["conversation_id"] for run in await shop.runs()}) == 1
        assert len(await shop.runs()) == 2

        # one begins anew: the other, which is open, follows it there
        await page.evaluate(
            root.format(0) + ".querySelector('[aria-label=\"Start a new conversation\"]').click()"
        )
        await page.until(f"!{shown.format(1)}.includes('two')")
        await page.evaluate(say.format(0, json.dumps(script(["say", "anew"]))))
        await page.until(f"{shown.format(1)}.split('\\n').some((row) => row.endsWith('anew'))")
        assert len({run["conversation_id"] for run in await shop.runs()}) == 2


async def test_an_open_chat_whose_conversation_has_ended_shows_the_next_one(tmp_path: Path) -> None:
    async with asyncio.timeout(240), at_shop(tmp_path) as shop:
        page = shop.page
        await shop.at()
        await open_it(page)
        await write(page, script(["say", "before"]))
        await page.until(f"{ROWS}.includes('before')")
        await shop.configure(generation=2)
        async with shop.host.client() as client:
            for token in (await client.get("/v1/tokens")).json()["items"]:
                assert (await client.delete(f"/v1/tokens/{token['token_id']}")).status_code == 204
        await page.until(f"{ROWS}.length === 0")
        kept = "JSON.parse(localStorage[Object.keys(localStorage).find((k) => k.endsWith(' conversation'))])"
        (old,) = {run["conversation_id"] for run in await shop.runs()}
        await page.until(f"{kept} !== {old!r}")
        event = {
            "event_type": "message.received",
            "agent": "helper",
            "conversation_id": await page.evaluate(kept),
            "input": {"text": script(["say", "after"])},
        }
        async with shop.host.client() as client:
            assert (await client.post("/v1/events", json=event)).status_code == 202
        await page.until(f"{ROWS}.includes('after')")  # nobody has touched the page
        await write(page, script(["say", "and on"]))
        await page.until(f"{ROWS}.includes('and on')")


async def test_nothing_is_lost_or_doubled_when_the_network_or_the_host_goes_away(tmp_path: Path) -> None:
    async with asyncio.timeout(240), at_shop(tmp_path) as shop:
        page, host = shop.page, shop.host
        await shop.at()
        await open_it(page)
        await write(page, script(["say", "one"]))
        await page.until(f"{ROWS}.includes('one')")
        await page.network(offline=True)
        await write(page, script(["say", "two"]))
        await page.until(says("Sending"))
        await page.network()
        await page.until(f"{ROWS}.includes('two')")
        port = int(host.url.rpartition(":")[2])
        host.kill()
        await page.until(f"!{ROOT}.querySelector('.notice').hidden")
        await write(page, script(["say", "three"]))
        await page.until(says("Sending"))
        host.options += ["--port", str(port)]
        await host.start()
        await page.until(f"{ROWS}.includes('three') && {ROOT}.querySelector('.notice').hidden")
        await page.until(f"!{says('Sending')}")
        # the answer to a message is lost, so that it is sent twice
        lossy = """(() => { const real = window.fetch; let left = 2; window.fetch = async (url, options) => {
            const answer = await real(url, options);
            if (String(url).endsWith('/v1/events') && left-- > 0) throw new TypeError('lost');
            return answer; }; })()"""
        await page.evaluate(lossy)
        await write(page, script(["say", "four"]))
        await page.until(f"{ROWS}.includes('four')")
        await page.until(f"!{says('Sending')}")
        history = await shop.history()
        assert [text for role, text in history if role == "assistant"] == ["one", "two", "three", "four"]
        assert [role for role, _ in history].count("user") == 4
        rows = await page.evaluate(ROWS)
        assert [row for row in rows if row in {"one", "two", "three", "four"}] == [
            "one",
            "two",
            "three",
            "four",
        ]
        assert len(rows) == 8


MARK = "broken=1"
HOSTILE = (
    f'"><script>{MARK}</script><img src=x onerror="{MARK}"><svg onload="{MARK}"> '
    f"[a](javascript:{MARK}) [b](data:text/html,<script>{MARK}</script>) [c](JaVaScRiPt&#58;{MARK}) "
    f"![p](http://127.0.0.1:9/picture.png) <style>*{{display:none}}</style> <iframe srcdoc='<script>"
    f'parent.{MARK}</script>\'></iframe> \u202egnp.exe [\u202e](https://ok.example/"onmouseover="{MARK}) **'
    + "W"
    * 3_000
)
LOOK = f"""JSON.stringify((() => {{ const all = [...{ROOT}.querySelectorAll('*')]; return {{
  broken: window.broken ?? null,
  foreign: all.filter((one) =>
    ['SCRIPT', 'IFRAME', 'STYLE', 'OBJECT', 'IMG', 'LINK', 'BASE'].includes(one.tagName)).length,
  handlers: all.filter((one) => [...one.attributes].some((each) => /^on/i.test(each.name))).length,
  links: all.filter((one) => one.tagName === 'A').map((one) => one.protocol).filter((one) =>
    !['https:', 'http:', 'mailto:'].includes(one)),
  wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
  log: {ROOT}.querySelector('.log').scrollWidth > {ROOT}.querySelector('.log').clientWidth + 1,
}}; }})())"""
CALM: dict[str, Any] = {"broken": None, "foreign": 0, "handlers": 0, "links": [], "wide": False, "log": False}


async def test_hostile_text_of_an_agent_does_nothing(tmp_path: Path) -> None:
    async with asyncio.timeout(240), at_shop(tmp_path, max_message_chars=100_000) as shop:
        page = shop.page
        await page.resize(360, 640)
        await shop.at()
        await open_it(page)
        steps = [["say", HOSTILE], ["delta", HOSTILE], ["loose", "x", "\u202egnp.html<img onerror=broken=1>"]]
        nested = "> " * 2_000 + "- " * 2_000 + "`" * 5_001 + "*_" * 5_000 + "[" * 5_000 + "|" * 3_000
        await write(page, script(*steps, ["say", nested], ["say", "```\n" + HOSTILE], ["ask", HOSTILE[:400]]))
        await page.until(f"{ROOT}.querySelector('.asked') !== null")
        assert json.loads(await page.evaluate(LOOK)) == CALM
        assert page.complaints == []
        # a page of another origin gets nothing with the same script
        with site() as evil:
            await page.open(evil.show("/", shop.host.url, "help"))
            await page.until("document.querySelector('#hostler-widget-help') !== null")
            await open_it(page)
            await write(page, "hello")
            await page.until(f"{ROOT}.querySelector('.row.person') !== null")
            asked = f"fetch('{shop.host.url}/v1/widgets/help/visitors', {{method: 'POST', body: '{{}}', "
            asked += "headers: {'content-type': 'application/json'}}).then(() => 'read', (e) => e.name)"
            assert await page.evaluate(asked) == "TypeError"
            assert (
                await page.evaluate(
                    "localStorage.getItem(Object.keys(localStorage).find((k) => k.endsWith(' visitor')))"
                )
                is None
            )
        assert len(await shop.runs()) == 1


async def test_files_go_up_and_down(tmp_path: Path) -> None:
    async with asyncio.timeout(240), at_shop(tmp_path, allow_files=True, max_file_mib=1) as shop:
        page = shop.page
        await shop.at()
        await open_it(page)
        put = """(() => { const input = %s.querySelector('input[type=file]'); const data = new DataTransfer();
            for (const [name, size] of %s)
                data.items.add(new File(['x'.repeat(size)], name, {type: 'text/plain'}));
            input.files = data.files; input.dispatchEvent(new Event('change')); return true; })()"""
        await page.evaluate(put % (ROOT, json.dumps([["note.txt", 5], ["large.txt", 2**20 + 1]])))
        await page.until(
            f"{ROOT}.querySelector('.notice').textContent.includes('large.txt is larger than 1 MiB')"
        )
        await page.until(f"{ROOT}.querySelector('.waiting').innerText.includes('\u00d7 note.txt')")
        await write(page, script(["seen"], ["file", "made for you", "made.txt"]))
        await page.until(says("see made.txt"))
        await page.until(
            f"[...{ROOT}.querySelectorAll('.row .chip')]"
            ".map((one) => one.innerText).join().includes('note.txt')"
        )
        caught = """(() => {
            window.saved = [];
            const real = URL.createObjectURL;
            URL.createObjectURL = (blob) => {
              blob.text().then((text) => saved.push(text + ' ' + blob.type));
              return real(blob);
            };
        })()"""
        await page.evaluate(caught)
        await page.until(press("\u2193 made.txt"))
        await page.until("saved.length > 0")
        assert await page.evaluate("saved") == ["made for you application/octet-stream"]
        assert page.complaints == []


@pytest.mark.parametrize(
    ("language", "words"), [("en", "Write a message"), ("zh-CN", "\u8f93\u5165\u6d88\u606f")]
)
async def test_it_is_for_everybody(tmp_path: Path, language: str, words: str) -> None:
    """Keyboard, screen reader, phone, dark, and the language of the page."""
    titles = {
        "title": {"en": "Help", "zh": "\u5e2e\u52a9"},
        "greeting": {"en": "Hello!", "zh": "\u60a8\u597d\uff01"},
    }
    async with asyncio.timeout(240), at_shop(tmp_path, **titles) as shop:
        page = shop.page
        await shop.at(language=language)
        await page.press("Tab")
        launcher = f"{ROOT}.activeElement?.className"
        await page.until(f"{launcher} === 'launch'")
        await page.press("Enter")
        await page.until(f"{ROOT}.activeElement?.tagName === 'TEXTAREA'")
        assert await page.evaluate(f"{ROOT}.activeElement.placeholder") == words
        answer = "# Sizes\n\n| a | b |\n|---|---|\n| 1 | `two` |\n\n1. one\n2. two [link](https://ok.example)"
        await write(page, script(["say", answer], ["ask", "Which?"]))
        await page.until(f"{ROOT}.querySelector('.asked') !== null")
        for theme in ("light", "dark"):
            await page.wish(theme)
            for width, height in ((1280, 800), (360, 640)):
                await page.resize(width, height)
                assert await serious_mistakes(page) == [], (theme, width)
                assert await page.evaluate(FITS)
        panel = f"{ROOT}.querySelector('.panel')"
        assert await page.evaluate(f"{panel}.getBoundingClientRect().width") == 360
        seen = f"""(() => {{ const box = {ROOT}.querySelector('form > :last-child').getBoundingClientRect();
            const at = {ROOT}.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
            return at.closest('form') !== null; }})()"""
        assert await page.evaluate(seen)  # nothing covers the button that sends
        await page.press("Escape")
        await page.until(f"{panel}.hidden && {launcher} === 'launch'")
        assert page.complaints == []
