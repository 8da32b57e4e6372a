"""Messages to members: the text, its buttons as cards, then the files, each a message of its own on WeCom.

Each is sent so that WeCom drops a repetition within four hours: it compares the content of the requests. That
is the same whenever a message is sent again, and different for any two messages (`_hidden` in `bodies`).
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from hostler_sdk.channels import (
    Channel,
    ChannelFound,
    ChannelMessage,
    ChannelSender,
    ChannelTarget,
    NotSent,
    UnclearError,
)
from hostler_sdk.channels.attachments import MIB
from hostler_sdk.channels.outgoing import FileLimits, OutgoingFile, read_files
from hostler_sdk.channels.sent_parts import joined_ids
from hostler_sdk.errors import HostError
from hostler_wecom.bodies import (
    MAX_CARD_TEXT,
    MAX_CARD_TITLE,
    card_bodies,
    clipped,
    plain_text,
    text_bodies,
)
from hostler_wecom.errors import RefusedError
from hostler_wecom.position import Position
from hostler_wecom.throttle import Throttle
from hostler_wecom.web_api import WebApi

REPEAT_SECONDS = 14_400
"""For how long WeCom remembers what it was sent: the longest that it offers."""
MARGIN_SECONDS = 600.0
"""Of that, for the time between a look and the sending that follows."""
MIN_FILE_BYTES = 6
LIMITS = FileLimits(bytes_each=20 * MIB)
"""WeCom takes files of over 5 bytes and at most 20 MiB."""
_KINDS = {
    "image/jpeg": ("image", 10 * MIB),
    "image/png": ("image", 10 * MIB),
    "audio/amr": ("voice", 2 * MIB),
    "video/mp4": ("video", 10 * MIB),
}
"""What is shown in the chat, and up to which size; everything else is a file."""
_PARTICULAR = {40004, 40005, 40006, 40009, 40010, 40011}
"""WeCom takes it not as an image, voice or video; as a file it takes anything."""
_NO_SUCH_FILE = 40007
MAX_BEGUN = 1_000
_MIME_TYPE = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+-]+")
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")


@dataclass(slots=True)
class Begun:
    """What is sent of a message: how many parts, and their ids. `kept`: the host has the ids of its files."""

    parts: int = 0
    ids: list[str] = field(default_factory=list)
    kept: bool = False


def user_of(chat_id: object) -> str:
    """Return the id of a member, which is that of the chat with them, too. Raises NotSent.

    `@all`, to which a message would go to everybody, is none.
    """
    if isinstance(chat_id, str) and _USER.fullmatch(chat_id):
        return chat_id
    raise NotSent(f"{chat_id!r:.80} is no id of a member of WeCom, like zhangsan", final=True)


class Sender(ChannelSender):
    """Sends messages of one application."""

    def __init__(
        self,
        api: WebApi,
        channel: Channel,
        position: Position,
        agent_id: int,
        *,
        markdown: bool,
        checks: bool,
    ) -> None:
        """`checks`: WeCom is asked to drop repetitions."""
        self._api = api
        self._channel = channel
        self._position = position
        self._agent_id = agent_id
        self._markdown = markdown
        self._checks = checks
        self._throttle = Throttle(time.monotonic)
        self._begun: OrderedDict[str, Begun] = OrderedDict()

    async def send(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, attempt: int
    ) -> str | None:
        """Send a message, and return the ids of its parts. Raises NotSent, UnclearError.

        Parts that were sent before another one failed are not sent again.
        """
        user = user_of(target.chat_id)
        bodies = self._bodies(message, key)
        files = await read_files(self._channel, message.attachments, LIMITS)
        _check_sizes(files)
        if not bodies and not files:
            raise NotSent("the message is empty", final=True)
        begun = self._begun.pop(key, None) or Begun()
        try:
            for body in bodies[begun.parts :]:
                await self._part(user, body, begun, again=attempt > 1)
            if files:
                await self._files(user, key, files, begun, after=len(bodies))
        except (NotSent, UnclearError):
            self._begun[key] = begun
            while len(self._begun) > MAX_BEGUN:
                self._begun.popitem(last=False)
            raise
        return joined_ids(begun.ids)

    async def find(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, since: float
    ) -> ChannelFound:
        """Say whether a message may be sent again. WeCom does not tell what it has, but drops what it has."""
        age = time.time() - since
        if self._checks and age < REPEAT_SECONDS - MARGIN_SECONDS:
            return ChannelFound(found=False)
        return ChannelFound(found=None)

    async def tell(self, user: str, text: str, key: str) -> None:
        """Send a short text of the channel's own. Raises NotSent, UnclearError."""
        hidden = key if self._checks else None
        for body in text_bodies(ChannelMessage(text=text, plain=True), markdown=False, key=hidden):
            await self._part(user, body, Begun())

    def _bodies(self, message: ChannelMessage, key: str) -> list[dict[str, Any]]:
        buttons = [button for row in message.buttons for button in row]
        hidden = key if self._checks else None
        if not buttons:
            return text_bodies(message, markdown=self._markdown, key=hidden) if message.text.strip() else []
        text = plain_text(message).strip()
        title, _, rest = text.partition("\n")
        if len(title) <= MAX_CARD_TITLE and len(rest.strip()) <= MAX_CARD_TEXT:
            return card_bodies(buttons, key, title, rest.strip())
        told = text_bodies(message, markdown=self._markdown, key=hidden)
        return told + card_bodies(buttons, key, clipped(title, MAX_CARD_TITLE), "")

    async def _part(self, user: str, body: dict[str, Any], begun: Begun, *, again: bool = False) -> None:
        self._throttle.take(user)
        whole = {"touser": user, "agentid": self._agent_id, **body}
        if self._checks:
            whole |= {"enable_duplicate_check": 1, "duplicate_check_interval": REPEAT_SECONDS}
        try:
            answer = await self._api.call("message/send", whole)
        except RefusedError as error:
            if not again or "template_card" not in body or not _is_known_task(error):
                raise
            answer = {}  # a card is taken once: the one of the try before is there
        for name in ("invaliduser", "unlicenseduser"):
            if answer.get(name):
                text = f"WeCom does not reach {user} ({name}): no member, not visible to them, or no licence"
                raise NotSent(text, final=True)
        begun.parts += 1
        msgid = answer.get("msgid")
        if isinstance(msgid, str) and msgid:
            begun.ids.append(msgid)

    # -- files ------------------------------------------------------------------------------------

    async def _files(
        self, user: str, key: str, files: list[OutgoingFile], begun: Begun, *, after: int
    ) -> None:
        """Send files. Their ids are kept before, so that a repetition is the same request."""
        uploaded = self._position.files_of(key)
        for file in files[len(uploaded) :]:
            uploaded.append(await self._upload(file))
            self._position.uploaded(key, uploaded)
            begun.kept = False
        if not begun.kept:
            await self._keep()
            begun.kept = True
        for kind, media_id in uploaded[begun.parts - after :]:
            try:
                await self._part(user, {"msgtype": kind, kind: {"media_id": media_id}}, begun)
            except RefusedError as error:
                if error.code != _NO_SUCH_FILE:
                    raise
                self._position.sent(key)  # they are gone after three days: uploaded anew
                raise NotSent(error.message) from None
        self._position.sent(key)

    async def _keep(self) -> None:
        try:
            await self._channel.keep(self._position.state)
        except HostError as error:
            raise NotSent(f"the host cannot keep what is sent: {error.message}") from error

    async def _upload(self, file: OutgoingFile) -> tuple[str, str]:
        kind, most = _KINDS.get(file.mime_type, ("file", LIMITS.bytes_each))
        mime_type = file.mime_type if _MIME_TYPE.fullmatch(file.mime_type) else "application/octet-stream"
        if kind != "file" and len(file.content) <= most:
            try:
                return kind, await self._api.upload(kind, file.name, mime_type, file.content)
            except RefusedError as error:
                if error.code not in _PARTICULAR:
                    raise
        return "file", await self._api.upload("file", file.name, mime_type, file.content)


def _is_known_task(error: RefusedError) -> bool:
    """Whether WeCom refused a card as it has its task. No code of it is documented: the text has to tell."""
    return error.final and re.search(r"task[ _]?id", error.message, re.IGNORECASE) is not None


def _check_sizes(files: list[OutgoingFile]) -> None:
    for file in files:
        if len(file.content) < MIN_FILE_BYTES:
            text = f"{file.name} has {len(file.content)} bytes; WeCom takes files of over 5 bytes"
            raise NotSent(text, final=True)
