"""The Chromium of the distribution, driven by Playwright.

Each test process has one Chromium, and each test a context of its own in it: cookies, storage, cache and
permissions, which end with the test. What Playwright makes belongs to one event loop, while each test has a
loop of its own; it therefore lives on the loop of a thread, which lasts as long as the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import playwright.async_api as pw
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from support.console_words import first_language, spoken

CHROMIUM = shutil.which("chromium")
MISSING = "no Chromium on this machine: apt-get install chromium"
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason=MISSING)
NO_FEATURES = (
    # Two more pages of each window, for suggestions below its address field: half a second of processor time.
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "SpareRendererForSitePerProcess"),
    # This list replaces that of Playwright, since Chromium reads the last one alone. Its calls rely on these.
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    "PaintHolding",
    # Requests of the browser itself when it starts, which Playwright switches off as well.
    *("AimEnabled", "NetworkTimeServiceQuerying", "OptimizationHints", "PreconnectToSearch"),
)
OPTIONS = (
    # Pages share a process: one for each page that is opened costs more than the page does.
    *("--disable-gpu", "--renderer-process-limit=1", "--disable-site-isolation-trials"),
    f"--disable-features={','.join(NO_FEATURES)}",
)
BOUND_MS = 120_000
"""Bound of one call, whatever else the machine does: below the bound of a test, which would not name it."""
LOOK_MS = 50
FILLS = 20
"""How often a field is filled, where the page puts something else into it in between."""
END_SECONDS = 60
"""Bound of the end of a context; a browser that does not come to it is replaced."""
UNTIL = """(() => {
  let found, waits = false;
  const there = (value) => typeof value === 'object' && value !== null
    && !(value instanceof Node) && !Object.keys(value).length ? false : value;
  const missing = (error) => {
    if (!(error instanceof TypeError && /^Cannot read properties of (null|undefined)/.test(error.message)))
      throw error;
    return false;
  };
  return () => {
    if (waits || found) return found;
    try {
      const value = (EXPRESSION);
      if (!(value instanceof Promise)) return there(value);
      waits = true;
      value.then(there, missing).then(
        (settled) => { found = settled; waits = false; },
        (error) => { found = Promise.reject(error); waits = false; });
    } catch (error) {
      return missing(error);
    }
  };
})()"""
"""A function that looks once: at the value of an expression, or of its promise once that is settled.

