"""Platform actions of a mailbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formataddr, formatdate
from typing import Any

from imapclient.imapclient import TRASH

from hostler_email.composing import recipient
from hostler_email.events import MAX_SUBJECT_CHARS, Account, own_id
from hostler_email.fields import Fields, one_line
from hostler_email.mailbox import Mailbox, RefusedError
from hostler_email.reading import read_headers, read_mail
from hostler_email.sender import FILE_LIMITS, Sender, find_mail
from hostler_email.side import Side
from hostler_email.smtp import Post
from hostler_sdk.channels import ChannelActions, NotSent, SetupError
from hostler_sdk.channels.attachments import MIB

MAX_PAGE = 100
MAX_SHOWN_CHARS = 4_000
"""Text of a mail in a page of the history."""
FETCH_BYTES = 1024 * 1024
_FLAGS = {"seen": rb"\Seen", "flagged": rb"\Flagged", "answered": rb"\Answered"}

Action = Callable[[dict[str, Any], dict[str, Any], str], Awaitable[Any]]


class Actions(ChannelActions):
    """The actions of one mailbox. `target`: `chat_id`, `thread_id`, `message_id`, as each needs."""

    def __init__(self, side: Side, sender: Sender, post: Post, account: Account, folder: str) -> None:
        self._side = side
        self._sender = sender
        self._post = post
        self._account = account
        self._folder = folder
        self._by_name: dict[str, Action] = {
            "history.fetch": self._history,
            "message.delete": self._delete,
            "message.forward": self._forward,
            "message.pin": self._pin,
            "platform.call": self._call,
        }

    async def act(self, action: str, target: dict[str, Any], payload: dict[str, Any], *, key: str) -> Any:
        """Carry out an action, and return its result. Raises NotSent, UnclearError, LostError."""
        try:
            return await self._by_name[action](target, payload, key)
        except (RefusedError, SetupError) as error:
            raise NotSent(str(error), final=isinstance(error, RefusedError)) from None

    async def _on(self, target: dict[str, Any], work: Callable[[Mailbox, int], Any]) -> Any:
        """Do something with a mail, in its folder."""
        message_id = _message_id(target)

        def whole(box: Mailbox) -> Any:
            uid = find_mail(box, self._folder, message_id, change=True)
            if uid is None:
                raise RefusedError(
                    f"the mail {message_id[:100]} is not in the folder {self._folder} (any more)"
                )
            return work(box, uid)

        return await self._side.ask(whole)

    async def _delete(self, target: dict[str, Any], _: dict[str, Any], __: str) -> Any:
        def work(box: Mailbox, uid: int) -> dict[str, Any]:
            trash = box.special(TRASH)
            if trash is None:
                raise RefusedError("the mailbox has no folder for what is thrown away")
            box.move(uid, trash)
            return {"folder": trash}

        return await self._on(target, work)

    async def _pin(self, target: dict[str, Any], _: dict[str, Any], __: str) -> Any:
        await self._on(target, lambda box, uid: box.mark(uid, _FLAGS["flagged"]))
        return {}

    async def _forward(self, target: dict[str, Any], payload: dict[str, Any], key: str) -> Any:
        to_chat = payload.get("to_chat_id")
        if not isinstance(to_chat, str):
            raise NotSent("the payload needs `to_chat_id`, the address that it goes to", final=True)
        to = recipient(to_chat)
        raw = await self._on(target, lambda box, uid: box.fetch(uid, FILE_LIMITS.bytes_all))
        if raw is None:
            raise NotSent("the mail is gone", final=True)
        if raw.size_bytes > len(raw.content):
            raise NotSent(f"the mail has over {FILE_LIMITS.bytes_all // MIB} MiB", final=True)
        subject = read_headers(raw.content).text("subject", MAX_SUBJECT_CHARS)
        mail = EmailMessage(SMTP.clone(max_line_length=900))
        mail["From"] = formataddr((self._account.name or "", self._account.address))
        mail["To"] = to
        mail["Subject"] = f"Fwd: {subject}"
        mail["Date"] = formatdate()
        mail["Message-ID"] = own_id(key, None, self._account.address.rpartition("@")[2])
        mail["Auto-Submitted"] = "auto-generated"
        mail["X-Auto-Response-Suppress"] = "All"
        mail.set_content("The mail is attached.\n")
        # as a file: in it, nothing that somebody wrote there can change what is around it
        mail.add_attachment(raw.content, maintype="application", subtype="octet-stream", filename="mail.eml")
        await self._post.send(self._account.address, to, mail.as_bytes())
        return {"message_id": str(mail["Message-ID"])}

    async def _history(self, target: dict[str, Any], payload: dict[str, Any], _: str) -> Any:
        address = recipient(str(target.get("chat_id") or ""))
        limit = payload.get("limit", 20)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit <= MAX_PAGE:
            raise NotSent(f"`limit` must be a number from 1 to {MAX_PAGE}", final=True)
        cursor = payload.get("cursor")
        if cursor is not None and not (isinstance(cursor, str) and cursor.isdecimal() and len(cursor) < 11):
            raise NotSent("`cursor` must be the `next_cursor` of the page before", final=True)

        def work(box: Mailbox) -> dict[str, Any]:
            box.select(self._folder)
            found = [uid for uid in box.with_header("From", address) if cursor is None or uid < int(cursor)]
            shown = found[-limit:]
            page = [one for one in (_shown(box, uid, address) for uid in reversed(shown)) if one is not None]
            following = {"next_cursor": str(shown[0])} if len(found) > len(shown) else {}
            return {"messages": page, **following}

        return await self._side.ask(work)

    async def _call(self, _: dict[str, Any], payload: dict[str, Any], __: str) -> Any:
        method, params = payload.get("method"), payload.get("params", {})
        if not isinstance(params, dict):
            raise NotSent("`params` must be an object", final=True)
        if method == "search":
            return await self._search(params)
        if method not in {"move", "mark"}:
            raise NotSent(f"{method!r:.80} is none of search, move and mark", final=True)
        if method == "move":
            folder = _text(params, "folder")
            await self._on(params, lambda box, uid: box.move(uid, folder))
            return {}
        flag = _FLAGS.get(_text(params, "flag").lower())
        if flag is None:
            raise NotSent(f"`flag` must be one of {', '.join(_FLAGS)}", final=True)
        await self._on(params, lambda box, uid: box.mark(uid, flag))
        return {}

    async def _search(self, params: dict[str, Any]) -> Any:
        criteria = params.get("criteria")
        if not isinstance(criteria, list) or not criteria or not all(_is_criterion(one) for one in criteria):
            raise NotSent('`criteria` must be a list of texts of SEARCH, like ["FROM", "ada"]', final=True)
        folder = str(params.get("folder") or self._folder)

        def work(box: Mailbox) -> dict[str, Any]:
            box.select(folder)
            found = box.search(criteria)
            page = [one for one in (_shown(box, uid, None) for uid in found[-MAX_PAGE:]) if one is not None]
            return {"count": len(found), "messages": page}

        return await self._side.ask(work)


def _is_criterion(one: Any) -> bool:
    return isinstance(one, str) and 0 < len(one) <= 500 and not any(sign in one for sign in "\r\n\0")


def _shown(box: Mailbox, uid: int, address: str | None) -> dict[str, Any] | None:
    """Return a mail for a page: with its text, if it is asked for by who wrote it."""
    raw = box.headers(uid) if address is None else box.fetch(uid, FETCH_BYTES)
    if raw is None:
        return None
    mail = None if address is None else read_mail(raw.content, is_cut=raw.size_bytes > len(raw.content))
    fields: Fields = read_headers(raw.content) if mail is None else mail.fields
    sender = next((one.address for one in fields.addresses("from")), None)
    if address is not None and sender != address.lower():
        return None  # the server searches parts of names as well
    told = {
        "message_id": next(iter(fields.ids("message-id")), None),
        "from": sender,
        "subject": fields.text("subject", MAX_SUBJECT_CHARS),
        "time": raw.received_at,
    }
    return told if mail is None else {**told, "text": mail.text[:MAX_SHOWN_CHARS]}


def _message_id(target: dict[str, Any]) -> str:
    found = target.get("message_id")
    if not isinstance(found, str) or not found or one_line(found, 600) != found:
        raise NotSent("the target needs `message_id`, the id of a mail", final=True)
    return found


def _text(params: dict[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str) or not value or one_line(value, 500) != value:
        raise NotSent(f"the parameters need `{name}`, a text", final=True)
    return value
