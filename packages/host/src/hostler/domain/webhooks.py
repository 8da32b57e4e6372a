"""Webhooks: events and receivers, signatures, and waits between deliveries."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from typing import Literal, get_args
from urllib.parse import urlsplit

from hostler.domain.back_off import back_off
from hostler.domain.config_mistakes import Mistake
from hostler.domain.hook_signatures import STANDARD_PREFIX, standard_key, standard_signature
from hostler.domain.pauses import PauseStatus
from hostler.domain.secret_refs import is_reference, reference_mistake
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.runs import RunStatus

PauseEvent = Literal[
    "pause.opened",
    "pause.extended",
    "pause.needs_review",
    "pause.settled",
    "pause.resumed",
    "pause.cancelled",
    "pause.superseded",
    "pause.failed",
]
"""`opened`: people are asked (again, with a higher revision); `extended`: further calls joined the pause;
`settled`: every call is decided or expired; the rest are the statuses of the same names."""
RunEvent = Literal["run.completed", "run.failed", "run.cancelled", "run.timeout"]
"""Ends of runs, by the terminal statuses of the same names."""
NoticeEvent = Literal[PauseEvent, RunEvent]
PAUSE_EVENTS: tuple[PauseEvent, ...] = get_args(PauseEvent)
RUN_EVENTS: tuple[RunEvent, ...] = get_args(RunEvent)
EVENTS: tuple[NoticeEvent, ...] = get_args(NoticeEvent)

MAX_WEBHOOKS = 100
MAX_URL_CHARS = 2_000
SIGNATURE_VERSION = "v1"
TIMESTAMP_HEADER = "Hostler-Timestamp"
SIGNATURE_HEADER = "Hostler-Signature"
EVENT_HEADER = "Hostler-Event"
DELIVERY_HEADER = "Hostler-Delivery"
"""The same in every attempt, so that receivers can recognise repeated deliveries."""
ATTEMPT_HEADER = "Hostler-Attempt"
STANDARD_HEADERS = ("Webhook-Id", "Webhook-Timestamp", "Webhook-Signature")
"""Of Standard Webhooks (https://www.standardwebhooks.com), for which receivers have libraries."""

MAX_ATTEMPTS = 15
"""With the waits below about seven hours: a receiver may be down for a night."""
FIRST_WAIT_SECONDS = 5.0
LAST_WAIT_SECONDS = 3_600.0
GONE = 410
"""Status by which the receiver refuses further attempts."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_EVENT_OF: dict[PauseStatus, PauseEvent] = {
    "open": "pause.opened",
    "needs_review": "pause.needs_review",
    "resumed": "pause.resumed",
    "cancelled": "pause.cancelled",
    "superseded": "pause.superseded",
    "failed": "pause.failed",
}
_EVENT_OF_END: dict[RunStatus, RunEvent] = {
    "completed": "run.completed",
    "failed": "run.failed",
    "cancelled": "run.cancelled",
    "timeout": "run.timeout",
}


class Webhook(Strict):
    """A receiver. `url` may be a reference (`env:NAME`, `file:PATH`); `secret` must be one, since the entry
    is stored. `events`: empty for those of pauses; ends of runs are named. `network`: non-public hosts and
    networks that the receiver may have (`10.0.0.0/8`, `hooks.internal`, `127.0.0.1:9000`).
    """

    name: str
    url: str
    secret: str
    events: list[NoticeEvent] = []
    network: list[str] = []

    def wants(self, event: NoticeEvent) -> bool:
        """Whether the receiver gets this event."""
        return event in (self.events or PAUSE_EVENTS)


def check_webhooks(webhooks: Sequence[Webhook]) -> None:
    """Check webhooks. InvalidArgumentError names the webhook, but not its address."""
    if len(webhooks) > MAX_WEBHOOKS:
        raise InvalidArgumentError(f"webhooks: {len(webhooks)} of them; at most {MAX_WEBHOOKS} are possible")
    for webhook in webhooks:
        if (wrong := webhook_mistake(webhook)) is not None:
            raise InvalidArgumentError(wrong.within(f"webhook {webhook.name!r:.80}").sentence)


def webhook_mistake(webhook: Webhook) -> Mistake | None:
    """Return the mistake in a webhook, without its address, or None."""
    if not _NAME.fullmatch(webhook.name):
        return Mistake("name", f"{webhook.name!r:.80} is no name: 1 to 100 letters, digits, '_', '.', '-'")
    if not is_reference(webhook.secret):
        text = "its secret is named by env:NAME, file:PATH or secret://NAME, never written out"
        return Mistake("secret", text)
    for place, reference in (("secret", webhook.secret), ("url", webhook.url)):
        if (wrong := reference_mistake(reference)) is not None:
            return Mistake(place, wrong)
    wrong = None if is_reference(webhook.url) else _address_mistake(webhook.url)
    return None if wrong is None else Mistake("url", wrong)


def check_address(name: str, url: str) -> None:
    """Check a resolved address. InvalidArgumentError."""
    if (wrong := _address_mistake(url)) is not None:
        raise InvalidArgumentError(f"webhook {name!r}: {wrong}")


def _address_mistake(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        port_is_one = parts.port is None or parts.port > 0
    except ValueError:
        return "its url is not one"
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_one:
        return "its url must begin with https:// or http://"
    if parts.username is not None or parts.password is not None:
        return "its url holds a user name; the signature says who is calling"
    if len(url) > MAX_URL_CHARS or not url.isprintable() or " " in url:
        return f"its url is longer than {MAX_URL_CHARS}, or has spaces"
    return None


def event_of(before: PauseStatus | None, after: PauseStatus) -> PauseEvent | None:
    """Return the event for a change of a pause; None: a change that is not published."""
    if after == "ready":
        return "pause.settled" if before in ("open", "needs_review") else None
    return _EVENT_OF.get(after)


def event_of_end(status: RunStatus) -> RunEvent:
    """Return the event for the end of a run. KeyError: the status is not terminal."""
    return _EVENT_OF_END[status]


def signed_headers(secret: str, delivery_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers by which a receiver recognises the host: those of Standard Webhooks, and our own.

    HookSecretError: a secret that begins with `whsec_` is not base64 after it.
    """
    standard = standard_signature(_standard_key(secret), delivery_id, str(timestamp), body)
    return {
        **dict(zip(STANDARD_HEADERS, (delivery_id, str(timestamp), standard), strict=True)),
        DELIVERY_HEADER: delivery_id,
        TIMESTAMP_HEADER: str(timestamp),
        SIGNATURE_HEADER: signature(secret, timestamp, body),
    }


def _standard_key(secret: str) -> bytes:
    """Return the key for Standard Webhooks: of a secret without `whsec_` its bytes."""
    return standard_key(secret) if secret.startswith(STANDARD_PREFIX) else secret.encode()


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return `v1=` and the hexadecimal HMAC-SHA256 of the timestamp, a dot and the body as sent."""
    signed = b"%d." % timestamp + body
    return f"{SIGNATURE_VERSION}={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def wait_seconds(attempts: int, random: float, asked: float | None = None) -> float:
    """Return the wait after the n-th attempt (from 1): 5 s, doubled each time, at most an hour.

    It is multiplied by 0.5 to 1.5 (`random` is 0 to 1), so that a receiver does not get everything at once
    after an outage, and is at least what the receiver requested (`asked`), within the hour.
    """
    wait = back_off(attempts, FIRST_WAIT_SECONDS, LAST_WAIT_SECONDS) * (0.5 + random)
    return min(max(wait, asked or 0.0), LAST_WAIT_SECONDS)
