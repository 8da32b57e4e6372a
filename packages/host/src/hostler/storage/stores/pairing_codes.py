"""Codes by which people of channels are paired: made, confirmed, rejected, typed. Stored as digests."""

from __future__ import annotations

from typing import Literal

from hostler.domain.channels import MAX_CHANNELS, person_name
from hostler.domain.pairing import (
    CODE_MS,
    MAX_WAITING,
    REJECTED_MS,
    check_bindable,
    code_in,
    digest_of,
    new_code,
)
from hostler.domain.record import Record
from hostler.domain.same_fields import from_row
from hostler.storage.port import Row, Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import audit, channel_entries, people
from hostler.storage.stores.filters import NEWEST
from hostler.storage.stores.nul import without_nul
from hostler.storage.stores.people import MAX_NAME_CHARS, Bound, ChannelAccount
from hostler_protocol.errors import InvalidArgumentError, NotFoundError, UnavailableError
from hostler_protocol.limits import MAX_PAGE_ITEMS

Status = Literal["waiting", "rejected"]
_q = load(__file__)


class Asking(Record, kw_only=True):
    """A person who asks to be let in, in the chat `chat_id`. Times are UTC epoch milliseconds."""

    digest: str
    status: Status
    channel: str
    person_id: str
    name: str | None
    chat_id: str
    conversation_id: str | None
    made_at: int
    expires_at: int

    @property
    def account(self) -> ChannelAccount:
        """Whose it is."""
        return ChannelAccount(
            channel=self.channel,
            person_id=self.person_id,
            name=self.name,
            conversation_id=self.conversation_id,
        )


def ask(tx: Tx, workspace_id: str, account: ChannelAccount, chat_id: str) -> str | None:
    """Return a new code for an unknown person; None if they have one, were rejected, or too many wait."""
    entry = channel_entries.entry_of(tx, workspace_id, account.channel)
    tx.run(_q.drop_expired, workspace_id=workspace_id, now=tx.now)
    where = {"workspace_id": workspace_id, "channel": account.channel, "person_id": account.person_id}
    if entry is None or tx.one(_q.of_account, **where) is not None or _is_full(tx, workspace_id, "asked"):
        return None
    code = new_code()
    tx.run(
        _q.insert,
        **where,
        digest=digest_of(workspace_id, code),
        kind="asked",
        channel_of=entry.channel,
        name=None if account.name is None else without_nul(account.name)[:MAX_NAME_CHARS],
        chat_id=chat_id,
        conversation_id=account.conversation_id,
        subject=None,
        made_by="host",
        now=tx.now,
        expires_at=tx.now + CODE_MS,
    )
    return code


def offer(tx: Tx, workspace_id: str, subject: str, *, by: str) -> tuple[str, int]:
    """Return a new code that binds whoever types it to a subject, and when it ends. Its last one ends now.

    InvalidArgumentError; UnavailableError if too many wait.
    """
    check_bindable(subject)
    tx.run(_q.drop_expired, workspace_id=workspace_id, now=tx.now)
    tx.run(_q.drop_of_subject, workspace_id=workspace_id, subject=subject)
    if _is_full(tx, workspace_id, "offered"):
        raise UnavailableError(f"{MAX_WAITING:,} codes wait to be typed: try again in an hour")
    code, expires_at = new_code(), tx.now + CODE_MS
    tx.run(
        _q.insert,
        workspace_id=workspace_id,
        digest=digest_of(workspace_id, code),
        kind="offered",
        **dict.fromkeys(("channel", "person_id", "channel_of", "name", "chat_id", "conversation_id")),
        subject=subject,
        made_by=by,
        now=tx.now,
        expires_at=expires_at,
    )
    audit.record(tx, workspace_id, by, "pairing.offered", subject, {})
    return code, expires_at


def redeem(tx: Tx, workspace_id: str, code: str, account: ChannelAccount) -> Bound | None:
    """Bind the account that typed a code that was offered; None if there is no such code. ConflictError."""
    row = _find(tx, workspace_id, code, "offered")
    if row is None:
        return None
    tx.run(_q.drop, workspace_id=workspace_id, digest=row["digest"])
    tx.run(
        _q.drop_of_account, workspace_id=workspace_id, channel=account.channel, person_id=account.person_id
    )
    return people.bind(tx, workspace_id, account, row["subject"], how="code", by=row["made_by"])


