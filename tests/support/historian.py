"""A conversation with the historian plugin over HTTP: what was said, what waits, what each run saw."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostler_protocol.runs import TERMINAL_STATUSES
from support.server_process import LOOK_SECONDS, PLUGINS, HostProcess, config_file
from support.wire_client import ask

HISTORIAN = PLUGINS / "historian"


def historian_host(folder: Path, database: str | None = None, **agents: dict[str, Any]) -> HostProcess:
    """A host, not started, with agents by name: `{"runner": "deaf", ...}`; more is the agent's own."""
    entries = [
        {"name": name, **fields, "runner": f"plugin:test/historian/{fields.get('runner', 'default')}"}
        for name, fields in agents.items()
    ]
    config = config_file(folder / "config.yaml", plugins=[HISTORIAN], agents=entries)
    given = database if database is not None and database.startswith("postgres") else None
    return HostProcess(folder / "host", config, given)


@dataclass
class Dialogue:
    """One conversation."""

    host: HostProcess
    agent: str = "main"
    conversation: str = "c"
    runs: dict[str, str] = field(default_factory=dict)
    """The run that each message was answered with, by the message's name."""

    async def say(self, text: str, **fields: Any) -> dict[str, Any]:
        """Send a message; what it was answered."""
        event = {
            "event_id": text.split("|", maxsplit=1)[0],
            "event_type": "message.received",
            "agent": self.agent,
            "conversation_id": self.conversation,
            "input": {"text": text},
            **fields,
        }
        answer = await ask(self.host.url, "POST", "/v1/events", event)
        assert answer.status == 202, answer
        accepted: dict[str, Any] = answer.json()
        if accepted["run"] is not None:
            self.runs[event["event_id"]] = accepted["run"]["run_id"]
        return accepted

    async def get(self, path: str) -> Any:
        """Read something."""
        answer = await ask(self.host.url, "GET", path)
        assert answer.status == 200, answer
        return answer.json()

    async def history(self) -> list[str]:
        """What stands in the conversation, oldest first: `user: NAME` and `assistant: TEXT`."""
        page = await self.get(f"/v1/conversations/{self.conversation}/history?limit=100")
        return [_line(item) for item in reversed(page["items"])]

    async def waiting(self) -> list[str]:
        """What waits at its end, in order."""
        page = await self.get(f"/v1/conversations/{self.conversation}/history")
        return [_line(item) for item in page.get("waiting", [])]

    async def found(self, words: str) -> int:
        """How many messages a search finds."""
        page = await self.get(f"/v1/conversations/{self.conversation}/search?q={words}")
        return int(page["total_count"])

    async def started(self, name: str) -> str:
        """Wait until the run of a message has written down what it saw; its id."""
        run_id = self.runs[name]
        while not await self.saw(run_id):
            await asyncio.sleep(LOOK_SECONDS)
        return run_id

    async def ended(self, run_id: str) -> dict[str, Any]:
        """A run once it is over."""
        while True:
            found: dict[str, Any] = await self.get(f"/v1/runs/{run_id}")
            if found["status"] in TERMINAL_STATUSES:
                return found
            await asyncio.sleep(LOOK_SECONDS)

    async def run_of(self, name: str) -> str:
        """The run that has a message now."""
        event = await self.get(f"/v1/events/{name}")
        return str(event["run_id"])

    async def settled(self, *names: str) -> None:
        """Wait until the runs that have these messages are over, whoever has them in the end."""
        for name in names:
            run_id = ""
            while run_id != (run_id := await self.run_of(name)):
                await self.ended(run_id)

    async def saw(self, run_id: str) -> list[list[str]]:
        """The history that a run logged, each time."""
        page = await self.get(f"/v1/runs/{run_id}/journal?limit=1000")
        return [json.loads(entry["data"]["text"]) for entry in page["items"] if entry["type"] == "log"]


def _line(item: dict[str, Any]) -> str:
    names = " + ".join(line.split("|")[0] for line in item["content"].splitlines())
    return f"{item['role']}: {names}"
