"""Sign-in of people with an identity provider, into a session."""

from __future__ import annotations

import hmac
import logging

from hostler.domain.id_tokens import SignInError
from hostler.domain.members import session_credential
from hostler.domain.sign_in import SignInEntry, memberships, person_of, safe_next
from hostler.host.identity_providers import IdentityProvider, ProviderError
from hostler.http import sign_in_page
from hostler.http.ended_access import end_access
from hostler.http.endpoint import Media, endpoint
from hostler.http.limits import SIGN_IN_SECONDS
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Headers, RawBody
from hostler.http.sessions import COOKIE
from hostler.http.sign_ins import COOKIE as SIGN_IN_COOKIE
from hostler.http.sign_ins import SignIn, drop_cookie, set_cookie
from hostler.storage.port import Tx
from hostler.storage.stores import audit, members, sessions
from hostler.storage.stores.members import Admitted, Member
from hostler.storage.stores.sessions import Session
from hostler_protocol._base import Lenient, Strict
from hostler_protocol.errors import NotFoundError
from hostler_protocol.ids import new_id

log = logging.getLogger("hostler.http")
PAGE = "/sign-in"
DEFAULT_NEXT = "/docs"
_PRIVATE: Headers = [(b"referrer-policy", b"no-referrer")]
"""On every step of a sign-in: its address holds a code."""
_REDIRECT = {303: None}


class SignInPageQuery(Strict):
    """`problem`: what went wrong before. `next`: a path of this host to go to afterwards."""

    problem: str | None = None
    next: str | None = None


class BeginQuery(Strict):
    """`provider`: the name of an entry of `sign_in`; may be left out if there is one.

    `next`: a path of this host to go to afterwards. `workspace`: which one to enter, of several.
    """

    provider: str | None = None
    next: str | None = None
    workspace: str | None = None


class CallbackQuery(Lenient):
    """What the identity provider says: `code`, or `error`. `iss`: RFC 9207."""

    state: str | None = None
    code: str | None = None
    iss: str | None = None
    error: str | None = None


@endpoint("GET", PAGE, right=None, tag="sign-in", answers={200: Media("text/html", "The page")})
async def show_sign_in_page(request: ApiRequest, query: SignInPageQuery) -> RawBody:
    """Show the ways to sign in."""
    names = [entry.name for entry in request.state.host.providers.entries]
    page = sign_in_page.render(names, query.problem, safe_next(query.next))
    return RawBody(page.encode(), "text/html; charset=utf-8", headers=sign_in_page.HEADERS)


@endpoint("GET", "/v1/auth/sign-in", right=None, tag="sign-in", answers=_REDIRECT)
async def begin_sign_in(request: ApiRequest, query: BeginQuery) -> Empty:
    """Send the browser to the identity provider (OpenID Connect, authorization code with PKCE)."""
    state = request.state
    state.sign_ins.take(request.address)
    provider = _chosen(request, query.provider)
    begun = SignIn.begin(provider.entry.name, _next(query.next), query.workspace, state.sign_ins.now())
    try:
        url = await provider.authorization_url(state=begun.state, nonce=begun.nonce, verifier=begun.verifier)
    except ProviderError as error:
        return _refused(provider.entry, error)
    value, secure = await state.sign_ins.seal(begun), provider.entry.secure
    cookie = set_cookie(SIGN_IN_COOKIE, value, secure=secure, max_age=SIGN_IN_SECONDS)
    return _see_other(url, [cookie])


@endpoint("GET", "/v1/auth/callback", right=None, tag="sign-in", answers=_REDIRECT)
async def finish_sign_in(request: ApiRequest, query: CallbackQuery) -> Empty:
    """Take the answer of the identity provider, and begin a session.

    A refusal leads to the page of `/sign-in`, whose `problem` is one word.
    """
    state = request.state
    state.sign_ins.take(request.address)
    begun, provider = await _begun(request)
    if begun is None or provider is None or not _is_same(query.state, begun.state):
        return _see_other(f"{PAGE}?problem=state", [])
    try:
        return await _finish(request, query, begun, provider)
    except SignInError as error:
        return _refused(provider.entry, error)


async def _finish(
    request: ApiRequest, query: CallbackQuery, begun: SignIn, provider: IdentityProvider
) -> Empty:
    state, entry = request.state, provider.entry
    await _check_answer(query, provider)
    claims = await provider.claims(code=query.code or "", nonce=begun.nonce, verifier=begun.verifier)
    person = person_of(entry, claims)
    own = state.host.settings.workspace
    roles = memberships(entry.members, person, own)
    agent = "".join(filter(str.isprintable, request.headers.get("user-agent", "")))

    def enter(tx: Tx) -> tuple[Admitted, Session | None, str, list[str]]:
        if not sessions.spend(tx, begun.state):
            raise SignInError("state", "this sign-in was finished before")
        admitted = members.admit(tx, person, roles)
        member = _entered(admitted.members, begun.workspace_id or own)
        if member is None:
            audit.record(tx, own, person.subject, "sign_in.refused", entry.name, {"reason": "not_member"})
            return admitted, None, "", []
        made, token, ended = open_session(tx, member, entry, agent, begun_by="sign-in")
        return admitted, made, token, ended

    admitted, session, token, ended = await state.host.db.write(enter)
    end_access(state, [*admitted.ended, *map(session_credential, ended)])
    if session is None:
        raise SignInError("not_member", f"{person.subject} is no member of a workspace")
    await leave(request)
    cookie = set_cookie(COOKIE, token, secure=entry.secure, max_age=entry.session_hours * 3600)
    return _see_other(begun.next, [cookie, drop_cookie(SIGN_IN_COOKIE, secure=entry.secure)])


