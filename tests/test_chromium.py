"""The browser of the tests: one for all, of which each test has a part of its own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import playwright.async_api as pw
import psutil
import pytest

from support.chromium import NEEDS_CHROMIUM, Chromium, browsing, shared_chromium

pytestmark = NEEDS_CHROMIUM
KEPT = "[localStorage.getItem('kept'), sessionStorage.getItem('kept'), document.cookie].join()"
KEEP = (
    "(localStorage.setItem('kept', 'l'), sessionStorage.setItem('kept', 's'),"
    " document.cookie = 'kept=c', true)"
)
ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-security-policy: default-src 'self'\r\n"
    b"connection: close\r\n\r\n<!doctype html><p>an empty page<input><input type=checkbox>"
)


@pytest.fixture
async def site() -> AsyncIterator[str]:
    """A server with an empty page, whose security policy forbids to compile scripts; its address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.fixture
def another_chromium(tmp_path: Path) -> Iterator[Chromium]:
    """A browser beside that of the process, for a test that harms it."""
    made = Chromium(tmp_path / "chromium")
    yield made
    made.end()


@pytest.fixture
def own_folder() -> Iterator[Path]:
    """A folder with a short path, as Chromium has a socket in it."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as name:
        yield Path(name)


async def processes_of(chromium: Chromium) -> list[psutil.Process]:
    """The processes of a browser, its first one before the others."""

    async def asked(browser: pw.Browser) -> list[dict[str, Any]]:
        session = await browser.new_browser_cdp_session()
        found: list[dict[str, Any]] = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
        await session.detach()
        return found

    async with chromium.context() as context:
        assert context.browser is not None
        told = await chromium.call(asked, context.browser)
    (first,) = [one["id"] for one in told if one["type"] == "browser"]
    process = psutil.Process(first)
    return [process, *process.children(recursive=True)]


def ended(processes: list[psutil.Process]) -> bool:
    """Wait for processes, within a bound."""
    return psutil.wait_procs(processes, timeout=60)[1] == []


async def test_what_a_test_leaves_in_the_browser_no_other_sees(site: str) -> None:
    async with browsing() as page:
        (first, *_) = await processes_of(shared_chromium())
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
        assert (await processes_of(shared_chromium()))[0] == first


async def test_what_goes_wrong_in_a_page_is_heard(site: str) -> None:
    async with browsing() as page:
        await page.open(site)
        await page.evaluate("(console.error('printed 1'), console.log('two'))")
        await page.evaluate("fetch('http://127.0.0.1:9/').catch(() => null)")
        await page.evaluate("fetch('/').then(() => null)")
        await page.evaluate("void setTimeout(() => { throw new Error('thrown'); })")
        await page.evaluate("void Promise.reject(new Error('rejected'))")
        await page.until("new Promise((done) => setTimeout(done, 1, true))")
        assert page.said == ["printed 1", "two"]
        for one in ("Content Security Policy", "Error: thrown", "Error: rejected"):
            assert any(one in said for said in page.complaints), page.complaints


async def test_what_the_network_refuses_is_no_complaint() -> None:
    async with browsing() as page:  # about:blank has no policy
        assert await page.evaluate("fetch('http://127.0.0.1:9/').catch((error) => error.name)") == "TypeError"
        assert page.complaints == []


async def test_a_page_is_waited_for_until_it_comes(site: str) -> None:
    async with browsing() as page:
        await page.open(site)
        await page.evaluate("(window.looks = 0, window.list = [], true)")
        # what is not there yet, what is empty, and what promises come to
        named = "(++looks > 2 && (document.querySelector('p').id = 'old'), document.querySelector('#old').id)"
        assert await page.until(named) == "old"
        assert await page.until("(++looks > 5 && list.push(looks), list)") == [6]
        assert await page.until("Promise.resolve(++looks > 8 && {looks})") == {"looks": 9}
        assert await page.until("Promise.resolve(null).then((one) => ++looks > 11 || one.name)") is True
        assert await page.until("Promise.resolve(++looks > 14 ? 'once' : {})") == "once"
        assert await page.evaluate("looks") == 15
        # a page that is left while it is looked at
        await page.until(
            "document.querySelector('#old') === null || (location.reload(), new Promise(() => null))"
        )
        with pytest.raises(pw.Error, match="nothing is not defined"):
            await page.until("nothing")
        with pytest.raises(pw.Error, match="no such thing"):
            await page.until("Promise.reject(new Error('no such thing'))")


async def test_a_page_that_never_comes_is_shown(site: str) -> None:
    async with browsing() as page:

        async def wait_less() -> None:
            page.tab.set_default_timeout(200)

        await page.open(site)
        await page.evaluate("console.log('printed')")
        await page.chromium.call(wait_less)
        with pytest.raises(AssertionError) as never:
            await page.until("document.querySelector('#never').id")
        for one in ("never came to: document.querySelector('#never').id", site, "an empty page", "printed"):
            assert one in str(never.value)


async def test_a_test_that_is_over_leaves_its_page_in_order(site: str) -> None:
    async with browsing() as page:
        await page.open(site)
        with pytest.raises(TimeoutError) as over:
            async with asyncio.timeout(0.2):
                await page.until("document.querySelector('#never').id")
        cause = over.value.__context__
        assert cause is not None
        assert "the page had not come to: document.querySelector('#never').id" in cause.__notes__[0]
        assert await page.evaluate("1 + 1") == 2


async def test_a_wait_that_was_given_up_is_no_error_when_its_page_ends(site: str) -> None:
    async with browsing() as page:
        await page.open(site)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                await page.until("false")
    gc.collect()  # then the loop tells of failures that nobody has looked at, which fails the test


async def test_a_field_that_the_page_fills_meanwhile_has_what_is_typed(site: str) -> None:
    stored = "(event) => { event.target.value = 'stored'; }"
    async with browsing() as page:
        await page.open(site)
        field = "document.querySelector('input')"
        await page.evaluate(f"({field}.addEventListener('beforeinput', {stored}, {{once: true}}), true)")
        await page.type_into("input", "typed")
        assert await page.evaluate(f"{field}.value") == "typed"


async def test_a_call_goes_on_to_its_end_when_who_awaits_it_is_cancelled() -> None:
    chromium, begun, ends = shared_chromium(), asyncio.Event(), list[str]()
    here = asyncio.get_running_loop()

    async def lasting() -> None:
        here.call_soon_threadsafe(begun.set)
        try:
            await over.wait()
            ends.append("its own")
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    async def event() -> asyncio.Event:
        return asyncio.Event()

    async def release() -> None:
        over.set()

    over = await chromium.call(event)
    waits = asyncio.create_task(chromium.call(lasting))
    await begun.wait()
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    while not ends:
        await chromium.call(release)
    assert ends == ["its own"]


async def test_keys_texts_and_the_wheel_are_those_of_a_person(site: str) -> None:
    async with browsing() as page:
        await page.open(site)
        await page.evaluate("(document.querySelector('input').value = 'before', true)")
        await page.type_into("input", "typed")
        await page.insert(" on")
        assert await page.evaluate("document.querySelector('input').value") == "typed on"
        await page.press("Tab")
        assert await page.evaluate("document.activeElement.type") == "checkbox"
        await page.type_into("input", "")
        assert await page.evaluate("document.querySelector('input').value") == ""
        await page.press("Tab", 2)
        assert await page.evaluate("document.activeElement === document.body")
        await page.evaluate("(document.body.style.height = '10000px', true)")
        await page.scroll(300)
        await page.until("scrollY > 0")


async def test_a_browser_that_dies_fails_one_test_and_is_started_anew(
    another_chromium: Chromium, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(own_folder))  # a driver that is killed leaves the profile
    async with another_chromium.context() as context:
        page = await another_chromium.call(context.new_page)
        before = await processes_of(another_chromium)
        asked = asyncio.create_task(another_chromium.call(page.evaluate, "new Promise(() => null)"))
        before[0].kill()
        with pytest.raises(pw.Error, match="closed"):
            await asked
    assert ended(before)
    async with another_chromium.context() as context:
        page = await another_chromium.call(context.new_page)
        assert await another_chromium.call(page.evaluate, "1 + 1") == 2
        between = await processes_of(another_chromium)
    between[0].kill()
    assert ended(between)
    async with another_chromium.context() as context:
        page = await another_chromium.call(context.new_page)
        with_driver = await processes_of(another_chromium)
        driver = with_driver[0].parent()
        assert driver is not None
        assert driver.ppid() == os.getpid()
        driver.kill()
        with pytest.raises(pw.Error, match="closed"):
            await another_chromium.call(page.evaluate, "new Promise(() => null)")
    assert ended([driver, *with_driver])
    async with another_chromium.context():
        last = await processes_of(another_chromium)
    another_chromium.end()
    assert ended(last)


async def test_a_browser_that_does_not_start_says_why(
    another_chromium: Chromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no display here >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr("support.chromium.CHROMIUM", str(broken))
    with pytest.raises(pw.Error, match="no display here"):
        async with another_chromium.context():
            pass
    monkeypatch.undo()  # and the next test has one
    async with another_chromium.context():
        pass


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from test_chromium import Chromium, processes_of\n"
        "async def begin():\n"
        "    async with (chromium := Chromium(Path(sys.argv[1]))).context():\n"
        "        print((await processes_of(chromium))[0].pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(begin())\n"
    )
    tests = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=tests) as starter:
        assert starter.stdout is not None
        browser = psutil.Process(int(starter.stdout.readline()))
        driver = psutil.Process(starter.pid).children()
        begun = [*driver, browser, *browser.children(recursive=True)]
        assert len(begun) > 2
        starter.kill()
        assert ended(begun)


def test_without_a_browser_tests_say_what_is_missing_and_are_not_skipped_in_ci(tmp_path: Path) -> None:
    program = (
        "import asyncio\n"
        "from pathlib import Path\n"
        "from support.chromium import NEEDS_CHROMIUM, Chromium\n"
        "print(*NEEDS_CHROMIUM.args, NEEDS_CHROMIUM.kwargs['reason'], flush=True)\n"
        "chromium = Chromium(Path())\n"
        "try:\n"
        "    asyncio.run(chromium.context().__aenter__())\n"
        "finally:\n"
        "    chromium.end()\n"
    )
    for ci, skipped in (("", "True"), ("true", "False")):
        environ = {"PATH": str(tmp_path), "CI": ci, "PYTHONPATH": str(Path(__file__).parent)}
        command = [sys.executable, "-c", program]
        made = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60, check=False)
        assert made.stdout == f"{skipped} no Chromium on this machine: apt-get install chromium\n"
        assert made.returncode == 1
        assert "RuntimeError: no Chromium on this machine: apt-get install chromium" in made.stderr
