"""Messages to Slack: the text with its buttons first, then the files together."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field

import msgspec

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
from hostler_sdk.errors import HostError
from hostler_slack.bodies import body_of
from hostler_slack.look_up import LookUp, metadata_of, shared_in, speaks
from hostler_slack.messages import fields_of, text_of
from hostler_slack.position import Position
from hostler_slack.web_api import WebApi

FILE_LIMITS = FileLimits(files=10, bytes_each=50 * MIB, bytes_all=100 * MIB, empty=False)
"""Files of one message, which are in memory while it is sent. Slack itself takes 1 GB."""
MAX_BEGUN = 1_000
"""Messages of several parts of which some could not be sent yet."""
_CHAT = re.compile(r"[CDGUW][A-Z0-9]{1,30}")
_TS = re.compile(r"[0-9]{1,20}\.[0-9]{1,10}")


@dataclass(slots=True)
class Begun:
    """What is sent of a message, and the ids of its files if they are uploaded."""

    ts: str | None = None
    file_ids: list[str] = field(default_factory=list)


def chat_id_of(id_: object) -> str:
    """Return the id of a chat, or of a person for the direct messages with them. Raises NotSent."""
    if isinstance(id_, str) and _CHAT.fullmatch(id_):
        return id_
    raise NotSent(f"{id_!r:.80} is no id of a chat of Slack, like C0123456789", final=True)


def ts_of(id_: object, what: str = "message") -> str:
    """Return the id of a message, which is its time. Raises NotSent."""
    if isinstance(id_, str) and _TS.fullmatch(id_):
        return id_
    raise NotSent(f"{id_!r:.80} is no id of a {what} of Slack, like 1764000000.000100", final=True)


class Sender(ChannelSender):
    """Sends and edits messages of one bot."""

    def __init__(
        self, api: WebApi, channel: Channel, position: Position, look_up: LookUp, *, previews: bool
    ) -> None:
        self._api = api
        self._channel = channel
        self._position = position
        self._look_up = look_up
        self._previews = previews
        self._begun: OrderedDict[str, Begun] = OrderedDict()

    async def send(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, attempt: int
    ) -> str | None:
        """Send a message, and return the id of its text, else that of its files if Slack gives it.

        Parts that were sent before another one failed are not sent again. Raises NotSent, UnclearError.
        """
        chat_id_of(target.chat_id)
        if target.thread_id is not None:
            ts_of(target.thread_id, "thread")
        body = body_of(message)
        files = await read_files(self._channel, message.attachments, FILE_LIMITS)
        if not speaks(message) and not files:
            raise NotSent("the message is empty", final=True)
        if not body.text.strip():  # of buttons alone
            names = ", ".join(file.name for file in files)
            body = body_of(msgspec.structs.replace(message, text=names or "?", plain=True))
        begun = self._begun.pop(key, None)
        if begun is None:
            begun = await self._sent_before(target, message, key) if attempt > 1 and files else Begun()
        try:
            if speaks(message) and begun.ts is None:
                answer = await self._api.call(
                    "chat.postMessage",
                    channel=target.chat_id,
                    thread_ts=target.thread_id,
                    text=body.text,
                    mrkdwn=body.mrkdwn,
                    blocks=body.blocks or None,
                    metadata=metadata_of(key),
                    unfurl_links=self._previews,
                    unfurl_media=self._previews,
                )
                begun.ts = str(answer.get("ts"))
            ts = begun.ts
            if files:
                ts = await self._share(target, files, key, begun) or ts
        except (NotSent, UnclearError):
            self._keep_begun(key, begun)
            raise
        if target.thread_id is not None:
            self._position.wrote(target.chat_id, target.thread_id)
        return begun.ts or ts

    async def _sent_before(self, target: ChannelTarget, message: ChannelMessage, key: str) -> Begun:
        """Return what another process has sent of a message with files. The host looks for one without."""
        if not speaks(message):
            return Begun()
        return Begun(ts=await self._look_up.text(target, key))

    def _keep_begun(self, key: str, begun: Begun) -> None:
        if begun.ts is None and not begun.file_ids:
            return
        self._begun[key] = begun
        while len(self._begun) > MAX_BEGUN:
            self._begun.popitem(last=False)

    # -- files ------------------------------------------------------------------------------------

    async def _share(
        self, target: ChannelTarget, files: list[OutgoingFile], key: str, begun: Begun
    ) -> str | None:
        """Upload files, and share them as one message. Their ids are kept before: by them they are found."""
        for file in files[len(begun.file_ids) :]:
            place = await self._api.call(
                "files.getUploadURLExternal", filename=file.name, length=len(file.content)
            )
            await self._api.upload(str(place.get("upload_url")), file.content)
            begun.file_ids.append(str(place.get("file_id")))
        chat_id = await self._look_up.conversation(target.chat_id)
        self._position.uploading(key, begun.file_ids)
        try:
            await self._channel.keep(self._position.state)
        except HostError as error:
            raise NotSent(f"the host cannot keep what is sent: {error.message}") from error
        titles = [file.name for file in files]
        answer = await self._api.call(
            "files.completeUploadExternal",
            files=[{"id": id_, "title": title} for id_, title in zip(begun.file_ids, titles, strict=True)],
            channel_id=chat_id,
            thread_ts=target.thread_id,
        )
        shared = answer.get("files")
        for one in shared if isinstance(shared, list) else []:
            if ts := shared_in(fields_of(one), chat_id):
                return ts
        return None

    # -- what is there ----------------------------------------------------------------------------

    async def find(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, since: float
    ) -> ChannelFound:
        """Look whether a message was sent. Raises NotSent, UnclearError."""
        return await self._look_up.find(target, message, key=key, since=since)

    # -- edits ------------------------------------------------------------------------------------

    async def edit(
        self, target: ChannelTarget, message_id: str, message: ChannelMessage, *, last: bool = True
    ) -> None:
        """Replace text and buttons of a message. Raises NotSent, UnclearError."""
        if not message.text.strip():
            raise NotSent("a message cannot become empty", final=True)
        body = body_of(message, edits=True)
        answer = await self._api.call(
            "chat.update",
            channel=await self._look_up.conversation(chat_id_of(target.chat_id)),
            ts=ts_of(message_id),
            text=body.text,
            blocks=body.blocks,  # without any, those of before are taken away
        )
        if text_of(answer.get("ts")) is None:
            raise UnclearError("Slack does not say that the message was edited")
