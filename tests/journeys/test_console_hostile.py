"""A workspace in which every text is hostile, walked through every page of the console: nothing happens."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hostler.domain.agents import AgentSpec
from hostler.storage.port import Tx
from hostler.storage.stores import agents
from hostler_protocol.pausing import FormField, InteractionAction
from support.chromium import NEEDS_CHROMIUM, Page
from support.console_walk import answers, remember_answers, shown, sign_in, unfold, walk
from support.http_host import ADMIN_KEY, PUPPET_RUNNER, WORKSPACE, Served, serving
from support.pauses import call, open_pause, open_run
from support.two_workspaces import fill

pytestmark = [pytest.mark.gate("console"), NEEDS_CHROMIUM, pytest.mark.timeout(600)]  # every page, one by one
MARK = "broken=1"
NAME = f'"><script>{MARK}</script><img src=x onerror="{MARK}">\u202egnpexe \u200b\'-alert(1)-\' ' + "W" * 60
"""Where there is room for a name only."""
HOSTILE = (
    f'{NAME}<svg onload="{MARK}"><iframe srcdoc="<script>parent.broken=1</script>"></iframe> '
    f"{{{{constructor}}}} [a](javascript:{MARK}) ![p](http://127.0.0.1:9/picture.png) "
    f"<style>*{{display:none}}</style> "
    "<form action=//127.0.0.1:9><button>x " + "W" * 400
)
WORDS = "W" * 1_000_000
LOOK = """JSON.stringify({
  broken: window.broken ?? null,
  foreign: [...document.querySelector('main').querySelectorAll(
    'script, iframe, object, embed, form[action], style, base, link, meta')].map((one) => one.outerHTML),
  handlers: [...document.querySelectorAll('main *')].filter((one) => [...one.attributes].some((each) =>
    /^on/i.test(each.name)
    || /^\\s*javascript:/i.test(each.value) && /^(href|src|action|xlink:href)$/.test(each.name))
  ).map((one) => one.outerHTML),
  pictures: [...document.querySelectorAll('main img')].map((one) => one.src).filter((one) =>
    !/^(blob|data):/.test(one) && !one.startsWith(location.origin)),
  wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
  loaded: performance.getEntriesByType('resource').map((one) => one.name).filter((one) =>
    !one.startsWith(location.origin) && !/^(data|blob):/.test(one)),
})"""
CALM: dict[str, Any] = {
    "broken": None,
    "foreign": [],
    "handlers": [],
    "pictures": [],
    "wide": False,
    "loaded": [],
}


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as made:
        yield made


async def poison(served: Served) -> None:
    """Put hostile text wherever a stranger, a model, a plugin or a colleague could put it."""
    client, _ = await fill(served, WORKSPACE, NAME)
    await client.aclose()
    spec = AgentSpec(
        name="hostile", runner=PUPPET_RUNNER, config={"suffix": HOSTILE}, metadata={HOSTILE: HOSTILE}
    )
    form = [FormField(name=NAME, type="text", label=HOSTILE, description=HOSTILE, default=HOSTILE)]
    buttons = [InteractionAction(name=NAME, label=HOSTILE, style=HOSTILE)]

    def store(tx: Tx) -> None:
        agents.apply(tx, WORKSPACE, spec)
        names: dict[str, Any] = {"tool_name": NAME, "title": HOSTILE[:400], "description": HOSTILE}
        for number, calls in enumerate(
            [
                [
                    call(
                        "a",
                        arguments={HOSTILE: HOSTILE, "more": [HOSTILE, {HOSTILE: WORDS[:20_000]}]},
                        **names,
                    )
                ],
                [
                    call(
                        "q",
                        "question",
                        fields=form,
                        actions=buttons,
                        title=HOSTILE[:400],
                        fallback_text=HOSTILE,
                    )
                ],
                [call("d", "in_doubt", effect_key="e", **names), call("c", "client_tool", **names)],
            ]
        ):
            open_run(tx, f"hostile {number}", WORKSPACE, requester=HOSTILE, conversation_id=NAME)
            open_pause(tx, *calls, run_id=f"hostile {number}", pause_id=f"hostile {number}")

    await served.host.db.write(store)
    served.host.event_router.changed(WORKSPACE)
    for text in (
        f"say {HOSTILE}",
        f"fail {HOSTILE}",
        f"remember {HOSTILE} {HOSTILE}",
        f"make {HOSTILE}",
        WORDS,
    ):
        actor = {"actor_id": NAME, "display_name": NAME}
        await served.say(text, conversation_id=NAME, agent="hostile", actor=actor)
    base = {"kb_id": "hostile", "name": NAME, "description": HOSTILE}
    assert (await served.client.post("/v1/knowledge", json=base)).status_code == 201
    place = f"/v1/knowledge/hostile/documents/{quote(NAME[:150], safe='')}"
    headers = {"content-type": "text/html"}
    put = await served.client.put(place, content=f"{HOSTILE} findable".encode(), headers=headers)
    assert put.status_code == 201, put.text
    upload = {"artifact_type": "file", "name": NAME, "conversation_id": NAME}
    made = await served.client.post("/v1/artifacts", params=upload, content=HOSTILE.encode(), headers=headers)
    assert made.status_code == 201, made.text


async def test_no_text_of_others_does_anything_on_any_page(served: Served, page: Page) -> None:
    await poison(served)
    await sign_in(page, served.url, ADMIN_KEY)
    await page.resize(1440, 900)
    await remember_answers(page)
    visited: list[str] = []
    async for address in walk(page, served.url):
        visited.append(address)
        assert [one for one in await answers(page) if one[2] in {401, 403}] == [], address
        for width in (1440, 360):
            await page.resize(width, 800)
            await unfold(page)
            await shown(page)
            assert json.loads(await page.evaluate(LOOK)) == CALM, (address, width)
        # text is looked through in a document that has the page's policy, which refuses what it would do
        assert all("has been blocked" in one for one in page.complaints), (address, page.complaints)
        await page.resize(1440, 900)
    for wanted in ("/runs/", "/approvals/", "/chat/", "/knowledge/hostile/", "/settings"):
        assert any(one.startswith(wanted) for one in visited), (wanted, visited)


async def test_other_pages_can_neither_frame_the_console_nor_write_with_its_cookie(
    tmp_path: Path, served: Served, page: Page
) -> None:
    """The other page is on the same machine, so that the browser even sends the cookie along."""
    await sign_in(page, served.url, ADMIN_KEY)
    token = await page.evaluate(
        "fetch('/v1/auth/session').then((one) => one.json()).then((one) => one.csrf_token)"
    )
    stored = await page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert (ADMIN_KEY in stored, token in stored) == (False, False)
    assert await page.evaluate("document.cookie") == ""
    assert ADMIN_KEY not in await page.evaluate("document.documentElement.outerHTML")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "index.html").write_text(
        f"<title>elsewhere</title><iframe src='{served.url}/approvals'></iframe>"
    )

    class Elsewhere(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    serve = partial(Elsewhere, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        worker = threading.Thread(target=server.serve_forever, daemon=True)
        worker.start()
        try:
            page.complaints.clear()
            await page.open(f"http://127.0.0.1:{server.server_address[1]}/index.html")
            while not any("frame-ancestors" in one for one in page.complaints):
                await page.evaluate("1")
                await asyncio.sleep(0.05)
            event = {"event_type": "message.received", "input": {"text": "say 1"}, "agent": "puppet"}
            sent = "fetch(%s, {method: 'POST', credentials: 'include', body: %s, ...%s}).then(String, String)"
            for more in (
                {"mode": "no-cors"},
                {"headers": {"content-type": "application/json"}},
                {"headers": {"content-type": "text/plain"}},
                {"headers": {"x-csrf-token": token}},
            ):
                given = (
                    json.dumps(f"{served.url}/v1/events"),
                    json.dumps(json.dumps(event)),
                    json.dumps(more),
                )
                told = await page.evaluate(sent % given)
                assert told in ("[object Response]", "TypeError: Failed to fetch")
            read = (
                f"fetch('{served.url}/v1/runs', {{credentials: 'include'}}).then((one) => one.text(), String)"
            )
            assert await page.evaluate(read) == "TypeError: Failed to fetch"
        finally:
            server.shutdown()
            worker.join()
    assert (await served.client.get("/v1/runs")).json()["items"] == []
    # a stolen token is worth nothing without the cookie, and the other way round
    async with served.as_key(None) as thief:
        origin = {"origin": served.url, "x-csrf-token": token}
        assert (await thief.post("/v1/events", json=event, headers=origin)).status_code == 401