async def _begun(request: ApiRequest) -> tuple[SignIn | None, IdentityProvider | None]:
    """Return the sign-in that this browser has begun, with its provider."""
    providers = request.state.host.providers
    for secure in sorted({entry.secure for entry in providers.entries}, reverse=True):
        begun = await request.state.sign_ins.open(request.headers, secure=secure)
        provider = None if begun is None else providers.find(begun.provider)
        if provider is not None and provider.entry.secure == secure:
            return begun, provider
    return None, None


async def _check_answer(query: CallbackQuery, provider: IdentityProvider) -> None:
    """Check whose answer it is, and that it is none of an error. SignInError."""
    metadata = await provider.metadata()
    if query.iss is not None and query.iss != provider.entry.issuer:
        raise SignInError("state", "the answer is of another issuer (iss)")
    if query.iss is None and metadata.authorization_response_iss_parameter_supported:
        raise SignInError("state", "the answer does not say of which issuer it is (iss)")
    if query.error is not None:
        reason = "cancelled" if query.error in ("access_denied", "login_required") else "provider"
        raise SignInError(reason, "the identity provider refused")
    if not query.code:
        raise SignInError("provider", "the answer has no code")


def open_session(
    tx: Tx, member: Member, entry: SignInEntry, agent: str, *, begun_by: str, seconds: float | None = None
) -> tuple[Session, str, list[str]]:
    """Open a session; return it, its token and the ids of sessions that it replaces.

    `seconds`: how long it lasts, where the sign-in was earlier; None for all that the entry allows.
    """
    session, token, ended = sessions.create(
        tx,
        member.workspace_id,
        member.member_id,
        new_id(),
        provider=entry.name,
        issuer=entry.issuer,
        agent=agent,
        seconds=entry.session_hours * 3600 if seconds is None else seconds,
        idle_seconds=entry.idle_minutes * 60,
    )
    body = {"member_id": member.member_id, "role": member.role, "provider": entry.name, "by": begun_by}
    audit.record(tx, member.workspace_id, member.subject or "", "session.opened", session.session_id, body)
    return session, token, ended


def _entered(found: list[Member], wanted: str) -> Member | None:
    """Return the membership in the wanted workspace, or else in the first one."""
    return next((one for one in found if one.workspace_id == wanted), found[0] if found else None)


def _chosen(request: ApiRequest, name: str | None) -> IdentityProvider:
    providers = request.state.host.providers
    entries = providers.entries
    wanted = entries[0].name if name is None and len(entries) == 1 else name
    provider = None if wanted is None else providers.find(wanted)
    if provider is None:
        known = ", ".join(entry.name for entry in entries) or "none"
        raise NotFoundError(f"there is no such provider; configured are: {known}")
    return provider


def _next(path: str | None) -> str:
    chosen = safe_next(path)
    return DEFAULT_NEXT if chosen == "/" else chosen


def _is_same(sent: str | None, expected: str) -> bool:
    return sent is not None and hmac.compare_digest(sent.encode("utf-8", "replace"), expected.encode())


def _see_other(url: str, cookies: Headers) -> Empty:
    return Empty(303, [(b"location", url.encode("ascii")), *cookies, *_PRIVATE])


def _refused(entry: SignInEntry, error: SignInError) -> Empty:
    detail = error.detail if isinstance(error, ProviderError) else error.message
    log.warning("a sign-in with %s was refused: %s", entry.name, detail)
    dropped = drop_cookie(SIGN_IN_COOKIE, secure=entry.secure)
    return _see_other(f"{PAGE}?problem={error.reason}", [dropped])


async def leave(request: ApiRequest) -> None:
    """End the session that the browser had before it signed in again."""
    token = request.state.sessions.token_of(request.headers)
    if token is None:
        return

    def end(tx: Tx) -> list[str]:
        old = sessions.find_by_token(tx, token)
        if old is None or not sessions.revoke(tx, old.workspace_id, old.session_id):
            return []
        member = members.find(tx, old.workspace_id, old.member_id)
        subject = old.key_id or "" if member is None else member.subject or ""
        body = {**old.holder(), "cause": "signed in again"}
        audit.record(tx, old.workspace_id, subject, "session.ended", old.session_id, body)
        return [old.session_id]

    end_access(request.state, map(session_credential, await request.state.host.db.write(end)))
