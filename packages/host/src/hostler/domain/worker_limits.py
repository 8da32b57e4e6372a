"""Limits of the connection between a host and a remote worker, each with its unit and its reason."""

from __future__ import annotations

PROTOCOL = 1
"""Version of the messages in `plugins/remote_workers/wire.py`; a worker of another one is refused."""
BEAT_SECONDS = 15.0
"""Between two heartbeats of a worker."""
STALE_SECONDS = 45.0
"""A worker that was silent for this long is lost: three heartbeats did not come."""
QUIET_SECONDS = 30.0
"""A worker whose heartbeats were not answered for this long ends its plugin processes: well before the host
hands their runs to others, so that no run is worked on in two places."""
MIN_BEAT_SECONDS = 0.05
"""More heartbeats than one in this time, on average, are a flood."""
BEATS_AHEAD = 20
"""Heartbeats that may come at once, after a pause of the network."""
HELLO_SECONDS = 10.0
"""From the open connection to the first message of the worker."""
MAX_MESSAGE_BYTES = 1024 * 1024
"""One control message of a host: the locked requirements of a plugin are the largest part."""
MAX_WORKER_MESSAGE_BYTES = 64 * 1024
"""One control message of a worker."""
CHUNK_BYTES = 64 * 1024
"""Bytes of a stream in one frame, so that streams take turns."""
WINDOW_BYTES = 1024 * 1024
"""Bytes of a stream that may be under way, in each direction, before the receiver has used them."""
MAX_QUEUED_BYTES = 8 * 1024 * 1024
"""Control messages that wait for a peer that does not read; above it the connection is broken off."""
MAX_STREAMS = 256
"""Plugin processes of one worker, those that are ending included."""
MAX_SLOTS = 10_000
"""Runs of one worker at once."""
START_SECONDS = 1_200.0
"""From the order to start a plugin until its process runs: the worker may fetch its archive and build its
environment first, which may take 900 s."""
MAX_REASON_CHARS = 600
MAX_ARCHIVES = 32
"""Archives of plugin folders that a host or a worker keeps; the longest unused ones are removed."""
RETRY_SECONDS = (1.0, 30.0)
"""The shortest and the longest wait of a worker before it connects again."""
REFUSED_SECONDS = 60.0
"""How long a worker that could not start a plugin gets no run of it, while others can: it would have a free
slot at once, and be given the next run."""
