"""Front-end tokens: a server with a key makes them, so that browsers talk to the host directly.

Any key makes tokens, within its own rights, sees those that it made, and revokes them; administrators see and
revoke all of their workspace.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from hostler.domain.cors import MAX_ORIGIN_CHARS, origin_mistake
from hostler.domain.events import Caller
from hostler.domain.keys import check_id
from hostler.domain.members import session_of_credential
from hostler.domain.narrow_callers import (
    MAX_SUBJECT_CHARS,
    RESERVED_PREFIXES,
    TOKEN_RIGHTS,
    subject_of_conversation,
)
from hostler.http.auth import has_right, require_right
from hostler.http.ended_access import end_access
from hostler.http.endpoint import ANY_KEY, endpoint
from hostler.http.pagination import PageQuery, list_cursors, listing
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Json, Listing
from hostler.storage.port import Tx
from hostler.storage.stores import agents, audit, tokens
from hostler.storage.stores.tokens import Token
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError, NotFoundError, UnauthorizedError
from hostler_protocol.ids import new_id

DEFAULT_MINUTES = 15.0
MAX_MINUTES = 1_440.0
"""A day: a page that is open for longer asks its server again."""
MIN_MINUTES = 0.05
MAX_ORIGINS_OF_TOKEN = 20
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=512, pattern=r"^[^\x00]*$")]
Subject = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_SUBJECT_CHARS, pattern=r"^[^\x00-\x1f]*$")]
Origin = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ORIGIN_CHARS)]


class NewToken(Strict):
    """A new token, for one agent and one conversation.

    `conversation_id`: null for a new conversation, whose id cannot be guessed. `minutes` until it expires.
    `rights`: a part of those that front ends use; null for all of these that the key has. `subject`: the
    person for whom its holder acts, as the requester of runs: the key needs the right `tokens:subject`; null:
    all holders of tokens of the conversation are one requester. `origins`: the only pages that may use it,
    which need not be listed in `cors` of the configuration; empty: all that are.
    """

    agent: Name
    conversation_id: Name | None = None
    minutes: Annotated[float, msgspec.Meta(ge=MIN_MINUTES, le=MAX_MINUTES)] = DEFAULT_MINUTES
    rights: Annotated[list[str], msgspec.Meta(min_length=1, max_length=20)] | None = None
    subject: Subject | None = None
    origins: Annotated[list[Origin], msgspec.Meta(max_length=MAX_ORIGINS_OF_TOKEN)] = []


class TokenRecord(Strict):
    """A token without its text. `made_by`: the id of its key. Times are UTC epoch seconds."""

    token_id: str
    agent: str
    conversation_id: str
    subject: str
    rights: list[str]
    origins: list[str]
    made_by: str
    created_at: float
    expires_at: float


class CreatedToken(Strict):
    """`token` is shown only once; null if the response is repeated."""

    token: str | None
    token_id: str
    agent: str
    conversation_id: str
    subject: str
    rights: list[str]
    origins: list[str]
    expires_at: float


@endpoint("POST", "/v1/tokens", right=ANY_KEY, tag="tokens", status=201)
async def create_token(request: ApiRequest, body: NewToken) -> Json[CreatedToken]:
    """Make a token that reaches one agent and one conversation, for minutes.

    It has no right that the key lacks, and ends with the key. At most 10,000 of one key are valid at a time.
    """
    caller = request.caller
    _check_maker(caller)
    rights = _rights(caller, body.rights)
    _check(caller, body)

    def create(tx: Tx) -> tuple[Token, str]:
        agents.get(tx, request.workspace_id, body.agent)
        token, text = tokens.create(
            tx,
            request.workspace_id,
            made_by=caller.credential_id,
            agent=body.agent,
            conversation_id=body.conversation_id or f"front-end-{new_id()}",
            milliseconds=int(body.minutes * 60_000),
            rights=rights,
            subject=body.subject,
            origins=body.origins,
        )
        details: dict[str, Any] = {
            "agent": token.agent,
            "conversation_id": token.conversation_id,
            "subject": body.subject,
            "rights": sorted(rights),
            "expires_at": token.expires_at / 1000,
        }
        audit.record(tx, request.workspace_id, caller.subject, "token.created", token.token_id, details)
        return token, text

    token, text = await request.state.host.db.write(create)
    request.state.cors.learn(token.origins)
    made = _made(token)
    return Json(msgspec.structs.replace(made, token=text), 201, kept=made)


@endpoint("GET", "/v1/tokens", right=ANY_KEY, tag="tokens")
async def list_tokens(request: ApiRequest, query: PageQuery) -> Listing[TokenRecord]:
    """List the tokens that the key made and that are valid, an administrator's list those of all keys."""
    made_by = None if has_right(request.caller, "admin") else request.caller.credential_id
    if made_by is not None:
        _check_maker(request.caller)
    cursors = list_cursors(request.state.host.cursors, "tokens", request.workspace_id, query)
    after = "" if query.cursor is None else cursors.read_text(query.cursor)
    rows = await request.state.host.db.read(
        lambda tx: tokens.page(tx, request.workspace_id, made_by=made_by, after=after, limit=query.size + 1)
    )
    return listing(rows, query.size, token_record, lambda token: token.token_id, cursors)


