"""From a server's entry to a connection: secrets filled in, its process or its address, the SDK loaded."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from hostler.domain.mcp_entry import McpEntry
from hostler.secrets.resolver import resolve_secret
from hostler.tools.mcp.port import McpContext, ServerPipes
from hostler_protocol.errors import InvalidArgumentError, PluginStartError

if TYPE_CHECKING:
    from hostler.tools.mcp.connection import McpConnection


SDK_MODULES = frozenset({"mcp", "mcp_types", "httpx2", "httpcore2", "anyio", "pydantic"})


class _Opening(Protocol):
    """The module `opening`."""

    async def open_url(
        self, entry: McpEntry, around: McpContext, headers: Mapping[str, str]
    ) -> McpConnection: ...

    async def open_pipes(self, entry: McpEntry, around: McpContext, pipes: ServerPipes) -> McpConnection: ...


async def connect(entry: McpEntry, around: McpContext) -> McpConnection:
    """A connection whose handshake is done. HostlerError with the reason."""
    opening = await _sdk()
    try:
        environment = {name: resolve_secret(value) or "" for name, value in entry.environment.items()}
        headers = {name: resolve_secret(value) or "" for name, value in entry.headers.items()}
        if entry.token is not None:
            headers["Authorization"] = f"Bearer {resolve_secret(entry.token)}"
    except InvalidArgumentError as error:
        raise PluginStartError(error.message) from error
    if entry.url is not None:
        return await opening.open_url(entry, around, headers)
    pipes = await around.processes.start(entry, environment)
    try:
        return await opening.open_pipes(entry, around, pipes)
    except BaseException:
        await pipes.close(0)
        raise


async def _sdk() -> _Opening:
    """The module that speaks with the SDK, imported beside the loop: it takes a second."""
    try:
        module: Any = await asyncio.to_thread(importlib.import_module, "hostler.tools.mcp.sessions")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in SDK_MODULES:
            raise
        raise PluginStartError(
            "MCP servers need the official SDK, which is not installed: pip install 'hostler[mcp]'",
            lasting=True,
        ) from error
    opening: _Opening = module
    return opening
