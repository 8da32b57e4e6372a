"""Sessions of browsers that have signed in: shown, listed, ended, and moved to another workspace."""

from __future__ import annotations

import logging
from typing import NamedTuple

from hostler.domain.events import Caller
from hostler.domain.members import ROLE_RIGHTS, MemberRole, session_credential
from hostler.host.identity_providers import ProviderError
from hostler.http.ended_access import end_access
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Json, Listing
from hostler.http.routes.keys import Name
from hostler.http.routes.sign_in import PAGE, open_session
from hostler.http.sessions import COOKIE, csrf_token, is_secure
from hostler.http.sign_ins import drop_cookie, set_cookie
from hostler.storage.port import Tx
from hostler.storage.stores import audit, members, sessions
from hostler.storage.stores.members import Member
from hostler.storage.stores.sessions import Session
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError, UnauthorizedError

log = logging.getLogger("hostler.http")


class Membership(Strict):
    """A workspace of the person, and the role there."""

    workspace_id: str
    member_id: str
    role: MemberRole


class SessionView(Strict):
    """Who has signed in. `csrf_token`: for the header `X-CSRF-Token` of writes.

    A browser that signed in with a key has its `key_id`, and neither `member_id` nor `role`. `expires_at`:
    UTC epoch seconds.
    """

    session_id: str
    subject: str
    name: str
    email: str | None
    workspace_id: str
    member_id: str | None
    key_id: str | None
    role: MemberRole | None
    rights: list[str]
    groups: list[str]
    csrf_token: str
    expires_at: float
    workspaces: list[Membership]


class SessionRecord(Strict):
    """One session of the caller. `agent`: how its browser calls itself. Times are UTC epoch seconds.

    `provider`: the identity provider, or `key`.
    """

    session_id: str
    provider: str
    agent: str
    current: bool
    created_at: float
    seen_at: float
    expires_at: float


class EnterWorkspace(Strict):
    """Go on in another workspace."""

    workspace_id: Name


class SignedOut(Strict):
    """`url`: where the browser goes to sign out of the identity provider too; null if it offers none."""

    url: str | None


@endpoint("GET", "/v1/auth/session", right=None, signed_in=True, tag="sign-in")
async def get_session(request: ApiRequest) -> SessionView:
    """Show who has signed in, with which role, and what writes have to send along."""
    session = session_of_request(request)
    if session.key_id is not None:
        return key_session_view(session, request.caller, _token(request))

    def read(tx: Tx) -> tuple[Member, list[Member]]:
        member = members.get(tx, session.workspace_id, session.member_id)
        return member, members.of_subject(tx, member.subject or "")

    member, all_of_them = await request.state.host.db.read(read)
    return _view(session, member, all_of_them, _token(request))


@endpoint("GET", "/v1/auth/sessions", right=None, signed_in=True, tag="sign-in")
async def list_sessions(request: ApiRequest) -> Listing[SessionRecord]:
    """List the caller's valid sessions in this workspace, newest first. There are at most 20."""
    session = session_of_request(request)
    found = await request.state.host.db.read(lambda tx: sessions.beside(tx, session))
    return Listing(
        items=[
            SessionRecord(
                session_id=one.session_id,
                provider=one.provider,
                agent=one.agent,
                current=one.session_id == session.session_id,
                created_at=one.created_at / 1000,
                seen_at=one.seen_at / 1000,
                expires_at=one.ends_at() / 1000,
            )
            for one in found
        ]
    )


@endpoint("DELETE", "/v1/auth/sessions/{session_id}", right=None, signed_in=True, tag="sign-in")
async def end_session(request: ApiRequest) -> Empty:
    """End one of the caller's sessions, with its open streams."""
    session, session_id = session_of_request(request), request.parameters["session_id"]

    def end(tx: Tx) -> None:
        found = sessions.find(tx, session.workspace_id, session_id)
        if found is None or (found.member_id, found.key_id) != (session.member_id, session.key_id):
            raise NotFoundError(f"there is no session {session_id!r} of yours")
        _revoke(tx, request, found)

    await request.state.host.db.write(end)
    end_access(request.state, [session_credential(session_id)])
    return Empty()


