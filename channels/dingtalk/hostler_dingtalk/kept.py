"""What the channel keeps: the chats of its cards, and the conversations behind private chats.

DingTalk names a private chat by its person where something is sent, and by an id of its own where somebody
reacts. A card has an id that the channel gives it, and one by which people point at it when they reply.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from hostler_dingtalk.fields import fields_of, list_of, text_of

MAX_CARDS = 120
MAX_CONVERSATIONS = 120
MAX_NAMES = 1_000
MAX_TEXT = 100
"""Longer ids are not kept, nor those with other characters than DingTalk's have."""


@dataclass(frozen=True, slots=True)
class Card:
    """A card in a chat. `carrier`: the id that a reply to it names."""

    chat_id: str
    carrier: str | None = None


class Kept:
    """The kept state. It has at most some 55 KiB, of the 64 that a channel may keep."""

    def __init__(self, state: Any) -> None:
        state = fields_of(state)
        self._cards: OrderedDict[str, Card] = OrderedDict()
        for track_id, told in fields_of(state.get("cards")).items():
            chat_id, carrier = (*list_of(told), None, None)[:2]
            if text_of(chat_id) is not None:
                self._cards[track_id] = Card(chat_id, text_of(carrier))
        self._conversations: OrderedDict[str, str] = OrderedDict(
            (chat_id, cid)
            for chat_id, cid in fields_of(state.get("conversations")).items()
            if isinstance(cid, str)
        )
        self._names: OrderedDict[str, str] = OrderedDict()

    @property
    def state(self) -> dict[str, Any]:
        """The value to keep."""
        return {
            "cards": {track_id: [card.chat_id, card.carrier] for track_id, card in self._cards.items()},
            "conversations": dict(self._conversations),
        }

    def sent(self, track_id: str, card: Card) -> None:
        """Note a card that is sent."""
        if not _is_short(card.chat_id, card.carrier or ""):
            return
        self._cards[track_id] = card
        while len(self._cards) > MAX_CARDS:
            self._cards.popitem(last=False)

    def chat_of(self, track_id: str) -> str | None:
        """Return the chat of a card."""
        card = self._cards.get(track_id)
        return None if card is None else card.chat_id

    def replied_to(self, carrier: str) -> str:
        """Return the id of the robot's message that a reply names: a card's, or that of another message."""
        found = (track_id for track_id, card in self._cards.items() if card.carrier == carrier)
        return next(found, carrier)

    def talked(self, chat_id: str, conversation: str) -> None:
        """Note the conversation of a private chat."""
        if not _is_short(chat_id, conversation):
            return
        self._conversations[chat_id] = conversation
        self._conversations.move_to_end(chat_id)
        while len(self._conversations) > MAX_CONVERSATIONS:
            self._conversations.popitem(last=False)

    def conversation_of(self, chat_id: str) -> str | None:
        """Return the conversation of a chat: that of a group is the chat itself."""
        return chat_id if chat_id.startswith("cid") else self._conversations.get(chat_id)

    # -- names, which are not kept ----------------------------------------------------------------

    def named(self, person_id: str, name: str) -> None:
        """Note the name of somebody who wrote: DingTalk does not say it of who presses a button."""
        self._names[person_id] = name
        self._names.move_to_end(person_id)
        while len(self._names) > MAX_NAMES:
            self._names.popitem(last=False)

    def name_of(self, person_id: str) -> str | None:
        """Return a name, if the person has written since the channel was opened."""
        return self._names.get(person_id)


def _is_short(*ids: str) -> bool:
    return all(len(one) <= MAX_TEXT and one.isascii() for one in ids)
