"""The limits of the asset gateway: each has its unit in its name and its reason below it."""

from __future__ import annotations

from hostler_protocol.limits import KIB, MIB

MAX_MESSAGE_BYTES = 1 * MIB
"""One message of a client. A state value has at most 256 KiB, the arguments of a tool less."""
MAX_SESSIONS = 8
"""Sessions per token. A service opens one per worker; the longest idle one is ended for a new one."""
MAX_CALLS = 16
"""Calls in progress per token."""
MAX_TOOLS_ON_PAGE = 100
SESSION_ID_BYTES = 24
QUICK_SECONDS = 1.0
"""A call that ends within this time is answered as JSON, a slower one as an event stream."""
COMMENT_SECONDS = 15.0
"""After this long without an event a stream gets a comment line, so that proxies keep it open."""
MAX_READ_BYTES = 512 * KIB
"""Bytes of an artifact per read: as base64 they fit into the 1 MiB that MCP clients accept per event."""
