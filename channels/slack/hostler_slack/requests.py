"""Requests of Slack to the channel's address: signed by Slack, and read as an envelope."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from slack_sdk.signature import SignatureVerifier

from hostler_sdk.channels import ChannelRequestParams, ChannelResponse

MAX_FIELDS = 100


@dataclass(frozen=True, slots=True)
class Sent:
    """What Slack sends: an event, a press or a command, as `kind` and `payload` of an envelope."""

    kind: str
    payload: dict[str, Any]


def read_request(request: ChannelRequestParams, verifier: SignatureVerifier) -> Sent | ChannelResponse:
    """Return what Slack sent, or the answer to what needs no more, or is not Slack's."""
    try:
        body = base64.b64decode(request.body_base64, validate=True).decode()
        is_signed = verifier.is_valid_request(body, request.headers)
    except (binascii.Error, ValueError, TypeError, OverflowError):  # of the body, or a time that is no number
        is_signed, body = False, ""
    if not is_signed:
        return ChannelResponse(status=401)
    if request.method != "POST":
        return ChannelResponse(status=405, headers={"allow": "POST"})
    try:
        sent = _sent(body, request.headers.get("content-type", ""))
    except (ValueError, RecursionError):
        sent = None
    if sent is None:
        return ChannelResponse(status=400)
    if sent.payload.get("type") == "url_verification":
        return _text(str(sent.payload.get("challenge") or ""))
    if "ssl_check" in sent.payload:
        return ChannelResponse(status=200)
    return sent


def _sent(body: str, content_type: str) -> Sent | None:
    if not content_type.startswith("application/x-www-form-urlencoded"):
        payload = json.loads(body)
        return Sent("events_api", payload) if isinstance(payload, dict) else None
    fields: dict[str, Any] = dict(parse_qsl(body, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    if "payload" in fields:
        payload = json.loads(fields["payload"])
        return Sent("interactive", payload) if isinstance(payload, dict) else None
    return Sent("slash_commands", fields) if "command" in fields or "ssl_check" in fields else None


def _text(text: str) -> ChannelResponse:
    return ChannelResponse(
        status=200,
        headers={"content-type": "text/plain; charset=utf-8"},
        body_base64=base64.b64encode(text.encode()).decode(),
    )
