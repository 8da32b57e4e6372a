"""A real Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
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


@dataclass
class Page:
    """One page. `evaluate` runs JavaScript in it."""

    socket: ClientConnection
    _number: int = 0
    said: list[str] = field(default_factory=list)

    async def _call(self, method: str, **params: Any) -> Any:
        self._number += 1
        await self.socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        async for text in self.socket:
            message = json.loads(text)
            if message.get("method") == "Runtime.consoleAPICalled":
                self.said += [str(one.get("value")) for one in message["params"]["args"]]
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
        raise AssertionError("the browser has ended")

    async def open(self, url: str) -> None:
        """Open an address and wait until the page is there."""
        await self._call("Runtime.enable")
        await self._call("Page.navigate", url=url)
        await self.until(f"location.href.startsWith({url!r}) && document.readyState === 'complete'")

    async def evaluate(self, script: str) -> Any:
        """Run an expression, wait for its promise, and return its value."""
        found = await self._call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in found, (found, self.said)
        return found["result"].get("value")

    async def until(self, script: str) -> Any:
        """Return the value of an expression once it is true."""
        while not (value := await self.evaluate(script)):
            await asyncio.sleep(LOOK_SECONDS)
        return value


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
            yield Page(socket)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    """The port that the browser listens on, once it has said so."""
    while True:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(file.read_text("ascii").splitlines()[0])
        assert process.returncode is None, "the browser does not start"
        await asyncio.sleep(LOOK_SECONDS)
