"""A mail as people read it: text, files and header fields, within bounds, whatever its sender made of it."""

from __future__ import annotations

import binascii
import email
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.errors import MessageError
from email.message import Message
from email.policy import compat32

from hostler_email.fields import Fields, decoded, decoded_words, one_line, visible
from hostler_email.html_text import text_of_html
from hostler_sdk.channels.malformed import MALFORMED

MAX_HEADERS_BYTES = 256 * 1024
MAX_LINES = 1_000_000
MAX_BRANCHES = 50
"""Parts that hold parts."""
MAX_PARTS = 200
MAX_BOUNDARIES = 5_000
"""Lines that begin like a boundary; other texts have such lines as well."""
MAX_TEXT_CHARS = 200_000
MAX_TEXT_BYTES = 1_000_000
MAX_FILE_NAME_CHARS = 150
HEADERS_ONLY = "only its header fields were read"
_BRANCH = re.compile(rb"^content-type[ \t]*:\s*(?:multipart|message)/", re.IGNORECASE | re.MULTILINE)
_BOUNDARY = re.compile(rb"^--", re.MULTILINE)
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n|\r\r")
_UNREADABLE = (MessageError, AssertionError, *MALFORMED)
"""What Python's parser raises about hostile mails."""
_SIGNATURES = {"application/pgp-signature", "application/pkcs7-signature", "application/x-pkcs7-signature"}


@dataclass(frozen=True, slots=True)
class MailFile:
    """A file in a mail. `reason`: why it cannot be had."""

    name: str
    mime_type: str
    content: bytes = b""
    reason: str | None = None


@dataclass(slots=True)
class Mail:
    """A mail, read. `problems`: what was left out of it, for people."""

    fields: Fields
    text: str = ""
    files: list[MailFile] = field(default_factory=list)
    reports: list[Message] = field(default_factory=list)
    """Parts of a report on a mail's delivery."""
    content_type: str = "text/plain"
    problems: list[str] = field(default_factory=list)


def read_mail(raw: bytes, *, is_cut: bool = False) -> Mail:
    """Read a mail. `is_cut`: it goes on behind `raw`. It never raises, and takes time for its length."""
    if reason := _too_much(raw):
        return _headers_of(raw, reason)
    try:
        message = email.message_from_bytes(raw, policy=compat32)
        mail = Mail(Fields(message), content_type=message.get_content_type())
        _read_parts(mail, message, is_cut=is_cut)
    except _UNREADABLE as error:
        return _headers_of(raw, f"it cannot be read ({type(error).__name__})")
    if is_cut:
        mail.problems.append("the mail is larger than what is fetched, and was cut")
    return mail


def read_headers(raw: bytes) -> Fields:
    """Read header fields alone."""
    head = _END_OF_HEAD.split(raw[:MAX_HEADERS_BYTES], 1)[0]
    try:
        return Fields(email.message_from_bytes(head, policy=compat32))
    except _UNREADABLE:
        return Fields(Message())


def _headers_of(raw: bytes, reason: str) -> Mail:
    return Mail(read_headers(raw), problems=[f"{reason}: {HEADERS_ONLY}"])


def _too_much(raw: bytes) -> str | None:
    """Return why a mail is not read: Python's parser would take too long, or too much memory."""
    end = _END_OF_HEAD.search(raw)
    if (len(raw) if end is None else end.start()) > MAX_HEADERS_BYTES:
        return f"its header fields have over {MAX_HEADERS_BYTES // 1024} KiB"
    if raw.count(b"\n") + raw.count(b"\r") > 2 * MAX_LINES:
        return f"it has over {MAX_LINES:,} lines"
    if _more_than(_BRANCH, raw, MAX_BRANCHES):
        return f"over {MAX_BRANCHES} of its parts hold parts"
    if _more_than(_BOUNDARY, raw, MAX_BOUNDARIES):
        return f"it has over {MAX_BOUNDARIES:,} lines that may begin parts"
    return None


def _more_than(pattern: re.Pattern[bytes], raw: bytes, most: int) -> bool:
    return any(number > most for number, _ in enumerate(pattern.finditer(raw), 1))


# -- parts ----------------------------------------------------------------------------------------


