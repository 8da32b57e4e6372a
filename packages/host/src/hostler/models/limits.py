"""The limits of model services; each name has the unit."""

from __future__ import annotations

from hostler_protocol.limits import KIB, MIB

CONNECT_SECONDS = 10.0
"""The most for opening a connection; a service that is up answers within milliseconds."""
CHUNK_SECONDS = 120.0
"""The longest silence within an answer; services that think for longer send keep-alive comments."""
ERROR_BODY_SECONDS = 10.0
"""The most for reading the body of an error; without it, only its status is reported."""
END_OF_STREAM_SECONDS = 0.25
"""After the last event, for the end of the body: a connection that is read to its end can be reused."""
MAX_PIECES_AHEAD = 4
"""Pieces of a body (at most 64 KiB each) that are read ahead of their consumer."""
MAX_CONNECTIONS = 256
"""Open connections to one model: as many as a host's default limit of active runs."""
MAX_ANSWER_BYTES = 4 * MIB
"""Text, reasoning and tool arguments of one answer, which must fit into one protocol message as JSON."""
MAX_PROVIDER_DATA_BYTES = 1 * MIB
"""Fields of one answer that its service may require later: encrypted reasoning takes about 100 KiB."""
MAX_PROVIDER_DATA_DEPTH = 64
"""The nesting of objects and lists in them; services send about five levels."""
MIN_SECRET_CHARS = 16
"""Shorter keys, like placeholders for local services, may occur in a signature by chance."""
MAX_BODY_BYTES = 16 * MIB
"""The body of an answer that is not streamed; rerank services echo the documents."""
MAX_STREAM_BYTES = 256 * MIB
"""All bytes of a streamed answer: framing takes about 300 bytes per token."""
MAX_SSE_EVENT_BYTES = 4 * MIB
"""One server-sent event."""
MAX_BYTES_WITHOUT_EVENT = 8 * MIB
"""What a stream may send before its next event is complete: keep-alive comments take a few bytes a minute."""
MAX_ERROR_BODY_BYTES = 64 * KIB
"""The part of an error's body that is read."""
MAX_ERROR_CHARS = 500
"""The part of a service's error text that is quoted."""
MAX_TOOL_CALLS = 1_024
"""Tool calls of one answer: far more than models make, and few enough to report each."""
MAX_ATTACHMENT_BYTES = 24 * MIB
"""All files of one request, decoded; services refuse larger ones."""
FIRST_BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 8.0
"""The longest pause between two tries, if the service asks for none."""
MAX_RETRY_AFTER_SECONDS = 30.0
"""A service that asks for a longer pause is reported as overloaded at once, so that a fallback can start."""
COUNT_IN_THREAD_CHARS = 64 * KIB
"""Longer text is counted in a thread; this much takes about 2 ms."""
DEMO_START_SECONDS = 60.0
"""The most for loading the demo model: half a second from memory, more from a slow disk."""
DEMO_STOP_SECONDS = 5.0
"""The time between closing the demo model's input and killing it."""
