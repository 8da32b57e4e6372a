"""Stored secrets: set, listed and removed; no route returns a value.

Those of a workspace are for its agents. Those of the installation, for all other entries of the
configuration, take the right `installation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from hostler.domain.epoch import seconds
from hostler.domain.stored_secrets import MAX_PLACES, MAX_SECRET_BYTES, SecretOwner, reference_to
from hostler.host import workspace_keys
from hostler.host.moved_secrets import Place
from hostler.http.auth import require_right
from hostler.http.endpoint import endpoint
from hostler.http.pagination import PageQuery, list_cursors, listing
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Listing
from hostler.storage.stores.secrets import SecretFacts
from hostler_protocol._base import Strict


class SecretRecord(Strict):
    """A secret without its value. Times are UTC epoch seconds.

    `used_by`: the entry or run that used it last. `referred_by`: the entries, or agents, that refer to it,
    the first of them if there are many. `problem`: why it cannot be opened.
    """

    name: str
    reference: str
    owner: SecretOwner
    version: int
    set_by: str
    set_at: float
    created_at: float
    used_by: str | None
    used_at: float | None
    referred_by: list[str]
    problem: str | None


class NewValue(Strict):
    """The value of a secret."""

    value: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_SECRET_BYTES)]


class SecretsQuery(PageQuery):
    """A page of secrets. `owner`: whose."""

    owner: SecretOwner = "workspace"


class SetQuery(Strict):
    """`owner`: whose secret it is. `existing`: only replace the value of a secret that there is."""

    owner: SecretOwner = "workspace"
    existing: bool = False


class RemoveQuery(Strict):
    """`owner`: whose secret it is. `force`: also if something refers to it."""

    owner: SecretOwner = "workspace"
    force: bool = False


class WrittenSecret(Strict):
    """Where a secret is written out: the `api_key` of a model, or a key of the `config` of an agent."""

    kind: Literal["models", "agents"]
    name: str
    field: str = "api_key"


class MasterKeyRecord(Strict):
    """A master key. `uses`: how much is wrapped by it. `reference`: null if it is not configured."""

    key_id: str
    reference: str | None
    current: bool
    uses: dict[str, int]


class Rotation(Strict):
    """`workspace_id`: whose keys; null for all workspaces."""

    workspace_id: str | None = None


class RotatedKeys(Strict):
    """`replaced`: keys of workspaces and of their conversations. `erasure_key`: the id of the new one."""

    replaced: int
    erasure_key: str


@endpoint("GET", "/v1/secrets", right="secrets:read", tag="secrets")
async def list_secrets(request: ApiRequest, query: SecretsQuery) -> Listing[SecretRecord]:
    """List secrets by name, without their values."""
    _check(request, query.owner)
    store, workspace = request.state.host.secrets, request.workspace_id
    cursors = list_cursors(request.state.host.cursors, f"secrets of {query.owner}", workspace, query)
    after = "" if query.cursor is None else cursors.read_text(query.cursor)
    rows, users = await store.page(workspace, query.owner, after, query.size + 1)
    closed = await store.known(workspace, query.owner)
    return listing(
        rows,
        query.size,
        lambda facts: _record(query.owner, facts, users, closed.get(facts.name)),
        lambda facts: facts.name,
        cursors,
    )


@endpoint("PUT", "/v1/secrets/{name}", right="secrets:write", tag="secrets")
async def set_secret(request: ApiRequest, query: SetQuery, body: NewValue) -> SecretRecord:
    """Store a secret, or a new value of it. Whatever refers to it uses that from its next use on."""
    _check(request, query.owner)
    name, workspace = request.parameters["name"], request.workspace_id
    facts = await request.state.host.secrets.set(
        workspace, query.owner, name, body.value, request.caller.subject, existing=query.existing or None
    )
    return await _shown(request, query.owner, facts)


@endpoint("DELETE", "/v1/secrets/{name}", right="secrets:write", tag="secrets")
async def remove_secret(request: ApiRequest, query: RemoveQuery) -> Empty:
    """Remove a secret. A `conflict` names what refers to it, unless `force`."""
    _check(request, query.owner)
    name, workspace, actor = request.parameters["name"], request.workspace_id, request.caller.subject
    await request.state.host.secrets.remove(workspace, query.owner, name, actor, force=query.force)
    return Empty()


@endpoint("PUT", "/v1/secrets/{name}/from", right="secrets:write", tag="secrets")
async def move_secret(request: ApiRequest, body: WrittenSecret) -> SecretRecord:
    """Move a secret that is written out in a model or an agent into the store, under this name.

    The entry refers to it then. A model's is of the installation, an agent's of its workspace.
    """
    owner: SecretOwner = "installation" if body.kind == "models" else "workspace"
    _check(request, owner)
    if body.kind == "agents":
        require_right(request.caller, "agents:write")
    place = Place(request.workspace_id, body.kind, body.name, body.field)
    facts = await request.state.host.moved_secrets.move(
        place, request.parameters["name"], request.caller.subject
    )
    return await _shown(request, owner, facts)


@endpoint("GET", "/v1/master-keys", right="installation", tag="secrets")
async def list_master_keys(request: ApiRequest) -> Listing[MasterKeyRecord]:
    """List the master keys, the current one first, and how much is wrapped by each."""
    keys = await request.state.host.master_key.keys()
    return Listing(
        items=[
            MasterKeyRecord(
                key_id=key.key_id, reference=key.reference, current=key.is_current, uses=dict(key.uses)
            )
            for key in keys
        ]
    )


@endpoint("POST", "/v1/workspace-keys/rotate", right="installation", tag="secrets")
async def rotate_workspace_keys(request: ApiRequest, body: Rotation) -> RotatedKeys:
    """Replace the keys of workspaces, which wrap those that seal content, and the erasure key.

    Runs go on meanwhile. Backups from before open only with the rows of keys from after, as after an erasure.
    """
    host = request.state.host
    rotated = await workspace_keys.rotate(
        host.sealing, host.settings.workspace, body.workspace_id, by=request.caller.subject
    )
    return RotatedKeys(replaced=rotated.replaced, erasure_key=rotated.erasure_key)


def _check(request: ApiRequest, owner: SecretOwner) -> None:
    if owner == "installation":
        require_right(request.caller, "installation")


async def _shown(request: ApiRequest, owner: SecretOwner, facts: SecretFacts) -> SecretRecord:
    users = await request.state.host.secrets.users(request.workspace_id, owner)
    return _record(owner, facts, users, None)


def _record(
    owner: SecretOwner, facts: SecretFacts, users: Mapping[str, Sequence[str]], problem: str | None
) -> SecretRecord:
    return SecretRecord(
        name=facts.name,
        reference=reference_to(facts.name),
        owner=owner,
        version=facts.version,
        set_by=facts.set_by,
        set_at=facts.set_at / 1000,
        created_at=facts.created_at / 1000,
        used_by=facts.used_by,
        used_at=seconds(facts.used_at),
        referred_by=list(users.get(facts.name, ()))[:MAX_PLACES],
        problem=problem,
    )
