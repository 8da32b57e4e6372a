"""Sending: a message becomes a mail, goes to the SMTP server, and into the folder of what was sent."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque

from imapclient.imapclient import SENT

from hostler_email.composing import mail_of, recipient
from hostler_email.events import Account, Thread, own_id, thread_of
from hostler_email.mailbox import LostError, Mailbox, RefusedError
from hostler_email.reading import read_headers
from hostler_email.side import Side
from hostler_email.smtp import Post
from hostler_sdk.channels import (
    Channel,
    ChannelFound,
    ChannelMessage,
    ChannelSender,
    ChannelTarget,
    NotSent,
    SetupError,
)
from hostler_sdk.channels.attachments import MIB
from hostler_sdk.channels.outgoing import FileLimits, read_files

FILE_LIMITS = FileLimits(files=20, bytes_each=25 * MIB, bytes_all=25 * MIB)
"""Files of one mail; in a mail they take a third more."""
MAX_KNOWN = 2_000
"""Threads and mails whose subject and references are remembered; others are looked up."""
MAX_CHATS = 10_000
HOUR_SECONDS = 3_600.0
FILED_SECONDS = 30.0
"""After so long a server that files what it was given has filed it."""
LOOK_SECONDS = 5.0
FILE_SECONDS = 5.0
ASK_SECONDS = 8.0
"""Time to file a sent mail, and to look up what is answered: the host waits for the answer."""

logger = logging.getLogger(__name__)


class Threads:
    """What is known of mails and threads, by the ids of both."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Thread] = OrderedDict()

    def note(self, message_id: str, thread: Thread) -> None:
        """Remember a mail; it is the last one of its thread."""
        for name in (message_id, thread.thread_id):
            self._known[name] = thread
            self._known.move_to_end(name)
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    def find(self, *names: str | None) -> Thread | None:
        """Return what is known by the first of these names."""
        return next((self._known[name] for name in names if name is not None and name in self._known), None)


class Brake:
    """Lets so many mails an hour go to each address: two machines that answer each other never stop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sent: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raise NotSent if an address got its share."""
        sent, now = self._sent.get(address), time.monotonic()
        while sent and now - sent[0] >= HOUR_SECONDS:
            sent.popleft()
        if sent and len(sent) >= self._most:
            text = f"{address} got {self._most} mails within an hour: the next one waits"
            raise NotSent(text, retry_after=HOUR_SECONDS - (now - sent[0]))

    def count(self, address: str) -> None:
        """Note that a mail went to an address."""
        self._sent.setdefault(address, deque(maxlen=self._most)).append(time.monotonic())
        self._sent.move_to_end(address)
        while len(self._sent) > MAX_CHATS:
            self._sent.popitem(last=False)


