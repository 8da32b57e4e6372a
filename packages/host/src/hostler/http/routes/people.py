"""People of channels: accounts that are bound to subjects, and who asks to be let in."""

from __future__ import annotations

from typing import Literal

from hostler.channels.pairing import queue_text
from hostler.domain.channels import person_name
from hostler.domain.members import is_person
from hostler.domain.pairing import LET_IN_TEXT
from hostler.domain.same_fields import with_fields_of
from hostler.http.auth import require_right
from hostler.http.endpoint import endpoint
from hostler.http.pagination import PageQuery, list_cursors, listing
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Json, Listing
from hostler.storage.port import Tx
from hostler.storage.stores import pairing_codes, people
from hostler.storage.stores.pairing_codes import Asking
from hostler.storage.stores.people import Bound, ChannelAccount, How
from hostler_protocol._base import Strict
from hostler_protocol.channels import ChannelTarget, PlatformId
from hostler_protocol.ids import digest


class PeopleQuery(PageQuery):
    """Filters of the list."""

    channel: str | None = None
    subject: str | None = None


class PersonRecord(Strict):
    """An account on a channel that is bound to `subject`. `person_id`: the platform's id.

    `how`: by an operator, by confirming the code that the person was given, or by a code that they typed.
    Times are UTC epoch seconds.
    """

    channel: str
    person_id: str
    name: str | None
    subject: str
    how: How
    bound_by: str
    bound_at: float


class Binding(Strict):
    """Whom an account is bound to; without a subject, to the one of its own. `name`: for people to read."""

    subject: str | None = None
    name: str | None = None


class PairingRecord(Strict):
    """An unknown person who wrote to a bot. `rejected`: they get no code until `expires_at`.

    Times are UTC epoch seconds.
    """

    channel: str
    person_id: str
    name: str | None
    status: Literal["waiting", "rejected"]
    asked_at: float
    expires_at: float


class Confirmation(Strict):
    """The code that a person was given, and the subject that they are; None: one of their own."""

    code: str
    subject: str | None = None


class Rejection(Strict):
    """The code that a person was given."""

    code: str


class CodeRequest(Strict):
    """For whom a code is made; None: for yourself."""

    subject: str | None = None


class PairingCode(Strict):
    """A code that binds the account of whoever types it to `subject`, once, until `expires_at` (UTC epoch
    seconds).
    """

    code: str
    subject: str
    expires_at: float


@endpoint("GET", "/v1/people", right="admin", tag="channels")
async def list_people(request: ApiRequest, query: PeopleQuery) -> Listing[PersonRecord]:
    """List the accounts on channels that are bound to subjects, by channel and id."""
    cursors = list_cursors(request.state.host.cursors, "people", request.workspace_id, query)
    after = "" if query.cursor is None else cursors.read_text(query.cursor)
    rows = await request.state.host.db.read(
        lambda tx: people.page(
            tx,
            request.workspace_id,
            channel=query.channel,
            subject=query.subject,
            after=(after.partition("/")[0], after.partition("/")[2]),
            limit=query.size + 1,
        )
    )
    return listing(rows, query.size, _person, lambda one: person_name(one.channel, one.person_id), cursors)


@endpoint("PUT", "/v1/people/{channel}/{person}", right="admin", tag="channels")
async def bind_person(request: ApiRequest, body: Binding) -> PersonRecord:
    """Bind an account to a subject, in place of any other. They are let in where people are paired."""
    channel, person_id = _account(request)

    def bind(tx: Tx) -> Bound:
        account = ChannelAccount(channel=channel, person_id=person_id, name=body.name)
        found = people.bind(
            tx, request.workspace_id, account, body.subject, how="operator", by=request.caller.subject
        )
        pairing_codes.forget(tx, request.workspace_id, channel, person_id)
        return found

    return _person(await request.state.host.db.write(bind))


@endpoint("DELETE", "/v1/people/{channel}/{person}", right="admin", tag="channels")
async def unbind_person(request: ApiRequest) -> Empty:
    """Let an account be bound to nobody. Where people are paired they are let in no longer."""
    channel, person_id = _account(request)
    by, ws = request.caller.subject, request.workspace_id
    await request.state.host.db.write(lambda tx: people.unbind(tx, ws, channel, person_id, by=by))
    return Empty()


@endpoint("GET", "/v1/pairings", right="admin", tag="channels")
async def list_pairings(request: ApiRequest, query: PageQuery) -> Listing[PairingRecord]:
    """List the unknown people who wrote to bots that pair, newest first: who waits, and who was rejected."""
    cursors = list_cursors(request.state.host.cursors, "pairings", request.workspace_id, query)
    before = None if query.cursor is None else cursors.read_place(query.cursor)
    rows = await request.state.host.db.read(
        lambda tx: pairing_codes.page(tx, request.workspace_id, before=before, limit=query.size + 1)
    )
    return listing(rows, query.size, _pairing, lambda one: [one.made_at, one.digest], cursors)


@endpoint("POST", "/v1/pairings", right="pauses:write", tag="channels", status=201)
async def offer_pairing(request: ApiRequest, body: CodeRequest) -> Json[PairingCode]:
    """Make a code that binds the account of whoever types it to you, in a private chat with a bot.

    For another subject, and with a key, which may end before the account does, it takes the right `admin`.
    """
    caller = request.caller
    subject = body.subject or caller.subject
    if subject != caller.subject or not is_person(subject):
        require_right(caller, "admin")
    code, expires_at = await request.state.host.db.write(
        lambda tx: pairing_codes.offer(tx, request.workspace_id, subject, by=caller.subject)
    )
    made = PairingCode(code=code, subject=subject, expires_at=expires_at / 1000)
    return Json(made, 201, kept=PairingCode(code="", subject=subject, expires_at=expires_at / 1000))


@endpoint("POST", "/v1/pairings/confirm", right="admin", tag="channels")
async def confirm_pairing(request: ApiRequest, body: Confirmation) -> PersonRecord:
    """Let the person in who was given a code, as a subject or as their own. They are told in their chat."""
    ws = request.workspace_id

    def confirm(tx: Tx) -> Bound:
        asking, bound = pairing_codes.confirm(tx, ws, body.code, body.subject, by=request.caller.subject)
        told = digest(["let in", asking.digest])[:32]
        target = ChannelTarget(chat_id=asking.chat_id)
        queue_text(tx, ws, asking.channel, told, target=target, text=LET_IN_TEXT)
        return bound

    bound = await request.state.host.db.write(confirm)
    request.state.host.channels.wake_outbox()
    return _person(bound)


@endpoint("POST", "/v1/pairings/reject", right="admin", tag="channels")
async def reject_pairing(request: ApiRequest, body: Rejection) -> Empty:
    """Let the person who was given a code have no other one for a month."""
    by, ws = request.caller.subject, request.workspace_id
    await request.state.host.db.write(lambda tx: pairing_codes.reject(tx, ws, body.code, by=by))
    return Empty()


def _account(request: ApiRequest) -> tuple[str, PlatformId]:
    return request.parameters["channel"], request.parameters["person"]


def _person(bound: Bound) -> PersonRecord:
    return with_fields_of(bound, PersonRecord, bound_at=bound.bound_at / 1000)


def _pairing(asking: Asking) -> PairingRecord:
    return with_fields_of(
        asking, PairingRecord, asked_at=asking.made_at / 1000, expires_at=asking.expires_at / 1000
    )
