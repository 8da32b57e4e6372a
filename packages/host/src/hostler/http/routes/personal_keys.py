"""Personal keys: people who have signed in make keys that act as they do, and end with their membership."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hostler.http.auth import Right, has_right
from hostler.http.ended_access import end_access
from hostler.http.endpoint import endpoint
from hostler.http.pagination import Moment
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Json, Listing
from hostler.http.routes.keys import CreatedKey, KeyRecord, Name, key_record
from hostler.http.routes.sessions import member_session
from hostler.storage.port import Tx
from hostler.storage.stores import api_keys, audit
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError, NotFoundError, UnauthorizedError

MAX_PERSONAL_KEYS = 50
"""Personal keys of one member that are not revoked."""
MAX_KEY_DAYS = 365.0
DEFAULT_KEY_DAYS = 90.0
_DAY_MS = 86_400_000


class NewPersonalKey(Strict):
    """A key that acts as the caller. `rights`: within those of the role.

    `expires_at`: at most a year from now; 90 days if it is left out.
    """

    name: Name
    rights: Annotated[list[Right], msgspec.Meta(min_length=1, max_length=100)]
    expires_at: Moment | None = None


@endpoint("POST", "/v1/auth/keys", right=None, signed_in=True, tag="sign-in", status=201)
async def create_personal_key(request: ApiRequest, body: NewPersonalKey) -> Json[CreatedKey]:
    """Create a key that acts as the caller.

    It has less as soon as the role has less, and ends with the membership.
    """
    session, caller = member_session(request), request.caller
    for right in body.rights:
        if not has_right(caller, right):
            raise UnauthorizedError(f"your role does not have the right {right!r}", right=right)

    def create(tx: Tx) -> CreatedKey:
        if len(api_keys.of_member(tx, session.workspace_id, session.member_id)) >= MAX_PERSONAL_KEYS:
            raise InvalidArgumentError(f"you have {MAX_PERSONAL_KEYS} keys: revoke one first")
        latest = tx.now + int(MAX_KEY_DAYS * _DAY_MS)
        expires = tx.now + int(DEFAULT_KEY_DAYS * _DAY_MS)
        if body.expires_at is not None:
            expires = int(body.expires_at * 1000)
        if expires > latest:
            raise InvalidArgumentError(f"expires_at: at most {MAX_KEY_DAYS:g} days from now")
        key, token = api_keys.create(
            tx,
            session.workspace_id,
            name=body.name,
            subject=caller.subject,
            rights=sorted(set(body.rights)),
            member_id=session.member_id,
            expires_at=expires,
        )
        details = {"name": body.name, "rights": sorted(set(body.rights)), "member_id": session.member_id}
        audit.record(tx, session.workspace_id, caller.subject, "key.created", key.key_id, details)
        return CreatedKey(key=token, record=key_record(key))

    return Json(await request.state.host.db.write(create), 201)


@endpoint("GET", "/v1/auth/keys", right=None, signed_in=True, tag="sign-in")
async def list_personal_keys(request: ApiRequest) -> Listing[KeyRecord]:
    """List the caller's personal keys that are not revoked. There are at most 50."""
    session = member_session(request)
    found = await request.state.host.db.read(
        lambda tx: api_keys.of_member(tx, session.workspace_id, session.member_id)
    )
    return Listing(items=[key_record(key) for key in found])


@endpoint("DELETE", "/v1/auth/keys/{key_id}", right=None, signed_in=True, tag="sign-in")
async def revoke_personal_key(request: ApiRequest) -> Empty:
    """Revoke one of the caller's personal keys, effective at once."""
    session, key_id = member_session(request), request.parameters["key_id"]

    def revoke(tx: Tx) -> None:
        key = api_keys.find(tx, session.workspace_id, key_id)
        if key is None or key.member_id != session.member_id:
            raise NotFoundError(f"there is no key {key_id!r} of yours")
        if api_keys.revoke(tx, session.workspace_id, key_id):
            audit.record(tx, session.workspace_id, request.caller.subject, "key.revoked", key_id, {})

    await request.state.host.db.write(revoke)
    end_access(request.state, [key_id])
    return Empty()
