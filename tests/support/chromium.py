"""A real Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium")
NEEDS_CHROMIUM = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"),
    reason="no Chromium on this machine: apt-get install chromium",
)
LOOK_SECONDS = 0.05


class LeftError(AssertionError):
    """The page was left before its script had an answer."""


@dataclass
class Page:
    """One page. `evaluate` runs JavaScript in it."""

    socket: ClientConnection
    port: int = 0
    """Of the browser's DevTools protocol."""
    _number: int = 0
    said: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """Errors that no script handled, and what the security policy refused."""

    async def _call(self, method: str, **params: Any) -> Any:
        self._number += 1
        await self.socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        async for text in self.socket:
            message = json.loads(text)
            if message.get("method") == "Runtime.consoleAPICalled":
                self.said += [str(one.get("value")) for one in message["params"]["args"]]
            if message.get("method") == "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(message["params"]["exceptionDetails"]))
            if message.get("method") == "Log.entryAdded":
                entry = message["params"]["entry"]
                if entry["level"] == "error" and entry["source"] != "network":
                    self.complaints.append(entry["text"])
            if message.get("id") == self._number:
                if "navigated or closed" in message.get("error", {}).get("message", ""):
                    raise LeftError(message)
                assert "error" not in message, message
                return message["result"]
        raise AssertionError("the browser has ended")

    async def open(self, url: str) -> None:
        """Open an address and wait until the page is there."""
        await self._call("Runtime.enable")
        await self._call("Log.enable")
        await self._call("Page.navigate", url=url)
        place = url.partition("#")[0]  # a page may take the rest away
        await self.until(f"location.href.startsWith({place!r}) && document.readyState === 'complete'")

    async def evaluate(self, script: str) -> Any:
        """Run an expression, wait for its promise, and return its value."""
        found = await self._call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in found, (found, self.said)
        return found["result"].get("value")

    async def resize(self, width: int, height: int) -> None:
        """Give the page a size; below 700 pixels it is a phone."""
        await self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 700,
        )

    async def wish(self, theme: str) -> None:
        """Let the system wish for light or dark."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        await self._call("Emulation.setEmulatedMedia", features=features)

    async def network(
        self, *, offline: bool = False, latency_ms: float = 0, bytes_per_second: float = -1
    ) -> None:
        """Cut the network of the page, or make it slow; without arguments it is as it was."""
        await self._call("Network.enable")
        await self._call(
            "Network.emulateNetworkConditions",
            offline=offline,
            latency=latency_ms,
            downloadThroughput=bytes_per_second,
            uploadThroughput=bytes_per_second,
        )

    async def on_each_page(self, script: str) -> None:
        """Run a script in each page that is opened from now on, before its own."""
        await self._call("Page.enable")
        await self._call("Page.addScriptToEvaluateOnNewDocument", source=script)

    async def picture(self) -> bytes:
        """Return what is seen of the page now, as WebP."""
        found = await self._call("Page.captureScreenshot", format="webp", quality=80)
        return base64.b64decode(found["data"])

    @contextlib.asynccontextmanager
    async def another(self) -> AsyncIterator[Page]:
        """Open another window of the same browser, so that both are seen."""
        made = await self._call("Target.createTarget", url="about:blank", newWindow=True)
        address = f"ws://127.0.0.1:{self.port}/devtools/page/{made['targetId']}"
        async with connect(address, max_size=None, proxy=None) as socket:
            yield Page(socket, self.port)
        await self._call("Target.closeTarget", targetId=made["targetId"])

    async def press(self, key: str) -> None:
        """Press and release a key, such as Tab or Enter."""
        code = {"Tab": 9, "Enter": 13, "Escape": 27}[key]
        pressed = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        text = {"text": "\r"} if key == "Enter" else {}
        await self._call("Input.dispatchKeyEvent", type="keyDown", **pressed, **text)
        await self._call("Input.dispatchKeyEvent", type="keyUp", **pressed)

    async def type_into(self, selector: str, text: str) -> None:
        """Put text into a field in place of what is there."""
        field = f"document.querySelector({json.dumps(selector)})"
        for _ in range(20):
            await self.until(f"{field} && !{field}.disabled && ({field}.focus(), {field}.select(), true)")
            await self.evaluate(f"{field}.value = ''")
            if text:
                await self._call("Input.insertText", text=text)
            value = await self.evaluate(f"{field}?.value ?? ''")
            if not text or value == text or not value.endswith(text):
                return
            # the page has put back in between what stood there
        raise AssertionError(f"{selector} keeps what it has: {value}")

    async def until(self, script: str) -> Any:
        """Return the value of an expression once it is true."""
        while True:
            try:
                value = await self.evaluate(script)
            except LeftError:
                value = None
            if value:
                return value
            await asyncio.sleep(LOOK_SECONDS)


@contextlib.asynccontextmanager
async def browsing(folder: Path) -> AsyncIterator[Page]:
    """A browser with one page, and a profile in `folder`."""
    assert CHROMIUM is not None
    profile = folder / "profile"
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"),
        *(f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "HOME": str(folder)},
    )
    try:
        port = await _port(profile / "DevToolsActivePort", process)
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            targets = (await client.get(f"http://127.0.0.1:{port}/json")).json()
        address = next(one["webSocketDebuggerUrl"] for one in targets if one["type"] == "page")
        async with connect(address, max_size=None, proxy=None) as socket:
            yield Page(socket, port)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    """The port that the browser listens on, once it has said so."""
    while True:
        with contextlib.suppress(FileNotFoundError, ValueError, IndexError):  # it is being written
            return int(file.read_text("ascii").splitlines()[0])
        assert process.returncode is None, "the browser does not start"
        await asyncio.sleep(LOOK_SECONDS)
