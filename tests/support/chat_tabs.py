"""Tabs at one conversation of a host that is killed and starts again, over a network that hangs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from support.chat_page import AGENTS, TYPED, code_of, conversation_of
from support.chromium import Page, browsing
from support.console import there
from support.cut_network import Network, network_to
from support.editor_hosts import a_host, agent
from support.server_process import HostProcess

OPEN = "document.querySelectorAll('.call-card.is-open').length"
DECIDED = "document.querySelectorAll('.call-card.is-decided').length"
COMPOSED = "document.querySelector('.composer textarea').value"
FILES = "document.querySelectorAll('.composer .file').length"
PATIENT = (agent("both", runner="both"), agent("steered", runner="steered", concurrency={"on_busy": "steer"}))
"""Agents whose runs go on after a crash."""


@dataclass
class Tabs:
    """A host, the network before it, and a tab that reaches it through that."""

    host: HostProcess
    network: Network
    page: Page

    @contextlib.asynccontextmanager
    async def another(self) -> AsyncIterator[Page]:
        """A second tab at the same conversation, of the same browser."""
        place = await conversation_of(self.page)
        async with self.page.another() as second:
            await second.resize(1280, 900)
            await second.open(f"{self.network.url}/chat/{place}")
            await second.until(there(".composer textarea"))
            yield second

    @contextlib.asynccontextmanager
    async def person(self, name: str) -> AsyncIterator[Page]:
        """Somebody else at the same conversation, whose browser reaches the host by itself."""
        place = await conversation_of(self.page)
        async with self.host.client() as client, browsing() as page:
            key = {"name": name, "subject": name, "roles": ["admin"], "rights": ["admin"]}
            made = (await client.post("/v1/keys", json=key)).json()["key"]
            headers = {"authorization": f"Bearer {made}"}
            code = (await client.post("/v1/auth/links", json={}, headers=headers)).json()["code"]
            await page.resize(1280, 900)
            await page.open(f"{self.host.url}/chat/{place}#sign-in={code}")
            await page.until(there(".composer textarea"))
            yield page

    def kill(self) -> None:
        """Kill the host."""
        if "--port" not in self.host.options:
            self.host.options += ["--port", self.host.url.rpartition(":")[2]]
        self.host.kill()

    async def killed(self) -> None:
        """Kill the host, and start it again where it was."""
        self.kill()
        await self.host.start()


@contextlib.asynccontextmanager
async def at_tabs(folder: Path) -> AsyncIterator[Tabs]:
    """A tab that is signed in at the chat."""
    async with (
        a_host(folder, *AGENTS, *PATIENT) as host,
        network_to(int(host.url.rpartition(":")[2])) as network,
        browsing() as page,
    ):
        await page.resize(1280, 900)
        await page.open(f"{network.url}/chat#sign-in={await code_of(host)}")
        yield Tabs(host, network, page)


async def reload(page: Page) -> None:
    """Load the page of a chat anew."""
    await page.evaluate("(window.before = true, location.reload())")
    await page.until(f"!window.before && {there('.composer textarea')}")


async def attach(page: Page, name: str, size: int) -> None:
    """Paste a file of so many bytes into the composer."""
    await page.until(there(".composer textarea"))
    await page.evaluate(
        "(() => { const files = new DataTransfer();"
        f" files.items.add(new File([new Uint8Array({size})], {json.dumps(name)}, {{type: 'image/x-dot'}}));"
        " document.querySelector('.composer textarea').dispatchEvent(new ClipboardEvent('paste',"
        " {bubbles: true, cancelable: true, clipboardData: files})); })()"
    )


async def shows_once(page: Page, text: str) -> None:
    """A message of a person is there, and no second time."""
    await page.until(f"{TYPED}.filter((one) => one === {json.dumps(text)}).length === 1")
