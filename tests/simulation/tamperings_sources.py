"""Tamperings with what hooks took, what schedules fired, and what was said in chats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from simulation.life import Life
from simulation.tampering import Change, Tampering, change_note, note

HOOKED = "source = 'webhook'"
CHATTED = "source = 'platform'"
FIRED = "event_type = 'schedule.triggered' AND json_extract(body, '$.data.schedule.name') = 'often'"

REMINDED = "event_type = 'schedule.triggered' AND json_extract(body, '$.data.schedule.name') = 'm0'"


def another(where: str, body: str = "body") -> Change:
    """Let the first event of a kind be stored once more, under another id."""

    def change(life: Life) -> None:
        instead = {"event_id": "event_id || '-2'", "seq": "seq + 1000", "body": body}
        names = [name for _, name, *_ in life.rows("PRAGMA table_info(events)")]
        values = ", ".join(instead.get(name, name) for name in names)
        life.rows(
            f"INSERT INTO events ({', '.join(names)}) SELECT {values} FROM events"
            f" WHERE {where} ORDER BY seq LIMIT 1"
        )

    return change


def said(number: int, times: int = 1, **changes: object) -> Callable[[Life], object]:
    """Let something have arrived on the platform otherwise, or not, or more often."""

    def change(life: Life) -> None:
        life.outside.square = square = replace(life.outside.square, said=list(life.outside.square.said))
        square.said[number : number + 1] = [replace(square.said[number], **changes)] * times  # type: ignore[arg-type]

    return change


def _swapped(life: Life) -> None:
    """Let two messages of a chat have arrived the other way round."""
    first, second = life.outside.square.said[:2]
    said(0, at=second.at)(life)
    said(1, at=first.at)(life)


def body_set(where: str, place: str, value: str) -> str:
    """Let events of a kind say something else."""
    return f"UPDATE events SET body = json_set(body, '$.{place}', {value}) WHERE {where}"


SOURCES = [
    Tampering(
        "hooks._refused", "which its sender did not sign", change_note("hook took", known=False), "SOURCES"
    ),
    Tampering(
        "hooks._refused", "which its sender signed", change_note("hook refused", known=True), "SOURCES"
    ),
    Tampering(
        "hooks._refused",
        "answered ring1 with",
        note("hook answered with an error", id="ring1", code="x"),
        "SOURCES",
    ),
    Tampering("hooks._taken", "ring1 became the events", change_note("hook took", event_id="e"), "SOURCES"),
    Tampering("hooks._taken", "became one event", change_note("hook took", id="ring9"), "SOURCES"),
    Tampering("hooks._taken", "with the outcome odd", change_note("hook took", outcome="odd"), "SOURCES"),
    Tampering("hooks._stored", "which is gone", change_note("hook took", event_id="e"), "SOURCES"),
    Tampering("hooks._stored", "is stored as", another(HOOKED), "SOURCES"),
    Tampering(
        "hooks._stored",
        "is stored, and nobody sent it",
        another(HOOKED, "json_set(body, '$.input.text', 'x')"),
        "SOURCES",
    ),
    Tampering(
        "hooks._stored",
        "was sent as",
        body_set(HOOKED, "input.text", "'x'"),
        "SOURCES",
    ),
    Tampering(
        "hooks._stored",
        "went to clock",
        "UPDATE runs SET agent_name = 'clock' WHERE event_id IN (SELECT event_id FROM events WHERE "
        f"{HOOKED})",
        "SOURCES",
    ),
    Tampering("schedules._planned", "fired 2 times", another(FIRED), "SOURCES"),
    Tampering(
        "schedules._planned",
        "which is not planned",
        body_set(FIRED, "data.schedule.planned_at", "1790000003.5"),
        "SOURCES",
    ),
    Tampering("schedules._planned", "0 were left out", f"DELETE FROM events WHERE {FIRED}", "SOURCES"),
    Tampering("schedules._planned", "makes up for all", "UPDATE firings SET left_out = 1", "SOURCES"),
    Tampering(
        "schedules._on_time", "before its time", "UPDATE firings SET fired_at = planned_at - 1", "SOURCES"
    ),
    Tampering("schedules._asked", "and is gone", change_note("fired now", event="e"), "SOURCES"),
    Tampering(
        "schedules._asked",
        "nobody asked for it",
        body_set(FIRED, "data.schedule.asked", "json('true')"),
        "SOURCES",
    ),
    Tampering("schedules._reminded", "fired 2 times", another(REMINDED), "SOURCES"),
    Tampering("schedules._reminded", "never fired", f"DELETE FROM events WHERE {REMINDED}", "SOURCES"),
    Tampering("channels._events", "became 2 events", another(CHATTED), "SOURCES"),
    Tampering("channels._events", "of ada became 0 events", f"DELETE FROM events WHERE {CHATTED}", "SOURCES"),
    Tampering(
        "channels._events",
        "became events in the order",
        f"UPDATE events SET seq = 2000 - seq WHERE {CHATTED}",
        "SOURCES",
    ),
    Tampering("channels._sent", "arrived as 'else'", said(0, text="else"), "SOURCES"),
    Tampering("channels._sent", "arrived 2 times, and is not marked", said(0, 2), "SOURCES"),
    Tampering("channels._sent", "and never arrived", said(0, 0), "SOURCES"),
    Tampering("channels._sent", "is no message of the outbox", said(0, key="k"), "SOURCES"),
    Tampering(
        "channels._sent", "is marked as failed, and arrived", "UPDATE outbox SET status = 'failed'", "SOURCES"
    ),
    Tampering("channels._sent", "was left in doubt", "UPDATE outbox SET status = 'in_doubt'", "SOURCES"),
    Tampering("channels._sent", "without a reason", "UPDATE outbox SET status = 'in_doubt'", "SOURCES"),
    Tampering("channels._in_order", "arrived before", _swapped, "SOURCES"),
    Tampering(
        "channels._answers",
        "which is not in the outbox",
        "DELETE FROM outbox WHERE result_sequence IS NOT NULL",
        "SOURCES",
    ),
    Tampering(
        "channels._answers",
        "the chat was told 0 times",
        "DELETE FROM outbox WHERE result_sequence IS NULL",
        "SOURCES",
    ),
]
"""The life in which events come from all sources."""
