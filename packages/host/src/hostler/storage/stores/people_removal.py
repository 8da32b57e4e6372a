"""Removal of a person's accounts on channels, on request."""

from __future__ import annotations

from hostler.storage.port import Tx
from hostler.storage.stores import outbox, pairing_codes, people
from hostler.storage.stores.people import ChannelAccount


def drop_of_person(tx: Tx, ws: str, person_id: str) -> int:
    """Unbind the next accounts with an id, and those bound to them; forget their codes. Return the number.

    What the host itself wrote to them in their private chat goes too: no run or event leads there.
    """
    asked = pairing_codes.of_person(tx, ws, person_id)
    bound = people.of_person(tx, ws, person_id)
    for one in list(bound):
        own = ChannelAccount(channel=one.channel, person_id=person_id).own_subject
        bound += [other for other in people.page(tx, ws, subject=own) if other not in bound]
        pairing_codes.drop_of_subject(tx, ws, own)
        pairing_codes.drop_of_subject(tx, ws, one.subject)
    for one in bound:
        people.drop(tx, ws, one.channel, one.person_id)
    for asking in asked:
        pairing_codes.forget(tx, ws, asking.channel, person_id)
    chats = {one.conversation_id for one in bound} | {one.conversation_id for one in asked}
    for conversation_id in sorted(chat for chat in chats if chat is not None):
        outbox.drop_own_words(tx, ws, conversation_id)
    return len(bound) + len(asked)
