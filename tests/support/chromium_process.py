"""The Chromium of a test process: started when a test first asks for it, and anew where it has died.

Each test has a context of its own in it: cookies, storage, cache and permissions, which end with the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from support.die_with_parent import dying_with_us

CHROMIUM = shutil.which("chromium")
NO_FEATURES = (
    # Pages share a process: one for each page that is opened, and a spare one, cost more than the pages do.
    *("SpareRendererForSitePerProcess", "IsolateOrigins", "site-per-process"),
    # The suggestions below the address field are two more pages of each window, a second of processor time.
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup"),
)
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"),
    *("--renderer-process-limit=1", "--disable-site-isolation-trials"),
    f"--disable-features={','.join(NO_FEATURES)}",
    # It lasts for many tests: no window of its own, and nothing that it does by itself.
    *("--no-startup-window", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-extensions", "--disable-default-apps"),
)
LOOK_SECONDS = 0.05
END_SECONDS = 60
"""Bound of an end that was asked for; what takes longer is killed."""


class BrowserDiedError(AssertionError):
    """The browser does not start, or has ended."""


@dataclass
class Connection:
    """To the browser, or to a page of it. It is asked one thing at a time."""

    socket: ClientConnection
    _number: int = 0

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command; its answer, which has a `result` or an `error`."""
        return (await self.ask_in_turn([(method, params)]))[0]

    async def ask_in_turn(self, commands: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
        """Send commands without waiting between them; their answers."""
        answers: dict[int, dict[str, Any]] = {}
        try:
            for method, params in commands:
                self._number += 1
                command = {"id": self._number, "method": method, "params": params}
                await self.socket.send(json.dumps(command))
            wanted = range(self._number - len(commands) + 1, self._number + 1)
            while not answers.keys() >= set(wanted):
                message: dict[str, Any] = json.loads(await self.socket.recv())
                if message.get("id") in wanted:
                    answers[message["id"]] = message
                elif "method" in message:
                    self.heard(message)
        except ConnectionClosed as error:
            asked = ", ".join({method: None for method, _ in commands})
            raise BrowserDiedError(
                f"the page or its browser has ended and does not answer {asked}"
            ) from error
        return [answers[number] for number in wanted]

    def heard(self, message: dict[str, Any]) -> None:
        """Take note of an event; none is of interest here."""

    async def told(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command that is not refused; its result."""
        answer = await self.ask(method, **params)
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result


@dataclass(frozen=True)
class Context:
    """What one test has of the browser."""

    browser: Connection
    port: int
    context_id: str

    @contextlib.asynccontextmanager
    async def window(self) -> AsyncIterator[ClientConnection]:
        """Open a window, which shares all of the context with its others; the connection to its page."""
        made = await self.browser.told(
            "Target.createTarget", url="about:blank", newWindow=True, browserContextId=self.context_id
        )
        address = f"ws://127.0.0.1:{self.port}/devtools/page/{made['targetId']}"
        async with connect(address, max_size=None, proxy=None) as socket:
            yield socket
        await self.browser.told("Target.closeTarget", targetId=made["targetId"])


class Browser:
    """One Chromium after the other, each with a new profile in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._home = folder

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self._process is not None
        return self._process.pid

    @contextlib.asynccontextmanager
    async def context(self) -> AsyncIterator[Context]:
        """A context of its own; it and its windows are gone when the block is left."""
        port, path = await self._running()
        async with connect(f"ws://127.0.0.1:{port}{path}", max_size=None, proxy=None) as socket:
            browser = Connection(socket)
            made = await browser.told("Target.createBrowserContext", disposeOnDetach=True)
            try:
                yield Context(browser, port, made["browserContextId"])
            finally:
                await self._dispose(socket, made["browserContextId"])

    def end(self) -> None:
        """End the process, and remove its profile."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
            shutil.rmtree(self._home, ignore_errors=True)  # what of it still ends may write there

    async def _dispose(self, socket: ClientConnection, context_id: str) -> None:
        """End a context; a browser that does not do it is ended, for the sake of the tests that follow."""
        try:
            async with asyncio.timeout(
                END_SECONDS
            ):  # a block that was cancelled may have left half an answer
                await Connection(socket, 1 << 20).told(
                    "Target.disposeBrowserContext", browserContextId=context_id
                )
        except (TimeoutError, AssertionError):
            self.end()
            raise

    async def _running(self) -> tuple[int, str]:
        """Port and path of the DevTools protocol, once the browser answers there."""
        if self._process is not None and self._process.poll() is not None:
            self.end()
        if self._process is None:
            self._start()
        try:
            return await self._place()
        except BaseException:
            self.end()
            raise

    def _start(self) -> None:
        assert CHROMIUM is not None
        self._home = self._folder / str(next(self._numbers))
        self._home.mkdir(parents=True)
        with (self._home / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *dying_with_us(signal.SIGKILL),
                    *(CHROMIUM, *OPTIONS, f"--user-data-dir={self._home / 'profile'}"),
                    "--remote-debugging-port=0",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "HOME": str(self._home)},
            )

    async def _place(self) -> tuple[int, str]:
        assert self._process is not None
        file = self._home / "profile" / "DevToolsActivePort"
        while True:
            with contextlib.suppress(FileNotFoundError, ValueError):  # it is being written
                port, path = file.read_text("ascii").split("\n")
                return int(port), path
            if self._process.poll() is not None:
                said = (self._home / "log").read_text(errors="replace")[-2000:]
                raise BrowserDiedError(f"the browser does not start:\n{said}")
            await asyncio.sleep(LOOK_SECONDS)


_of_this_process: Browser | None = None


def shared_browser() -> Browser:
    """The browser of this test process."""
    assert _of_this_process is not None, "it belongs to the fixture `browser_of_the_process`"
    return _of_this_process


@pytest.fixture(scope="session", autouse=True)
def browser_of_the_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Chromium for all tests of this process, which begins when a test needs it."""
    global _of_this_process  # noqa: PLW0603 - one for each process
    _of_this_process = Browser(tmp_path_factory.getbasetemp() / "chromium")
    yield
    _of_this_process.end()
