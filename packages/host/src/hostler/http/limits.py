"""Every number of the HTTP state: its unit is in its name, its reason beside it."""

from __future__ import annotations

from hostler_protocol.limits import KIB, MAX_UPLOAD_BYTES, MIB

MAX_BODY_BYTES = 4 * MIB
"""A JSON body. The largest legal event has 1 MiB of text, 1 MiB of base64 and 256 KiB of data."""
MAX_UPLOAD_BODY_BYTES = MAX_UPLOAD_BYTES
"""One artifact, streamed to disk."""
MAX_HEADER_BYTES = 16 * KIB
"""Request line and headers together."""
MAX_QUERY_BYTES = 8 * KIB
MAX_QUERY_FIELDS = 64
MAX_TOKEN_CHARS = 512
"""A bearer token; ours have 47 characters, an operator's admin key may be any string."""
HEADER_SECONDS = 15.0
"""From the connection's first moment, or the first byte of a later request, to the end of its headers."""
KEEP_ALIVE_SECONDS = 30.0
"""An idle connection between two requests."""
BODY_IDLE_SECONDS = 30.0
"""Between two pieces of a request body."""
JSON_BODY_SECONDS = 60.0
"""A whole JSON body: a client that drips bytes is cut off here."""
MAX_WAIT_SECONDS = 300.0
"""`?wait=`: more is capped; most proxies give up long before."""
MAX_CORKED_BYTES = 64 * KIB
"""What is written to a connection within one turn of the loop, before it goes out."""
MAX_CONNECTIONS = 10_000
"""Open connections of the process; further ones are answered 503."""

STREAM_PACE_SECONDS = 0.025
"""Writes of one event stream are at least this far apart; what arrives meanwhile goes out together."""
STREAM_COMMENT_SECONDS = 15.0
"""A stream that was silent for this long gets a comment line, so that proxies keep it open."""
STREAM_STUCK_SECONDS = 60.0
"""A reader that takes nothing for this long is cut off; it may resume with Last-Event-ID."""
STREAM_FINISH_SECONDS = 1.0
"""At a stop, what open streams have to write the last results of runs that just ended."""
STREAM_WRITE_BYTES = 64 * KIB
"""Roughly one write to a stream: what one slow reader can hold beside its cursor."""


KEY_CACHE_SECONDS = 5.0
"""How long a key found in the database is believed. Revoking here forgets it at once; a revocation
by another host counts after this time."""
MAX_CACHED_KEYS = 10_000
MAX_RATE_BUCKETS = 10_000
"""Keys and addresses whose rate is remembered; the longest unused is forgotten first."""
FAILED_AUTH_PER_SECOND = 5.0
FAILED_AUTH_BURST = 50.0
"""Failed authentications of one address before its unknown keys are no longer looked up."""

MAX_STORED_ANSWER_BYTES = 1 * MIB
"""An answer kept for a repeated Idempotency-Key."""
MAX_IDEMPOTENCY_KEY_CHARS = 255
MAX_LOG_TAIL_LINES = 1_000
MAX_LOG_TAIL_BYTES = 1 * MIB
CONVERSATION_SCAN_ROWS = 2_000
"""Rows looked at for one step of the list of conversations."""
CONVERSATION_SCAN_STEPS = 10
SHUTDOWN_SECONDS = 5.0
"""From the end of the runs' grace to the end of the last connection."""
DOWNLOAD_CHUNK_BYTES = 256 * KIB
"""One piece of an artifact on its way out."""
DRAIN_BYTES = 8 * MIB
DRAIN_SECONDS = 2.0
"""Of a body that was refused unread: this much and this long it is read and dropped before the answer."""
READY_SECONDS = 5.0
"""How long `/readyz` waits for the database."""
