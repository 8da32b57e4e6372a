"""A remote worker on the console: it comes, gets no new runs, gets them again, is drained and forgotten."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.chromium import NEEDS_CHROMIUM, browsing
from support.console import click, look_at_all, shown, sign_in, there
from support.console_words import candidates, in_languages
from support.databases import TEST_SECONDS
from support.http_host import WORKSPACE, serving
from support.remote_worker import ended, joined, run_when, send

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("console"), NEEDS_CHROMIUM]
LACKING = "a worker with label gpu that takes new runs: w1 is cordoned"


@in_languages("en", "zh")
async def test_a_worker_is_looked_after(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(TEST_SECONDS),
        serving(tmp_path / "data") as served,
        browsing() as page,
    ):
        await served.agent("far", worker_labels=["gpu"])
        await sign_in(served, page, "/workers")
        await page.until(shown("No remote workers"))
        async with joined(served, tmp_path, "w1", ("gpu", "eu"), slots=3):
            await page.until(f"{shown('0 of 3')} && {shown('active')} && {shown('eu')}")
            await click(page, "Cordon: w1")
            (uncordon,) = candidates("Uncordon: w1")
            labelled = there(f"[aria-label='{uncordon}']")
            await page.until(f"{shown('cordoned')} && {labelled}")
            waiting = await send(served, "say 1")
            await run_when(served, waiting, lambda run: run["waits_for"] is not None)
            await page.open(f"{served.url}/runs")
            await page.until(shown(LACKING))
            await page.open(f"{served.url}/workers/w1")
            await click(page, "Uncordon")
            await page.until(shown("gets new runs again"))
            assert (await ended(served, waiting))["status"] == "completed"
            await click(page, "Drain")
            await click(page, "Drain", within="dialog")
            await page.until(f"{shown('not connected')} && {shown('it was drained')}")
        await look_at_all(served, page, ["/workers", "/workers/w1"])
        reader = await served.key(WORKSPACE, "workers:read")
        await sign_in(served, page, "/workers/w1", reader)
        await page.until(shown("not connected"))
        assert await page.evaluate("document.querySelectorAll('.head button').length") == 0
        await sign_in(served, page, "/workers")
        await click(page, "Remove: w1")
        await click(page, "Remove", within="dialog")
        await page.until(shown("No remote workers"))
        assert (await served.client.get("/v1/workers")).json()["items"] == []
        assert page.complaints == []