@endpoint("POST", "/v1/auth/workspace", right=None, signed_in=True, tag="sign-in")
async def enter_workspace(request: ApiRequest, body: EnterWorkspace) -> Json[SessionView]:
    """Go on in another workspace of the caller, with a new session; the old one ends.

    The new one ends when the old one would have: that is counted from the sign-in.
    """
    session = member_session(request)
    provider = request.state.host.providers.find(session.provider)
    if provider is None:
        raise UnauthorizedError("the identity provider of this session is gone: sign in again")
    entry = provider.entry

    def enter(tx: Tx) -> _Entering:
        found = members.of_subject(tx, request.caller.subject)
        member = next((one for one in found if one.workspace_id == body.workspace_id), None)
        if member is None:
            raise NotFoundError(f"you are no member of workspace {body.workspace_id!r}")
        left = (session.expires_at - tx.now) / 1000
        made, token, ended = open_session(
            tx, member, entry, session.agent, begun_by="another workspace", seconds=left
        )
        _revoke(tx, request, session)
        return _Entering(made, member, found, token, [*ended, session.session_id])

    entered = await request.state.host.db.write(enter)
    end_access(request.state, map(session_credential, entered.ended))
    view = _view(entered.session, entered.member, entered.found, entered.token)
    left = (entered.session.expires_at - entered.session.created_at) / 1000
    cookie = set_cookie(COOKIE, entered.token, secure=entry.secure, max_age=left)
    return Json(view, headers=[cookie])


class _Entering(NamedTuple):
    session: Session
    member: Member
    found: list[Member]
    token: str
    ended: list[str]


@endpoint("POST", "/v1/auth/sign-out", right=None, signed_in=True, tag="sign-in")
async def sign_out(request: ApiRequest) -> Json[SignedOut]:
    """End the session, and say where the browser signs out of the identity provider too."""
    session = session_of_request(request)
    await request.state.host.db.write(lambda tx: _revoke(tx, request, session))
    end_access(request.state, [session_credential(session.session_id)])
    if session.origin is not None:
        return Json(SignedOut(url=None), headers=[drop_cookie(COOKIE, secure=is_secure(session.origin))])
    provider, url, cookies = request.state.host.providers.find(session.provider), None, []
    if provider is not None:
        entry = provider.entry
        cookies = [drop_cookie(COOKIE, secure=entry.secure)]
        try:
            url = await provider.sign_out_url(f"{entry.origin}{PAGE}?problem=signed_out")
        except ProviderError as error:
            log.warning("%s does not say where to sign out: %s", entry.name, error.detail)
    return Json(SignedOut(url=url), headers=cookies)


def _revoke(tx: Tx, request: ApiRequest, session: Session) -> None:
    if sessions.revoke(tx, session.workspace_id, session.session_id):
        ws, subject = session.workspace_id, request.caller.subject
        audit.record(tx, ws, subject, "session.ended", session.session_id, session.holder())


def member_session(request: ApiRequest) -> Session:
    """Return the session of a request to a route for members. UnauthorizedError for that of a key."""
    session = session_of_request(request)
    if session.key_id is not None:
        raise UnauthorizedError(
            "this is for members, who signed in with an identity provider: this browser signed in with a key"
        )
    return session


def session_of_request(request: ApiRequest) -> Session:
    """Return the session of a request to a route for people."""
    session = None if request.holder is None else request.holder.session
    if session is None:
        raise RuntimeError("this route is for people, and there is no session")
    return session


def _token(request: ApiRequest) -> str:
    return request.state.sessions.token_of(request.headers) or ""


def key_session_view(session: Session, caller: Caller, token: str) -> SessionView:
    """Return the session of a key as the API shows it."""
    return SessionView(
        session_id=session.session_id,
        subject=caller.subject,
        name=caller.subject,
        email=caller.email,
        workspace_id=session.workspace_id,
        member_id=None,
        key_id=session.key_id,
        role=None,
        rights=sorted(caller.rights),
        groups=sorted(caller.groups),
        csrf_token=csrf_token(token),
        expires_at=session.expires_at / 1000,
        workspaces=[],
    )


def _view(session: Session, member: Member, found: list[Member], token: str) -> SessionView:
    return SessionView(
        session_id=session.session_id,
        subject=member.subject or "",
        name=member.name,
        email=member.email,
        workspace_id=member.workspace_id,
        member_id=member.member_id,
        key_id=None,
        role=member.role,
        rights=sorted(ROLE_RIGHTS[member.role]),
        groups=sorted(member.groups),
        csrf_token=csrf_token(token),
        expires_at=session.expires_at / 1000,
        workspaces=[
            Membership(workspace_id=one.workspace_id, member_id=one.member_id, role=one.role) for one in found
        ],
    )
