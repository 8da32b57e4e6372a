"""Turn an event of a chat platform into an envelope: its identity, its conversation, where answers go."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.domain.accounts import Chat
from hostler.domain.channels import CHANNEL_EVENT_TYPES, MESSAGE, ChannelEntry
from hostler.domain.ingest import is_event_type
from hostler.domain.place import Place
from hostler_protocol.channels import ChannelAbilities, ChannelEvent, ChannelManifest, Person
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import Actor, Delivery, EventEnvelope, Input
from hostler_protocol.ids import digest

EMPTY_MESSAGE = "platform.empty_message"
"""A message of which the channel delivers neither text nor files, like a sticker: nothing to answer."""
SOURCE = "platform"


def event_id_of(channel: str, event: ChannelEvent) -> str:
    """Return the id of a delivery: the same for the same one, and another in another channel.

    The platform's own id identifies it; without one, all that the platform says of it does.
    """
    if event.event_id is not None:
        return f"chn-{digest({'channel': channel, 'event': event.event_id})}"
    said = msgspec.structs.replace(event, attachments=[])  # the ids of files are ours, and new each time
    return f"chn-{digest({'channel': channel, 'said': msgspec.to_builtins(said)})}"


def conversation_id_of(channel: str, chat_id: str) -> str:
    """Return the conversation of a chat of a channel. Threads are within it."""
    return f"chat-{digest({'channel': channel, 'chat': chat_id})}"


def place_of(channel: str, event: ChannelEvent, account: Person | None) -> Place:
    """Return where an event belongs."""
    bot = channel if account is None else account.person_id
    if event.chat is None:
        return Place(bot)
    return Place(bot, conversation_id_of(channel, event.chat.chat_id), event.chat.thread_id)


def chat_of(entry: ChannelEntry, event: ChannelEvent, place: Place) -> Chat | None:
    """Return the chat of an event as it shows it, or None. What nobody did says nothing of a private chat."""
    chat, person = event.chat, event.person
    if chat is None or place.conversation_id is None or (chat.kind == "private" and person is None):
        return None
    return Chat(
        conversation_id=place.conversation_id,
        channel=entry.name,
        channel_of=entry.channel,
        bot_id=place.bot_id,
        person_id=person.person_id if person is not None and chat.kind == "private" else None,
    )


def envelope_of(
    entry: ChannelEntry, manifest: ChannelManifest, event: ChannelEvent, account: Person | None
) -> EventEnvelope:
    """Return the envelope of an event. InvalidArgumentError for a type that channels do not have."""
    event_type = _type_of(event)
    chat, person = event.chat, event.person
    place = place_of(entry.name, event, account)
    return EventEnvelope(
        event_type=event_type,
        event_id=event_id_of(entry.name, event),
        # reactions, joins and edits are for agents that ask for them: a run for each would answer nobody
        agent=entry.agent_for(event_type),
        event_time=event.event_time,
        source=SOURCE,
        source_event_type=event.source_event_type
        or (event.event_type if event_type == EMPTY_MESSAGE else None),
        source_event_id=event.event_id,
        bot_id=place.bot_id,
        conversation_id=place.conversation_id,
        thread_id=place.thread_id,
        launcher_type=None if chat is None else chat.kind,
        launcher_id=None if chat is None else chat.chat_id,
        sender_id=None if person is None else person.person_id,
        actor=None if person is None else _actor(person),
        subject=event.subject,
        input=Input(text=event.text or None, attachments=event.attachments),
        delivery=None if chat is None else _delivery(entry, manifest, event),
        data=_data(entry.name, event),
    )


def _type_of(event: ChannelEvent) -> str:
    name = event.event_type
    if name not in CHANNEL_EVENT_TYPES and not (name.startswith("platform.") and is_event_type(name)):
        raise InvalidArgumentError(
            f"event_type {name!r:.80} is none of channels: name a common one, like message.received, or "
            "platform.<name> in lower case"
        )
    return EMPTY_MESSAGE if name == MESSAGE and not event.text and not event.attachments else name


def _actor(person: Person) -> Actor:
    return Actor(
        actor_type="user",
        actor_id=person.person_id,
        actor_name=None if person.name is None else person.name[:1000],
        metadata={"is_bot": person.is_bot},
    )


def _data(channel: str, event: ChannelEvent) -> dict[str, Any]:
    """Return the data: the plugin's own, and under the host's names what every channel says."""
    known: dict[str, Any] = {"channel": channel, "addressed": list(event.addressed)}
    if event.chat is not None:
        known["chat"] = {"id": event.chat.chat_id, "kind": event.chat.kind, "title": event.chat.title}
    if event.message_id is not None:
        known["message_id"] = event.message_id
    if event.reply_to is not None:
        known["reply_to"] = event.reply_to
    return {**event.data, **known}


def _delivery(entry: ChannelEntry, manifest: ChannelManifest, event: ChannelEvent) -> Delivery:
    assert event.chat is not None
    can = manifest.abilities
    return Delivery(
        surface=manifest.name,
        reply_target={
            "channel": entry.name,
            "chat_id": event.chat.chat_id,
            "thread_id": event.chat.thread_id,
            "reply_to": event.message_id,
        },
        supports_streaming=can.edit and entry.streaming == "edits",
        supports_edit=can.edit,
        supports_reaction=can.reactions,
        max_message_size=_characters(can),
        platform_capabilities={
            "max_message": can.max_message,
            "message_unit": can.message_unit,
            "threads": can.threads,
            "files": can.files,
            "buttons": can.buttons,
            "typing": can.typing,
            "edit_seconds": can.edit_seconds,
            "actions": list(manifest.actions),
        },
    )


def _characters(can: ChannelAbilities) -> int:
    """Return how many characters fit into one message, whichever they are."""
    widest = {"characters": 1, "utf16": 2, "bytes": 4}[can.message_unit]
    return max(1, can.max_message // widest)
