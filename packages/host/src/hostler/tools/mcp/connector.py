"""Connect to a configured server: load the SDK, resolve secrets, start the command if there is one."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING

from hostler.domain.mcp_entry import McpEntry
from hostler.tools.mcp.port import McpContext
from hostler_protocol.errors import InvalidArgumentError, PluginStartError

if TYPE_CHECKING:
    from hostler.tools.mcp.connection import McpConnection


SDK_MODULES = frozenset({"mcp", "mcp_types", "httpx2", "httpcore2", "anyio", "pydantic"})


async def connect(entry: McpEntry, context: McpContext) -> McpConnection:
    """Return a connection after its handshake. HostlerError with the reason."""
    await _load_sdk()
    from hostler.tools.mcp import sessions  # noqa: PLC0415  loaded by now: it takes a second

    try:
        resolve, user = context.resolve, f"tool {entry.owner}"
        environment = {name: resolve(value, user) or "" for name, value in entry.environment.items()}
        headers = {name: resolve(value, user) or "" for name, value in entry.headers.items()}
        if entry.token is not None:
            headers["Authorization"] = f"Bearer {resolve(entry.token, user)}"
    except InvalidArgumentError as error:
        raise PluginStartError(error.message) from error
    if entry.url is not None:
        return await sessions.open_url(entry, context, headers)
    pipes = await context.processes.start(entry, environment)
    try:
        return await sessions.open_pipes(entry, context, pipes)
    except BaseException:
        await pipes.close(0)
        raise


async def _load_sdk() -> None:
    """Import the SDK in a thread, since that takes a second. PluginStartError if it is not installed."""
    try:
        await asyncio.to_thread(importlib.import_module, "hostler.tools.mcp.sessions")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in SDK_MODULES:
            raise
        raise PluginStartError(
            "MCP servers need the official SDK, which is not installed: pip install 'hostler[mcp]'",
            lasting=True,
        ) from error
