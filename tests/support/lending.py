"""Runs that lend their tokens, and the official MCP client that uses them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from hostler.domain.agents import AgentSpec, ResourcePolicy, StatePolicy
from hostler.host.config import ConfigFile, PluginEntry
from hostler.storage.stores import agents, journal
from support.gates import BOUND_SECONDS
from support.http_host import WORKSPACE, Served, serving
from support.loopback import NO_CERTIFICATES

PLUGINS = Path(__file__).with_name("plugins")
GENERATIONS = ("legacy", "2026-07-28")
"""How the client speaks: with a handshake and a session, or with neither."""


@dataclass
class Lent:
    """A run under way, what its runner found in its context, and the line to it."""

    run_id: str
    attempt: int
    assets: dict[str, Any] | None
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def token(self) -> str:
        assert self.assets is not None
        token: str = self.assets["token"]
        return token

    async def own_call(self, tool: str, **parameters: Any) -> Any:
        """A call that the runner makes itself."""
        self.writer.write(f"call {tool} {json.dumps(parameters)}\n".encode())
        return json.loads(await self.reader.readline())

    def end(self) -> None:
        self.writer.write(b"end\n")


@dataclass
class Lending:
    """A host whose runs lend their tokens."""

    served: Served
    folder: Path
    _lent: asyncio.Queue[Lent] = field(default_factory=asyncio.Queue)

    async def open(self, agent: str = "lender", conversation_id: str = "c") -> Lent:
        """Start a run; it is under way."""
        socket = str(self.folder / "socket")
        await self.served.say(socket, wait=None, agent=agent, conversation_id=conversation_id)
        return await self.next()

    async def next(self) -> Lent:
        """The next attempt that comes to where it waits."""
        return await self._lent.get()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A runner has connected."""
        if line := await reader.readline():
            await self._lent.put(Lent(reader=reader, writer=writer, **json.loads(line)))

    async def agent(self, name: str, *, runner: str = "default", assets: bool = True, **policy: Any) -> None:
        spec = AgentSpec(
            name=name,
            runner=f"plugin:test/lender/{runner}",
            config={"assets-enabled": assets},
            resource_policy=ResourcePolicy(**({"allowed_tool_names": ["toolbox.*"]} | policy)),
            state_policy=StatePolicy(state_scopes=["conversation"]),
            event_types=[f"for.{name}"],
        )
        await self.served.host.db.write(lambda tx: agents.apply(tx, WORKSPACE, spec))
        self.served.host.event_router.changed(WORKSPACE)

    async def calls(self, run_id: str) -> list[tuple[str, str, Any]]:
        """Kind, method and tool of what the journal holds of calls."""
        host = self.served.host
        page = await host.db.read(lambda tx: journal.page(tx, run_id, 0, 1000))
        found: list[tuple[str, str, Any]] = []
        for entry in page.items:
            if entry.kind in ("call", "refusal", "intent"):
                params = msgspec.json.decode(entry.data).get("params") or {}
                found.append((entry.kind, entry.type, params.get("tool_name")))
        return found

    async def artifact(self, run_id: str) -> str:
        """The id of the file that the run made."""
        items = (await self.served.client.get(f"/v1/runs/{run_id}/journal")).json()["items"]
        (found,) = [item["data"]["artifact_id"] for item in items if item["type"] == "artifact.created"]
        return str(found)

    async def audited(self, action: str = "assets.refused") -> list[dict[str, Any]]:
        facts = (await self.served.client.get("/v1/audit", params={"limit": 100})).json()["items"]
        return [fact for fact in facts if fact["action"] == action]

    async def over(self, run_id: str) -> dict[str, Any]:
        """The run once it is over."""
        await self.served.host.runs.wait(WORKSPACE, run_id, BOUND_SECONDS)
        found: dict[str, Any] = (await self.served.client.get(f"/v1/runs/{run_id}")).json()
        return found


@contextlib.asynccontextmanager
async def lending(folder: Path, **settings: Any) -> AsyncIterator[Lending]:
    """A host with the lender and the toolbox."""
    async with serving(folder / "data", agent=False, **settings) as served:
        made = Lending(served, folder)
        server = await asyncio.start_unix_server(made.take, folder / "socket")
        shutil.copytree(PLUGINS / "toolbox", folder / "toolbox")  # it keeps things beside itself
        folders = (PLUGINS / "lender", folder / "toolbox")
        plugins = [PluginEntry(path=str(path), level="trusted") for path in folders]
        await served.host.apply(ConfigFile(plugins=list(plugins)), actor="test")
        await served.host.supervisor.connection("acme/toolbox")
        await made.agent("lender")
        try:
            yield made
        finally:
            server.close()


@contextlib.asynccontextmanager
async def client_of(lent: Lent, mode: str = "legacy", token: str | None = None) -> AsyncIterator[Client]:
    """The official client with a run's token."""
    assert lent.assets is not None
    headers = {"authorization": f"Bearer {token or lent.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=BOUND_SECONDS, verify=NO_CERTIFICATES) as http:
        transport = streamable_http_client(lent.assets["url"], http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client
