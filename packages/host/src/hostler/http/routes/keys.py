"""API keys: created, listed and revoked by an administrator of their workspace."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from hostler.domain.channels import check_reserved
from hostler.domain.epoch import seconds
from hostler.domain.members import PERSON_PREFIX
from hostler.domain.narrow_callers import SUBJECT_PREFIX
from hostler.domain.same_fields import with_fields_of
from hostler.http.auth import ADMIN_KEY_ID, Right, has_right, require_right
from hostler.http.ended_access import end_access
from hostler.http.endpoint import endpoint
from hostler.http.pagination import Moment, PageQuery, list_cursors, listing
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Json, Listing
from hostler.storage.port import Tx
from hostler.storage.stores import api_keys as keys
from hostler.storage.stores import audit
from hostler.storage.stores.api_keys import ApiKey
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError, NotFoundError, UnauthorizedError

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]
Names = Annotated[list[Name], msgspec.Meta(max_length=100)]
_PLUGIN = r"^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,99}/[a-zA-Z0-9][a-zA-Z0-9_.-]{0,99}$"


class NewKey(Strict):
    """A new key. `subject`: the name under which its holder appears and approves.

    `plugin` (`author/name`) makes it the token of one remote plugin process, without other rights.
    `workspace_id`: only the installation's administrator may name another one.
    """

    name: Name
    subject: Name | None = None
    roles: Names = []
    rights: Annotated[list[Right], msgspec.Meta(max_length=100)] = []
    plugin: Annotated[str, msgspec.Meta(pattern=_PLUGIN)] | None = None
    expires_at: Moment | None = None
    workspace_id: Name | None = None


class KeyRecord(Strict):
    """A key without its secret. `member_id`: whose personal key it is. Times are UTC epoch seconds."""

    key_id: str
    workspace_id: str
    name: str
    subject: str
    roles: list[str]
    rights: list[str]
    plugin: str | None
    member_id: str | None
    created_at: float
    expires_at: float | None
    revoked_at: float | None


class CreatedKey(Strict):
    """`key` is shown only once; null if the response is repeated."""

    key: str | None
    record: KeyRecord


@endpoint("POST", "/v1/keys", right="admin", tag="keys", status=201)
async def create_key(request: ApiRequest, body: NewKey) -> Json[CreatedKey]:
    """Create a key. Its secret is in the response and nowhere else."""
    workspace = body.workspace_id or request.workspace_id
    _check_grantable(request, body, workspace)
    expires_at = None if body.expires_at is None else int(body.expires_at * 1000)
    rights: list[str] = ["plugins:connect"] if body.plugin else sorted(set(body.rights))

    def create(tx: Tx) -> tuple[ApiKey, str]:
        key, token = keys.create(
            tx,
            workspace,
            name=body.name,
            subject=body.subject or body.name,
            roles=sorted(set(body.roles)),
            rights=rights,
            plugin=body.plugin,
            expires_at=expires_at,
        )
        details: dict[str, Any] = {"name": body.name, "rights": rights, "plugin": body.plugin}
        audit.record(tx, workspace, request.caller.subject, "key.created", key.key_id, details)
        return key, token

    key, token = await request.state.host.db.write(create)
    record = key_record(key)
    return Json(CreatedKey(key=token, record=record), 201, kept=CreatedKey(key=None, record=record))


@endpoint("GET", "/v1/keys", right="admin", tag="keys")
async def list_keys(request: ApiRequest, query: PageQuery) -> Listing[KeyRecord]:
    """List keys, including revoked and expired ones."""
    cursors = list_cursors(request.state.host.cursors, "keys", request.workspace_id, query)
    after = "" if query.cursor is None else cursors.read_text(query.cursor)
    rows = await request.state.host.db.read(
        lambda tx: keys.page(tx, request.workspace_id, after=after, limit=query.size + 1)
    )
    return listing(rows, query.size, key_record, lambda key: key.key_id, cursors)


@endpoint("DELETE", "/v1/keys/{key_id}", right="admin", tag="keys")
async def revoke_key(request: ApiRequest) -> Empty:
    """Revoke a key, effective at once. Revoking it again changes nothing."""
    key_id = request.parameters["key_id"]

    def revoke(tx: Tx) -> tuple[ApiKey | None, list[str]]:
        known = keys.find(tx, request.workspace_id, key_id)
        if known is not None and keys.revoke(tx, request.workspace_id, key_id):
            audit.record(tx, request.workspace_id, request.caller.subject, "key.revoked", key_id, {})
        return known, keys.remote_plugins(tx)

    key, expected = await request.state.host.db.write(revoke)
    if key is None:
        extra = (
            "; the administrator's key is changed with HOSTLER_ADMIN_KEY" if key_id == ADMIN_KEY_ID else ""
        )
        raise NotFoundError(f"there is no key {key_id!r}{extra}")
    end_access(request.state, [key_id])
    if key.plugin is not None and key.plugin not in expected:
        request.state.host.supervisor.forget_remote(key.plugin)
    return Empty()


def key_record(key: ApiKey) -> KeyRecord:
    """Return a stored key as the API shows it."""
    return with_fields_of(
        key,
        KeyRecord,
        roles=sorted(key.roles),
        rights=sorted(key.rights),
        created_at=key.created_at / 1000,
        expires_at=seconds(key.expires_at),
        revoked_at=seconds(key.revoked_at),
    )


def _check_grantable(request: ApiRequest, body: NewKey, workspace: str) -> None:
    """UnauthorizedError if the caller grants more than it has, InvalidArgumentError for invalid rights."""
    if workspace != request.workspace_id and not has_right(request.caller, "installation"):
        raise UnauthorizedError("only the installation's administrator may create keys for another workspace")
    if (body.subject or body.name).startswith(PERSON_PREFIX):
        raise InvalidArgumentError(
            f"subjects that begin with {PERSON_PREFIX} are those of people who sign in: use another"
        )
    check_reserved(body.subject or body.name)
    if (body.subject or body.name).startswith(SUBJECT_PREFIX):
        raise InvalidArgumentError(
            f"subjects that begin with {SUBJECT_PREFIX} are those of front-end tokens: use another"
        )
    for right in body.rights:
        if not has_right(request.caller, right):
            raise UnauthorizedError(
                f"this key does not have the right {right!r}, so it cannot grant it", right=right
            )
    if body.plugin is not None:
        require_right(request.caller, "installation")
        if body.rights or body.roles:
            raise InvalidArgumentError(
                "the token of a plugin process has no rights and no roles: leave them out"
            )
    elif not body.rights:
        raise InvalidArgumentError("rights is empty: name at least one, such as events:write")