@endpoint("DELETE", "/v1/tokens/{token_id}", right=ANY_KEY, tag="tokens")
async def revoke_token(request: ApiRequest) -> Empty:
    """Revoke a token, effective at once, with its streams. Revoking it again changes nothing."""
    caller, token_id = request.caller, request.parameters["token_id"]
    if not has_right(caller, "admin"):
        _check_maker(caller)

    def revoke(tx: Tx) -> None:
        token = tokens.find(tx, request.workspace_id, token_id)
        if token is None or not (token.made_by == caller.credential_id or has_right(caller, "admin")):
            raise NotFoundError(f"there is no token {token_id!r} that this key made")
        if tokens.revoke(tx, request.workspace_id, token_id):
            audit.record(tx, request.workspace_id, caller.subject, "token.revoked", token_id, {})

    await request.state.host.db.write(revoke)
    end_access(request.state, [token_id])
    return Empty()


def token_record(token: Token) -> TokenRecord:
    """Return a stored token as the API shows it."""
    return TokenRecord(
        token_id=token.token_id,
        agent=token.agent,
        conversation_id=token.conversation_id,
        subject=token.subject or subject_of_conversation(token.conversation_id),
        rights=sorted(token.rights),
        origins=list(token.origins),
        made_by=token.made_by,
        created_at=token.created_at / 1000,
        expires_at=token.expires_at / 1000,
    )


def _made(token: Token) -> CreatedToken:
    record = msgspec.structs.asdict(token_record(token))
    del record["made_by"], record["created_at"]
    return CreatedToken(token=None, **record)


def _check_maker(caller: Caller) -> None:
    """UnauthorizedError for a session: what is in a browser already needs no token, and must make none."""
    if session_of_credential(caller.credential_id) is not None:
        raise UnauthorizedError(
            "tokens are made by servers with a key: a session is none, make a personal key"
        )


def _rights(caller: Caller, wanted: list[str] | None) -> list[str]:
    """Return the rights of the token. UnauthorizedError for one that the key lacks."""
    if wanted is None:
        held = [right for right in TOKEN_RIGHTS if has_right(caller, right)]  # type: ignore[arg-type]
        if not held:
            raise UnauthorizedError(f"this key has no right that a token can have: {', '.join(TOKEN_RIGHTS)}")
        return held
    for right in wanted:
        if right not in TOKEN_RIGHTS:
            raise InvalidArgumentError(
                f"rights: a token cannot have {right!r:.100}; expected some of {', '.join(TOKEN_RIGHTS)}"
            )
        require_right(caller, right)  # type: ignore[arg-type]
    return sorted(set(wanted))


def _check(caller: Caller, body: NewToken) -> None:
    if body.conversation_id is not None:
        check_id("conversation_id", body.conversation_id)
    if body.subject is not None:
        require_right(caller, "tokens:subject")
        if body.subject.startswith(RESERVED_PREFIXES):
            raise InvalidArgumentError(
                f"subject: {' and '.join(RESERVED_PREFIXES)} begin subjects that the host gives: use another"
            )
    for number, origin in enumerate(body.origins):
        if (wrong := origin_mistake(origin)) is not None:
            raise InvalidArgumentError(f"origins[{number}]: {wrong}")
