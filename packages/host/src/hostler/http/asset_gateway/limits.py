"""Every number of the asset gateway: its unit is in its name, its reason beside it."""

from __future__ import annotations

from hostler_protocol.limits import KIB, MIB

MAX_MESSAGE_BYTES = 1 * MIB
"""One message of a client: a state value has at most 256 KiB, the arguments of a tool less."""
MAX_SESSIONS = 8
"""Of one token. A service opens one for each of its own workers; the longest idle one makes room."""
MAX_CALLS = 16
"""Of one token, at once."""
MAX_ID_CHARS = 128
"""The id of a request, where it is text."""
MAX_TOOLS_ON_PAGE = 100
SESSION_ID_BYTES = 24
QUICK_SECONDS = 1.0
"""A call that is done within this time is answered as plain JSON; later the answer is a stream."""
COMMENT_SECONDS = 15.0
"""A stream that was silent for this long gets a comment line, so that proxies keep it open."""
MAX_READ_BYTES = 512 * KIB
"""Of an artifact, at once: in base64 and quoted it stays under what MCP clients take as one event (1 MiB)."""
