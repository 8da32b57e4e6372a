"""Opening connections with the SDK, over pipes and over HTTP."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

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
"""What a message has around the result that counts."""
SAID_TWICE = 2
"""A result comes as text and as structured content from most servers: so much more a message may have."""
SEND_SECONDS = 30.0
"""To send a request, or wait for a connection to send it on."""
HTTP_CALLS = 24
"""Calls at once: each has a connection of its own, and some are needed to listen."""
QUIET_SECONDS = 300.0
"""Without a byte on a stream of events: the connection of the network is taken for dead."""


async def open_pipes(entry: McpEntry, around: McpContext, pipes: ServerPipes) -> McpConnection:
    """Speak with a process that has just been started."""
    max_bytes = _message_bytes(entry)
    transport = over_pipes(pipes, max_bytes=max_bytes, close_seconds=around.limits.cancel_seconds / 2)
    return await McpConnection.open(
        entry.name,
        transport,
        around.limits,
        seconds=entry.connect_seconds,
        max_bytes=max_bytes,
        why=pipes.why,
    )


async def open_url(entry: McpEntry, around: McpContext, headers: Mapping[str, str]) -> McpConnection:
    """Speak streamable HTTP with the entry's address."""
    max_bytes = _message_bytes(entry)
    transport = _over_http(entry, around, headers, max_bytes)
    limits = replace(around.limits, calls=min(around.limits.calls, HTTP_CALLS))
    return await McpConnection.open(
        entry.name, transport, limits, seconds=entry.connect_seconds, max_bytes=max_bytes
    )


def _message_bytes(entry: McpEntry) -> int:
    return SAID_TWICE * entry.result_bytes + ROOM_BYTES


@asynccontextmanager
async def _over_http(
    entry: McpEntry, around: McpContext, headers: Mapping[str, str], max_bytes: int
) -> AsyncIterator[Any]:
    guard = Guard(EgressPolicy.of(entry.network, any_port=True), around.resolver)
    timeout = httpx2.Timeout(SEND_SECONDS, read=max(QUIET_SECONDS, entry.seconds + 30.0))
    said = {**headers, "Accept-Encoding": "identity", "User-Agent": f"{NAME}/{VERSION}"}
    client = httpx2.AsyncClient(
        transport=McpTransport(guard, max_bytes=max_bytes),
        headers=said,
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
