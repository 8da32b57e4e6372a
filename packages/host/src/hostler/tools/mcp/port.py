"""What the MCP client needs from outside: processes, names looked up, and a memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from hostler.domain.mcp_entry import McpEntry
from hostler.domain.tool_pins import ListedTool, StoredPin
from hostler.egress import Resolver
from hostler.tools.mcp.limits import DEFAULT_MCP_LIMITS, McpLimits


class ServerPipes(Protocol):
    """A running server process. Its errors go to a log of its own, bounded."""

    async def read(self) -> bytes:
        """What the server has written by now; waits for it; nothing at its end."""
        ...

    async def write(self, data: bytes) -> None:
        """Write all of it; waits where the server does not read. OSError where it is gone."""
        ...

    async def why(self) -> str:
        """Why the server ended, with its last words; waits, bounded, until that is known."""
        ...

    async def close(self, seconds: float) -> None:
        """End its input, give it so long to end by itself, then kill it with all it started."""
        ...


class ServerProcesses(Protocol):
    """Starts the commands of servers, in a sandbox where the entry does not say otherwise."""

    async def start(self, entry: McpEntry, environment: Mapping[str, str]) -> ServerPipes:
        """`environment`: what the entry says, secrets filled in. HostlerError where it cannot be started."""
        ...


class PinStore(Protocol):
    """What the operator has approved of the tools of servers."""

    async def known(self, owner: str) -> Mapping[str, StoredPin]:
        """By the server's own tool names."""
        ...

    async def see(self, owner: str, seen: Mapping[str, ListedTool]) -> Mapping[str, StoredPin]:
        """Take a new list; all that is known then."""
        ...

    async def approve(self, owner: str, tool: str, digest: str, actor: str) -> bool:
        """Approve a tool as it was last seen. False: not the one with this digest."""
        ...

    async def refused(self, owner: str, tool: str, digest: str, reason: str) -> None:
        """A call was refused."""
        ...


@dataclass(frozen=True, slots=True)
class McpContext:
    """What all servers of one host share."""

    processes: ServerProcesses
    pins: PinStore
    limits: McpLimits = DEFAULT_MCP_LIMITS
    resolver: Resolver | None = None
    """How names of servers are looked up; None: as the machine does."""
