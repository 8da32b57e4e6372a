"""Messages to Discord: text, files and buttons in one message, under a nonce that Discord takes once."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from discord import File

from hostler_discord.messages import snowflake_of
from hostler_discord.rest import Rest
from hostler_discord.text import written
from hostler_sdk.channels import (
    Button,
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
from hostler_sdk.channels.sent_parts import Part, PartSender, ids_of, joined_ids

FILE_LIMITS = FileLimits(files=10, bytes_each=100 * MIB, bytes_all=100 * MIB)
"""Files of one message, which are in memory while it is sent. Discord takes 10 MiB each, more with boosts."""
MAX_ROWS = 5
MAX_IN_ROW = 5
MAX_LABEL_CHARS = 80
NONCE_SECONDS = 60.0
"""How long after the first try the nonce alone settles a doubt: Discord keeps it for some minutes."""
PAGE = 100
MAX_PAGES = 20
"""How far a message is looked for: what was said in its channel since it was first sent."""
MAX_SENT = 1_000
"""Messages whose nonce is remembered, so that no other one is taken for them."""
NO_PREVIEWS = 1 << 2
_STYLES = {"primary": 1, "danger": 4}
_SECONDARY = 2
_ID = re.compile(r"[0-9]{1,20}", re.ASCII)

logger = logging.getLogger(__name__)


def id_of(id_: Any, what: str) -> str:
    """Return an id of Discord. Raises NotSent."""
    if not _ID.fullmatch(str(id_)):
        raise NotSent(f"{id_!r:.80} is no id of a {what} of Discord", final=True)
    return str(id_)


def nonce_of(key: str) -> str:
    """Return the nonce of a message: at most 25 characters."""
    return hashlib.sha256(key.encode()).hexdigest()[:24]


def part_key(key: str, number: int) -> str:
    """Return the key of a part of a message."""
    return f"{key}/{number}" if number else key


@dataclass(slots=True)
class Sought:
    """A part of a message that is looked for, and its id once it is found."""

    text: str
    rows: list[dict[str, Any]]
    files: int
    nonce: str
    message_id: str | None


def components(rows: list[list[Button]]) -> list[dict[str, Any]]:
    """Return buttons below a message; longer rows go on in the next. Raises NotSent."""
    parts = [row[at : at + MAX_IN_ROW] for row in rows for at in range(0, len(row), MAX_IN_ROW)]
    if len(parts) > MAX_ROWS:
        text = f"the message has {len(parts)} rows of buttons; Discord shows {MAX_ROWS} of {MAX_IN_ROW}"
        raise NotSent(text, final=True)
    values = [one.value for row in parts for one in row]
    if len(set(values)) < len(values):
        raise NotSent(
            "two buttons of the message have the same value, which Discord does not take", final=True
        )
    return [{"type": 1, "components": [_button(one) for one in row]} for row in parts]


def _button(button: Button) -> dict[str, Any]:
    style = _STYLES.get(button.style, _SECONDARY)
    label = button.label
    if len(label) > MAX_LABEL_CHARS:
        label = label[: MAX_LABEL_CHARS - 1] + "…"
    return {"type": 2, "style": style, "label": label, "custom_id": button.value}


class Sender(ChannelSender):
    """Sends, edits and finds messages of one bot."""

    def __init__(
        self,
        rest: Rest,
        channel: Channel,
        *,
        previews: bool,
        mentions: bool,
    ) -> None:
        self._rest = rest
        self._channel = channel
        self._flags = 0 if previews else NO_PREVIEWS
        self._mentions = {"parse": ["users"] if mentions else [], "replied_user": mentions}
        self._parts = PartSender()
        self._nonces: OrderedDict[str, str] = OrderedDict()
        """By message id."""
        self.my_id = ""

    async def send(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, attempt: int
    ) -> str | None:
        """Send a message in as many parts as it needs, and return their ids. Raises NotSent, UnclearError."""
        place = id_of(target.thread_id or target.chat_id, "channel")
        texts, rows = written(message) or [""], components(message.buttons)
        files = await read_files(self._channel, message.attachments, FILE_LIMITS)
        if texts == [""] and not files:
            raise NotSent("the message is empty", final=True)
        parts = []
        for number, text in enumerate(texts):
            is_last = number == len(texts) - 1
            body: dict[str, Any] = {"content": text, "components": rows if is_last else []}
            body["flags"] = self._flags
            if target.reply_to is not None and number == 0:
                replied = id_of(ids_of(target.reply_to)[0], "message")
                body["message_reference"] = {"message_id": replied, "fail_if_not_exists": False}
            parts.append(self._part(place, body, part_key(key, number), files if is_last else []))
        try:
            sent = await self._parts.send(key, parts, lambda id_: self._delete(place, id_))
        except NotSent as error:
            if error.final or not self._parts.has_begun(key):
                raise
            # only what is in doubt is looked for by a next process, which does not know of the first part
            raise UnclearError(f"a part of the message was sent; the rest was not: {error.message}") from None
        return joined_ids(sent)

    def _part(self, place: str, body: dict[str, Any], key: str, files: list[OutgoingFile]) -> Part:
        def send() -> Awaitable[str]:
            given = [File(io.BytesIO(one.content), filename=one.name) for one in files]
            return self.post(place, body, key, given)

        def change(message_id: str) -> Awaitable[None]:
            return self._edit(place, message_id, body["content"], body["components"])

        return Part((body["content"], body["components"]), send, change)

    async def post(
        self, channel_id: str, body: dict[str, Any], key: str, files: list[File] | None = None
    ) -> str:
        """Send a message in the form of Discord, and return its id. Raises NotSent, UnclearError."""
        whole = {
            **body,
            "nonce": nonce_of(key),
            "enforce_nonce": True,
            "allowed_mentions": self._mentions,
        }
        path = "/channels/{channel_id}/messages"
        if files:
            whole["attachments"] = [
                {"id": number, "filename": file.filename} for number, file in enumerate(files)
            ]
            form = [
                {"name": "payload_json", "value": json.dumps(whole), "content_type": "application/json"},
                *(
                    {
                        "name": f"files[{number}]",
                        "value": file.fp,
                        "filename": file.filename,
                        "content_type": "application/octet-stream",
                    }
                    for number, file in enumerate(files)
                ),
            ]
            answer = await self._rest.message("POST", path, channel_id=channel_id, files=files, form=form)
        else:
            answer = await self._rest.message("POST", path, channel_id=channel_id, json=whole)
        number = str(answer["id"])
        self.heard(nonce_of(key), number)
        return number

    def heard(self, nonce: str, message_id: str) -> None:
        """Remember a message of the bot: Discord has answered with it, or the gateway tells of it."""
        self._nonces[message_id] = nonce
        while len(self._nonces) > MAX_SENT:
            self._nonces.popitem(last=False)

    async def edit(
        self, target: ChannelTarget, message_id: str, message: ChannelMessage, *, last: bool = True
    ) -> None:
        """Replace text and buttons of a message.

        No part is added, since something else may have been said below: a text that needs more parts than the
        message has is shown as it is written. Parts that are not needed any more are deleted. Raises NotSent,
        UnclearError.
        """
        place = id_of(target.thread_id or target.chat_id, "channel")
        texts, rows = written(message), components(message.buttons)
        ids = [id_of(one, "message") for one in ids_of(message_id)]
        if not texts:
            raise NotSent("a message cannot become empty", final=True)
        if len(texts) > len(ids):
            texts = [message.text]
        for number, (id_, text) in enumerate(zip(ids, texts, strict=False), 1):
            await self._edit(place, id_, text, rows if number == len(texts) else [])
        for id_ in ids[len(texts) :]:
            await self._delete(place, id_)

    async def _edit(self, place: str, message_id: str, text: str, rows: list[dict[str, Any]]) -> None:
        await self._rest.call(
            "PATCH",
            "/channels/{channel_id}/messages/{message_id}",
            channel_id=place,
            message_id=message_id,
            json={"content": text, "components": rows, "allowed_mentions": self._mentions},
        )

    async def _delete(self, place: str, message_id: str) -> None:
        """Delete a part whose text is in an earlier one now; one that cannot be deleted stays."""
        path = "/channels/{channel_id}/messages/{message_id}"
        try:
            await self._rest.call("DELETE", path, channel_id=place, message_id=message_id)
        except NotSent as error:
            if not error.final:
                raise
            logger.warning("a part of a message that is not needed any more stays: %s", error.message)

    # -- what is there ----------------------------------------------------------------------------

    async def find(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, since: float
    ) -> ChannelFound:
        """Look whether a message was sent: the gateway may have told; soon after, its nonce settles it when
        it is sent again; later the history shows it.

        Raises NotSent, UnclearError.
        """
        sought = self._sought(message, key)
        if all(one.message_id for one in sought):
            return _found(sought)
        if time.time() - since < NONCE_SECONDS:
            return ChannelFound(found=False)  # it is sent again under its nonces, which Discord takes once
        place, after = id_of(target.thread_id or target.chat_id, "channel"), str(snowflake_of(since))
        for _ in range(MAX_PAGES):
            try:
                page = await self._rest.call(
                    "GET",
                    "/channels/{channel_id}/messages",
                    channel_id=place,
                    params={"after": after, "limit": str(PAGE)},
                )
            except NotSent as error:
                if not error.final:
                    raise
                return ChannelFound(found=None)  # the bot may not read there
            page = sorted(page, key=lambda one: int(one["id"]))
            for one in page:
                following = next((part for part in sought if part.message_id is None), None)
                if following is None:
                    break
                if self._is(one, following):
                    following.message_id = str(one["id"])
            if len(page) < PAGE or all(part.message_id for part in sought):
                return self._settled(sought, key)
            after = str(page[-1]["id"])
        return ChannelFound(found=None)

    def _sought(self, message: ChannelMessage, key: str) -> list[Sought]:
        """Return the parts of a message, with their ids as far as the gateway or Discord have told them."""
        known = {nonce: message_id for message_id, nonce in self._nonces.items()}
        sought = []
        texts, rows = written(message) or [""], components(message.buttons)
        for number, text in enumerate(texts):
            nonce, is_last = nonce_of(part_key(key, number)), number == len(texts) - 1
            files = len(message.attachments) if is_last else 0
            sought.append(Sought(text, rows if is_last else [], files, nonce, known.get(nonce)))
        return sought

    def _settled(self, sought: list[Sought], key: str) -> ChannelFound:
        """Return what is there of a message whose chat was read; what follows is still to be sent."""
        there = list(itertools.takewhile(lambda part: part.message_id is not None, sought))
        if len(there) == len(sought):
            return _found(sought)
        if any(part.message_id for part in sought[len(there) :]):
            return ChannelFound(found=None)  # one in the middle was deleted
        sent = [(part.message_id or "", (part.text, part.rows)) for part in there]
        self._parts.found(key, sent)
        return ChannelFound(found=False)

    def _is(self, one: dict[str, Any], sought: Sought) -> bool:
        return (
            str(one["author"]["id"]) == self.my_id
            and self._nonces.get(str(one["id"]), sought.nonce) == sought.nonce
            and str(one.get("content", "")).strip() == sought.text.strip()
            and len(one.get("attachments") or []) == sought.files
        )


def _found(sought: list[Sought]) -> ChannelFound:
    return ChannelFound(found=True, message_id=joined_ids(one.message_id or "" for one in sought))
