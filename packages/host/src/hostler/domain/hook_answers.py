"""What the sender of a request to a hook is answered: at once, and in the way its maker asks for. Pure."""

from __future__ import annotations

import hmac
from typing import Any, Literal
from urllib.parse import parse_qsl

import msgspec

from hostler.domain.hook_mapping import Said
from hostler.domain.hook_signatures import HookRefusedError
from hostler.domain.hooks import Hook
from hostler.domain.record import Record
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError

MAX_CHALLENGE_CHARS = 1_000
HookOutcome = Literal["accepted", "duplicate", "conflict"]
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
TWIML = b'<?xml version="1.0" encoding="UTF-8"?><Response/>'


class HookReply(Strict):
    """The outcome of a request.

    `conflict`: its id is that of another message; nothing starts, and to send it again changes nothing.
    """

    event_id: str
    outcome: HookOutcome


class HookAnswer(Record):
    """A response."""

    status: int
    body: bytes
    media_type: str


def answer_to(hook: Hook, reply: HookReply) -> HookAnswer:
    """Return the response for a request that was taken.

    Slack shows a person what an answer to a command says, and Twilio runs it: both get one that says nothing.
    """
    if hook.verify == "slack":
        return HookAnswer(200, b"", TEXT)
    if hook.verify == "twilio":
        return HookAnswer(200, TWIML, "text/xml")
    return HookAnswer(202, msgspec.json.encode(reply), JSON)


def posted_challenge(hook: Hook, said: Said) -> HookAnswer | None:
    """Return the response to a challenge that came as a request, and is no event; None if it is none."""
    body: Any = said.body
    if hook.verify != "slack" or not isinstance(body, dict) or body.get("type") != "url_verification":
        return None
    challenge = body.get("challenge")
    if not isinstance(challenge, str) or not 0 < len(challenge) <= MAX_CHALLENGE_CHARS:
        raise InvalidArgumentError("a url_verification needs a text `challenge`")
    return HookAnswer(200, msgspec.json.encode({"challenge": challenge}), JSON)


def asked_challenge(query: str, token: str) -> HookAnswer:
    """Return the response to a service that asks by GET whether it may send (`hub.mode=subscribe`).

    `token`: what it must know. HookRefusedError; InvalidArgumentError if it asks for something else.
    """
    try:
        fields = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=64))
    except ValueError as error:
        raise InvalidArgumentError(f"the query cannot be read: {error}") from None
    given = fields.get("hub.verify_token", "")
    if not given:
        raise HookRefusedError("missing", "hub.verify_token is missing")
    if not token or not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
        raise HookRefusedError("wrong", "hub.verify_token is not right")
    challenge = fields.get("hub.challenge", "")
    plain = challenge.isascii() and challenge.isprintable() and 0 < len(challenge) <= MAX_CHALLENGE_CHARS
    if fields.get("hub.mode") != "subscribe" or not plain:
        raise InvalidArgumentError("expected hub.mode=subscribe, and a hub.challenge of printable characters")
    return HookAnswer(200, challenge.encode(), TEXT)
