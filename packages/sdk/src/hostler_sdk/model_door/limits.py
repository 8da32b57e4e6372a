"""The limits of the model door; each name has the unit."""

from __future__ import annotations

from hostler_protocol.limits import KIB, MIB

MAX_HEAD_BYTES = 32 * KIB
"""Request line and headers; clients send about 1 KiB."""
MAX_BODY_BYTES = 8 * MIB
"""A request's body: a larger one would not fit into one message to the host."""
MAX_CHUNK_LINE_BYTES = 256
"""The line before a chunk of a body."""
MAX_BODY_DEPTH = 100
"""Nesting of a request's JSON: less than the protocol allows, as messages wrap it."""
MAX_CONNECTIONS = 64
"""Open connections of one process; frameworks keep a few per run."""
MAX_REQUESTS = 64
"""Requests of one run in progress."""
BACKLOG = 128
"""Connections that wait to be accepted."""
IDLE_SECONDS = 120.0
"""How long a connection may stay open without a request."""
HEAD_SECONDS = 30.0
"""From a request's first byte to the end of its headers; its client is in the same machine."""
BODY_SECONDS = 60.0
"""For reading a body."""
WRITE_SECONDS = 300.0
"""How long a client may read nothing of an answer."""
MAX_ENDED_KEYS = 10_000
"""Keys of ended runs that are remembered, so that their refusal can say so."""
MAX_REMEMBERED_ANSWERS = 256
"""Answers of one run whose hidden parts are kept, to be sent back to the model's service."""
MAX_REMEMBERED_BYTES = 8 * MIB
"""The same, as JSON."""
MAX_RESPONSES = 256
"""Answers of `/responses` of one run that a later request may continue."""
MAX_RESPONSES_BYTES = 32 * MIB
"""The same, as JSON; pictures and files count."""
MAX_EMBEDDINGS = 2_048
"""Inputs of one request to `/embeddings`, as at OpenAI; the host takes 64 at a time."""
LONG_RETRY_SECONDS = 60.0
"""Clients do not wait longer for another try: they are told not to try again."""
MAX_RPC_ID_CHARS = 256
"""The id of an MCP request, which is repeated in its answer."""
QUICK_SECONDS = 2.0
"""A tool call that is over by then is answered as JSON, a longer one as a stream that shows it goes on."""
COMMENT_SECONDS = 15.0
"""Between two signs of life; clients give up after 30 s or more."""
