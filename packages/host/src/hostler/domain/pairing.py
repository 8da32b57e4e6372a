"""Pairing: short codes by which people of channels are let in, or become another account of somebody known.

An unknown person who writes to a private bot gets a code, which tells the operator who asks: it lets nobody
in by itself. A code that somebody known has been shown binds the account in whose chat it is typed.
"""

from __future__ import annotations

import os
import re

from hostler.domain.channels import PERSON_PREFIX, SUBJECT_PREFIX, person_of_key
from hostler_protocol.channels import ChannelEvent
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.ids import digest

ALPHABET = "ABCDEFGHJKMNPQRSTVWXYZ23456789"
"""Letters and digits that nobody takes for one another, read aloud or typed."""
CODE_CHARS = 8
"""39 bits. Whoever guesses has a few tries an hour, for an hour: one in many millions."""
CODE_MS = 3_600_000
"""How long a code is valid: the operator may have to be found."""
REJECTED_MS = 30 * 86_400_000
"""For how long a person who was rejected gets no other code."""
MAX_WAITING = 1_000
"""Codes of one workspace that wait, of each kind: further people get none."""
MAX_ACCOUNTS = 20
"""Accounts of one subject."""
MAX_SUBJECT_CHARS = 512
LINK_COMMAND = "/link"
"""What somebody who is let in writes to get a code for another account."""

ASKED_TEXT = (
    "I do not know you yet. Give this code to whoever runs this bot: {code}\n"
    "It is valid for an hour. If you are known elsewhere, write {link} there and type the code you get here."
)
OFFERED_TEXT = (
    "Type this code in a private chat with me, from your other account: {code}\n"
    "It is valid for an hour, once. Whoever types it acts in your name, and may be told what you "
    "wrote: give it to nobody."
)
BOUND_TEXT = "Done: this account is yours now, and you may write."
WRONG_TEXT = "This code is wrong or no longer valid."
LET_IN_TEXT = "You are let in now: write again what you wanted to say."
MANY_TEXT = "You have as many accounts as are possible: whoever runs this bot can remove some."

_TYPED = re.compile(rf"\s*([{ALPHABET}]{{4}})[ -]?([{ALPHABET}]{{4}})\s*", re.IGNORECASE)


def new_code() -> str:
    """Return a new random code, `ABCD-EFGH`."""
    whole = "".join(ALPHABET[value % len(ALPHABET)] for value in _values())
    return f"{whole[:4]}-{whole[4:]}"


def code_in(text: str | None) -> str | None:
    """Return the code that a text is, in its one spelling; None if it is something else."""
    found = None if text is None or len(text) > 40 else _TYPED.fullmatch(text)
    return None if found is None else f"{found[1]}-{found[2]}".upper()


def digest_of(workspace_id: str, code: str) -> str:
    """Return what is stored of a code."""
    return digest(["pairing code", workspace_id, code])


def is_private_message(event: ChannelEvent) -> bool:
    """Whether an event is a message that nobody but its author and the bot sees."""
    return event.event_type == "message.received" and event.chat is not None and event.chat.kind == "private"


def check_bindable(subject: str) -> None:
    """Refuse a subject that no account can be bound to. InvalidArgumentError."""
    if not subject or subject != subject.strip() or len(subject) > MAX_SUBJECT_CHARS or "\x00" in subject:
        raise InvalidArgumentError(
            f"subject: expected 1 to {MAX_SUBJECT_CHARS} characters without spaces around them"
        )
    if subject.startswith(SUBJECT_PREFIX):
        raise InvalidArgumentError(f"subject: those that begin with {SUBJECT_PREFIX} are channels, no people")
    if subject.startswith(PERSON_PREFIX) and person_of_key(subject) is None:
        raise InvalidArgumentError(f"subject: {subject!r:.100} names no person: write person:CHANNEL/ID")


def _values() -> list[int]:
    """Return evenly spread random numbers: bytes beyond the last whole multiple are left out."""
    found: list[int] = []
    most = 256 - 256 % len(ALPHABET)
    while len(found) < CODE_CHARS:
        found += [value for value in os.urandom(2 * CODE_CHARS) if value < most]
    return found[:CODE_CHARS]
