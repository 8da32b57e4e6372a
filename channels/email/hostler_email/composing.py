"""Messages as mails: text and HTML beside each other, files, and what answers and threads need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formataddr, formatdate

from hostler_email.events import MAX_SUBJECT_CHARS, Account, Thread, own_id, valid_address
from hostler_email.fields import MESSAGE_ID, one_line
from hostler_sdk.channels import ChannelMessage, ChannelTarget, NotSent
from hostler_sdk.channels.markup import PLAIN, page_html, render
from hostler_sdk.channels.outgoing import OutgoingFile

# longer lines than the usual 78, or Python writes long Message-IDs as encoded words, which names no mail
_POLICY = SMTP.clone(max_line_length=900)
MAX_REFERENCES_CHARS = 800
_HEADING = re.compile(r"#{1,3} +(.{1,200})(?:\n+|$)")
_MIME_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,100}/[a-z0-9][a-z0-9.+-]{0,100}", re.IGNORECASE)
_STYLE = "font-family:sans-serif;line-height:1.4"


def mail_of(
    target: ChannelTarget,
    message: ChannelMessage,
    key: str,
    account: Account,
    *,
    thread: Thread | None,
    subject: str,
    files: Sequence[OutgoingFile],
) -> EmailMessage:
    """Return a message as a mail. `thread`: of what it answers; `subject`: of mails that begin a thread.

    Raises NotSent if no mail can be made of it.
    """
    if not message.text.strip() and not files:
        raise NotSent("the message is empty", final=True)
    text, is_answer = message.text, thread is not None or target.thread_id is not None or target.reply_to
    heading = None if is_answer or message.plain else _HEADING.match(text)
    if heading is not None:
        subject, text = heading[1], text[heading.end() :] or heading[1]
    mail = EmailMessage(_POLICY)
    mail["From"] = formataddr((account.name or "", account.address))
    mail["To"] = recipient(target.chat_id)
    mail["Subject"] = _answering(thread.subject if thread is not None else subject) if is_answer else subject
    mail["Date"] = formatdate()
    mail["Message-ID"] = own_id(key, target.thread_id, account.address.rpartition("@")[2])
    _refer(mail, target, thread)
    # RFC 3834: by it other machines know that nobody wrote this, and do not answer
    mail["Auto-Submitted"] = "auto-replied" if is_answer else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    _write(mail, text, plain=message.plain)
    for file in files:
        _attach(mail, file)
    return mail


def recipient(address: str) -> str:
    """Return whom a mail to a chat is for. Raises NotSent if that is no address."""
    if not valid_address(address):
        raise NotSent(f"{address!r:.80} is no address of mail, like ada@example.org", final=True)
    local, _, domain = address.rpartition("@")
    try:
        ascii_domain = domain.encode("idna").decode() if not domain.isascii() else domain
    except UnicodeError:
        raise NotSent(f"{domain!r:.80} is no name of a mail server", final=True) from None
    if not local.isascii():
        raise NotSent(f"{address!r:.80} has letters before the @ that mail servers do not take", final=True)
    return f"{local}@{ascii_domain}"


def _answering(subject: str) -> str:
    clean = one_line(subject, MAX_SUBJECT_CHARS)
    return (
        clean
        if re.match(r"(?:re|aw|sv|antw)\s*(?:\[\d+\])?:", clean, re.IGNORECASE)
        else f"Re: {clean}".strip()
    )


def _refer(mail: EmailMessage, target: ChannelTarget, thread: Thread | None) -> None:
    answered = (
        target.reply_to if target.reply_to is not None and MESSAGE_ID.fullmatch(target.reply_to) else None
    )
    known = list(thread.references) if thread is not None else []
    if answered is None and known:
        answered = known[-1]
    if answered is None:
        return
    mail["In-Reply-To"] = answered
    if answered not in known:
        known.append(answered)
    first, rest = known[:1], known[1:]
    while rest and len(" ".join(first + rest)) > MAX_REFERENCES_CHARS:
        rest.pop(0)
    kept = first + rest if len(" ".join(first + rest)) <= MAX_REFERENCES_CHARS else known[-1:]
    mail["References"] = " ".join(kept)


def _write(mail: EmailMessage, text: str, *, plain: bool) -> None:
    if not text.strip():
        return
    safe = text.encode("utf-8", "replace").decode()
    if plain:
        mail.set_content(safe + "\n", cte="quoted-printable")
        return
    mail.set_content(render(safe, PLAIN) + "\n", cte="quoted-printable")
    page = f'<!DOCTYPE html>\n<html><body style="{_STYLE}">\n{page_html(safe)}</body></html>\n'
    mail.add_alternative(page, subtype="html", cte="quoted-printable")


def _attach(mail: EmailMessage, file: OutgoingFile) -> None:
    kind = file.mime_type
    if not _MIME_TYPE.fullmatch(kind) or kind.startswith(("multipart/", "message/")):
        kind = "application/octet-stream"
    maintype, _, subtype = kind.partition("/")
    name = one_line(file.name, 150)
    mail.add_attachment(file.content, maintype=maintype, subtype=subtype, filename=name)