def confirm(tx: Tx, workspace_id: str, code: str, subject: str | None, *, by: str) -> tuple[Asking, Bound]:
    """Let the person in who was given a code, as a subject or as their own.

    NotFoundError if there is no such code, or the channel is another one by now; InvalidArgumentError,
    ConflictError as `people.bind`.
    """
    row = _asked(tx, workspace_id, code)
    asking = from_row(row, Asking)
    entry = channel_entries.entry_of(tx, workspace_id, asking.channel)
    if entry is None or entry.channel != row["channel_of"]:
        raise NotFoundError(f"channel {asking.channel!r:.100} is another one since the code was made")
    bound = people.bind(tx, workspace_id, asking.account, subject, how="confirmed", by=by)
    tx.run(_q.drop, workspace_id=workspace_id, digest=asking.digest)
    return asking, bound


def reject(tx: Tx, workspace_id: str, code: str, *, by: str) -> Asking:
    """Let the person who was given a code have no other one for a month. NotFoundError."""
    asking = from_row(_asked(tx, workspace_id, code), Asking)
    tx.run(_q.reject, workspace_id=workspace_id, digest=asking.digest, expires_at=tx.now + REJECTED_MS)
    target = person_name(asking.channel, asking.person_id)
    audit.record(tx, workspace_id, by, "pairing.rejected", target, {})
    return asking


def has_asked(tx: Tx, workspace_id: str, channel: str, person_id: str) -> bool:
    """Whether an account has a code that waits, or was rejected a while ago."""
    row = tx.one(_q.of_account, workspace_id=workspace_id, channel=channel, person_id=person_id)
    return row is not None and row["expires_at"] > tx.now


def page(
    tx: Tx, workspace_id: str, *, before: tuple[int, str] | None = None, limit: int = MAX_PAGE_ITEMS
) -> list[Asking]:
    """Return who asks to be let in and who was rejected, before (made_at, digest), newest first."""
    at, before_digest = before or (NEWEST, "")
    rows = tx.all(
        _q.page,
        workspace_id=workspace_id,
        now=tx.now,
        before_at=at,
        before_digest=before_digest,
        limit=limit,
    )
    return [from_row(row, Asking) for row in rows]


def of_person(tx: Tx, workspace_id: str, person_id: str) -> list[Asking]:
    """Return what people with an id have asked, on whichever channel."""
    rows = tx.all(_q.of_person, workspace_id=workspace_id, person_id=person_id, limit=2 * MAX_CHANNELS)
    return [from_row(row, Asking) for row in rows]


def forget(tx: Tx, workspace_id: str, channel: str, person_id: str) -> int:
    """Forget what an account has asked; return whether it had, as a number."""
    return tx.run(_q.drop_of_account, workspace_id=workspace_id, channel=channel, person_id=person_id)


def drop_of_channel(tx: Tx, workspace_id: str, channel: str) -> int:
    """Forget the codes of a channel that was removed; return their number."""
    return tx.run(_q.drop_of_channel, workspace_id=workspace_id, channel=channel)


def drop_of_subject(tx: Tx, workspace_id: str, subject: str) -> int:
    """Forget the codes that were offered for a subject; return their number."""
    return tx.run(_q.drop_of_subject, workspace_id=workspace_id, subject=subject)


def channels(tx: Tx, workspace_id: str) -> list[str]:
    """Return the channels whose people have asked."""
    return [row["channel"] for row in tx.all(_q.channels, workspace_id=workspace_id, limit=2 * MAX_CHANNELS)]


def _asked(tx: Tx, workspace_id: str, code: str) -> Row:
    typed = code_in(code)
    if typed is None:
        raise InvalidArgumentError(f"code: {code!r:.40} is no code: expected one like ABCD-EFGH")
    row = _find(tx, workspace_id, typed, "asked")
    if row is None:
        raise NotFoundError("no person waits with this code: it is wrong, was used, or is over an hour old")
    return row


def _find(tx: Tx, workspace_id: str, code: str, kind: str) -> Row | None:
    return tx.one(
        _q.find, workspace_id=workspace_id, digest=digest_of(workspace_id, code), kind=kind, now=tx.now
    )


def _is_full(tx: Tx, workspace_id: str, kind: str) -> bool:
    row = tx.one(_q.count, workspace_id=workspace_id, kind=kind, now=tx.now)
    return row is not None and int(row["number"]) >= MAX_WAITING