Empty lists and objects are false, as in Python, and so is an expression that reads of what is not there.
It is made once for each page, since the security policies of pages forbid to compile it for each look.
"""
P = ParamSpec("P")
T = TypeVar("T")


class Chromium:
    """One Chromium after the other: started when a test first asks for it, and anew where it has died."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._exits = contextlib.ExitStack()
        self._portal: BlockingPortal | None = None
        self._starting = asyncio.Lock()
        self._playwright: pw.Playwright | None = None
        self._browser: pw.Browser | None = None

    async def call(self, method: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await a call on the loop of Playwright.

        A caller that is cancelled leaves the call to its own end: those of Playwright may not be cancelled.
        """
        if self._portal is None:
            self._portal = self._exits.enter_context(start_blocking_portal("asyncio", name="playwright"))
        future = asyncio.wrap_future(self._portal.start_task_soon(partial(method, *args, **kwargs)))
        future.add_done_callback(_taken_note_of)
        await asyncio.wait([future])  # which leaves it alone when this is cancelled
        return future.result()

    @contextlib.asynccontextmanager
    async def context(self) -> AsyncIterator[pw.BrowserContext]:
        """A context of its own; it and its windows are gone when the block is left."""
        context = await self.call(self._open)
        try:
            yield context
        finally:
            try:
                async with asyncio.timeout(END_SECONDS):
                    await self.call(context.close)
            except pw.Error:
                self._browser = None  # it has died, or what drives it
            except TimeoutError:
                self._browser = None
                raise

    def end(self) -> None:
        """End what drives the browser, which ends the browser, and the thread."""
        try:
            with self._exits:
                if self._portal is not None:
                    self._portal.start_task_soon(self._end).result(END_SECONDS)
        finally:
            self._portal = None

    async def _open(self) -> pw.BrowserContext:
        async with self._starting:
            with contextlib.suppress(pw.Error):  # it may have died since
                if self._browser is not None:
                    return await self._new_context(self._browser)
            await self._end()
            return await self._new_context(await self._start())

    async def _new_context(self, browser: pw.Browser) -> pw.BrowserContext:
        context = await browser.new_context(no_viewport=True)
        context.set_default_timeout(BOUND_MS)
        return context

    async def _start(self) -> pw.Browser:
        if CHROMIUM is None:  # Playwright would look for one of its own
            raise RuntimeError(MISSING)
        self._home.mkdir(parents=True, exist_ok=True)
        self._playwright = await pw.async_playwright().start()
        self._browser = await self._playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=OPTIONS,
            env={**os.environ, "HOME": str(self._home)},
            timeout=BOUND_MS,
        )
        return self._browser

    async def _end(self) -> None:
        if self._playwright is not None:
            await self._playwright.stop()
        self._playwright = self._browser = None


@dataclass
class Page:
    """One page. `evaluate` runs JavaScript in it."""

    chromium: Chromium
    tab: pw.Page
    """To be used on the loop of Playwright alone, that is with `chromium.call`."""
    said: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """Errors that no script handled, and what the security policy refused."""
    _devtools: pw.CDPSession | None = None

    async def open(self, url: str) -> None:
        """Open an address and wait until the page is there."""
        await self.chromium.call(self.tab.goto, url)

    async def evaluate(self, script: str) -> Any:
        """Run an expression, wait for its promise, and return its value."""
        return await self.chromium.call(self.tab.evaluate, script)

    async def until(self, script: str) -> Any:
        """Return the value of an expression once it is true; one that reads of nothing is not yet true."""
        try:
            return await self.chromium.call(self._until, script)
        except pw.TimeoutError as error:
            raise AssertionError(f"the page never came to: {script}\n{await self._seen()}") from error
        except asyncio.CancelledError as error:
            error.add_note(f"the page had not come to: {script}")
            raise

    async def command(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of Chromium's DevTools protocol, for what Playwright has no word; its result."""
        return await self.chromium.call(self._command, method, params)

    async def trace(self, categories: Sequence[str]) -> None:
        """Begin to record what Chromium does."""
        await self.chromium.call(self._browser().start_tracing, page=self.tab, categories=categories)

    async def traced(self) -> list[dict[str, Any]]:
        """End the record; its events."""
        found: dict[str, Any] = json.loads(await self.chromium.call(self._browser().stop_tracing))
        events: list[dict[str, Any]] = found["traceEvents"]
        return events

    async def resize(self, width: int, height: int) -> None:
        """Give the page a size; below 700 pixels it is a phone."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
        await self.command("Emulation.setDeviceMetricsOverride", **size)

    async def wish(self, theme: str) -> None:
        """Let the system wish for light or dark."""
        wished: Literal["light", "dark"] = "dark" if theme == "dark" else "light"
        await self.chromium.call(self.tab.emulate_media, color_scheme=wished)

    async def network(
        self,
        *,
        offline: bool = False,
        latency_ms: float = 0,
        bytes_per_second: float = -1,
        sent_per_second: float | None = None,
    ) -> None:
        """Cut the network of the page, or make it slow; without arguments it is as it was.

        `sent_per_second`: bytes that it sends, where these are others than those that it receives.
        """
        await self.command("Network.enable")
        await self.command(
            "Network.emulateNetworkConditions",
            offline=offline,
            latency=latency_ms,
            downloadThroughput=bytes_per_second,
            uploadThroughput=bytes_per_second if sent_per_second is None else sent_per_second,
        )

    async def on_each_page(self, script: str) -> None:
        """Run a script in each page that is opened from now on, before its own."""
        await self.chromium.call(self.tab.add_init_script, script)

    async def picture(self) -> bytes:
        """Return what is seen of the page now, as WebP."""
        return await self.chromium.call(self.tab.screenshot, type="webp", quality=80)

    @contextlib.asynccontextmanager
    async def another(self) -> AsyncIterator[Page]:
        """Open another window of the same browser, so that both are seen."""
        async with _window(self.chromium, self.tab.context) as page:
            yield page

    async def press(self, key: str, times: int = 1) -> None:
        """Press and release a key, such as Tab or Enter; several times without looking in between."""
        for _ in range(times):
            await self.chromium.call(self.tab.keyboard.press, key)

    async def insert(self, text: str) -> None:
        """Put text where the cursor is."""
        await self.chromium.call(self.tab.keyboard.insert_text, text)

    async def scroll(self, down: int) -> None:
        """Turn the wheel of a mouse that is over the page."""
        await self.chromium.call(self.tab.mouse.move, 400, 400)
        await self.chromium.call(self.tab.mouse.wheel, 0, down)

    async def type_into(self, selector: str, text: str) -> None:
        """Put text into a field in place of what is there, once the field takes it and keeps it.

        A form that fills it in the middle of that adds what it has to the text.
        """
        for _ in range(FILLS):
            await self.chromium.call(self.tab.fill, selector, text)
            found = await self.chromium.call(self.tab.input_value, selector)
            if found == text or not found.endswith(text):  # or the page writes it in a way of its own
                return

    def _browser(self) -> pw.Browser:
        browser = self.tab.context.browser
        assert browser is not None
        return browser

    def listen(self) -> None:
        """Take note of what scripts print, of errors, and of what is refused. On the loop of Playwright."""
        self.tab.on("console", self._heard)
        self.tab.on("pageerror", lambda error: self.complaints.append(f"{error.name}: {error.message}"))

    def _heard(self, message: pw.ConsoleMessage) -> None:
        if message.args:
            self.said.append(message.text)
        elif message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.complaints.append(message.text)  # of the browser itself, which has no arguments

    async def _until(self, script: str) -> Any:
        look = UNTIL.replace("EXPRESSION", script)
        found = await self.tab.wait_for_function(look, polling=LOOK_MS)
        # The page may have gone on to another one by now; then only a value that needs no page is known.
        return True if str(found) == "true" else await found.json_value()

    async def _command(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self._devtools is None:
            self._devtools = await self.tab.context.new_cdp_session(self.tab)
        return await self._devtools.send(method, params)

    async def _seen(self) -> str:
        """What the page shows and has said, for who reads why a test failed."""
        text = await self.evaluate("`${location.href}\n${document.body?.innerText}`")
        return "\n".join([text, *self.said[-10:], *self.complaints])


def _taken_note_of(call: asyncio.Future[Any]) -> None:
    """A call whose end nobody waits for any more fails unseen; the loop would tell of it in another test."""
    if not call.cancelled():
        call.exception()


_of_this_process: Chromium | None = None


def shared_chromium() -> Chromium:
    """The browser of this test process."""
    assert _of_this_process is not None, "it belongs to the fixture `chromium_of_the_process`"
    return _of_this_process


@pytest.fixture(scope="session", autouse=True)
def chromium_of_the_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Chromium for all tests of this process, which begins when a test needs it."""
    global _of_this_process  # noqa: PLW0603 - one for each process
    _of_this_process = Chromium(tmp_path_factory.getbasetemp() / "chromium")
    yield
    _of_this_process.end()


@contextlib.asynccontextmanager
async def browsing() -> AsyncIterator[Page]:
    """A page in a context of its own: what other tests did in the browser is not seen."""
    chromium = shared_chromium()
    async with chromium.context() as context, _window(chromium, context) as page:
        yield page


@contextlib.asynccontextmanager
async def _window(chromium: Chromium, context: pw.BrowserContext) -> AsyncIterator[Page]:
    """A window with a page, which has the focus as if its window were the one in use."""

    async def opened() -> Page:
        page = Page(chromium, await context.new_page())
        page.listen()
        return page

    page = await chromium.call(opened)
    if spoken() != "en":
        await page.on_each_page(first_language(spoken()))
    yield page
    await chromium.call(page.tab.close)
