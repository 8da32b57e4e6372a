"""Requests of Lark to the channel's address: signed or with a token of Lark, and decrypted."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from typing import Any

from hostler_lark.events import envelope_of
from hostler_lark.library import AESCipher
from hostler_lark.names import fields_of, text_of
from hostler_sdk.channels import ChannelRequestParams, ChannelResponse

MAX_AGE_SECONDS = 86_400.0
"""Of an event; Lark sends one again for about seven hours."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """What Lark and the app know: of each at least one is there."""

    token: str
    encrypt_key: str


def read_request(request: ChannelRequestParams, secrets: Secrets) -> dict[str, Any] | ChannelResponse:
    """Return what Lark sent, or the answer to what needs no more, or is not Lark's."""
    if request.method != "POST":
        return ChannelResponse(status=405, headers={"allow": "POST"})
    try:
        body = base64.b64decode(request.body_base64, validate=True)
        told = json.loads(body)
    except (binascii.Error, ValueError, RecursionError):
        return ChannelResponse(status=400)
    if not isinstance(told, dict):
        return ChannelResponse(status=400)
    payload = _decrypted(told, secrets.encrypt_key) if secrets.encrypt_key else told
    if payload is None or not _has_token(payload, secrets):
        return ChannelResponse(status=401)
    if payload.get("type") == "url_verification":
        # its signature is not checked by Lark's own libraries either: the token, or the key, shows who asks
        return json_response({"challenge": str(payload.get("challenge") or "")[:1_000]})
    is_signed = not secrets.encrypt_key or _is_signed(request.headers, body, secrets.encrypt_key)
    return payload if is_signed and not _is_old(payload) else ChannelResponse(status=401)


def _is_old(payload: dict[str, Any]) -> bool:
    """Whether an event is older than any that Lark sends again."""
    sent = envelope_of(payload).time
    return sent is not None and sent < time.time() - MAX_AGE_SECONDS


def _decrypted(told: dict[str, Any], key: str) -> dict[str, Any] | None:
    encrypted = text_of(told.get("encrypt"))
    if encrypted is None:
        return None
    try:
        found = json.loads(AESCipher(key).decrypt_str(encrypted))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _has_token(payload: dict[str, Any], secrets: Secrets) -> bool:
    """Whether a payload has the token of the app, if that is known."""
    if not secrets.token:
        return True
    token = fields_of(payload.get("header")).get("token") or payload.get("token")
    return isinstance(token, str) and _same(token, secrets.token)


def _is_signed(headers: dict[str, str], body: bytes, key: str) -> bool:
    stamp, nonce = headers.get("x-lark-request-timestamp", ""), headers.get("x-lark-request-nonce", "")
    signature = headers.get("x-lark-signature", "")
    signed = f"{stamp}{nonce}{key}".encode("utf-8", "surrogatepass") + body
    digest = hashlib.sha256(signed).hexdigest()
    return _same(digest, signature.lower())


def _same(one: str, other: str) -> bool:
    """Whether two texts are the same, in a time that does not tell how far they are."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


def json_response(body: Any) -> ChannelResponse:
    """Return an answer of JSON."""
    encoded = base64.b64encode(json.dumps(body).encode()).decode()
    return ChannelResponse(status=200, headers={"content-type": "application/json"}, body_base64=encoded)
