"""A whole host behind a real socket, for tests of its HTTP surface."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from hostler.domain.agents import AgentSpec
from hostler.host.config import ConfigFile, Settings
from hostler.host.data_directory import own_database
from hostler.host.host import Host
from hostler.host.machine import THIS_MACHINE, Machine
from hostler.http.server import HttpServer, serve
from hostler.storage.stores import agents
from hostler.storage.stores import api_keys as keys
from hostler.tools.knowledge.port import KnowledgeService
from support.databases import prepare_sqlite
from support.loopback import NO_CERTIFICATES
from support.trust import plugin_entry

ADMIN_KEY = "the key of these tests"
PUPPET = Path(__file__).with_name("plugins") / "puppet"
PUPPET_RUNNER = "plugin:test/puppet/default"
WORKSPACE = "default"
OTHER = "other"


@dataclass
class Served:
    """A host that answers at `url`; `client` has the administrator's key."""

    host: Host
    server: HttpServer
    client: httpx.AsyncClient

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def key(self, workspace: str = WORKSPACE, *rights: str, **fields: Any) -> str:
        """Make a key; without rights it has all of a workspace."""
        wanted = {"name": "test", "subject": "tester", "rights": list(rights) or ["admin"], **fields}
        _, token = await self.host.db.write(lambda tx: keys.create(tx, workspace, **wanted))
        return token

    @contextlib.asynccontextmanager
    async def as_key(self, token: str | None) -> AsyncIterator[httpx.AsyncClient]:
        """A client with another key, or with none."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        async with _client(self.url, headers) as client:
            yield client

    async def agent(self, name: str = "puppet", workspace: str = WORKSPACE, **fields: Any) -> None:
        """Store an agent that runs the puppet."""
        spec = AgentSpec(name=name, runner=PUPPET_RUNNER, **fields)
        await self.host.db.write(lambda tx: agents.apply(tx, workspace, spec))
        self.host.event_router.changed(workspace)

    async def say(self, text: str, *, wait: float | None = 30, **fields: Any) -> dict[str, Any]:
        """Send a message; the run (or with wait=None what became of the event)."""
        body = {"event_type": "message.received", "input": {"text": text}, **fields}
        query = {} if wait is None else {"wait": wait}
        answer = await self.client.post("/v1/events", json=body, params=query)
        assert answer.status_code in (200, 202), answer.text
        found: dict[str, Any] = answer.json()
        return found


@contextlib.asynccontextmanager
async def serving(
    data_dir: Path,
    *,
    agent: bool = True,
    knowledge: KnowledgeService | None = None,
    machine: Machine = THIS_MACHINE,
    **settings: Any,
) -> AsyncIterator[Served]:
    """Start a host with the puppet plugin (and an agent of its name) on a free port."""
    wanted = Settings(
        data_dir=data_dir,
        **{
            "port": 0,
            "admin_key": ADMIN_KEY,
            "shutdown_grace_seconds": 2.0,
            "cancel_grace_seconds": 0.5,
            **settings,
        },
    )
    if wanted.database is None:
        prepare_sqlite(own_database(data_dir))
    async with Host.open(wanted, knowledge=knowledge, machine=machine) as host:
        await host.apply(ConfigFile(plugins=[plugin_entry(PUPPET)]), actor="test")
        server = await serve(host, wanted)
        headers = {"authorization": f"Bearer {ADMIN_KEY}"}
        async with _client(server.url, headers) as client:
            served = Served(host, server, client)
            if agent:
                await served.agent()
            try:
                yield served
            finally:
                await server.close()


def _client(url: str, headers: dict[str, str]) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=60, verify=NO_CERTIFICATES)


@dataclass
class Event:
    """One server-sent event."""

    id: int
    type: str
    data: str


async def read_events(answer: httpx.Response, *, at_most: int | None = None) -> list[Event]:
    """The events of a stream, to its end or to so many."""
    events: list[Event] = []
    async for event in iter_events(answer):
        events.append(event)
        if at_most is not None and len(events) == at_most:
            break
    return events


async def iter_events(answer: httpx.Response) -> AsyncIterator[Event]:
    """The events of a stream as they come; comments are left out."""
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield Event(int(fields.get("id", 0)), fields["event"], fields["data"])
            fields = {}
