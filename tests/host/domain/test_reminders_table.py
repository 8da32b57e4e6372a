"""Reminders: what a run may ask for, what they are called, and where their answers go."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from hostler.domain.firing_times import Timing
from hostler.domain.place import Place
from hostler.domain.reminders import (
    MAX_DATA_BYTES,
    MAX_PER_AGENT,
    MAX_PER_CONVERSATION,
    MAX_TEXT_BYTES,
    MIN_EVERY_SECONDS,
    NO_CONVERSATION,
    OF_PARENT,
    POLICY,
    PREFIX,
    check_request,
    content_from,
    content_of,
    delivered,
    names_of_place,
    refused_reason,
    request_digest,
    schedule_of,
    shortest_gap,
    too_many,
    with_content,
)
from hostler.domain.schedules import Firing, Schedule, envelope_of, schedule_mistakes
from hostler_protocol.calls import ScheduleCreateParams
from hostler_protocol.errors import HostlerError, InvalidArgumentError, PayloadTooLargeError
from hostler_protocol.events import Actor, Delivery
from support.grants import event_of

pytestmark = pytest.mark.gate("schedules")
PLACE = Place("bot", "c", "t")
NOW = 1_700_000_000_250


def asked(**fields: Any) -> ScheduleCreateParams:
    return ScheduleCreateParams(run_id="r", **({"text": "tea"} | fields))


def made(**fields: Any) -> Schedule:
    params = asked(**fields)
    check_request(params)
    return schedule_of(params, "helper", PLACE, request_digest("r", params), NOW)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({}, "none of them"),
        ({"at": "2030-01-01", "every": 900}, "at and every"),
        ({"delay": 0}, "delay is 0"),
        ({"delay": 1e9}, "delay is 1e"),
        ({"every": MIN_EVERY_SECONDS - 1}, "every is 299"),
        ({"every": 1e9}, "every is 1e"),
        ({"cron": "* * * * *"}, "fires 60 seconds apart"),
        ({"cron": "*/5 * * * * *"}, "fires 5 seconds apart"),
        ({"cron": "58,0 * * * *"}, "fires 120 seconds apart"),
        ({"cron": "x"}, "has 1 fields"),
        ({"at": "tomorrow"}, "is no time"),
        ({"delay": 5, "timezone": "Mars/Base"}, "no time zone"),
        ({"delay": 5, "end": "2030-01-01"}, "no start and no end"),
        ({"delay": 5, "name": "a b"}, "name is 'a b'"),
        ({"delay": 5, "name": "x" * 65}, "name is"),
        ({"delay": 5, "name": f"{PREFIX}x"}, "name is"),
        ({"delay": 5, "data": {"schedule": 1}}, "the host's own key"),
        ({"delay": 5, "text": "nul\x00"}, "no NUL"),
    ],
)
def test_what_is_refused_says_why(fields: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InvalidArgumentError, match=wrong):
        made(**fields)


@pytest.mark.parametrize(
    "fields", [{"text": "x" * (MAX_TEXT_BYTES + 1)}, {"data": {"x": "y" * MAX_DATA_BYTES}}]
)
def test_what_is_too_large_is_refused_as_that(fields: dict[str, Any]) -> None:
    with pytest.raises(PayloadTooLargeError):
        made(delay=5, **fields)


@pytest.mark.parametrize(
    ("cron", "seconds"),
    [("*/5 * * * *", 300), ("0 9 * * *", 86_400), ("0,58 9 * * *", 58 * 60), ("59 23 * * *", 86_400)],
)
def test_the_shortest_gap_of_a_cron(cron: str, seconds: int) -> None:
    assert shortest_gap(cron) == seconds


def test_a_delay_is_a_time_no_earlier_than_asked_for() -> None:
    timing = made(delay=60).timing(NOW)
    (planned,) = timing.after(NOW)
    assert NOW + 60_000 <= planned < NOW + 61_000
    assert datetime.fromtimestamp(planned / 1000, UTC).microsecond == 0


def test_it_is_of_the_place_of_its_run_and_an_entry_without_mistakes() -> None:
    one = made(name="tea", every=900)
    assert Place(one.bot_id, one.conversation_id, one.thread_id) == PLACE
    assert (one.name, one.agent, one.text) == ("tea", "helper", None)
    assert list(schedule_mistakes(one)) == []
    assert isinstance(one.timing(NOW), Timing)


def test_without_a_name_the_same_call_of_a_run_has_the_same_one() -> None:
    names = {made(delay=5).name, made(delay=5).name, made(delay=6).name, made(delay=5, text="x").name}
    assert len(names) == 3
    assert request_digest("r", asked(delay=5)) != request_digest("other", asked(delay=5))


def test_names_of_places_are_apart_and_no_schedule_can_have_them() -> None:
    places = [
        ("a", PLACE),
        ("b", PLACE),
        *(("a", PLACE._replace(**{field: None})) for field in PLACE._fields),
        ("a", Place(None, "bot:c", "t")),
        ("a", Place("bot", None, "c:t")),
    ]
    stored = [names_of_place(*place) for place in places]
    assert len(set(stored)) == len(places)
    assert {len(name) for name in stored} == {len(PREFIX) + 25}
    assert [one.place for one in schedule_mistakes(Schedule(name=f"{stored[0]}x", every=60.0))] == ["name"]


def test_its_answers_go_where_those_of_its_run_go_and_reply_to_nothing() -> None:
    delivery = Delivery(surface="telegram", reply_target={"channel": "tg", "chat_id": "7", "reply_to": "99"})
    event = event_of(delivery=delivery, sender_id="ada", launcher_type="group")
    params = asked(delay=5, data={"cup": 1})
    content = content_from(content_of(params, event, "digest"))
    whole = with_content(made(delay=5), content)
    envelope = delivered(envelope_of(whole, Firing("w", "s", NOW)), content)
    assert envelope.delivery is not None
    assert envelope.delivery.reply_target == {"channel": "tg", "chat_id": "7", "reply_to": None}
    assert (envelope.actor, envelope.sender_id, envelope.launcher_type) == (
        Actor(actor_id="ada"),
        "ada",
        "group",
    )
    assert (envelope.input.text, envelope.data["cup"]) == ("tea", 1)
    assert envelope.data["schedule"]["name"] == whole.name


def test_content_of_another_version_is_refused_clearly() -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        content_from('{"request": 5}')


def test_who_makes_none_is_told_why() -> None:
    assert refused_reason(allowed=False, place=PLACE, is_child=False) == POLICY
    assert refused_reason(allowed=True, place=Place("bot"), is_child=False) == NO_CONVERSATION
    assert refused_reason(allowed=True, place=PLACE, is_child=True) == OF_PARENT
    assert refused_reason(allowed=True, place=PLACE, is_child=False) is None


def test_one_too_many_says_of_what() -> None:
    assert too_many(MAX_PER_CONVERSATION - 1, MAX_PER_AGENT - 1) is None
    for counts, of in (((MAX_PER_CONVERSATION, 0), "conversation"), ((0, MAX_PER_AGENT), "agent")):
        refused = too_many(*counts)
        assert isinstance(refused, HostlerError)
        assert (refused.details["reason"], refused.details["of"]) == ("limit", of)
    assert msgspec.json.encode(too_many(99, 0).details)  # type: ignore[union-attr]
