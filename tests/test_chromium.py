"""The browser of the tests: one for all, of which each test has a part of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from support.chromium import NEEDS_CHROMIUM, browsing
from support.chromium_process import Browser, BrowserDiedError, shared_browser

pytestmark = NEEDS_CHROMIUM
KEPT = "[localStorage.getItem('kept'), sessionStorage.getItem('kept'), document.cookie].join()"
KEEP = (
    "(localStorage.setItem('kept', 'l'), sessionStorage.setItem('kept', 's'),"
    " document.cookie = 'kept=c', true)"
)
ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-security-policy: default-src 'self'\r\n"
    b"connection: close\r\n\r\n<!doctype html><p>"
)


@pytest.fixture
async def site() -> AsyncIterator[str]:
    """A server with an empty page; its address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def test_what_a_test_leaves_in_the_browser_no_other_sees(site: str) -> None:
    async with browsing() as page:
        first = shared_browser().pid
        await page.open(site)
        await page.evaluate(KEEP)
        await page.resize(360, 640)
        await page.network(offline=True)
        assert await page.evaluate(KEPT) == "l,s,kept=c"
        async with page.another() as second:  # windows of a test are of one browser, and all are looked at
            await second.open(site)
            assert await second.evaluate(KEPT) == "l,,kept=c"
            for one in (page, second):
                assert await one.evaluate("document.hasFocus() && !document.hidden")
        async with browsing() as other:  # also at the same time
            await other.open(site)
            assert await other.evaluate(KEPT) == ",,"
    async with browsing() as page:
        await page.open(site)
        assert await page.evaluate(KEPT) == ",,"
        assert await page.evaluate("innerWidth") != 360
        assert await page.evaluate("fetch(location).then((one) => one.ok)")
        assert shared_browser().pid == first


async def test_what_goes_wrong_in_a_page_is_heard(site: str) -> None:
    async with browsing() as page:
        await page.open(site)
        await page.evaluate("(console.error('printed 1'), console.log('two'))")
        await page.evaluate("fetch('http://127.0.0.1:9/').catch(() => null)")
        await page.evaluate("void setTimeout(() => { throw new Error('thrown'); })")
        await page.evaluate("void Promise.reject(new Error('rejected'))")
        await page.until("new Promise((done) => setTimeout(done, 1, true))")
        assert page.said == ["printed 1", "two"]
        for one in ("Content Security Policy", "Error: thrown", "Error: rejected"):
            assert any(one in said for said in page.complaints), page.complaints


async def test_a_page_is_waited_for_until_it_comes_or_the_test_is_over(site: str) -> None:
    async with browsing() as page:
        await page.open(site)
        await page.evaluate("void setTimeout(() => { document.body.firstChild.id = 'old'; }, 10)")
        await page.until("document.querySelector('#old').id")
        await page.until(
            "document.querySelector('#old') === null || (location.reload(), new Promise(() => null))"
        )
        with pytest.raises(TimeoutError) as over:
            async with asyncio.timeout(0.2):
                await page.until("document.querySelector('#never').id")
        cause = over.value.__context__
        assert cause is not None
        assert "the page never came to: document.querySelector('#never').id" in cause.__notes__[0]
        assert await page.evaluate("1 + 1") == 2
        with pytest.raises(AssertionError, match="nothing is not defined"):
            await page.until("nothing")


async def test_a_browser_that_dies_fails_one_test_and_is_started_anew(site: str, tmp_path: Path) -> None:
    browser = Browser(tmp_path)
    before: list[psutil.Process] = []
    try:
        with pytest.raises(BrowserDiedError):
            await _kill_amid(browser, before)
        assert before
        assert psutil.wait_procs(before, timeout=60)[1] == []
        async with browser.context() as context, context.window():
            assert (await context.browser.told("Browser.getVersion"))["product"]
            after = _processes_of(browser)
        os.kill(browser.pid, signal.SIGKILL)  # between two tests
        psutil.Process(browser.pid).wait(60)
        async with browser.context():
            pass
    finally:
        browser.end()
    assert psutil.wait_procs(after, timeout=60)[1] == []


async def test_a_browser_that_does_not_start_is_told_with_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho no display here\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr("support.chromium_process.CHROMIUM", str(broken))
    browser = Browser(tmp_path / "browser")
    with pytest.raises(BrowserDiedError, match="does not start:\nno display here"):
        async with browser.context():
            pass


def test_it_ends_with_the_process_that_started_it() -> None:
    program = (
        "import signal, subprocess, sys\n"
        "from support.die_with_parent import dying_with_us\n"
        "print(subprocess.Popen([*dying_with_us(signal.SIGKILL), *sys.argv[1:]]).pid, flush=True)\n"
        "signal.pause()\n"
    )
    tests = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", program, "/bin/sh", "-c", "echo begun; exec sleep 1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=tests) as starter:
        assert starter.stdout is not None
        begun = psutil.Process(int(starter.stdout.readline()))
        assert starter.stdout.readline() == "begun\n"
        starter.kill()
        starter.wait(60)
        with contextlib.suppress(psutil.NoSuchProcess):
            begun.wait(60)


async def _kill_amid(browser: Browser, seen: list[psutil.Process]) -> None:
    """Kill the browser while a test uses it; its processes are added to `seen`."""
    async with browser.context() as context, context.window():
        seen += _processes_of(browser)
        os.kill(browser.pid, signal.SIGKILL)
        await context.browser.told("Browser.getVersion")


def _processes_of(browser: Browser) -> list[psutil.Process]:
    process = psutil.Process(browser.pid)
    return [process, *process.children(recursive=True)]
