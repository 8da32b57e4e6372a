"""Whether a run waits for people: said to all who may read runs, also those who may not see what it asks."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from support.chromium import NEEDS_CHROMIUM, browsing
from support.command_line import HOSTLER, environment
from support.console import shown, sign_in
from support.http_host import ADMIN_KEY, WORKSPACE, Served, serving
from support.pauses import call, open_pause, open_run

pytestmark = pytest.mark.timeout(90)


async def waits(served: Served) -> None:
    """A run that waits while its process is held, beside one at work and one that has ended."""
    await served.say("say 1", conversation_id="over")
    await served.host.db.write(lambda tx: open_run(tx, "works", WORKSPACE, conversation_id="c2"))
    await served.host.db.write(lambda tx: open_run(tx, "waits", WORKSPACE, conversation_id="c1"))
    await served.host.db.write(lambda tx: open_pause(tx, call(), run_id="waits"))


async def test_lists_and_runs_say_it_and_nothing_of_what_is_asked(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        await waits(served)
        async with served.as_key(await served.key(WORKSPACE, "runs:read")) as reader:
            assert (await reader.get("/v1/pauses")).status_code == 403
            listed = await reader.get("/v1/runs")
            assert "k1" not in listed.text
            found = {
                one["conversation_id"]: (one["status"], one["waiting"]) for one in listed.json()["items"]
            }
            assert found == {
                "c1": ("running", True),
                "c2": ("running", False),
                "over": ("completed", False),
            }
            told = (await reader.get("/v1/runs/waits")).json()
            assert (told["waiting"], [one["kind"] for one in told["waits"]]) == (True, ["approval"])
            assert (await reader.get("/v1/runs/works")).json()["waiting"] is False
            assert (await reader.get("/v1/runs?dead=true")).json()["items"] == []
            command = [*HOSTLER, "runs", "list", "--url", served.url, "--key", ADMIN_KEY]
            ran = await asyncio.create_subprocess_exec(*command, env=environment(), stdout=PIPE)
            printed = (await ran.communicate())[0].decode()
            assert printed.count("waits for people") == 1, printed
            assert (await served.client.post("/v1/pauses/p1/cancel", json={})).status_code == 200
            told = (await reader.get("/v1/runs/waits")).json()
            assert (told["waiting"], told["waits"]) == (False, [])


@NEEDS_CHROMIUM
@pytest.mark.gate("console")
async def test_the_console_shows_it_to_who_may_not_see_pauses(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, browsing() as page:
        await served.host.db.write(lambda tx: open_run(tx, "waits", WORKSPACE, conversation_id="c1"))
        await sign_in(served, page, "/runs", await served.key(WORKSPACE, "runs:read"))
        await page.until(f"{shown('running')}")
        await served.host.db.write(lambda tx: open_pause(tx, call(), run_id="waits"))
        await page.until("document.querySelector('.run .status.waits') !== null")
        await page.until(shown("waits for an approval"))
        child = {"conversation_id": "c1", "parent_run_id": "waits"}
        await served.host.db.write(lambda tx: open_run(tx, "child", WORKSPACE, **child))
        await page.until(shown("waits for an approval, a run that it started"))
        await page.open(f"{served.url}/runs/waits")
        await page.until("document.querySelector('.head .status.waits') !== null")
        await page.until("document.querySelector('.run-waits a[href=\"/runs/child\"]') !== null")
        await served.client.post("/v1/pauses/p1/cancel", json={})
        await page.until("document.querySelector('.head .status.waits') === null")
        assert page.complaints == []
