"""Browsers sign in with a key: pasted into the page, or by a link that the holder of the key made."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from hostler.domain.members import session_credential, session_of_credential
from hostler.http.auth import ADMIN_KEY_ID, KEY_ISSUER, KeyHolder, key_caller
from hostler.http.ended_access import end_access
from hostler.http.endpoint import ANY_KEY, endpoint
from hostler.http.limits import MAX_TOKEN_CHARS
from hostler.http.own_pages import own_names, own_origin
from hostler.http.problems import UnauthenticatedError
from hostler.http.request import ApiRequest
from hostler.http.responses import Json, Listing
from hostler.http.routes.sessions import SessionView, key_session_view
from hostler.http.routes.sign_in import leave
from hostler.http.sessions import COOKIE, is_secure
from hostler.http.sign_ins import set_cookie
from hostler.storage.port import Tx
from hostler.storage.stores import audit, sessions, sign_in_links
from hostler.storage.stores.sessions import Session
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError, UnauthorizedError
from hostler_protocol.ids import new_id

SESSION_HOURS = 24 * 7.0
"""A week, so that the page on the own screen stays open; the key ends sooner if it is to."""
IDLE_HOURS = 24.0
Secret = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TOKEN_CHARS)]


class NewSession(Strict):
    """What signs a browser in: a `key`, or the `code` of a link. One of the two."""

    key: Secret | None = None
    code: Secret | None = None


class CreatedLink(Strict):
    """A link to sign one browser in: `/#sign-in=CODE`. `code` is shown only once; null if the response is
    repeated.

    `expires_at`: UTC epoch seconds.
    """

    code: str | None
    expires_at: float


class ProviderRecord(Strict):
    """An identity provider: `/v1/auth/sign-in?provider=NAME` leads to it."""

    name: str


class _Holder(NamedTuple):
    workspace_id: str
    key_id: str
    issuer: str


class _Opened(NamedTuple):
    session: Session
    view: SessionView
    token: str
    ended: list[str]


@endpoint("GET", "/v1/auth/providers", right=None, tag="sign-in")
async def list_providers(request: ApiRequest) -> Listing[ProviderRecord]:
    """List the identity providers with which people can sign in."""
    entries = request.state.host.providers.entries
    return Listing(items=[ProviderRecord(name=entry.name) for entry in entries])


@endpoint("POST", "/v1/auth/links", right=ANY_KEY, tag="sign-in", status=201)
async def create_link(request: ApiRequest) -> Json[CreatedLink]:
    """Make a link that signs a browser in, once and within five minutes, as this key.

    The browser's session ends with the key.
    """
    if session_of_credential(request.caller.credential_id) is not None:
        raise UnauthorizedError("links are made with a key: a session does not open others")
    holder = _holder(request, request.holder)

    def create(tx: Tx) -> tuple[str, int]:
        return sign_in_links.create(tx, holder.workspace_id, holder.key_id, holder.issuer)

    code, expires_at = await request.state.host.db.write(create)
    made = CreatedLink(code=None, expires_at=expires_at / 1000)
    return Json(msgspec.structs.replace(made, code=code), 201, kept=made)


@endpoint("POST", "/v1/auth/session", right=None, tag="sign-in", status=201)
async def create_session(request: ApiRequest, body: NewSession) -> Json[SessionView]:
    """Sign a browser in, from a page of this host, with a key or the code of a link. The answer sets a
    cookie.
    """
    state = request.state
    if (body.key is None) == (body.code is None):
        raise InvalidArgumentError("expected either key or code")
    origin = own_origin(request.headers, own_names(request.state.host))
    state.sign_ins.take(request.address)
    agent = "".join(filter(str.isprintable, request.headers.get("user-agent", "")))
    by_key = None
    if body.key is not None:
        by_key = _holder(request, await state.keys.authenticate(f"Bearer {body.key}", request.address))

    def open_one(tx: Tx) -> _Opened:
        holder = by_key or _by_code(tx, body.code or "")
        return _open(request, tx, holder, origin, agent)

    opened = await state.host.db.write(open_one)
    await leave(request)
    end_access(state, map(session_credential, opened.ended))
    seconds = (opened.session.expires_at - opened.session.created_at) / 1000
    cookie = set_cookie(COOKIE, opened.token, secure=is_secure(origin), max_age=seconds, same_site="Strict")
    return Json(opened.view, 201, headers=[cookie])


def _open(request: ApiRequest, tx: Tx, holder: _Holder, origin: str, agent: str) -> _Opened:
    found = key_caller(tx, holder.workspace_id, holder.key_id, request.state.host.providers.keys_until)
    if found is None or holder.issuer not in (KEY_ISSUER, request.state.keys.admin_issuer):
        raise UnauthenticatedError("the key of this link is no longer valid")
    caller, ends_at = found
    left = SESSION_HOURS * 3600 if ends_at is None else min(SESSION_HOURS * 3600, (ends_at - tx.now) / 1000)
    session, token, ended = sessions.create(
        tx,
        holder.workspace_id,
        "",
        new_id(),
        provider="key",
        issuer=holder.issuer,
        agent=agent,
        seconds=left,
        idle_seconds=IDLE_HOURS * 3600,
        key_id=holder.key_id,
        origin=origin,
    )
    body = {**session.holder(), "by": "key"}
    audit.record(tx, session.workspace_id, caller.subject, "session.opened", session.session_id, body)
    return _Opened(session, key_session_view(session, caller, token), token, ended)


def _by_code(tx: Tx, code: str) -> _Holder:
    link = sign_in_links.use(tx, code)
    if link is None:
        raise UnauthenticatedError("this link was used before, or is too old: run `hostler console` again")
    return _Holder(link.workspace_id, link.key_id, link.issuer)


def _holder(request: ApiRequest, holder: KeyHolder | None) -> _Holder:
    """Return the key of a holder. UnauthorizedError for keys that are not for browsers."""
    if holder is None or holder.plugin is not None or holder.caller.scope is not None:
        raise UnauthorizedError("browsers do not sign in with a key of one plugin, or of one conversation")
    key_id = holder.caller.credential_id
    issuer = request.state.keys.admin_issuer if key_id == ADMIN_KEY_ID else KEY_ISSUER
    return _Holder(holder.caller.workspace_id, key_id, issuer or KEY_ISSUER)
