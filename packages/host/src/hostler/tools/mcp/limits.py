"""The numbers of MCP servers: every unit in its name, every reason beside it."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB

MAX_TOOLS = 256
"""Of one server; the rest is not offered, and the server's warnings say so."""
MAX_LISTED_TOOLS = 1_000
"""Tools at which the reading of a list stops."""
MAX_LIST_BYTES = 4 * MIB
"""The same for its size."""
MAX_PAGES = 50
"""Pages of one list: a server that always names a next one must not hold us."""
MAX_DESCRIPTION_CHARS = 8_000
"""It goes to models with every request; more is cut, and the digest is of all of it."""
MAX_WARNINGS = 20
"""Sentences about one server's list that are kept."""
MAX_ERROR_CHARS = 4_000
"""Of what a tool says of its own failure."""
MAX_REASON_CHARS = 500
"""Of a server's own words in our sentences."""


@dataclass(frozen=True, slots=True)
class McpLimits:
    """Bounds of one connection to a server."""

    calls: int = 64
    """Calls at once; more wait."""
    messages_per_second: float = 200.0
    """Notifications and questions of the server that are looked at; over it they are dropped, unread."""
    message_burst: int = 1_000
    """How many may come at once."""
    dropped_messages: int = 20_000
    """Dropped within a minute: the server is given up."""
    cancel_seconds: float = 5.0
    """What a connection gets to end in order."""
    idle_seconds: float = 60.0
    """So long without a word: the server is asked whether it is there."""
    probe_seconds: float = 15.0
    """What it gets to answer; then it is given up."""
    list_seconds: float = 30.0
    """To list all tools."""
    relist_seconds: float = 1.0
    """Between two lists that the server's own notices ask for; twice as long after each that is another, up
    to `refresh_seconds`, since each is stored and audited."""
    refresh_seconds: float = 600.0
    """So often the list is read without being asked for: not every server tells of changes."""
    stable_seconds: float = 30.0
    """A connection that lasted so long worked: it is opened again after growing waits."""
    forget_seconds: float = 300.0
    """A connection that lasted so long has forgotten its failures."""
    follow_seconds: float = 15.0
    """So often what was approved is read again: another host on the same database may have been told."""


DEFAULT_MCP_LIMITS = McpLimits()
