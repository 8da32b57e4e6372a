"""The tools of all MCP servers of a host, as `<server>.<tool>`: a `ToolSource`, configured while it runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from hostler.domain.mcp_entry import McpEntry, check_mcp_entry
from hostler.domain.tool_entries import ToolEntry
from hostler.domain.tool_pins import StoredPin
from hostler.egress import EgressPolicy
from hostler.tools.errors import ToolChangedError
from hostler.tools.mcp.definitions import Definition
from hostler.tools.mcp.port import McpContext
from hostler.tools.mcp.results import check_output, check_size, result_of
from hostler.tools.mcp.server import McpServer, McpServerStatus
from hostler.tools.port import Found, OfferedTool, ToolInvocation, ToolPin
from hostler.tools.schema import ToolSchema, check_beside
from hostler_protocol.errors import ConflictError, DeadlineExceededError, InvalidArgumentError, NotFoundError
from hostler_protocol.grants import ToolResource

CHANGED = "its server changed what it says of it; `hostler tools approve` shows the change, and approves it"
NEW = "its server did not have it at first; `hostler tools approve` shows it, and approves it"
GONE = "its server does not list it any more"


KEPT_OUTPUTS = 256
"""Schemas of results that are kept ready."""


@dataclass(frozen=True, slots=True)
class ToolWaiting:
    """A tool that waits for the operator: as it was approved (None: never), and as it is now."""

    name: str
    digest: str
    """Of the tool as it is now: what an approval is for."""
    approved: Definition | None
    now: Definition


class McpTools:
    """The servers of one workspace; no other one is offered their tools. Also the `ToolKind` of `mcp`."""

    id_prefix = "mcp:"

    def __init__(self, workspace_id: str, around: McpContext, *, running: bool = True) -> None:
        self._workspace = workspace_id
        self._around = around
        self._running = running
        self._servers: dict[str, McpServer] = {}
        self._configured = 0
        self._read_at: tuple[int, ...] = ()
        self._revision = 0
        self._offered: dict[str, OfferedTool] = {}
        self._outputs: dict[str, ToolSchema] = {}

    # -- configuration ----------------------------------------------------------------------------

    def check(self, entries: Sequence[ToolEntry]) -> None:
        """Refuse what cannot be connected to. InvalidArgumentError."""
        for entry in _own(entries):
            check_mcp_entry(entry)
            if entry.url is not None:
                _check_network(entry)

    async def configure(self, entries: Sequence[ToolEntry]) -> None:
        """Have these servers, and no others any more; those that did not change go on."""
        wanted = {entry.name: entry for entry in _own(entries)}
        left = [server for name, server in self._servers.items() if wanted.get(name) != server.entry]
        kept = {name: server for name, server in self._servers.items() if server not in left}
        fresh = {name: McpServer(entry, self._around) for name, entry in wanted.items() if name not in kept}
        for server in fresh.values():
            await server.load()
        self._servers = {**kept, **fresh}
        self._configured += 1
        await asyncio.gather(*(server.close() for server in left))
        if self._running:
            for server in fresh.values():
                server.start()

    async def settle(self, seconds: float) -> None:
        """Wait, at most so long, for servers of which no tool is known yet: agents would be without them."""
        fresh = [asyncio.ensure_future(one.attempted()) for one in self._servers.values() if not one.pins]
        if fresh and self._running:
            await asyncio.wait(fresh, timeout=seconds)
        for waiting in fresh:
            waiting.cancel()

    async def close(self) -> None:
        """End all connections and processes."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))

    # -- what there is ----------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """Rises with each change of what is offered."""
        seen = (self._configured, *(server.revision for server in self._servers.values()))
        if seen != self._read_at:
            self._read_at = seen
            self._revision += 1
            found = [tool for server in self._servers.values() for tool in _tools(server)]
            self._offered = {tool.pin.tool_id: tool for tool in found}
        return self._revision

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """Every tool of every server, by its id; those that wait for the operator have a problem."""
        if workspace_id != self._workspace or self.revision < 0:
            return {}
        return self._offered

    def servers(self, workspace_id: str) -> list[McpServerStatus]:
        """How each server stands, by name."""
        if workspace_id != self._workspace:
            return []
        return [self._servers[name].status() for name in sorted(self._servers)]

    def waiting(self, workspace_id: str, tool_name: str) -> ToolWaiting | None:
        """What there is to approve of a tool; None: nothing. NotFoundError."""
        pin = self._find(workspace_id, tool_name)[1]
        if pin.state == "approved":
            return None
        approved = None if pin.definition is None else _definition(pin.definition)
        return ToolWaiting(tool_name, pin.seen_digest, approved, _definition(pin.seen_definition))

    async def approve(self, workspace_id: str, tool_name: str, digest: str, actor: str) -> None:
        """Approve a tool as it is now. ConflictError where it is not the one that was looked at."""
        server, pin = self._find(workspace_id, tool_name)
        if pin.state == "approved":
            raise ConflictError(f"tool {tool_name!r} is approved as it is: there is nothing to approve")
        if not await self._around.pins.approve(server.entry.owner, pin.tool, digest, actor):
            raise ConflictError(f"tool {tool_name!r} has changed since it was looked at: look at it again")
        await server.load()

    def _find(self, workspace_id: str, tool_name: str) -> tuple[McpServer, StoredPin]:
        server_name, _, tool = tool_name.partition(".")
        server = self._servers.get(server_name) if workspace_id == self._workspace else None
        pin = None if server is None else server.pins.get(tool)
        if server is None or pin is None:
            raise NotFoundError(f"there is no tool {tool_name!r} of an MCP server")
        return server, pin

    # -- asking -----------------------------------------------------------------------------------

    async def call(self, invocation: ToolInvocation) -> Any:
        """Ask the server. See `ToolSource.call`."""
        server, tool = self._server_of(invocation)
        connection = await server.connection()
        await self._check_unchanged(server, tool, invocation)
        seconds = server.entry.seconds
        if invocation.deadline is not None:
            seconds = min(seconds, invocation.deadline - time.time())
            if seconds <= 0:
                raise DeadlineExceededError(f"the deadline passed before {invocation.tool_name} was called")
        answer = await server.call(connection, tool, invocation, seconds)
        result = result_of(server.entry.owner, tool, answer)
        check_size(server.entry.owner, tool, result, server.entry.result_bytes)
        await self._check_output(server, tool, invocation.pin.schema_digest, result)
        return result

    async def _check_output(self, server: McpServer, tool: str, digest: str, result: dict[str, Any]) -> None:
        """Here and not with the results of all tools: what is declared is of the structured content alone."""
        pin = server.pins.get(tool)
        declared = (
            None if pin is None or pin.definition is None else _definition(pin.definition).output_schema
        )
        if declared is None:
            return
        schema = self._outputs.get(digest)
        if schema is None:
            if len(self._outputs) >= KEPT_OUTPUTS:
                self._outputs.clear()
            schema = self._outputs[digest] = ToolSchema(declared)
        await check_beside(result, partial(check_output, server.entry.owner, tool, schema, result))

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """No MCP server can be asked what came of a call."""
        raise InvalidArgumentError(f"tool {invocation.tool_name!r} can't tell what came of a call")

    def _server_of(self, invocation: ToolInvocation) -> tuple[McpServer, str]:
        owner, _, tool = invocation.pin.tool_id.partition("#")
        server = self._servers.get(owner.removeprefix(self.id_prefix))
        if server is None or invocation.workspace_id != self._workspace:
            raise ToolChangedError(f"tool {invocation.tool_name!r} is gone: its server is not configured now")
        return server, tool

    async def _check_unchanged(self, server: McpServer, tool: str, invocation: ToolInvocation) -> None:
        """ToolChangedError, audited, where the tool is not the one that was approved and granted."""
        offered = self.offered(invocation.workspace_id).get(invocation.pin.tool_id)
        problem = None if offered is None else offered.problem
        if offered is not None and problem is None and offered.pin == invocation.pin:
            return
        reason = problem or "it is no longer the one that this run was given"
        digest = server.live_digest(tool) or ""
        await self._around.pins.refused(server.entry.owner, tool, digest, reason)
        raise ToolChangedError(f"tool {invocation.tool_name!r} is not called: {reason}")


