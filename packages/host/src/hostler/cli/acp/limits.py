"""The numbers of `hostler acp`, with their reasons."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

MAX_LINE_BYTES = 32 * MIB
"""One message of the editor: a prompt with a few photographs in base64."""
MAX_OPEN_REQUESTS = 256
"""Requests of the editor that are being answered; more are refused. Editors have a few."""
MAX_SESSIONS = 256
"""Open sessions of one editor. One that is idle makes room for a new one."""
MAX_INLINE_BYTES = 160 * KIB
"""A file of a prompt that goes into the event itself; a larger one is uploaded. In base64 it stays below the
256 KiB over which the host would make an artifact of it."""
MAX_INLINE_TOTAL_BYTES = 640 * KIB
"""All these of one prompt: an event takes 1 MiB of base64."""
MAX_EMBEDDED_TEXT_CHARS = 64 * KIB
"""A text that the editor embeds and that becomes part of the message; a longer one becomes a file."""
MAX_FETCHED_BYTES = 4 * MIB
"""A picture of the run that is sent to the editor as it is; of a larger one it gets the address."""
MAX_SHOWN_TEXT_BYTES = 64 * KIB
"""A text file of the run that is sent to the editor as it is."""
MAX_SHOWN_CHARS = 100_000
"""Text of a tool's result that is shown; the whole result is in the run's journal."""
MAX_TITLE_CHARS = 80
LOOK_SECONDS = 1.0
"""Between two looks whether a call that the editor is asked about was decided elsewhere."""
PATIENCE_SECONDS = 60.0
"""How long to repeat a request while the host cannot be reached: a host that restarts is back by then."""
RETRY_SECONDS = 0.2
MAX_LOADED_ITEMS = 2_000
"""Messages of a conversation that are repeated when its session is loaded, the newest ones."""
MAX_LOADED_RUNS = 200
"""Runs of a conversation whose tool calls are repeated when its session is loaded, the newest ones."""
LOAD_SECONDS = 30.0
"""How long loading waits for what an active run has written so far; the rest is shown as it comes."""
SESSIONS_PER_PAGE = 20
MAX_RUNS_PER_PAGE = 500
"""Runs that are looked through for one page of sessions; a page may be short."""
MAX_AGENTS = 200
"""Agents that an editor can choose from."""
MAX_READ_BYTES = 640 * KIB
"""Text of one call that reads a file of the editor: a client's result has at most 1 MiB as JSON."""
MAX_OUTPUT_BYTES = 256 * KIB
"""Output of a command in the editor's terminal that is kept: its end."""
COMMAND_SECONDS = 120.0
MAX_COMMAND_SECONDS = 3_600.0
"""How long a command in the editor's terminal may take: by default, and at most."""
STOP_SECONDS = 5.0
"""How long to wait for tasks to end, once the editor is gone."""
