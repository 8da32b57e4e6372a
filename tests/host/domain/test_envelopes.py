"""Envelopes of channels: what a hostile plugin cannot say, ids that never meet, and mistakes of entries."""

from __future__ import annotations

import msgspec
import pytest

from hostler.domain.channels import ChannelAccess, ChannelEntry, channel_mistakes
from hostler.domain.envelopes import conversation_id_of, envelope_of, event_id_of
from hostler_protocol.channels import ChannelEvent, ChannelManifest, Chat, Person
from hostler_protocol.errors import InvalidArgumentError

pytestmark = pytest.mark.gate("channels")
ENTRY = ChannelEntry(name="chat", channel="plugin:test/wires/keyed")
MANIFEST = ChannelManifest(name="keyed", label={"en": "Keyed"})
SAID = ChannelEvent(
    event_type="message.received",
    event_id="1",
    chat=Chat(chat_id="room", kind="group", thread_id="t"),
    person=Person(person_id="ann", name="Ann"),
    text="hello",
    data={"addressed": "forged", "channel": "other", "own": 1},
)


def test_what_the_host_says_of_an_event_cannot_be_forged() -> None:
    envelope = envelope_of(ENTRY, MANIFEST, SAID, Person(person_id="bot"))
    assert envelope.data == {
        "own": 1,
        "channel": "chat",
        "addressed": [],
        "chat": {"id": "room", "kind": "group", "title": None},
    }
    assert (envelope.bot_id, envelope.thread_id, envelope.source) == ("bot", "t", "platform")
    assert envelope.conversation_id == conversation_id_of("chat", "room")


def test_ids_of_channels_and_chats_never_meet() -> None:
    names = ["a", "a:b", "b", "a/b"]
    assert len({conversation_id_of(one, other) for one in names for other in names}) == 16
    events = [ChannelEvent(event_type="message.received", event_id=name, text="x") for name in names]
    assert len({event_id_of(one, event) for one in names for event in events}) == 16


def test_without_an_id_of_the_platform_what_it_says_is_the_id() -> None:
    said = ChannelEvent(event_type="message.received", text="x", event_time=1.0)
    other = ChannelEvent(event_type="message.received", text="x", event_time=2.0)
    assert event_id_of("c", said) == event_id_of("c", said) != event_id_of("c", other)


@pytest.mark.parametrize(
    "name", ["message.sent", "api.invoked", "schedule.triggered", "platform.", "Platform.x"]
)
def test_events_of_other_sources_cannot_be_posed_as(name: str) -> None:
    event = ChannelEvent(event_type=name, text="x")
    with pytest.raises(InvalidArgumentError, match="is none of channels"):
        envelope_of(ENTRY, MANIFEST, event, None)


@pytest.mark.parametrize(
    ("name", "agent"),
    [
        ("message.received", "clerk"),
        ("interaction.submitted", "clerk"),
        ("command.invoked", "clerk"),
        ("message.edited", None),
        ("message.reaction_added", None),
        ("group.member_joined", None),
        ("platform.bounce", None),
    ],
)
def test_the_agent_of_a_channel_gets_what_asks_for_an_answer(name: str, agent: str | None) -> None:
    entry = msgspec.structs.replace(ENTRY, agent="clerk")
    assert envelope_of(entry, MANIFEST, ChannelEvent(event_type=name, text="x"), None).agent == agent


@pytest.mark.parametrize(
    ("name", "agent"),
    [("message.received", None), ("group.member_joined", "clerk"), ("platform.bounce", "clerk")],
)
def test_an_entry_says_what_its_agent_gets(name: str, agent: str | None) -> None:
    entry = msgspec.structs.replace(ENTRY, agent="clerk", agent_events=["group.*", "platform.bounce"])
    assert envelope_of(entry, MANIFEST, ChannelEvent(event_type=name, text="x"), None).agent == agent


def test_an_empty_message_is_no_message() -> None:
    event = ChannelEvent(event_type="message.received", chat=Chat(chat_id="c"))
    envelope = envelope_of(ENTRY, MANIFEST, event, None)
    assert (envelope.event_type, envelope.source_event_type) == ("platform.empty_message", "message.received")


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"name": "a:b"}, "name"),
        ({"channel": "keyed"}, "channel"),
        ({"agent": ""}, "agent"),
        ({"allow": ChannelAccess(people=[""])}, "allow.people[0]"),
        ({"block": ChannelAccess(chats=["x"] * 10_001)}, "block.chats"),
        ({"agent_events": ["message.*", "platform.*", "mesage.edited"]}, "agent_events[2]"),
        ({"roles": {" admin": ["7"]}}, 'roles[" admin"]'),
        ({"roles": {"admin": ["7", ""]}}, "roles.admin[1]"),
        ({"roles": {f"r{number}": [] for number in range(101)}}, "roles"),
        ({"config": {"token": "env:"}}, "config.token"),
    ],
)
def test_mistakes_of_an_entry_are_named_at_their_place(fields: dict[str, object], place: str) -> None:
    entry = ChannelEntry(**{"name": "chat", "channel": ENTRY.channel, **fields})  # type: ignore[arg-type]
    assert [mistake.place for mistake in channel_mistakes(entry)] == [place]