class Sender(ChannelSender):
    """Sends the mails of one account. `sent`: who files them, `append`, `server` or `none`."""

    def __init__(
        self,
        channel: Channel,
        account: Account,
        post: Post,
        side: Side,
        *,
        folder: str,
        sent: str,
        subject: str,
        brake: Brake,
    ) -> None:
        self.threads = Threads()
        self._channel = channel
        self._account = account
        self._post = post
        self._side = side
        self._folder = folder
        self._sent = sent
        self._subject = subject
        self._brake = brake
        self._sent_folder: str | None = None

    async def send(self, target: ChannelTarget, message: ChannelMessage, *, key: str, attempt: int) -> str:
        """Send a message, and return its Message-ID. Raises NotSent, UnclearError."""
        to = recipient(target.chat_id)
        self._brake.check(target.chat_id)
        thread = await self._thread(target)
        files = await read_files(self._channel, message.attachments, FILE_LIMITS)
        mail = mail_of(target, message, key, self._account, thread=thread, subject=self._subject, files=files)
        content = mail.as_bytes()
        await self._post.send(self._account.address, to, content)
        self._brake.count(target.chat_id)
        message_id = str(mail["Message-ID"])
        references = tuple((str(mail.get("References", "")) + " " + message_id).split())
        mine = message_id.split(".")[2].partition("@")[0]
        self.threads.note(message_id, Thread(mine, str(mail["Subject"]), references))
        await self._file(content)
        return message_id

    async def _file(self, content: bytes) -> None:
        """Put a sent mail into its folder. It is sent: what fails here is logged, and no more."""
        if self._sent != "append":
            return
        try:
            async with asyncio.timeout(FILE_SECONDS):
                await self._side.ask(lambda box: box.append(self._folder_in(box), content))
        except (LostError, RefusedError, SetupError, TimeoutError) as error:
            logger.warning("a mail was sent, and could not be put into the folder of sent mails: %s", error)

    def _folder_in(self, box: Mailbox) -> str:
        if self._sent_folder is None:
            self._sent_folder = box.special(SENT)
        if self._sent_folder is None:
            raise RefusedError("the mailbox has no folder for what was sent")
        return self._sent_folder

    # -- what is answered -------------------------------------------------------------------------

    async def _thread(self, target: ChannelTarget) -> Thread | None:
        """Return what is known of the mail that is answered: noted, or looked up in the mailbox."""
        found = self.threads.find(target.reply_to, target.thread_id)
        if found is not None or (target.reply_to is None and target.thread_id is None):
            return found
        try:
            async with asyncio.timeout(ASK_SECONDS):
                found = await self._side.ask(lambda box: self._looked_up(box, target))
        except (LostError, RefusedError, SetupError, TimeoutError) as error:
            logger.warning("the mail that is answered could not be looked up: %s", error)
            return None
        if found is not None and target.reply_to is not None:
            self.threads.note(target.reply_to, found)
        return found

    def _looked_up(self, box: Mailbox, target: ChannelTarget) -> Thread | None:
        uid = find_mail(box, self._folder, target.reply_to) if target.reply_to is not None else None
        if uid is None and target.thread_id is not None:
            box.select(self._folder)
            uid = next(reversed(box.with_header("References", f".{target.thread_id}@")), None)
        raw = None if uid is None else box.headers(uid)
        if raw is None:
            return None
        fields = read_headers(raw.content)
        own = fields.ids("message-id")[:1] or [target.reply_to or ""]
        return thread_of(fields, own[0])

    # -- looking whether it was sent --------------------------------------------------------------

    async def find(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, since: float
    ) -> ChannelFound:
        """Look for the mail of a key among what was sent.

        That it is not there proves something only if the server itself files what it is given.
        """
        if self._sent == "none":
            return ChannelFound()
        message_id = own_id(key, target.thread_id, self._account.address.rpartition("@")[2])
        while True:
            is_last = time.time() - since >= FILED_SECONDS or self._sent == "append"
            try:
                there = await self._side.ask(lambda box: self._was_sent(box, message_id))
            except (LostError, RefusedError, SetupError) as error:
                logger.warning("it cannot be looked up whether a mail was sent: %s", error)
                return ChannelFound()
            if there:
                return ChannelFound(found=True, message_id=message_id)
            if is_last:
                return ChannelFound(found=False if self._sent == "server" else None)
            await asyncio.sleep(LOOK_SECONDS)

    def _was_sent(self, box: Mailbox, message_id: str) -> bool:
        box.select(self._folder_in(box))
        return bool(box.with_header("Message-ID", message_id))


def find_mail(box: Mailbox, folder: str, message_id: str, *, change: bool = False) -> int | None:
    """Return the UID of a mail by the id that its event had; None if it is not there (any more)."""
    validity, _ = box.select(folder, change=change)
    if message_id.startswith("uid:"):
        told, _, uid = message_id.removeprefix("uid:").partition(".")
        return int(uid) if told == str(validity) and uid.isdecimal() and int(uid) < 2**32 else None
    return next(reversed(box.with_header("Message-ID", message_id)), None)
