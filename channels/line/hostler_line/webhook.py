"""Calls of LINE to the channel's address: signed by LINE, with a list of events."""

from __future__ import annotations

import base64
import binascii
import json
import logging
from typing import Any

from linebot.v3.webhook import SignatureValidator

from hostler_sdk.channels import ChannelRequestParams, ChannelResponse

logger = logging.getLogger(__name__)


def read_request(request: ChannelRequestParams, validator: SignatureValidator) -> list[Any] | ChannelResponse:
    """Return the events of a call, or the answer to what is not LINE's, or no list of events."""
    signature = request.headers.get("x-line-signature", "")
    try:
        body = base64.b64decode(request.body_base64, validate=True).decode()
        is_signed = bool(signature) and validator.validate(body, signature)
    except (binascii.Error, ValueError):  # LINE sends UTF-8
        body, is_signed = "", False
    if not is_signed:
        logger.warning("a call that LINE did not sign was refused")
        return ChannelResponse(status=401)
    if request.method != "POST":
        return ChannelResponse(status=405, headers={"allow": "POST"})
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ChannelResponse(status=400)
    events = found.get("events") if isinstance(found, dict) else None
    return events if isinstance(events, list) else ChannelResponse(status=400)