def _check_network(entry: McpEntry) -> None:
    try:
        EgressPolicy.of(entry.network)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"tools: mcp {entry.name!r}: network: {error.message}") from None


def _own(entries: Sequence[ToolEntry]) -> list[McpEntry]:
    return [entry.mcp for entry in entries if entry.mcp is not None]


def _tools(server: McpServer) -> list[OfferedTool]:
    return [_offer(server, pin) for pin in server.pins.values() if server.entry.allows(pin.tool)]


def _offer(server: McpServer, pin: StoredPin) -> OfferedTool:
    """A tool in the words that the operator approved; one that never was, in its own."""
    entry = server.entry
    definition = _definition(pin.seen_definition if pin.definition is None else pin.definition)
    effect = entry.effect_of(pin.tool, read_only=definition.read_only, idempotent=definition.idempotent)
    return OfferedTool(
        resource=ToolResource(
            tool_name=f"{entry.name}.{pin.tool}",
            tool_type="mcp",
            description=definition.told,
            operations=["detail", "call"],
            approval=entry.approval_of(pin.tool),
        ),
        pin=ToolPin(
            tool_id=f"{entry.owner}#{pin.tool}",
            owner=entry.owner,
            schema_digest=pin.digest or pin.seen_digest,
            effect=effect,
        ),
        parameters=definition.parameters,
        problem=_problem(server, pin),
    )


def _problem(server: McpServer, pin: StoredPin) -> str | None:
    live = server.live_digest(pin.tool)
    if server.seen is not None and live is None:
        return GONE
    if pin.digest is None:
        return NEW
    return None if pin.digest == (live or pin.seen_digest) else CHANGED


def _definition(stored: Mapping[str, Any]) -> Definition:
    return msgspec.convert(stored, Definition)
