"""Mails as events: who wrote where, in which thread, and under which id.

The chat is the sender's address, and a thread that of a mail's references. Answers go to the sender alone.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

from hostler_email.fields import ADDRESS, MESSAGE_ID, Address, Fields, one_line
from hostler_email.mailbox import RawMail
from hostler_email.origin import doubt_about, kind_of, report_of
from hostler_email.reading import Mail, MailFile, read_mail
from hostler_sdk.channels import ChannelEvent, Chat, Person

MAX_NAMED = 30
"""Addresses of a field, and references, in an event's data."""
MAX_SUBJECT_CHARS = 500
MAX_TOLD_CHARS = 10_000
"""Text of a mail that is no message, in an event's data."""
_OWN = re.compile(r"<hostler\.([0-9a-f]{32})\.([0-9a-f]{32})@[^<>]+>")
_TRACE = re.compile(r"^(?:On|Am|Le|El|Il|Em|Op|På|W dniu|\d{4}).{5,300}:$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Account:
    """The bot's own address, and the server that vouches for senders."""

    address: str
    name: str | None = None
    vouching: str | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """What an answer to a mail needs to know of it."""

    thread_id: str
    subject: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Drafted:
    """An event, and the files that belong to it. `is_own`: the bot wrote the mail itself."""

    event: ChannelEvent
    thread: Thread
    files: list[MailFile] = field(default_factory=list)
    is_own: bool = False


def digest(*texts: str | bytes) -> str:
    """Return 32 hexadecimal digits of some texts."""
    found = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        found.update(len(content).to_bytes(8, "big") + content)
    return found.hexdigest()[:32]


def own_id(key: str, thread_id: str | None, domain: str) -> str:
    """Return the Message-ID of the message with a key: the same however often it is sent."""
    mine = digest("message", key)
    thread = thread_id if thread_id is not None and re.fullmatch(r"[0-9a-f]{32}", thread_id) else mine
    return f"<hostler.{mine}.{thread}@{domain}>"


def thread_of(fields: Fields, own: str) -> Thread:
    """Return a mail's thread: that of the bot's last mail that it refers to, else that of the first mail."""
    references = fields.ids("references") or fields.ids("in-reply-to")[:1]
    ours = [found[2] for one in references if (found := _OWN.fullmatch(one))]
    answered = fields.ids("in-reply-to")[:1]
    ours += [found[2] for one in answered if (found := _OWN.fullmatch(one))]
    thread_id = ours[-1] if ours else digest("thread", references[0] if references else own)
    known = (*references, own) if MESSAGE_ID.fullmatch(own) else tuple(references)
    return Thread(thread_id, fields.text("subject", MAX_SUBJECT_CHARS), known)


def event_of(raw: RawMail, validity: int, account: Account, limit: int) -> Drafted:
    """Return a mail as an event: a message, if a person wrote it to the bot."""
    mail = read_mail(raw.content, is_cut=len(raw.content) >= limit and raw.size_bytes > limit)
    fields = mail.fields
    sender = next(iter(fields.addresses("from")), None)
    stated = MESSAGE_ID.search(fields.raw("message-id"))
    message_id = stated[0] if stated else f"uid:{validity}.{raw.uid}"
    thread = thread_of(fields, message_id)
    data = _data(mail, raw, sender)
    name = _name_of(mail, sender, account, data)
    answered = next(iter(fields.ids("in-reply-to")), None) or data.get("report", {}).get("message_id")
    is_message = name == "mail"
    text = _text(mail, thread, answered)
    if not is_message:  # nobody takes it for what somebody said to the bot, and no answer can go there
        data["mail"] |= {"text": text[:MAX_TOLD_CHARS], "files": [one.name for one in mail.files[:MAX_NAMED]]}
    event = ChannelEvent(
        event_type="message.received" if is_message else f"platform.{name}",
        source_event_type=name,
        event_id=digest(*(fields.raw(one) for one in _NAMING), _body(raw.content)),
        event_time=raw.received_at or None,
        chat=_chat(sender, thread) if is_message else None,
        person=None if "unverified" in data else _person(sender, is_bot=not is_message),
        message_id=message_id,
        reply_to=answered,
        text=text if is_message else None,
        addressed=_addressed(fields, account, answered) if is_message else [],
        data=data,
    )
    is_own = sender is not None and sender.address == account.address
    return Drafted(event, thread, mail.files if is_message else [], is_own)


def _chat(sender: Address | None, thread: Thread) -> Chat | None:
    if sender is None:
        return None
    return Chat(chat_id=sender.address, title=sender.name, thread_id=thread.thread_id)


def _person(sender: Address | None, *, is_bot: bool) -> Person | None:
    return None if sender is None else Person(person_id=sender.address, name=sender.name, is_bot=is_bot)


_NAMING = ("message-id", "date", "from", "to", "subject")
"""Fields that stay as they are when a mail is copied or moved to another server."""


def _body(content: bytes) -> bytes:
    head, _, body = content.partition(b"\r\n\r\n")
    return body or head


def _name_of(mail: Mail, sender: Address | None, account: Account, data: dict[str, Any]) -> str:
    if sender is None:
        return "unreadable_mail"
    kind = kind_of(mail)
    if kind == "bounce":
        data["report"] = report_of(mail)
    doubt = None if account.vouching is None else doubt_about(mail.fields, account.vouching)
    if doubt is not None:
        data["unverified"] = doubt
    if kind is not None or doubt is not None:
        return kind or "unverified_mail"
    if not mail.text and not mail.files and mail.problems:
        return "unreadable_mail"
    return "mail"


def _data(mail: Mail, raw: RawMail, sender: Address | None) -> dict[str, Any]:
    fields = mail.fields
    told: dict[str, Any] = {
        "subject": fields.text("subject", MAX_SUBJECT_CHARS),
        "from": fields.text("from", 500) if sender is None else sender.address,
        "date": fields.text("date", 100),
        "size_bytes": raw.size_bytes,
    }
    for name in ("to", "cc", "reply-to"):
        told[name.replace("-", "_")] = [one.address for one in fields.addresses(name)[:MAX_NAMED]]
    told["references"] = fields.ids("references")[-MAX_NAMED:]
    if list_id := fields.text("list-id", 200):
        told["list_id"] = list_id
    return {"mail": told, **({"problems": mail.problems} if mail.problems else {})}


def _addressed(fields: Fields, account: Account, answered: str | None) -> list[Any]:
    to = {_bare(one.address) for one in fields.addresses("to")}
    others = (to | {_bare(one.address) for one in fields.addresses("cc")}) - {_bare(account.address)}
    found = []
    if _bare(account.address) in to:
        found.append("mention" if others else "private")
    if answered is not None and _OWN.fullmatch(answered):
        found.append("reply")
    return found


def _bare(address: str) -> str:
    """Return an address without what people add to theirs behind a `+`."""
    local, _, domain = address.rpartition("@")
    return f"{local.partition('+')[0]}@{domain}"


def _text(mail: Mail, thread: Thread, answered: str | None) -> str:
    """Return what the mail says: the subject first, where it begins a thread; without the bot's own words."""
    if answered is None and not mail.fields.raw("references"):
        return "\n\n".join(part for part in (thread.subject, mail.text) if part)
    is_ours = answered is not None and _OWN.fullmatch(answered)
    return _without_quote(mail.text) if is_ours else mail.text


def _without_quote(text: str) -> str:
    """Leave out the mail that is answered, if it is quoted as a whole at the end."""
    lines = text.rstrip().split("\n")
    end = len(lines)
    while end and (lines[end - 1].startswith(">") or not lines[end - 1].strip()):
        end -= 1
    if end == len(lines):
        return text
    for begin in (end - 1, end - 2):  # the line above a quote may be two
        if begin >= 0 and _TRACE.match("\n".join(lines[begin:end])):
            kept = "\n".join(lines[:begin]).rstrip()
            return kept or text
    return text


def valid_address(address: str) -> bool:
    """Whether a text is an address that a mail can be sent to."""
    return ADDRESS.fullmatch(address) is not None and one_line(address, 400) == address
