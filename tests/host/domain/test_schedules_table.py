"""Entries of schedules: what is wrong with them, and the events that they send."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
import pytest

from hostler.domain.schedules import (
    MAX_DATA_BYTES,
    MAX_TEXT_BYTES,
    Firing,
    Schedule,
    check_schedule,
    envelope_of,
    schedule_mistakes,
)
from hostler_protocol.errors import InvalidArgumentError

GOOD: dict[str, Any] = {"name": "report", "cron": "0 7 * * mon-fri", "timezone": "Europe/Berlin"}


@pytest.mark.parametrize(
    ("fields", "place", "wrong"),
    [
        ({"name": "a b"}, "name", "is no name"),
        ({"name": ".."}, "name", "is no name"),
        ({"cron": None}, "", "none of them: expected exactly one of cron, every and at"),
        ({"every": 60.0}, "", "it has cron and every: expected exactly one"),
        ({"cron": "61 * * * *"}, "cron", "its minute is not valid"),
        ({"timezone": "Mars"}, "timezone", "is no time zone"),
        ({"start": "soon"}, "start", "is no time"),
        ({"start": "2027-01-02", "end": "2027-01-01"}, "end", "it ends before it starts"),
        ({"cron": None, "at": "2027-01-02", "end": "2027-02-01"}, "at", "has no start and no end"),
        ({"agent": ""}, "agent", "expected 1 to 512"),
        ({"conversation_id": "a\x00"}, "conversation_id", "no NUL"),
        ({"thread_id": "t"}, "thread_id", "set conversation_id too"),
        ({"new_conversation": True, "conversation_id": "c"}, "new_conversation", "leave one of the two out"),
        ({"new_conversation": True, "thread_id": "t"}, "thread_id", "set conversation_id too"),
        ({"event_type": "message.received"}, "text", "a message.received event needs text"),
        ({"text": "x" * (MAX_TEXT_BYTES + 1)}, "text", "at most 32,768 bytes"),
        ({"data": {"schedule": 1}}, "data", "the host's own key"),
        ({"data": {"a": "x" * MAX_DATA_BYTES}}, "data", "more than 32,768 bytes"),
    ],
)
def test_a_mistake_is_named_with_its_place(fields: dict[str, Any], place: str, wrong: str) -> None:
    schedule = Schedule(**{**GOOD, **fields})
    (mistake,) = schedule_mistakes(schedule)
    assert mistake.place == place
    assert wrong in mistake.text
    with pytest.raises(InvalidArgumentError, match=r"^schedule '"):
        check_schedule(schedule)


def test_good_entries_have_none() -> None:
    for fields in (
        {},
        {"cron": None, "every": 1.5},
        {"cron": None, "at": "2027-01-01T09:00"},
        {"cron": "@daily"},
    ):
        assert list(schedule_mistakes(Schedule(**{**GOOD, **fields}))) == []


@pytest.mark.parametrize(
    ("field", "value"), [("every", 0.5), ("jitter", -1), ("grace", 0), ("misfire", "never")]
)
def test_numbers_out_of_bounds_are_refused_as_they_are_read(field: str, value: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**GOOD, field: value}, Schedule)


def test_the_event_of_a_firing_says_of_what_it_is() -> None:
    schedule = Schedule(**GOOD, agent="writer", text="Report.", data={"to": "Ada"}, conversation_id="c")
    firing = Firing("w", "s1", 1_800_000_000_500, late=250, left_out=3)
    envelope = envelope_of(schedule, firing)
    assert (envelope.event_type, envelope.source, envelope.agent) == (
        "schedule.triggered",
        "scheduler",
        "writer",
    )
    assert (envelope.event_time, envelope.input.text, envelope.conversation_id) == (
        1_800_000_000.5,
        "Report.",
        "c",
    )
    assert envelope.data == {
        "to": "Ada",
        "schedule": {
            "name": "report",
            "id": "s1",
            "planned_at": 1_800_000_000.5,
            "late_by": 0.25,
            "left_out": 3,
            "asked": False,
        },
    }
    assert envelope.event_id == envelope_of(schedule, Firing("w", "s1", 1_800_000_000_500, late=9)).event_id
    asked = envelope_of(schedule, Firing("w", "s1", 1_800_000_000_500, asked_id="e1"))
    assert (asked.event_id, asked.data["schedule"]["asked"]) == ("e1", True)


def test_each_firing_may_begin_a_conversation_of_its_own() -> None:
    schedule = Schedule(**GOOD, text="早报", new_conversation=True, event_type="message.received")
    planned = 1_800_000_000_500
    firings = [Firing("w", "s1", planned), Firing("w", "s1", planned + 1), Firing("w", "s2", planned)]
    firings += [Firing("w", "s1", planned, asked_id="e1")]
    begun = [envelope_of(schedule, firing) for firing in firings]
    names = [envelope.conversation_id or "" for envelope in begun]
    assert len(set(names)) == 4
    assert names[0] == envelope_of(schedule, Firing("w", "s1", planned, late=9)).conversation_id
    assert {(uuid.UUID(name).version, uuid.UUID(name).variant) for name in names} == {(7, uuid.RFC_4122)}
    assert [uuid.UUID(name).int >> 80 for name in names] == [planned, planned + 1, planned, planned]
    assert {envelope.event_type for envelope in begun} == {"message.received"}
