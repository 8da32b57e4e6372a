"""The tools of all MCP servers of a host, named `<server>.<tool>`: as a `ToolSource`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from hostler.domain.mcp_entry import McpEntry, check_mcp_entry
from hostler.domain.record import Record
from hostler.domain.tool_entries import ToolEntry
from hostler.domain.tool_pins import StoredPin, ToolPin
from hostler.egress import EgressPolicy
from hostler.tools.errors import ToolChangedError
from hostler.tools.mcp.definitions import Definition
from hostler.tools.mcp.port import McpContext
from hostler.tools.mcp.results import check_output, check_size, result_of
from hostler.tools.mcp.server import McpServer, McpServerStatus
from hostler.tools.port import Found, OfferedTool, ToolInvocation
from hostler.tools.schema import ToolSchema, check_off_loop
from hostler_protocol.errors import ConflictError, DeadlineExceededError, InvalidArgumentError, NotFoundError
from hostler_protocol.grants import ToolResource

CHANGED = "its server changed what it says of it; `hostler tools approve` shows the change, and approves it"
NEW = "its server did not have it at first; `hostler tools approve` shows it, and approves it"
GONE = "its server does not list it any more"
KEPT_OUTPUTS = 256
"""Compiled output schemas that are cached."""


class ToolWaiting(Record):
    """A tool that waits for approval: as approved before (None: never), and as it is now."""

    name: str
    digest: str
    """Digest of `now`, which the approval must name."""
    approved: Definition | None
    now: Definition


class McpTools:
    """The MCP servers of one workspace, which alone is offered their tools. Also the `ToolKind` of `mcp`."""

    id_prefix = "mcp:"

    def __init__(self, workspace_id: str, context: McpContext, *, running: bool = True) -> None:
        self._workspace = workspace_id
        self._context = context
        self._running = running
        self._servers: dict[str, McpServer] = {}
        self._configured = 0
        self._read_at: tuple[int, ...] = ()
        self._revision = 0
        self._offered: dict[str, OfferedTool] = {}
        self._outputs: dict[str, ToolSchema] = {}

    # -- configuration ----------------------------------------------------------------------------

    def check(self, entries: Sequence[ToolEntry]) -> None:
        """Check the entries. InvalidArgumentError."""
        for entry in _own(entries):
            check_mcp_entry(entry)
            if entry.url is not None:
                _check_network(entry)

    async def configure(self, entries: Sequence[ToolEntry]) -> None:
        """Run exactly these servers; those whose entry did not change stay connected."""
        wanted = {entry.name: entry for entry in _own(entries)}
        removed = [server for name, server in self._servers.items() if wanted.get(name) != server.entry]
        kept = {name: server for name, server in self._servers.items() if server not in removed}
        fresh = {name: McpServer(entry, self._context) for name, entry in wanted.items() if name not in kept}
        for server in fresh.values():
            await server.load()
        closing = [server.close() for server in removed]
        self._servers = {**kept, **fresh}
        self._configured += 1
        await asyncio.gather(*closing)
        if self._running:
            for server in fresh.values():
                server.start()

    def renew(self, references: Collection[str]) -> None:
        """Connect the servers anew whose entries have one of these references to secrets."""
        for server in self._servers.values():
            entry = server.entry
            used = {entry.token, *entry.environment.values(), *entry.headers.values()}
            if not used.isdisjoint(references):
                server.renew()

    def reconnect(self, workspace_id: str, name: str) -> None:
        """Connect a server anew, with calls at work ending first. NotFoundError."""
        server = self._servers.get(name) if workspace_id == self._workspace else None
        if server is None:
            raise NotFoundError(f"there is no MCP server {name!r}")
        server.reconnect()

    async def wait_for_lists(self, seconds: float) -> None:
        """Wait at most `seconds` for servers without any known tool, which agents would otherwise miss."""
        fresh = [asyncio.ensure_future(one.attempted()) for one in self._servers.values() if not one.pins]
        if fresh and self._running:
            await asyncio.wait(fresh, timeout=seconds)
        for waiting in fresh:
            waiting.cancel()

    async def close(self) -> None:
        """End all connections and processes."""
        await asyncio.gather(*[server.close() for server in self._servers.values()])

    # -- offered tools ----------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """Incremented with each change of the offered tools."""
        seen = (self._configured, *(server.revision for server in self._servers.values()))
        if seen != self._read_at:
            self._read_at = seen
            self._revision += 1
            found = [tool for server in self._servers.values() for tool in _tools(server)]
            self._offered = {tool.pin.tool_id: tool for tool in found}
        return self._revision

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """Return every tool of every server, by id; those that wait for approval have a problem."""
        return self._offered if self.revision >= 0 else {}

    def servers(self, workspace_id: str) -> list[McpServerStatus]:
        """Return the status of each server, sorted by name."""
        if workspace_id != self._workspace:
            return []
        return [self._servers[name].status() for name in sorted(self._servers)]

    def waiting(self, workspace_id: str, tool_name: str) -> ToolWaiting | None:
        """Return the change of a tool that waits for approval, or None. NotFoundError."""
        pin = self._find(workspace_id, tool_name)[1]
        if pin.state == "approved":
            return None
        approved = None if pin.definition is None else _definition(pin.definition)
        return ToolWaiting(tool_name, pin.seen_digest, approved, _definition(pin.seen_definition))

    async def approve(self, workspace_id: str, tool_name: str, digest: str, actor: str) -> None:
        """Approve a tool as it is now. ConflictError if it has changed since, or needs no approval."""
        server, pin = self._find(workspace_id, tool_name)
        if pin.state == "approved":
            raise ConflictError(f"tool {tool_name!r} is approved as it is: there is nothing to approve")
        if not await self._context.pins.approve(server.entry.owner, pin.tool, digest, actor):
            raise ConflictError(f"tool {tool_name!r} has changed since it was looked at: look at it again")
        await server.load()

    def _find(self, workspace_id: str, tool_name: str) -> tuple[McpServer, StoredPin]:
        server_name, _, tool = tool_name.partition(".")
        server = self._servers.get(server_name) if workspace_id == self._workspace else None
        pin = None if server is None else server.pins.get(tool)
        if server is None or pin is None:
            raise NotFoundError(f"there is no tool {tool_name!r} of an MCP server")
        return server, pin

    # -- calls ------------------------------------------------------------------------------------

    async def call(self, invocation: ToolInvocation) -> Any:
        """Call the tool. See `ToolSource.call`."""
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
        """Validate a result here, not with those of all tools: the schema covers only structured content."""
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
        await check_off_loop(result, partial(check_output, server.entry.owner, tool, schema, result))

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """InvalidArgumentError: an MCP server cannot be asked for the outcome of a call."""
        raise InvalidArgumentError(f"tool {invocation.tool_name!r} can't tell what came of a call")

    def _server_of(self, invocation: ToolInvocation) -> tuple[McpServer, str]:
        owner, _, tool = invocation.pin.tool_id.partition("#")
        server = self._servers.get(owner.removeprefix(self.id_prefix))
        if server is None:
            raise ToolChangedError(f"tool {invocation.tool_name!r} is gone: its server is not configured now")
        return server, tool

    async def _check_unchanged(self, server: McpServer, tool: str, invocation: ToolInvocation) -> None:
        """Check that the tool is the approved and granted one. ToolChangedError, which is audited."""
        offered = self.offered(invocation.workspace_id).get(invocation.pin.tool_id)
        problem = None if offered is None else offered.problem
        if offered is not None and problem is None and offered.pin == invocation.pin:
            return
        reason = problem or "it is no longer the one that this run was given"
        digest = server.live_digest(tool) or ""
        await self._context.pins.refused(server.entry.owner, tool, digest, reason)
        raise ToolChangedError(f"tool {invocation.tool_name!r} is not called: {reason}")


def _check_network(entry: McpEntry) -> None:
    try:
        EgressPolicy.of(entry.network)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"tools: mcp {entry.name!r}: network: {error.message}", field="network"
        ) from None


def _own(entries: Sequence[ToolEntry]) -> list[McpEntry]:
    return [entry.mcp for entry in entries if entry.mcp is not None]


def _tools(server: McpServer) -> list[OfferedTool]:
    return [_offer(server, pin) for pin in server.pins.values() if server.entry.allows(pin.tool)]


def _offer(server: McpServer, pin: StoredPin) -> OfferedTool:
    """Return a tool as approved; one that was never approved, as last seen."""
    entry = server.entry
    definition = _definition(pin.seen_definition if pin.definition is None else pin.definition)
    effect = entry.effect_of(pin.tool, read_only=definition.read_only, idempotent=definition.idempotent)
    return OfferedTool(
        resource=ToolResource(
            tool_name=f"{entry.name}.{pin.tool}",
            tool_type="mcp",
            description=definition.model_description,
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