def _read_parts(mail: Mail, message: Message, *, is_cut: bool) -> None:
    texts: list[str] = []
    leaves = list(_leaves(message, mail))
    for number, (part, is_body) in enumerate(leaves, 1):
        breaks_off = is_cut and number == len(leaves)
        kind = part.get_content_type()
        if kind.startswith("multipart/"):  # it holds no parts, whatever it says
            kind = "text/plain"
        if (
            kind in {"message/delivery-status", "text/rfc822-headers"}
            and mail.content_type == "multipart/report"
        ):
            mail.reports.append(part)
        elif kind in {"text/plain", "text/html"} and not _is_file(part):
            texts += [_text(part, kind)] if is_body else []
        elif kind not in _SIGNATURES:
            if mail.content_type == "multipart/report" and kind == "message/rfc822":
                mail.reports.append(part)
            mail.files.append(_file(part, kind, number, breaks_off=breaks_off))
    mail.text = "\n\n".join(text for text in texts if text)
    if len(mail.text) > MAX_TEXT_CHARS:
        mail.text = mail.text[:MAX_TEXT_CHARS]
        mail.problems.append(f"its text has over {MAX_TEXT_CHARS:,} characters, and was cut")


def _leaves(message: Message, mail: Mail) -> Iterator[tuple[Message, bool]]:
    """Yield the parts that hold no others, and whether each may be text of the mail itself.

    Of alternatives the plain text is, else HTML; files may be in the others as well.
    """
    waiting: list[tuple[Message, bool]] = [(message, True)]
    seen = 0
    while waiting:
        part, is_body = waiting.pop()
        seen += 1
        if seen > MAX_PARTS:
            mail.problems.append(f"it has over {MAX_PARTS} parts: the others were left out")
            return
        if not part.get_content_type().startswith("multipart/") or not part.is_multipart():
            yield part, is_body
            continue
        inner = [one for one in _payload(part) if isinstance(one, Message)]
        chosen = _chosen(inner) if part.get_content_type() == "multipart/alternative" else inner
        waiting.extend((one, is_body and any(one is other for other in chosen)) for one in reversed(inner))


def _payload(part: Message) -> list[object]:
    payload = part.get_payload()
    return list(payload) if isinstance(payload, list) else []


def _chosen(alternatives: list[Message]) -> list[Message]:
    """Return the plain text, if there is any, else the last that may hold text."""
    plain = [one for one in alternatives if one.get_content_type() == "text/plain"]
    if any(_text(one, "text/plain") for one in plain):
        return plain[:1]
    rich = [one for one in alternatives if one.get_content_type().startswith(("text/html", "multipart/"))]
    return rich[-1:]


def _is_file(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" or _file_name(part) is not None


def _text(part: Message, kind: str) -> str:
    content = _content(part)[:MAX_TEXT_BYTES]
    text = decoded(content, _charset(part))
    return text_of_html(visible(text)) if kind == "text/html" else visible(text).strip()


def _charset(part: Message) -> str | None:
    try:
        return part.get_content_charset()
    except _UNREADABLE:
        return None


def _content(part: Message) -> bytes:
    """Return a part's bytes. Base64 that cannot be read is given as it stands."""
    try:
        payload = part.get_payload(decode=True)
    except (binascii.Error, *_UNREADABLE):
        payload = part.get_payload()
    if isinstance(payload, bytes):
        return payload
    return str(payload or "").encode("utf-8", "replace")


def _file(part: Message, kind: str, number: int, *, breaks_off: bool) -> MailFile:
    name = _file_name(part) or f"part_{number}.{_ENDINGS.get(kind, 'bin')}"
    if breaks_off:
        return MailFile(name, kind, reason="the mail is larger than what is fetched, and breaks off in it")
    if kind.startswith("message/") or part.is_multipart():
        inner = _payload(part)
        held = inner[0] if len(inner) == 1 and isinstance(inner[0], Message) else part
        return MailFile(name, kind, held.as_bytes(policy=compat32))
    return MailFile(name, kind, _content(part))


_ENDINGS = {
    "message/rfc822": "eml",
    "text/plain": "txt",
    "text/html": "html",
    "text/calendar": "ics",
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "application/pdf": "pdf",
}


def _file_name(part: Message) -> str | None:
    stated, fields = Message(), Fields(part)
    for field_name in ("content-disposition", "content-type"):
        if raw := fields.raw(field_name):  # with letters that should not be there as they are
            stated[field_name] = raw
    try:
        told = stated.get_filename()
    except _UNREADABLE:
        return None
    if not told:
        return None
    words = decoded_words(told[:10_000])
    name = one_line(re.split(r"[/\\]", words)[-1], 10_000).strip(". ")
    if len(name) > MAX_FILE_NAME_CHARS:  # what it ends with says what it is
        name = name[: MAX_FILE_NAME_CHARS - 20] + name[-20:]
    return name or None
