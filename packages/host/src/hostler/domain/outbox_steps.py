"""What becomes of a message after a try to send it: sent, sent again later, given up, or in doubt."""

from __future__ import annotations

from typing import Literal

from hostler.domain.back_off import back_off
from hostler.domain.channels import OnDoubt
from hostler.domain.record import Record
from hostler_protocol.channels import Repeat
from hostler_protocol.errors import HostlerError, RateLimitedError, RemoteFaultError

MAX_ATTEMPTS = 15
"""With the waits below about eight hours: a platform may be down for a night."""
MAX_ACTION_ATTEMPTS = 4
"""Of an action whose outcome was lost: somebody may wait for it."""
FIRST_WAIT_SECONDS = 2.0
LAST_WAIT_SECONDS = 3_600.0
MAX_AGE_SECONDS = 86_400.0
"""A message that could not be sent, or of which nothing could be found out, for so long is given up."""
CHANNEL_SCOPE = "channel"
"""`details["scope"]` of `rate_limited`: the limit is that of the whole account, and not of one chat."""


class Outcome(Record):
    """What to record. `again_in`: seconds until the next step; None: the host does no more.

    `counts`: it was a try. `doubt`: the platform may have it; `twice`: it is sent again all the same.
    `pause`: seconds for which the whole channel sends nothing.
    """

    status: Literal["pending", "in_doubt", "failed"]
    error: str
    again_in: float | None = None
    counts: bool = True
    twice: bool = False
    doubt: bool = False
    pause: float = 0.0


def after_refusal(error: HostlerError, attempts: int, age: float, random: float) -> Outcome:
    """Return what becomes of a message that the platform has not got. `random`: 0 to 1; `age` in seconds."""
    if isinstance(error, RateLimitedError):
        wait = min(max(error.retry_after, 0.05), LAST_WAIT_SECONDS)
        pause = wait if error.details.get("scope") == CHANNEL_SCOPE else 0.0
        if age > MAX_AGE_SECONDS:
            return Outcome("failed", f"{error.message} (for a day)", pause=pause)
        return Outcome("pending", error.message, wait, counts=False, pause=pause)
    retryable = error.fault.retryable if isinstance(error, RemoteFaultError) else error.retryable
    if not retryable or attempts >= MAX_ATTEMPTS:
        return Outcome("failed", error.message)
    return Outcome("pending", error.message, _wait(attempts, random))


def after_doubt(
    why: str, *, repeat: Repeat, on_doubt: OnDoubt, attempts: int, random: float, looked: bool = False
) -> Outcome:
    """Return what becomes of a message of which it is not known whether the platform got it.

    `looked`: the plugin has looked, and could not tell.
    """
    if attempts >= MAX_ATTEMPTS:
        return Outcome("in_doubt", why)
    wait = _wait(attempts, random)
    if repeat == "client_id":
        return Outcome("pending", why, wait, doubt=True)
    if repeat == "look_up" and not looked:
        return Outcome("in_doubt", why, wait)
    if on_doubt == "send_again":
        return Outcome("pending", why, wait, twice=True)
    return Outcome("in_doubt", why)


def after_doubtful_action(why: str, *, repeatable: bool, attempts: int, random: float) -> Outcome:
    """Return what becomes of an action of which it is not known whether it was carried out.

    One that may be done twice is done again; any other is left to people.
    """
    if repeatable and attempts < MAX_ACTION_ATTEMPTS:
        return Outcome("pending", why, _wait(attempts, random), twice=True)
    return Outcome("in_doubt", why)


def too_late(age: float, *, perhaps_sent: bool) -> Outcome | None:
    """Return what becomes of a message that is about to be sent, if it is too old. `age`: in seconds."""
    if age <= MAX_AGE_SECONDS:
        return None
    if perhaps_sent:
        return Outcome("in_doubt", "it could not be sent for a day, and the platform may have it")
    return Outcome("failed", "it could not be sent for a day")


def after_failed_look(why: str, age: float) -> Outcome:
    """Return what becomes of a message that could not be looked for. `age`: seconds since it was first sent.

    The waits grow with it, and end after a day.
    """
    if age > MAX_AGE_SECONDS:
        return Outcome("in_doubt", why)
    return Outcome("in_doubt", why, min(max(age / 4, FIRST_WAIT_SECONDS), LAST_WAIT_SECONDS))


def _wait(attempts: int, random: float) -> float:
    return back_off(attempts, FIRST_WAIT_SECONDS, LAST_WAIT_SECONDS) * (0.5 + random)
