"""Read a call of the application's address: verify that WeCom made it, and open what it brings."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from hostler_sdk.channels import ChannelRequestParams, ChannelResponse
from hostler_wecom.envelopes import Envelopes, ForgedError
from hostler_wecom.xml_fields import UnreadableError, read_fields, text_of

MAX_SEALED_CHARS = 512 * 1024
"""WeCom's messages have some KiB."""

_ECHO = re.compile(rb"[A-Za-z0-9_=+/-]{1,128}")
"""WeCom sends some twenty digits."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message of WeCom, and the ciphertext in which it came."""

    content: bytes
    sealed: str


def read_request(request: ChannelRequestParams, envelopes: Envelopes) -> Sent | ChannelResponse:
    """Return the message that WeCom sent, or the answer to a call that brings none.

    Raises ForgedError if WeCom did not make it.
    """
    if request.path or request.method not in {"GET", "POST"}:  # below the address there is nothing
        allow = {} if request.path else {"allow": "GET, POST"}
        return ChannelResponse(status=404 if request.path else 405, headers=allow)
    query = request.query
    signature, timestamp, nonce = (query.get(name, "") for name in ("msg_signature", "timestamp", "nonce"))
    if request.method == "GET":
        # the check of the address; a `+` that was not escaped has become a space
        sealed = query.get("echostr", "").replace(" ", "+")
        if not sealed:
            return ChannelResponse(status=400)
        return _echo(envelopes.open(signature, timestamp, nonce, sealed))
    if not signature:
        raise ForgedError("it has no signature")
    try:
        sealed = text_of(read_fields(base64.b64decode(request.body_base64)), "Encrypt") or ""
    except (UnreadableError, binascii.Error):
        return ChannelResponse(status=400)
    if not sealed or len(sealed) > MAX_SEALED_CHARS:
        return ChannelResponse(status=400)
    sealed = sealed.strip()
    return Sent(envelopes.open(signature, timestamp, nonce, sealed), sealed)


def _echo(content: bytes) -> ChannelResponse:
    """Answer a check. Raises ForgedError for anything else: whoever overheard the ciphertext of a message,
    whose signature is made the same way, would have it decrypted.
    """
    if not _ECHO.fullmatch(content):
        raise ForgedError("it asks for something else than a check of the address")
    return ChannelResponse(
        status=200,
        headers={"content-type": "text/plain; charset=utf-8"},
        body_base64=base64.b64encode(content).decode(),
    )
