"""What LINE's answers mean for what was to be done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hostler_sdk.channels import NotSent, UnclearError
from hostler_sdk.channels.retry_after import wait_of

RATE_SECONDS = 10.0
"""The wait where LINE limits the rate and does not say for how long. Most limits are those of a second."""
MAX_TEXT = 500
_INVALID_REPLY_TOKEN = "Invalid reply token"  # noqa: S105 - a text of LINE


class RefusedError(NotSent):
    """LINE refused a call. `status`: of HTTP."""

    def __init__(
        self, message: str, status: int, *, final: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message, final=final, retry_after=retry_after)
        self.status = status


class ReplyTokenError(RefusedError):
    """LINE does not accept the reply token: it was used, or is too old."""


class QuoteTokenError(RefusedError):
    """LINE does not accept the quote token."""


class AcceptedBeforeError(RefusedError):
    """A push with this retry key was accepted before. `answer`: what LINE says of it."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__("LINE has accepted it before", 409, final=True)
        self.answer = answer


def object_of(text: Any) -> dict[str, Any]:
    """Return the JSON object in a body; an empty one in place of anything else."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def meaning(status: int, body: Any, headers: Mapping[str, str]) -> NotSent | UnclearError:  # noqa: PLR0911
    """Return the error that an answer of LINE stands for."""
    told = object_of(body)
    message = told.get("message")
    if not isinstance(message, str) or not message:
        message = f"status {status}"
    text = f"LINE: {message}{_details(told)}"[:MAX_TEXT]
    if status >= 500 or status in {408, 425}:
        return UnclearError(f"LINE has an error: {message}"[:MAX_TEXT])
    if status == 409:
        return AcceptedBeforeError(told)
    if status == 429:
        if "monthly" in message.lower():
            more = "answers by reply tokens are not counted, pushes are; raise the limit, then resend"
            return RefusedError(f"{text} ({more})", status, final=True)
        wait = wait_of(headers.get("Retry-After"))
        return RefusedError(text, status, retry_after=RATE_SECONDS if wait is None else wait)
    if status == 401:
        more = "check `token`, or `channel-id` and `channel-secret`"
        return RefusedError(f"LINE does not know the access token: {more}", status)
    if status == 400 and message.startswith(_INVALID_REPLY_TOKEN):
        return ReplyTokenError(text, status, final=True)
    if status == 400 and "quotetoken" in text.lower().replace(" ", ""):
        return QuoteTokenError(text, status, final=True)
    if 300 <= status < 400:
        return RefusedError("what answered is not LINE: it names another address", status)
    return RefusedError(text, status, final=True)


def _details(told: dict[str, Any]) -> str:
    details = told.get("details")
    found = [
        f"{one.get('property', '?')}: {one.get('message', '?')}"
        for one in (details if isinstance(details, list) else [])
        if isinstance(one, dict)
    ]
    return f" ({'; '.join(found)})" if found else ""
