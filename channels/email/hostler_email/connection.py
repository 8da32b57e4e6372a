"""One open mailbox: receive mails and deliver them, in the order in which they came."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from hostler_email.actions import Actions
from hostler_email.events import Account, event_of, valid_address
from hostler_email.fields import one_line
from hostler_email.mailbox import LostError, Mailbox, RawMail, RefusedError
from hostler_email.network import server_of
from hostler_email.reading import MailFile
from hostler_email.sender import Brake, Sender
from hostler_email.side import Side
from hostler_email.smtp import Post
from hostler_sdk.channels import ChannelConnection, Person, SetupError
from hostler_sdk.channels.attachments import MIB, FileBounds, FileUnavailableError, RemoteFile
from hostler_sdk.channels.delivery import Delivery

if TYPE_CHECKING:
    from hostler_email.channel import Email

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 60.0
"""Waits before the server is asked again after it could not be reached."""
IDLE_SECONDS = 540.0
"""IDLE is asked for anew after so long: many gateways forget connections after ten minutes."""
IMAP_PORTS = {"tls": 993, "starttls": 143, "none": 143}
SMTP_PORTS = {"tls": 465, "starttls": 587, "none": 25}
MAX_MAIL_MIB = 100
MAX_FILES = 50

_T = TypeVar("_T")
logger = logging.getLogger(__name__)


class Connection(ChannelConnection):
    """The connection of an open channel. Raises SetupError if the settings cannot work."""

    sender: Sender
    actions: Actions

    def __init__(self, channel: Email) -> None:
        settings = self._settings = channel.settings
        self._channel = channel
        self._account = _account(settings)
        self._folder = str(settings.get("folder") or "INBOX")
        self._limit = _number(settings, "max-mail-mib", 25, 1, MAX_MAIL_MIB) * MIB
        self._poll_seconds = _number(settings, "poll-seconds", 60, 1, 3_600)
        self._imap = server_of(settings, "imap", IMAP_PORTS)
        smtp = server_of(settings, "smtp", SMTP_PORTS)
        user, self._password = self._user("user"), str(settings.get("password") or "")
        if not self._password:
            raise SetupError("`password` is missing")
        bounds = FileBounds(files=MAX_FILES, bytes_each=self._limit, tries=1)
        self._delivery = Delivery(channel, bounds, kept=())
        self._thread = ThreadPoolExecutor(1, "receiving")
        self._box: Mailbox | None = None
        self._is_closed = False
        self._side = Side(self._opened)
        self._post = Post(smtp, user, self._password)
        self.sender = Sender(
            channel,
            self._account,
            self._post,
            self._side,
            folder=self._folder,
            sent=str(settings.get("sent-mails") or "append"),
            subject=one_line(str(settings.get("subject") or ""), 200) or "A message for you",
            brake=Brake(_number(settings, "per-hour", 30, 1, 100_000)),
        )
        self.actions = Actions(self._side, self.sender, self._post, self._account, self._folder)

    def _user(self, name: str) -> str:
        return str(self._settings.get(name) or "").strip() or self._account.address

    def _opened(self) -> Mailbox:
        return Mailbox.open(self._imap, self._user("user"), self._password)

    async def open(self) -> Person:
        """Connect to both servers, and note where a folder that was never read begins. Raises SetupError,
        ConnectionError.

        What comes once the channel is connected comes after that place.
        """
        try:
            await self._post.check()
        except TimeoutError:
            raise ConnectionError("the SMTP server gives no answer") from None
        await self._reopen()
        if not self._channel.state:
            try:
                await self._begin(self._now)
            except RefusedError as error:
                raise ConnectionError(str(error)) from None
        return Person(person_id=self._account.address, name=self._account.name, is_bot=True)

    async def close(self) -> None:
        """Close the connections; what waits on them ends."""
        self._is_closed = True
        if self._box is not None:
            self._box.break_off()
        self._side.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _reopen(self) -> None:
        await self._in_thread(self._connect)

    def _connect(self) -> None:
        """Connect, in the thread. One that comes when the channel is closed already is closed."""
        self._box = self._opened()
        if self._is_closed:
            self._box.break_off()

    # -- receiving --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Receive and deliver until cancelled."""
        wait, is_lost = FIRST_WAIT_SECONDS, False
        while True:
            try:
                if self._box is None:
                    await self._reopen()
                box = self._now
                validity, known = await self._begin(box)
                if is_lost:
                    self._channel.connected()
                wait, is_lost = FIRST_WAIT_SECONDS, False
                await self._receive(box, validity, known)
            except (LostError, RefusedError) as error:
                self._channel.connecting(str(error))
                is_lost = True
                if self._box is not None:
                    self._box.break_off()
                    self._box = None
                await asyncio.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT_SECONDS)

    @property
    def _now(self) -> Mailbox:
        assert self._box is not None, "it was opened before"
        return self._box

    async def _begin(self, box: Mailbox) -> tuple[int, list[int]]:
        """Open the folder; return its UIDVALIDITY, and mails to be looked through besides new ones.

        A folder that was never read begins with the next mail. If the UIDs of the position mean nothing any
        more, as after a move to another server, all since that time comes again: the host knows the ids.
        """
        validity, following = await self._in_thread(lambda: box.select(self._folder))
        state = self._channel.state if isinstance(self._channel.state, dict) else {}
        if state.get("uidvalidity") == validity:
            return validity, []
        since = state.get("since")
        if not state or not isinstance(since, int | float):
            await self._channel.keep(self._position(validity, following - 1))
            return validity, []
        logger.warning("the folder has new UIDs: all mails since the last one are looked through")
        again = [uid for uid in await self._in_thread(lambda: box.since(since)) if uid < following]
        if not again:
            await self._channel.keep(self._position(validity, following - 1))
        return validity, again

    def _position(self, validity: int, uid: int, since: float | None = None) -> dict[str, Any]:
        state = self._channel.state if isinstance(self._channel.state, dict) else {}
        before = state.get("since")
        kept = since if since is not None else before
        return {"uidvalidity": validity, "uid": uid, **({} if kept is None else {"since": kept})}

    async def _receive(self, box: Mailbox, validity: int, again: list[int]) -> None:
        while True:
            if not again:
                after = int(self._channel.state["uid"])
                again = await self._in_thread(lambda after=after: box.after(after))  # type: ignore[misc]
            for uid in again:
                await self._take(box, validity, uid)
            if not again:
                await self._in_thread(lambda: box.wait(IDLE_SECONDS, self._poll_seconds))
            again = []

    async def _take(self, box: Mailbox, validity: int, uid: int) -> None:
        """Deliver a mail; the position goes past it once it is durable."""
        raw = await self._in_thread(lambda: box.fetch(uid, self._limit))
        if raw is None:  # somebody has deleted it
            await self._channel.keep(self._position(validity, uid))
            return
        draft = await asyncio.to_thread(event_of, raw, validity, self._account, self._limit)
        state = self._state_after(validity, raw)
        if draft.is_own:
            await self._channel.keep(state)
            return
        files = [_remote(file) for file in draft.files]
        await self._delivery.deliver(draft.event, files, state=state)
        if draft.event.message_id is not None:
            self.sender.threads.note(draft.event.message_id, draft.thread)

    def _state_after(self, validity: int, raw: RawMail) -> dict[str, Any]:
        position = self._position(validity, raw.uid)
        before = position.get("since", 0)
        return position | {"since": max(before, raw.received_at)}


def _remote(file: MailFile) -> RemoteFile:
    async def content() -> AsyncIterator[bytes]:
        if file.reason is not None:
            raise FileUnavailableError(file.reason, final=True)
        yield file.content

    size = None if file.reason is not None else len(file.content)
    return RemoteFile(content, file.name, file.mime_type, size)


def _account(settings: dict[str, Any]) -> Account:
    address = str(settings.get("address") or "").strip().lower()
    if not valid_address(address) or not address.isascii():
        raise SetupError("`address` must be the mailbox's own address, like help@example.org")
    vouching = str(settings.get("authentication-server") or "").strip() or None
    return Account(address, one_line(str(settings.get("name") or ""), 100) or None, vouching)


def _number(settings: dict[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = settings.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise SetupError(f"`{name}` must be a number from {least} to {most}")
    return value
