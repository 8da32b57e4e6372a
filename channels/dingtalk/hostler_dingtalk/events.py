"""What DingTalk sends: messages, presses of buttons, and events of the organization.

What has a common type gets it; everything else is `platform.<name>`. `data.dingtalk` is what DingTalk sent.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from dingtalk_stream import Card_Callback_Router_Topic, CardCallbackMessage, ChatbotMessage

from hostler_dingtalk.cards import pressed
from hostler_dingtalk.fields import fields_of, list_of, seconds_of, text_of
from hostler_dingtalk.kept import Kept
from hostler_dingtalk.messages import PRIVATE, Drafted, Messages
from hostler_sdk.channels import ChannelEvent, Chat, Person

_MEMBERS = {
    "chat_add_member": "group.member_joined",
    "chat_remove_member": "group.member_left",
    "chat_quit": "group.member_left",
}
MAX_MEMBERS = 100
"""Events that one of DingTalk becomes; the others are in `data.dingtalk`."""


class Events:
    """Reads what DingTalk sends to a robot."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._messages = Messages(kept)

    def read(self, kind: str, frame_id: str, data: dict[str, Any]) -> list[Drafted]:
        """Return the events of a frame, in order."""
        if kind == ChatbotMessage.TOPIC:
            return [self._messages.read(data, frame_id)]
        if kind == Card_Callback_Router_Topic:
            return [Drafted(self._press(data, frame_id))]
        if kind == "event":
            return [Drafted(event) for event in self._happened(data, frame_id)]
        return [unread(kind, frame_id, data)]

    def _press(self, data: dict[str, Any], frame_id: str) -> ChannelEvent:
        told = CardCallbackMessage.from_dict({**data, "extension": "{}", "content": "{}"})
        value, track_id = pressed(data), text_of(told.card_instance_id)
        person = text_of(told.user_id)
        return ChannelEvent(
            event_type="interaction.submitted" if value is not None else "platform.card",
            event_id=f"card:{frame_id}",
            source_event_type=text_of(data.get("type")) or "actionCallback",
            chat=self._chat_of_card(data, track_id, person),
            person=None if person is None else self._person(person),
            message_id=track_id,
            data={"dingtalk": data} if value is None else {"value": value, "dingtalk": data},
        )

    def _chat_of_card(self, data: dict[str, Any], track_id: str | None, person: str | None) -> Chat | None:
        """Return the chat of a card: as it was sent, else as DingTalk says."""
        space, kind = text_of(data.get("spaceId")), text_of(data.get("spaceType"))
        chat_id = None if track_id is None else self._kept.chat_of(track_id)
        if chat_id is None and space is not None and (kind == "IM_GROUP" or space.startswith("cid")):
            chat_id = space
        if chat_id is None and person is not None and kind == "IM_ROBOT":
            chat_id = f"{PRIVATE}{person}"
        if chat_id is None:
            return None
        return Chat(chat_id=chat_id, kind="private" if chat_id.startswith(PRIVATE) else "group")

    def _happened(self, data: dict[str, Any], frame_id: str) -> list[ChannelEvent]:
        kind = text_of(data.get("eventType")) or "event"
        told = fields_of(data.get("data"))
        event_time = seconds_of(data.get("eventBornTime"))
        group = text_of(told.get("openConversationId"))
        title = text_of(told.get("title"))
        chat = None if group is None else Chat(chat_id=group, kind="group", title=title)
        event = ChannelEvent(
            event_type=f"platform.{re.sub(r'[^a-z0-9_.-]', '_', kind.lower())[:100]}",
            event_id=f"event:{frame_id}",
            source_event_type=kind,
            event_time=event_time,
            chat=chat,
            data={"dingtalk": data},
        )
        operator = next(iter(_people(told.get("operator") or told.get("optStaffId"))), None)
        members = _people(told.get("userId")) if kind in _MEMBERS and chat is not None else []
        if not members:
            person = None if operator is None else self._person(operator)
            return [msgspec.structs.replace(event, person=person)]
        return [
            msgspec.structs.replace(
                event,
                event_type=_MEMBERS[kind],
                event_id=f"event:{frame_id}:{number}",
                person=self._person(member),
                data={"by": operator, "dingtalk": data},
            )
            for number, member in enumerate(members[:MAX_MEMBERS])
        ]

    def _person(self, person_id: str) -> Person:
        return Person(person_id=person_id, name=self._kept.name_of(person_id))


def unread(kind: str, frame_id: str, data: dict[str, Any]) -> Drafted:
    """Return what cannot be read, as from a newer DingTalk."""
    event = ChannelEvent(
        event_type="platform.unreadable",
        event_id=f"frame:{frame_id}",
        source_event_type=kind[:100],
        data=data,
    )
    return Drafted(event)


def _people(value: Any) -> list[str]:
    found = list_of(value) if isinstance(value, list) else [value]
    return [one for one in found if isinstance(one, str) and one]
