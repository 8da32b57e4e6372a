"""People of channels whom somebody has bound to a subject: their accounts, and who bound them."""

from __future__ import annotations

from typing import Literal

from hostler.domain.channels import MAX_CHANNELS, PERSON_PREFIX, person_name, person_of_key
from hostler.domain.pairing import MAX_ACCOUNTS, check_bindable
from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import audit, channel_entries
from hostler.storage.stores.erasure import STEP_ROWS
from hostler.storage.stores.nul import without_nul
from hostler_protocol.errors import ConflictError, NotFoundError
from hostler_protocol.limits import MAX_PAGE_ITEMS

How = Literal["operator", "confirmed", "code"]
MAX_NAME_CHARS = 200
_q = load(__file__)


class ChannelAccount(Record, kw_only=True):
    """A person's account on a channel. `conversation_id`: of their private chat, if they wrote there."""

    channel: str
    person_id: str
    name: str | None = None
    conversation_id: str | None = None

    @property
    def own_subject(self) -> str:
        """The subject that the person is without any binding."""
        return PERSON_PREFIX + person_name(self.channel, self.person_id)


class Bound(Record, kw_only=True):
    """An account that is bound to a subject. `how`: by an operator, by confirming a code, or by typing one.

    `bound_at` in UTC epoch milliseconds. `subject_channel_of`: for a subject that is a person of a channel,
    the plugin's channel that it was when the account was bound, if there was one.
    """

    channel: str
    person_id: str
    channel_of: str
    name: str | None
    subject: str
    conversation_id: str | None
    how: How
    bound_by: str
    bound_at: int
    subject_channel_of: str | None = None


def find(tx: Tx, workspace_id: str, channel: str, person_id: str) -> Bound | None:
    """Return what an account is bound to; None if it is to nothing, or a channel is another one by now.

    That is the account's channel, or that of the person whom the subject names.
    """
    row = tx.one(_q.find, workspace_id=workspace_id, channel=channel, person_id=person_id)
    if row is None:
        return None
    entry = channel_entries.entry_of(tx, workspace_id, channel)
    if entry is None or entry.channel != row["channel_of"]:
        return None
    was, now = row["subject_channel_of"], channel_of_person(tx, workspace_id, row["subject"])
    return None if was is not None and now is not None and now != was else from_row(row, Bound)


def channel_of_person(tx: Tx, workspace_id: str, subject: str) -> str | None:
    """Return the plugin's channel that a subject's is, if it is a person of a channel that there is."""
    person = person_of_key(subject)
    entry = None if person is None else channel_entries.entry_of(tx, workspace_id, person[0])
    return None if entry is None else entry.channel


def bind(
    tx: Tx, workspace_id: str, account: ChannelAccount, subject: str | None, *, how: How, by: str
) -> Bound:
    """Bind an account to a subject, to that of its own if it is None, in place of any other; audit it.

    NotFoundError without such a channel; InvalidArgumentError for a subject that is none of a person;
    ConflictError if the subject has MAX_ACCOUNTS others.
    """
    entry = channel_entries.entry_of(tx, workspace_id, account.channel)
    if entry is None:
        raise NotFoundError(f"there is no channel {account.channel!r:.100}")
    wanted = subject or account.own_subject
    check_bindable(wanted)
    where = {"workspace_id": workspace_id, "channel": account.channel, "person_id": account.person_id}
    counted = tx.one(_q.count_of_subject, **where, subject=wanted, limit=MAX_ACCOUNTS)
    if counted is not None and counted["number"] >= MAX_ACCOUNTS:
        raise ConflictError(f"{wanted!r:.100} has {MAX_ACCOUNTS} accounts, the most that are possible")
    tx.run(
        _q.bind,
        **where,
        channel_of=entry.channel,
        name=None if account.name is None else without_nul(account.name)[:MAX_NAME_CHARS],
        subject=wanted,
        subject_channel_of=channel_of_person(tx, workspace_id, wanted),
        conversation_id=account.conversation_id,
        how=how,
        bound_by=by,
        now=tx.now,
    )
    target = person_name(account.channel, account.person_id)
    audit.record(tx, workspace_id, by, "person.bound", target, {"subject": wanted, "how": how})
    row = tx.one(_q.find, **where)
    assert row is not None
    return from_row(row, Bound)


def unbind(tx: Tx, workspace_id: str, channel: str, person_id: str, *, by: str) -> None:
    """Let an account be bound to nothing, and audit it. NotFoundError if it was not bound."""
    if not tx.run(_q.unbind, workspace_id=workspace_id, channel=channel, person_id=person_id):
        raise NotFoundError(f"{person_id!r:.100} of channel {channel!r:.100} is bound to nothing")
    audit.record(tx, workspace_id, by, "person.unbound", person_name(channel, person_id), {})


def drop(tx: Tx, workspace_id: str, channel: str, person_id: str) -> int:
    """Unbind an account whose person is deleted, of which no log is kept; return whether it was bound."""
    return tx.run(_q.unbind, workspace_id=workspace_id, channel=channel, person_id=person_id)


def page(
    tx: Tx,
    workspace_id: str,
    *,
    channel: str | None = None,
    subject: str | None = None,
    after: tuple[str, str] = ("", ""),
    limit: int = MAX_PAGE_ITEMS,
) -> list[Bound]:
    """Return bound accounts by channel and id, after (channel, id)."""
    rows = tx.all(
        _q.page,
        workspace_id=workspace_id,
        channel=channel,
        subject=subject,
        after_channel=after[0],
        after_person=after[1],
        limit=limit,
    )
    return [from_row(row, Bound) for row in rows]


def of_person(tx: Tx, workspace_id: str, person_id: str) -> list[Bound]:
    """Return the next bound accounts with an id, on whichever channel."""
    rows = tx.all(_q.of_person, workspace_id=workspace_id, person_id=person_id, limit=STEP_ROWS)
    return [from_row(row, Bound) for row in rows]


def channels(tx: Tx, workspace_id: str) -> list[str]:
    """Return the channels that have bound accounts."""
    rows = tx.all(_q.channels, workspace_id=workspace_id, limit=2 * MAX_CHANNELS)
    return [row["channel"] for row in rows]


def drop_of_channel(tx: Tx, workspace_id: str, channel: str) -> int:
    """Unbind the next accounts of a channel that was removed; return their number."""
    rows = tx.all(_q.of_channel, workspace_id=workspace_id, channel=channel, limit=STEP_ROWS)
    for row in rows:
        unbind(tx, workspace_id, channel, row["person_id"], by="host")
    return len(rows)
