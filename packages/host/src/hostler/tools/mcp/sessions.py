"""Open connections with the SDK, over pipes and over HTTP."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client
from msgspec.structs import replace

from hostler.domain.mcp_entry import McpEntry
from hostler.egress import EgressPolicy, Guard
from hostler.tools.mcp.connection import McpConnection
from hostler.tools.mcp.http import McpTransport
from hostler.tools.mcp.port import McpContext, ServerPipes
from hostler.tools.mcp.stdio import over_pipes
from hostler.version import NAME, VERSION

for _name, _level in {"mcp": "CRITICAL", "client": "CRITICAL", "httpx2": "WARNING"}.items():
    # the SDK (one of its loggers is called "client") writes a traceback for each bad message of a server
    logging.getLogger(_name).setLevel(_level)

ROOM_BYTES = 64 * 1024
"""Allowance for the parts of a message around its result."""
SAID_TWICE = 2
"""Factor: most servers send a result twice, as text and as structured content."""
SEND_SECONDS = 30.0
"""Time to send a request, or to wait for a connection."""
HTTP_CALLS = 24
"""Concurrent calls: each uses a connection, and listening needs some too."""
QUIET_SECONDS = 300.0
"""Silence on an event stream after which the network connection is considered dead."""


async def open_pipes(entry: McpEntry, context: McpContext, pipes: ServerPipes) -> McpConnection:
    """Connect to a process that was just started."""
    max_bytes = _message_bytes(entry)
    transport = over_pipes(pipes, max_bytes=max_bytes, close_seconds=context.limits.cancel_seconds / 2)
    return await McpConnection.open(
        entry.name,
        transport,
        context.limits,
        seconds=entry.connect_seconds,
        max_bytes=max_bytes,
        why=pipes.why,
    )


async def open_url(entry: McpEntry, context: McpContext, headers: Mapping[str, str]) -> McpConnection:
    """Connect to the entry's address by streamable HTTP."""
    max_bytes = _message_bytes(entry)
    transport = _over_http(entry, context, headers, max_bytes)
    limits = replace(context.limits, calls=min(context.limits.calls, HTTP_CALLS))
    return await McpConnection.open(
        entry.name, transport, limits, seconds=entry.connect_seconds, max_bytes=max_bytes
    )


def _message_bytes(entry: McpEntry) -> int:
    return SAID_TWICE * entry.result_bytes + ROOM_BYTES


@asynccontextmanager
async def _over_http(
    entry: McpEntry, context: McpContext, headers: Mapping[str, str], max_bytes: int
) -> AsyncIterator[Any]:
    guard = Guard(EgressPolicy.of(entry.network, any_port=True), context.network)
    timeout = httpx2.Timeout(SEND_SECONDS, read=max(QUIET_SECONDS, entry.seconds + 30.0))
    sent = {**headers, "Accept-Encoding": "identity", "User-Agent": f"{NAME}/{VERSION}"}
    client = httpx2.AsyncClient(
        transport=McpTransport(guard, max_bytes=max_bytes),
        headers=sent,
        timeout=timeout,
        trust_env=False,
        follow_redirects=False,
    )
    assert entry.url is not None
    async with (
        client,
        streamable_http_client(entry.url, http_client=client, max_sse_event_size=max_bytes) as streams,
    ):
        yield streams
