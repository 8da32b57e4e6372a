"""Limits for MCP servers."""

from __future__ import annotations

from hostler.domain.record import Record

KIB = 1024
MIB = 1024 * KIB

MAX_TOOLS = 256
"""Tools of one server that are offered; the server's warnings mention the rest."""
MAX_LISTED_TOOLS = 1_000
"""Reading a list stops after this many tools."""
MAX_LIST_BYTES = 4 * MIB
"""Reading a list stops after this size."""
MAX_PAGES = 50
"""Pages of one list: a server may name a next page forever."""
MAX_DESCRIPTION_CHARS = 8_000
"""Models get it with every request; more is cut, but the digest covers all of it."""
MAX_WARNINGS = 20
"""Warnings kept about one server's list."""
MAX_ERROR_CHARS = 4_000
"""A tool's description of its failure."""
MAX_REASON_CHARS = 500
"""Text of a server that is quoted in messages of the host."""


class McpLimits(Record):
    """Limits of one connection to a server."""

    calls: int = 64
    """Concurrent calls; further ones wait."""
    messages_per_second: float = 200.0
    """Unsolicited messages that are accepted; those over the rate are dropped, unread."""
    message_burst: int = 1_000
    """Messages accepted at once."""
    dropped_messages: int = 20_000
    """Dropped messages within a minute after which the connection is ended."""
    cancel_seconds: float = 5.0
    """Time for a connection to close in order."""
    idle_seconds: float = 60.0
    """Silence after which the server is probed."""
    probe_seconds: float = 15.0
    """Time to answer a probe; after it the connection is ended."""
    list_seconds: float = 30.0
    """Time to list all tools."""
    relist_seconds: float = 1.0
    """Minimum time between two lists read after notifications; doubled after each change, up to
    `refresh_seconds`, since each change is stored and audited."""
    refresh_seconds: float = 600.0
    """Time after which the list is read again: not every server notifies of changes."""
    stable_seconds: float = 30.0
    """After a connection that lasted this long, the breaker stays closed and waits only grow."""
    forget_seconds: float = 300.0
    """After a connection that lasted this long, earlier failures are forgotten."""
    follow_seconds: float = 15.0
    """Interval at which approvals are read again: another host on the same database may have stored some."""


DEFAULT_MCP_LIMITS = McpLimits()
