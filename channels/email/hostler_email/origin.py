"""Where a mail comes from: whether a person wrote it, and whether a server vouches for its sender."""

from __future__ import annotations

import re
from email.message import Message
from typing import Any

from hostler_email.fields import MESSAGE_ID, Fields, one_line
from hostler_email.reading import Mail, read_headers

_NOBODY = re.compile(r"(?:mailer-daemon|postmaster|no-?reply|do-?not-?reply|bounces?)(?:[+=].*)?@.*")
_SUPPRESS = re.compile(r"\b(?:all|oof|autoreply)\b", re.IGNORECASE)
_LISTS = ("list-id", "list-post", "list-unsubscribe", "mailing-list", "x-mailing-list")
_AUTOMATIC = ("x-autoreply", "x-autorespond", "x-autoresponder", "x-auto-reply", "x-loop")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
MAX_REPORT_CHARS = 500


def kind_of(mail: Mail) -> str | None:
    """Return why a mail is none that a person wrote to the bot, as the end of an event type; None if it is.

    Who answers such mails answers a machine, which answers again (RFC 3834).
    """
    fields = mail.fields
    return_path = fields.raw("return-path").strip()
    if return_path == "<>" or mail.content_type == "multipart/report" or fields.raw("x-failed-recipients"):
        return "bounce"
    if any(fields.raw(name) for name in _LISTS) or fields.text("precedence").lower() == "list":
        return "list_mail"
    submitted = re.sub(r"\([^)]*\)", "", fields.raw("auto-submitted")).partition(";")[0].strip().lower()
    if submitted not in {"", "no"} or fields.text("precedence").lower() in {"bulk", "junk", "auto_reply"}:
        return "automatic_mail"
    if any(fields.raw(name) for name in _AUTOMATIC) or _SUPPRESS.search(
        fields.raw("x-auto-response-suppress")
    ):
        return "automatic_mail"
    sender = next(iter(fields.addresses("from")), None)
    if sender is not None and _NOBODY.fullmatch(sender.address):
        return "bounce" if sender.address.startswith(("mailer-daemon", "postmaster")) else "automatic_mail"
    return None


def report_of(mail: Mail) -> dict[str, Any]:
    """Return what a bounce says: of which mail, to whom, and why it was not delivered."""
    told: dict[str, Any] = {}
    for part in mail.reports:
        if part.get_content_type() == "message/delivery-status":
            payload = part.get_payload()
            blocks = (
                [Fields(one) for one in payload if not isinstance(one, str)]
                if isinstance(payload, list)
                else []
            )
            for block in blocks:
                for name, key in _REPORT.items():
                    if value := block.text(name, MAX_REPORT_CHARS):
                        told.setdefault(key, value.partition(";")[2].strip() or value)
        else:
            payload = part.get_payload()
            inner = payload[0] if isinstance(payload, list) and payload else payload
            text = inner.as_string() if isinstance(inner, Message) else str(inner or "")
            fields = read_headers(text.encode("utf-8", "replace"))
            if found := MESSAGE_ID.search(fields.raw("message-id")):
                told["message_id"] = found[0]
    return told


_REPORT = {
    "final-recipient": "recipient",
    "action": "action",
    "status": "status",
    "diagnostic-code": "reason",
}


# -- Authentication-Results (RFC 8601) -------------------------------------------------------------


def doubt_about(fields: Fields, server: str) -> str | None:
    """Return why a mail's sender is not proved by what the named server wrote; None if it is."""
    senders, people = fields.all("from"), fields.addresses("from")
    if len(senders) != 1 or len(people) != 1:
        return "it does not name exactly one sender"
    if not _is_plain(senders[0], people[0].address):
        return "its sender can be read in more than one way"
    for value in fields.all("authentication-results"):
        parts = _statements(value)
        if not parts or one_line(" ".join(parts[0]), 300).lower().split(" ")[0] != server.lower():
            continue  # somebody else's, or one that a sender made up
        return _dmarc_doubt(parts[1:], people[0].domain)
    return f"{server} has written no Authentication-Results"


def _is_plain(value: str, address: str) -> bool:
    """Whether every program reads a field as this one address."""
    bare = _QUOTED.sub("", value).strip().lower()
    return bare.count("@") == 1 and (bare == address or bare.endswith(f"<{address}>"))


def _dmarc_doubt(statements: list[list[str]], domain: str) -> str | None:
    results = [one for one in statements if one and one[0].lower().startswith("dmarc=")]
    if len(results) != 1:
        return "the server says nothing of DMARC" if not results else "the server says two things of DMARC"
    words = [word.lower() for word in results[0]]
    if words[0] != "dmarc=pass":
        return f"the server says {words[0][:50]}"
    if f"header.from={domain}" not in words:
        return "DMARC was passed for another domain"
    return None


def _statements(value: str) -> list[list[str]]:
    """Return the statements of a field as words, without comments; quoted texts are left out."""
    statements: list[list[str]] = [[]]
    word, depth, quoted, escaped = "", 0, False, False
    for sign in value:
        if escaped:
            escaped = False
        elif sign == "\\" and (depth or quoted):
            escaped = True
        elif quoted:
            quoted = sign != '"'
        elif sign == "(":
            depth += 1
        elif depth:
            depth -= sign == ")"
        elif sign == '"':
            quoted = True
            word += "?"  # no statement that counts needs quotes
        elif sign.isspace() or sign == ";":
            if word:
                statements[-1].append(word)
            word = ""
            if sign == ";":
                statements.append([])
        else:
            word += sign
    if word:
        statements[-1].append(word)
    return statements
