"""AG-UI's official client, unmodified, in a process that a test drives; and a run as that client shows it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.node_clients import Node, node_clients

DRIVER = Path(__file__).with_name("ag_ui_client.mjs")
PAGE = Path(__file__).parents[3] / "docs/clients/ag-ui.md"
CLIENT_SECONDS = 60.0
"""Bound of each wait for the client."""
_BLOCK = re.compile(r"```js\n// (\S+\.mjs)\n(.*?)```", re.DOTALL)


def client_in(folder: Path) -> Node:
    """Put the driver, with what the page shows, into a folder. Skips the test where it cannot be had."""
    node = node_clients("@ag-ui/client@1.0.0", "ag-ui-client-of-copilotkit@npm:@ag-ui/client@0.0.59")
    folder.mkdir(exist_ok=True)
    node.lend_to(folder)
    (folder / "client.mjs").write_text(DRIVER.read_text())
    for name, code in _BLOCK.findall(PAGE.read_text()):
        (folder / name).write_text(code)
    return node


@dataclass
class AgUiClient:
    """One `HttpAgent` in a Node process."""

    process: asyncio.subprocess.Process
    events: list[dict[str, Any]] = field(default_factory=list)
    finished: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def send(self, **command: Any) -> None:
        """Start a command, without waiting for its end."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")

    async def line(self) -> dict[str, Any]:
        """What the client says next."""
        assert self.process.stdout is not None
        async with asyncio.timeout(CLIENT_SECONDS):
            line = await self.process.stdout.readline()
        assert line, "the client ended"
        value: dict[str, Any] = json.loads(line)
        if "event" in value:
            self.events.append(value["event"])
        elif "finished" in value:
            self.finished.append(value["finished"])
        elif "warning" in value:
            self.warnings.append(value["warning"])
        return value

    async def until_event(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Wait for an event of a type."""
        while True:
            event = (await self.line()).get("event", {})
            if event.get("type") == kind and all(event.get(name) == value for name, value in fields.items()):
                found: dict[str, Any] = event
                return found

    async def outcome(self) -> dict[str, Any]:
        """Wait for the end of the command: what the agent has then, or `failed`."""
        while True:
            value = await self.line()
            if "done" in value:
                done: dict[str, Any] = value["done"]
                return done
            if "failed" in value:
                return value

    async def command(self, **command: Any) -> dict[str, Any]:
        """Run a command to its end; the events of it are in `events`."""
        self.events.clear()
        self.finished.clear()
        self.send(**command)
        return await self.outcome()

    async def run(self, *say: str, **options: Any) -> dict[str, Any]:
        """Say something, and run the agent."""
        more = {name: options.pop(name) for name in ("setState",) if name in options}
        return await self.command(say=[user(text) for text in say], run=options, **more)

    def types(self) -> list[str]:
        """The types of the events, each once in a row."""
        kinds: list[str] = []
        for event in self.events:
            if not kinds or kinds[-1] != event["type"]:
                kinds.append(event["type"])
        return kinds


_ids = iter(range(1, 1_000_000))


def user(content: Any) -> dict[str, Any]:
    """A message of the user."""
    return {"id": f"user-{next(_ids)}", "role": "user", "content": content}


def tool(call_id: str, content: Any, error: str | None = None) -> dict[str, Any]:
    """The result of a tool of the application."""
    more = {} if error is None else {"error": error}
    return {"id": f"tool-{next(_ids)}", "role": "tool", "toolCallId": call_id, "content": content, **more}


@contextlib.asynccontextmanager
async def ag_ui_client(
    url: str,
    key: str,
    *,
    agent: str = "player",
    thread: str = "thread-1",
    old: bool = False,
    cuts: Sequence[int] = (),
    resuming: bool = False,
    headers: dict[str, str] | None = None,
    **options: Any,
) -> AsyncIterator[AgUiClient]:
    """Start a client of an agent. `old`: the one of CopilotKit. `cuts`: after how many bytes responses break.

    `resuming`: it goes on after that. Skips the test where the client cannot be had.
    """
    folder = Path(tempfile.mkdtemp())
    node = await asyncio.to_thread(client_in, folder)
    given = {
        "url": f"{url}/ag-ui/{agent}",
        "threadId": thread,
        "headers": {"authorization": f"Bearer {key}", **(headers or {})},
        "cuts": list(cuts),
        "resuming": resuming,
        "old": old,
        **options,
    }
    process = await asyncio.create_subprocess_exec(
        str(node.program),
        "client.mjs",
        json.dumps(given),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        limit=16 * 1024 * 1024,
    )
    try:
        yield AgUiClient(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        shutil.rmtree(folder)


def texts_of(messages: Sequence[dict[str, Any]]) -> list[str]:
    """The texts of the complete messages of the agent."""
    return [
        message["content"]
        for message in messages
        if message["role"] == "assistant"
        and message.get("content")
        and not message.get("metadata", {}).get("hostler", {}).get("incomplete")
    ]


def some_cuts(random_: random.Random, *, at_most: int = 2_000, number: int = 4) -> list[int]:
    """Where a connection breaks: after so many bytes of each response."""
    return [random_.randrange(1, at_most) for _ in range(number)]


async def transcript(
    url: str, key: str, agent: str, thread: str, run_id: str, random_: random.Random
) -> list[str]:
    """The texts of the complete messages of a run, as the official client folds them over broken connections.

    `run_id`: the host's. Messages of the thread before the run are left out.
    """
    async with ag_ui_client(
        url, key, agent=agent, thread=thread, cuts=some_cuts(random_), resuming=True
    ) as client:
        done = await client.command(connect=True)
    assert "failed" not in done, done
    own = f"msg_{run_id}_"
    return texts_of([message for message in done["messages"] if message["id"].startswith(own)])
