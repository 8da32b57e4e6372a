"""A real Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.chromium_process import CHROMIUM, LOOK_SECONDS, Connection, Context, shared_browser
from support.console_words import first_language, spoken

NEEDS_CHROMIUM = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"),
    reason="no Chromium on this machine: apt-get install chromium",
)
NOT_THERE = ("TypeError: Cannot read properties of undefined", "TypeError: Cannot read properties of null")

KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowDown": 40}


class LeftError(AssertionError):
    """The page was left before its script had an answer."""


class NotThereError(AssertionError):
    """The script reads something of an element that is not there."""


@dataclass
class Page(Connection):
    """One page. `evaluate` runs JavaScript in it."""

    context: Context | None = None
    said: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """Errors that no script handled, and what the security policy refused."""

    def heard(self, message: dict[str, Any]) -> None:
        """Take note of what scripts print, of errors, and of what was refused."""
        match message.get("method"):
            case "Runtime.consoleAPICalled":
                self.said += [str(one.get("value")) for one in message["params"]["args"]]
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(message["params"]["exceptionDetails"]))
            case "Log.entryAdded":
                entry = message["params"]["entry"]
                if entry["level"] == "error" and entry["source"] != "network":
                    self.complaints.append(entry["text"])

    async def told(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command that is not refused; its result. A page may be left before it answers."""
        answer = await self.ask(method, **params)
        if "navigated or closed" in answer.get("error", {}).get("message", ""):
            raise LeftError(answer)
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result

    async def open(self, url: str) -> None:
        """Open an address and wait until the page is there."""
        await self.told("Runtime.enable")
        await self.told("Log.enable")
        await self.told("Page.navigate", url=url)
        place = url.partition("#")[0]  # a page may take the rest away
        await self.until(f"location.href.startsWith({place!r}) && document.readyState === 'complete'")

    async def evaluate(self, script: str) -> Any:
        """Run an expression, wait for its promise, and return its value."""
        found = await self.told(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        raised = found.get("exceptionDetails", {}).get("exception", {}).get("description", "")
        if raised.startswith(NOT_THERE):
            raise NotThereError(raised, script, self.said)
        assert "exceptionDetails" not in found, (found, self.said)
        return found["result"].get("value")

    async def resize(self, width: int, height: int) -> None:
        """Give the page a size; below 700 pixels it is a phone."""
        await self.told(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 700,
        )

    async def wish(self, theme: str) -> None:
        """Let the system wish for light or dark."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        await self.told("Emulation.setEmulatedMedia", features=features)

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
        await self.told("Network.enable")
        await self.told(
            "Network.emulateNetworkConditions",
            offline=offline,
            latency=latency_ms,
            downloadThroughput=bytes_per_second,
            uploadThroughput=bytes_per_second if sent_per_second is None else sent_per_second,
        )

    async def on_each_page(self, script: str) -> None:
        """Run a script in each page that is opened from now on, before its own."""
        await self.told("Page.enable")
        await self.told("Page.addScriptToEvaluateOnNewDocument", source=script)

    async def picture(self) -> bytes:
        """Return what is seen of the page now, as WebP."""
        found = await self.told("Page.captureScreenshot", format="webp", quality=80)
        return base64.b64decode(found["data"])

    @contextlib.asynccontextmanager
    async def another(self) -> AsyncIterator[Page]:
        """Open another window of the same browser, so that both are seen."""
        assert self.context is not None
        async with _window(self.context) as page:
            yield page

    async def press(self, key: str, times: int = 1) -> None:
        """Press and release a key, such as Tab or Enter; several times as one does who does not look."""
        pressed = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        once = [{"type": "keyDown", **pressed, **text}, {"type": "keyUp", **pressed}]
        for answer in await self.ask_in_turn([("Input.dispatchKeyEvent", each) for each in once * times]):
            assert "error" not in answer, answer

    async def insert(self, text: str) -> None:
        """Put text where the cursor is."""
        await self.told("Input.insertText", text=text)

    async def scroll(self, down: int) -> None:
        """Turn the wheel of a mouse that is over the page."""
        place = {"x": 400, "y": 400, "deltaX": 0, "deltaY": down}
        await self.told("Input.dispatchMouseEvent", type="mouseWheel", **place)

    async def type_into(self, selector: str, text: str) -> None:
        """Put text into a field in place of what is there."""
        field = f"document.querySelector({json.dumps(selector)})"
        for _ in range(20):
            await self.until(f"{field} && !{field}.disabled && ({field}.focus(), {field}.select(), true)")
            await self.evaluate(f"{field}.value = ''")
            if text:
                await self.insert(text)
            value = await self.evaluate(f"{field}?.value ?? ''")
            if not text or value == text or not value.endswith(text):
                return
            # the page has put back in between what stood there
        raise AssertionError(f"{selector} keeps what it has: {value}")

    async def until(self, script: str) -> Any:
        """Return the value of an expression once it is true; one that reads of nothing is not yet true."""
        missing: NotThereError | None = None
        try:
            while True:
                try:
                    if value := await self.evaluate(script):
                        return value
                    missing = None
                except LeftError:
                    missing = None
                except NotThereError as error:
                    missing = error
                await asyncio.sleep(LOOK_SECONDS)
        except asyncio.CancelledError as error:
            error.add_note(f"the page never came to: {script} ({missing or 'it was false'})")
            raise


@contextlib.asynccontextmanager
async def browsing() -> AsyncIterator[Page]:
    """A page in a context of its own: what other tests did in the browser is not seen."""
    async with shared_browser().context() as context, _window(context) as page:
        yield page


@contextlib.asynccontextmanager
async def _window(context: Context) -> AsyncIterator[Page]:
    """A window with a page, which has the focus as if its window were the one in use."""
    async with context.window() as socket:
        page = Page(socket, context=context)
        await page.told("Emulation.setFocusEmulationEnabled", enabled=True)
        if spoken() != "en":
            await page.on_each_page(first_language(spoken()))
        yield page
