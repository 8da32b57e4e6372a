"""Chats of channels: which of them are private, and whose, as the events of their channel have shown them."""

from __future__ import annotations

from hostler.domain.accounts import MAX_CHATS, Chat, PrivateChat, noted
from hostler.domain.same_fields import from_row
from hostler.storage.port import Tx
from hostler.storage.sql.session import ContentionError
from hostler.storage.sql.statements import load
from hostler.storage.stores import transcripts

LAST_RUNS = 1_000
"""The newest runs of a chat, among which one of the agent is looked for."""
_q = load(__file__)


def find(tx: Tx, workspace_id: str, conversation_id: str) -> Chat | None:
    """Return what is known of the chat of a conversation, or None."""
    row = tx.one(_q.find, workspace_id=workspace_id, conversation_id=conversation_id)
    return None if row is None else from_row(row, Chat)


def note(tx: Tx, workspace_id: str, seen: Chat) -> None:
    """Note a chat as an event shows it, in the transaction that stores the event.

    What was said before a chat was first noted is not known to have been said in private.
    """
    before = find(tx, workspace_id, seen.conversation_id)
    after = noted(before, seen)
    if after == before:
        return
    fields = {
        "workspace_id": workspace_id,
        "conversation_id": seen.conversation_id,
        "channel_of": after.channel_of,
        "bot_id": after.bot_id,
        "person_id": after.person_id,
    }
    if before is not None:
        tx.run(_q.update, **fields)
        return
    latest = transcripts.latest_seq(tx, workspace_id)
    if not tx.run(_q.insert, **fields, channel=seen.channel, after_seq=latest):
        raise ContentionError(f"another host has noted chat {seen.conversation_id!r:.80} meanwhile")


def private_of(
    tx: Tx, workspace_id: str, channel: str, person_id: str, *, channel_of: str, agent_id: str
) -> list[PrivateChat]:
    """Return the private chats of an account in which the agent has had one of the last runs."""
    rows = tx.all(
        _q.of_person,
        workspace_id=workspace_id,
        channel=channel,
        person_id=person_id,
        channel_of=channel_of,
        agent_id=agent_id,
        runs=LAST_RUNS,
        limit=MAX_CHATS + 1,
    )
    return [from_row(row, PrivateChat) for row in rows]


def drop(tx: Tx, workspace_id: str, conversation_id: str) -> int:
    """Forget the chat of a conversation that is deleted; return whether it was known."""
    return tx.run(_q.drop, workspace_id=workspace_id, conversation_id=conversation_id)


def conversations_of(tx: Tx, workspace_id: str, person_id: str) -> list[str]:
    """Return the private chats of whoever has an id, on whichever channel."""
    rows = tx.all(_q.conversations_of, workspace_id=workspace_id, person_id=person_id)
    return [row["conversation_id"] for row in rows]
