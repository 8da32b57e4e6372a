"""Tamperings with what a watcher of the workspace saw, and with what it should have seen."""

from __future__ import annotations

from simulation.tampering import Tampering, change_note, drop_note, note

WHO = {"watcher": "v0", "conversation": None}
STATUS = '{"run_id": "x", "status": "running"}'

WATCHED = [
    Tampering(
        "watched.judge",
        "watcher v0 saw 1 (run.status) after",
        note("watched", **WHO, cursor=1, type="run.status", text=STATUS),
        "WATCHED",
    ),
    Tampering(
        "watched.judge",
        "watcher v0 waits at 3, and 9 is there",
        note("watch waits", **WHO, cursor=3, last=9),
        "WATCHED",
    ),
    Tampering("watched._compare", "watcher v0 never saw 1, event.received", drop_note("watched"), "WATCHED"),
    Tampering(
        "watched._compare",
        "which no fact holds",
        "DELETE FROM timeline WHERE last_seq = 1",
        "WATCHED",
    ),
    Tampering(
        "watched._compare",
        "watcher v0 saw 1 as",
        change_note("watched", type="run.status", text=STATUS),
        "WATCHED",
    ),
    Tampering(
        "watched._compare",
        "the facts hold",
        "UPDATE journal SET data = json_set(data, '$.data.message.content', 'else')"
        " WHERE type = 'message.completed'",
        "WATCHED",
    ),
]
