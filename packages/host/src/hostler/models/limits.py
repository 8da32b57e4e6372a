"""Every number of the model services: its unit is in its name, its reason beside it."""

from __future__ import annotations

from hostler_protocol.limits import KIB, MIB

CONNECT_SECONDS = 10.0
"""To open a connection; a service that is up answers within milliseconds."""
CHUNK_SECONDS = 120.0
"""Silence within an answer that has begun; services that think for long send keep-alive comments."""
ERROR_BODY_SECONDS = 10.0
"""To read what an error says; without it the status has to do."""
END_OF_STREAM_SECONDS = 0.25
"""After the last event, for the end of the body: a connection that is read to its end is used again."""
MAX_PIECES_AHEAD = 4
"""Pieces of a body (64 KiB at most) that are read before somebody takes them."""
MAX_CONNECTIONS = 256
"""Open at once to one model; as many as runs that a host executes at once by default."""
MAX_ANSWER_BYTES = 4 * MIB
"""Text, reasoning and tool arguments of one answer: it has to fit into one protocol message as JSON."""
MAX_PROVIDER_DATA_BYTES = 1 * MIB
"""Fields of one answer that its service may want back: encrypted thinking takes some 100 KiB."""
MAX_PROVIDER_DATA_DEPTH = 64
"""Objects and lists inside one another in them; what services send has about five."""
MIN_SECRET_CHARS = 16
"""Shorter keys, like the placeholders that local services take, may occur in any signature by chance."""
MAX_BODY_BYTES = 16 * MIB
"""The body of an answer that comes whole; rerank services echo the documents."""
MAX_STREAM_BYTES = 256 * MIB
"""All bytes of a streamed answer: framing takes some 300 bytes a token."""
MAX_SSE_EVENT_BYTES = 4 * MIB
"""One server-sent event."""
MAX_ERROR_BODY_BYTES = 64 * KIB
"""What is read of an error's body."""
MAX_ERROR_CHARS = 500
"""What is repeated of a service's own error text."""
MAX_TOOL_CALLS = 1_024
"""Tool calls of one answer: far more than a model means, and few enough to be told of one by one."""
MAX_ATTACHMENT_BYTES = 24 * MIB
"""All files of one request, decoded; services refuse larger ones."""
FIRST_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 8.0
"""Between two tries, where the service names no time of its own."""
MAX_RETRY_AFTER_SECONDS = 30.0
"""A service that asks for a longer pause is reported as overloaded at once, so that a fallback can act."""
COUNT_IN_THREAD_CHARS = 64 * KIB
"""Text over this is counted off the event loop (about 2 ms there)."""
DEMO_START_SECONDS = 60.0
"""Until the demo model is loaded: half a second when its file is in memory, more from a slow disk."""
DEMO_STOP_SECONDS = 5.0
"""From closing the demo model's input to killing it."""
