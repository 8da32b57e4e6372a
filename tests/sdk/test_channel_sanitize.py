"""Events with what JSON cannot carry: they come, with something else in its place."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hostler_protocol.json_values import json_problem
from hostler_sdk.channels import Channel, ChannelEvent, Chat, Person
from hostler_sdk.channels.sanitize import DEEPEST, TOO_DEEP, sanitized
from support.channel_wire import Wire

HALF = "cut \ud83d"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (HALF, "cut ?"),
        ({HALF: [HALF]}, {"cut ?": ["cut ?"]}),
        ([2**64 - 1, 2**64, -(2**63) - 1], [2**64 - 1, str(2**64), str(-(2**63) - 1)]),
        ([1.5, float("nan"), float("inf"), None, True], [1.5, None, None, None, True]),
        ({1: b"x"}, {"1": "b'x'"}),
    ],
)
def test_what_json_cannot_carry_is_replaced(given: Any, found: Any) -> None:
    event = sanitized(ChannelEvent(event_type="platform.x", data={"given": given}))
    assert event.data == {"given": found}
    assert json_problem(event) is None
    msgspec.json.encode(event)


def test_what_is_nested_too_deep_is_left_out() -> None:
    deep: Any = "bottom"
    for _ in range(900):
        deep = [deep]
    event = sanitized(ChannelEvent(event_type="platform.x", text="kept", data={"deep": deep}))
    assert event.text == "kept"
    assert json_problem(event) is None
    levels, inner = 0, event.data["deep"]
    while inner != TOO_DEEP:
        levels, (inner,) = levels + 1, inner
    assert 100 < levels < DEEPEST


def test_an_event_that_is_as_it_should_be_stays_itself() -> None:
    event = ChannelEvent(event_type="message.received", text="whole \U0001f600", data={"n": 1})
    assert sanitized(event) is event


async def test_events_and_names_of_files_are_replaced_on_their_way_to_the_host() -> None:
    wire = Wire()
    channel = Channel("c", {}, None, wire)
    file = await channel.store(b"x", name=HALF, mime_type=None)
    assert file.name == "cut ?"
    chat, person = Chat(chat_id=f"7{HALF}"), Person(person_id="1", name=HALF)
    event = ChannelEvent(event_type="message.received", event_id=HALF, text=HALF, chat=chat, person=person)
    assert await channel.wants(event)
    await channel.deliver(event)
    assert not await channel.wants(event)  # by the id that it was delivered with
    (delivered,) = wire.ingest.events
    assert delivered.chat is not None
    assert delivered.person is not None
    texts = (delivered.text, delivered.event_id, delivered.chat.chat_id, delivered.person.name)
    assert texts == ("cut ?", "cut ?", "7cut ?", "cut ?")
