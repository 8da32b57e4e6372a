"""Conversations in which runs had a person's state or history from elsewhere.

Their journals hold copies of it, which a deletion has to find after accounts were unbound.
"""

from __future__ import annotations

from hostler.domain.channels import person_of_key
from hostler.domain.grants import Grant
from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.domain.scopes import OF_SUBJECT
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import state_values

_q = load(__file__)


class Reader(Record):
    """A conversation, and since when its runs had something; or a run without a conversation.

    `since` in UTC epoch milliseconds; `first_event`: the sequence of the first event of such a run.
    """

    reader_id: str
    run_id: str
    since: int
    first_event: int


def note(tx: Tx, grant: Grant, run_id: str, actor_id: str, *, since: int, first_event: int) -> None:
    """Note what a run of an actor is granted of their other accounts, before it begins."""
    across = grant.across
    if across is None:
        return
    ws, reader = grant.workspace_id, grant.conversation_id or ""
    at = {"workspace_id": ws, "reader_id": reader, "since": since, "first_event": first_event}
    if across.state:
        named = person_of_key(across.subject)
        person_id = None if named is None else named[1]
        tx.run(
            _q.note_state,
            **at,
            subject=across.subject,
            actor_id=actor_id,
            run_id="" if reader else run_id,
            person_id=person_id,
        )
    for chat in across.chats:
        tx.run(_q.note_history, **at, conversation_id=chat.conversation_id)


def subjects_of(tx: Tx, workspace_id: str, person_id: str) -> list[str]:
    """Return the subjects that a person is by now, or whose state runs for them had."""
    return [row["subject"] for row in tx.all(_q.subjects, workspace_id=workspace_id, actor_id=person_id)]


def of_state(tx: Tx, workspace_id: str, subject: str) -> list[Reader]:
    """Return the conversations in which runs had the state of a subject."""
    rows = tx.all(_q.of_state, workspace_id=workspace_id, subject=subject)
    return [from_row(row, Reader) for row in rows]


def of_history(tx: Tx, workspace_id: str, conversation_id: str) -> list[Reader]:
    """Return the other conversations in which runs had the history of one."""
    rows = tx.all(_q.of_history, workspace_id=workspace_id, conversation_id=conversation_id)
    return [from_row(row, Reader) for row in rows]


def drop_states(tx: Tx, ws: str, subject: str) -> int:
    """Delete what agents noted about a subject, by whichever account; return the number of values."""
    return state_values.drop(tx, ws, _q.drop_states, subject=subject, actor_type=OF_SUBJECT)


def forget_person(tx: Tx, workspace_id: str, person_id: str) -> int:
    """Forget what a person's runs have read, and who read what they are, once copies are deleted."""
    return tx.run(_q.forget_person, workspace_id=workspace_id, actor_id=person_id)


def forget_conversation(tx: Tx, workspace_id: str, conversation_id: str) -> int:
    """Forget a conversation, as one that is read and as one that reads."""
    where = {"workspace_id": workspace_id, "conversation_id": conversation_id}
    queries = (_q.forget_reader, _q.forget_source, _q.forget_history_reader)
    return sum(tx.run(query, **where) for query in queries)
