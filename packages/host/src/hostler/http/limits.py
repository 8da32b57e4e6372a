"""The limits of the HTTP API: each has its unit in its name and its reason below it."""

from __future__ import annotations

from hostler_protocol.limits import KIB, MAX_UPLOAD_BYTES, MIB

MAX_BODY_BYTES = 4 * MIB
"""A JSON body. The largest legal event has 1 MiB of text, 1 MiB of base64 and 256 KiB of data."""
MAX_BODY_MISTAKES = 100
"""Mistakes in one body that are looked for: each takes a comparison with all keys that would be right."""
MAX_BODY_LOOKS = 20_000
"""Values of a wrong body that are looked at for more mistakes than the first: a tenth of a second."""
MAX_MISTAKE_CHARS = 1_000
"""Of what is said about one mistake: keys may have megabytes."""
MAX_UPLOAD_BODY_BYTES = MAX_UPLOAD_BYTES
"""One artifact, streamed to disk."""
MAX_HEADER_BYTES = 16 * KIB
"""Request line and headers together."""
MAX_QUERY_BYTES = 8 * KIB
MAX_QUERY_FIELDS = 64
MAX_TOKEN_CHARS = 512
"""A bearer token; ours have 47 characters, an operator's admin key may be any string."""
HEADER_SECONDS = 15.0
"""From the start of the connection, or the first byte of a later request, to the end of its headers."""
KEEP_ALIVE_SECONDS = 30.0
"""An idle connection between two requests."""
BODY_IDLE_SECONDS = 30.0
"""Between two chunks of a request body."""
JSON_BODY_SECONDS = 60.0
"""A whole JSON body: a client that drips bytes is cut off here."""
MAX_WAIT_SECONDS = 300.0
"""`?wait=`: more is capped; most proxies give up long before."""
MAX_CORKED_BYTES = 64 * KIB
"""Bytes buffered for a connection within one turn of the event loop; more is written at once."""
MAX_CONNECTIONS = 10_000
"""Open connections of the process, if it may have so many open files; further ones get 503."""

STREAM_PACE_SECONDS = 0.025
"""Writes of one event stream are at least this far apart; results that arrive meanwhile are sent together."""
STREAM_COMMENT_SECONDS = 15.0
"""After this long without an event a stream gets a comment line, so that proxies keep it open."""
STREAM_QUIET_SECONDS = 0.5
"""An answer ends this long after its run asked the client for something: calls made with it may follow."""
STREAM_STUCK_SECONDS = 60.0
"""A reader that accepts no bytes for this long is disconnected; it may resume with Last-Event-ID."""
STREAM_FINISH_SECONDS = 1.0
"""Time that open streams get at a stop to write the last results of runs that just ended."""
STREAM_WRITE_BYTES = 64 * KIB
"""About the size of one write to a stream: the memory that one slow reader takes."""

MAX_SUBSCRIPTIONS = 100
"""Of one WebSocket. Each has a task and at most one batch of events in memory."""

KEY_CACHE_SECONDS = 5.0
"""How long a key is cached: a revocation on another host takes effect after this time, one here at once."""
MAX_CACHED_KEYS = 10_000
MAX_RATE_BUCKETS = 10_000
"""Keys and addresses whose rate is tracked; the least recently used one is dropped first."""
TOKEN_REQUESTS_PER_SECOND = 20.0
TOKEN_BURST = 100.0
"""Of one front-end token: a page that loads, with its files. They count for the key that made it, too."""
CORS_CACHE_SECONDS = 5.0
"""How long it is cached that tokens name an origin; that none does is cached for CORS_UNKNOWN_SECONDS."""
CORS_UNKNOWN_SECONDS = 1.0
MAX_CACHED_ORIGINS = 1_000
ORIGIN_LOOKUPS_PER_SECOND = 20.0
ORIGIN_LOOKUP_BURST = 100.0
"""Lookups of unknown origins for one address; beyond them an origin counts as not allowed."""
MAX_CORS_HEADERS = 64
"""Headers that one preflight may ask for; the OpenAI SDK asks for 15."""
FAILED_AUTH_PER_SECOND = 5.0
FAILED_AUTH_BURST = 50.0
"""Failed authentications of one address; beyond them its unknown keys are looked up one at a time."""

SIGN_INS_PER_SECOND = 0.2
SIGN_IN_BURST = 30.0
"""Sign-ins that are begun or finished from one address: a company may be behind it."""
SIGN_IN_SECONDS = 600.0
"""How long a person may take to sign in with the identity provider."""

MAX_STORED_ANSWER_BYTES = 1 * MIB
"""A response stored for a repeated Idempotency-Key."""
MAX_IDEMPOTENCY_KEY_CHARS = 255
MAX_LOG_TAIL_LINES = 1_000
MAX_LOG_TAIL_BYTES = 1 * MIB
CONVERSATION_SCAN_ROWS = 2_000
"""Rows read in one step of the list of conversations."""
CONVERSATION_SCAN_STEPS = 10
SHUTDOWN_SECONDS = 5.0
"""From the end of the grace time of runs to the end of the last connection."""
DOWNLOAD_CHUNK_BYTES = 256 * KIB
"""One chunk of an artifact that is downloaded."""
DRAIN_BYTES = 8 * MIB
DRAIN_SECONDS = 2.0
"""How much of a refused body is read and dropped, and for how long, before the response."""
READY_SECONDS = 5.0
"""How long `/readyz` waits for the database."""
