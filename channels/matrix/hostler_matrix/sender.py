"""Messages to rooms: text with its HTML, files and edits, in threads and as replies."""

from __future__ import annotations

import hashlib
import html
import re
from collections import OrderedDict
from typing import Any
from uuid import uuid4

from nio import Api

from hostler_matrix.home_server import HomeServer
from hostler_matrix.rooms import Room, Rooms
from hostler_sdk.channels import Channel, ChannelMessage, ChannelSender, ChannelTarget, NotSent, UnclearError
from hostler_sdk.channels.attachments import MIB
from hostler_sdk.channels.markup import page_html
from hostler_sdk.channels.outgoing import FileLimits, OutgoingFile, read_files

MAX_CONTENT_BYTES = 60_000
"""Of what is sent, with room for what the homeserver adds to an event of 65,536."""
MAX_OLD_CHARS = 1_000
"""Of the copy of an edit that clients show which know no edits."""
FILE_LIMITS = FileLimits(files=10, bytes_each=50 * MIB, bytes_all=100 * MIB)
"""Files of one message, which are in memory while it is sent."""
MAX_UPLOADS = 1_000
"""Files that were uploaded for messages which could not be sent yet."""
MAX_ALIASES = 500
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Characters that nobody sees, and which take six bytes each."""


def txn_id(key: str, number: int = 0) -> str:
    """Return the transaction id of a part of a message: the same for each attempt."""
    return "hostler-" + hashlib.sha256(f"{key}:{number}".encode()).hexdigest()[:40]


def event_id_of(value: Any) -> str:
    """Return the id of an event. Raises NotSent."""
    return _id(value, "$", "message")


def user_id_of(value: Any) -> str:
    """Return the id of a person. Raises NotSent."""
    return _id(value, "@", "person")


def _id(value: Any, mark: str, what: str) -> str:
    if not isinstance(value, str) or not value.startswith(mark) or not 1 < len(value) <= 255:
        raise NotSent(f"{value!r:.80} is no id of a {what} on Matrix, which begins with {mark}", final=True)
    return value


def text_content(msgtype: str, text: str, *, plain: bool = False) -> dict[str, Any]:
    """Return a text as the content of an event: with HTML if that shows more, and is not too long."""
    text = _CONTROL.sub("", text)
    content: dict[str, Any] = {"msgtype": msgtype, "body": text, "m.mentions": {}}
    if plain:
        return content
    rich = page_html(text).rstrip("\n")
    if rich.startswith("<p>") and rich.count("<p>") == 1 and rich.endswith("</p>"):
        rich = rich[3:-4]
    if rich and rich.replace("<br>\n", "\n") != html.escape(text, quote=False):
        content |= {"format": "org.matrix.custom.html", "formatted_body": rich}
    return content if _size(content) <= MAX_CONTENT_BYTES else text_content(msgtype, text, plain=True)


def _size(content: dict[str, Any]) -> int:
    return len(Api.to_canonical_json(content).encode("utf-8", "replace"))


def edit_content(message_id: str, new: dict[str, Any]) -> dict[str, Any]:
    """Return an edit; its HTML is left out if both do not fit."""
    old = {"msgtype": new["msgtype"], "body": "* " + new["body"][:MAX_OLD_CHARS], "m.mentions": {}}
    relates = {"rel_type": "m.replace", "event_id": message_id}
    content = {**old, "m.new_content": new, "m.relates_to": relates}
    if _size(content) > MAX_CONTENT_BYTES:
        content["m.new_content"] = {name: new[name] for name in ("msgtype", "body", "m.mentions")}
    return content


def relation_to(target: ChannelTarget) -> dict[str, Any]:
    """Return how a message belongs to a thread, and to what it answers. Raises NotSent."""
    reply = None if target.reply_to is None else event_id_of(target.reply_to)
    if target.thread_id is None:
        return {} if reply is None else {"m.relates_to": {"m.in_reply_to": {"event_id": reply}}}
    root = event_id_of(target.thread_id)
    return {
        "m.relates_to": {
            "rel_type": "m.thread",
            "event_id": root,
            "is_falling_back": reply is None,
            "m.in_reply_to": {"event_id": reply or root},
        }
    }


class Sender(ChannelSender):
    """Sends and edits messages of one account."""

    def __init__(self, server: HomeServer, channel: Channel, rooms: Rooms, *, msgtype: str) -> None:
        self._server = server
        self._channel = channel
        self._rooms = rooms
        self._msgtype = msgtype
        self._aliases: OrderedDict[str, str] = OrderedDict()
        self._uploads: OrderedDict[str, str] = OrderedDict()
        self.user_id = ""

    async def room_id(self, value: Any) -> str:
        """Return the id of a room, named by it or by an address like `#lobby:example.org`. Raises NotSent."""
        if not isinstance(value, str) or not value.startswith("#"):
            return _id(value, "!", "room")
        if value not in self._aliases:
            found = (await self._asked(Api.room_resolve_alias(value))).get("room_id")
            self._aliases[value] = _id(found, "!", "room")
            while len(self._aliases) > MAX_ALIASES:
                self._aliases.popitem(last=False)
        return self._aliases[value]

    async def _asked(self, request: tuple[str, ...]) -> dict[str, Any]:
        """Ask for something before anything is sent. Raises NotSent."""
        try:
            return await self._server.call(request)
        except UnclearError as error:
            raise NotSent(str(error)) from None

    async def open_room(self, value: Any) -> str:
        """Return a room that can be written to. Raises NotSent: what is said must not be readable where
        people believe that it is encrypted."""
        room_id = await self.room_id(value)
        try:
            room: Room = await self._rooms.known(room_id, counted=False)
        except UnclearError as error:
            raise NotSent(str(error)) from None
        if room.is_encrypted:
            text = "the room is end-to-end encrypted: the channel can neither read nor write there"
            raise NotSent(text, final=True)
        return room_id

    # -- sending ----------------------------------------------------------------------------------

    async def send(self, target: ChannelTarget, message: ChannelMessage, *, key: str, attempt: int) -> str:
        """Send a message in as many parts as it needs, and return the id of the first.

        Each has a transaction id: what the homeserver has already it does not take again. Nothing is sent
        before all files are read. Raises NotSent, UnclearError.
        """
        room_id = await self.open_room(target.chat_id)
        relates = relation_to(target)
        files = await read_files(self._channel, message.attachments, FILE_LIMITS)
        if not message.text.strip() and not files:
            raise NotSent("the message is empty", final=True)
        sent = []
        if message.text.strip():
            content = text_content(self._msgtype, message.text, plain=message.plain)
            sent.append(await self.put(room_id, "m.room.message", content | relates, txn_id(key)))
        for number, file in enumerate(files, 1):
            content = await self._file(file, txn_id(key, number))
            sent.append(await self.put(room_id, "m.room.message", content | relates, txn_id(key, number)))
            self._uploads.pop(txn_id(key, number), None)
        return sent[0]

    async def put(self, room_id: str, event_type: str, content: dict[str, Any], txn: str) -> str:
        """Send an event, and return its id. Raises NotSent, UnclearError."""
        answer = await self._server.call(Api.room_send("", room_id, event_type, content, txn))
        event_id = answer.get("event_id")
        if not isinstance(event_id, str) or not event_id:
            raise UnclearError("the homeserver answered without the id of the event")
        self._rooms.note_message(event_id, {"type": event_type, "sender": self.user_id, "content": content})
        return event_id

    async def _file(self, file: OutgoingFile, txn: str) -> dict[str, Any]:
        """Upload a file, once in this process, and return the content of its event."""
        name, mime_type = file.name, file.mime_type
        if txn not in self._uploads:
            try:
                self._uploads[txn] = await self._server.upload(file.content, name, mime_type)
            except UnclearError as error:  # a file alone is nothing that anybody sees
                raise NotSent(str(error)) from None
            while len(self._uploads) > MAX_UPLOADS:
                self._uploads.popitem(last=False)
        return {
            "msgtype": msgtype_of(mime_type),
            "body": name,
            "filename": name,
            "url": self._uploads[txn],
            "info": {"mimetype": mime_type, "size": len(file.content)},
            "m.mentions": {},
        }

    # -- editing ----------------------------------------------------------------------------------

    async def edit(
        self, target: ChannelTarget, message_id: str, message: ChannelMessage, *, last: bool = True
    ) -> None:
        """Replace the text of a message. Raises NotSent, UnclearError."""
        original = event_id_of(message_id)
        if not message.text.strip():
            raise NotSent("a message cannot become empty", final=True)
        room_id = await self.open_room(target.chat_id)
        await self._check_own(room_id, original)
        new = text_content(self._msgtype, message.text, plain=message.plain)
        await self.put(room_id, "m.room.message", edit_content(original, new), f"hostler-edit-{uuid4().hex}")

    async def _check_own(self, room_id: str, message_id: str) -> None:
        """Raise NotSent for somebody else's message: a homeserver takes the edit, and no client shows it."""
        try:
            known = await self._rooms.message(room_id, message_id)
        except UnclearError as error:
            raise NotSent(str(error)) from None
        if known is not None and known.sender != self.user_id:
            raise NotSent("the message is not the bot's own, which alone it can edit", final=True)

    async def tell(self, room_id: str, text: str) -> None:
        """Say once that the channel cannot read in an encrypted room. Raises NotSent, UnclearError."""
        content = text_content("m.notice", text, plain=True)
        await self.put(room_id, "m.room.message", content, txn_id(f"encrypted {room_id}"))


def msgtype_of(mime_type: str) -> str:
    """Return as what a file is sent, so that people see or hear it."""
    kind = mime_type.partition("/")[0]
    return f"m.{kind}" if kind in {"image", "audio", "video"} else "m.file"
