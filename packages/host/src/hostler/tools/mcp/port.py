"""The services that the MCP client needs: processes, stored pins and name resolution."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol

import msgspec

from hostler.domain.mcp_entry import McpEntry
from hostler.domain.record import Record
from hostler.domain.tool_pins import ListedTool, StoredPin
from hostler.egress import Network
from hostler.secrets.stored import Resolve, StoredSecrets
from hostler.tools.mcp.limits import DEFAULT_MCP_LIMITS, McpLimits


class ServerPipes(Protocol):
    """A running server process. Its stderr goes to a bounded log of its own."""

    async def read(self) -> bytes:
        """Return bytes that the server has written; wait for some; b"" at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Write all data; wait while the server does not read. OSError if it has ended."""
        ...

    async def why(self) -> str:
        """Return why the server ended, with its last output; wait, within a bound, until that is known."""
        ...

    async def close(self, seconds: float) -> None:
        """Close its stdin, wait `seconds` for it to end, then kill it and its child processes."""
        ...


class ServerProcesses(Protocol):
    """Starts the commands of servers, in a sandbox unless the entry has level `trusted`."""

    async def start(self, entry: McpEntry, environment: Mapping[str, str]) -> ServerPipes:
        """Start a server. `environment`: the entry's, with resolved secrets. HostlerError."""
        ...


class PinStore(Protocol):
    """The stored pins of servers' tools: last seen, and approved by the operator."""

    async def known(self, owner: str) -> Mapping[str, StoredPin]:
        """Return an owner's pins by the server's tool names."""
        ...

    async def see(self, owner: str, seen: Mapping[str, ListedTool]) -> Mapping[str, StoredPin]:
        """Record a new list and return all pins."""
        ...

    async def approve(self, owner: str, tool: str, digest: str, actor: str) -> bool:
        """Approve a tool as last seen. Returns False if its digest is another."""
        ...

    async def refused(self, owner: str, tool: str, digest: str, reason: str) -> None:
        """Record a refused call in the audit log."""
        ...


class WorkerStarter(Protocol):
    """The supervisor of the host's background work: `host.workers.Workers`."""

    def start(self, name: str, work: Callable[[Callable[[], None]], Coroutine[Any, Any, None]]) -> None:
        """Start a worker; it is logged, counted and started again if it raises. ValueError: name in use."""
        ...

    def end(self, name: str, seconds: float) -> Awaitable[None]:
        """Cancel a worker, if there is one. The result waits until it has ended, at most `seconds`."""
        ...


class McpContext(Record):
    """Services shared by all servers of one host."""

    processes: ServerProcesses
    pins: PinStore
    workers: WorkerStarter
    limits: McpLimits = DEFAULT_MCP_LIMITS
    network: Network | None = None
    """For servers at an address; None: the machine's."""
    resolve: Resolve = msgspec.field(default_factory=lambda: StoredSecrets().resolve)
    """Returns the secret for a reference, and notes its user."""
