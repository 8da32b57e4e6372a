"""Look whether a message was sent: its text by the key in its metadata, its files by their kept ids."""

from __future__ import annotations

import logging
from typing import Any

from hostler_sdk.channels import ChannelFound, ChannelMessage, ChannelTarget, NotSent
from hostler_slack.messages import fields_of, text_of
from hostler_slack.position import Position
from hostler_slack.web_api import RefusedError, WebApi

METADATA_TYPE = "hostler_message"
SKEW_SECONDS = 3_600
"""How far the clocks of the host and of Slack may be apart."""
PAGE = 200
MAX_PAGES = 5
_NOT_THERE = {"channel_not_found", "thread_not_found", "message_not_found"}

logger = logging.getLogger(__name__)


def metadata_of(key: str) -> dict[str, Any]:
    """Return the metadata by which a message is found again."""
    return {"event_type": METADATA_TYPE, "event_payload": {"key": key}}


def speaks(message: ChannelMessage) -> bool:
    """Whether a message has a part with text; its files are another one."""
    return bool(message.text.strip() or any(message.buttons))


class LookUp:
    """Looks for messages of the bot."""

    def __init__(self, api: WebApi, position: Position) -> None:
        self._api = api
        self._position = position

    async def find(
        self, target: ChannelTarget, message: ChannelMessage, *, key: str, since: float
    ) -> ChannelFound:
        """Look whether all of a message is there. Raises NotSent, UnclearError if Slack cannot be asked."""
        try:
            found_ts: str | None = None
            if speaks(message):
                found_ts = await self.text(target, key, oldest=f"{since - SKEW_SECONDS:.6f}")
                if found_ts is None:
                    return ChannelFound(found=False)
            if message.attachments:
                shared, ts = await self.files(target.chat_id, key)
                if not shared:
                    return ChannelFound(found=False)
                found_ts = found_ts or ts
        except NotSent as error:
            if not error.final:
                raise
            logger.warning("a message cannot be looked for: %s", error.message)
            return ChannelFound(found=None)
        return ChannelFound(found=True, message_id=found_ts)

    async def text(self, target: ChannelTarget, key: str, *, oldest: str | None = None) -> str | None:
        """Return the id of the text with a key. Raises NotSent, UnclearError."""
        method = "conversations.history" if target.thread_id is None else "conversations.replies"
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                answer = await self._api.call(
                    method,
                    channel=await self.conversation(target.chat_id),
                    ts=target.thread_id,
                    oldest=oldest,
                    limit=PAGE,
                    cursor=cursor,
                    include_all_metadata=True,
                )
            except RefusedError as error:
                if error.code in _NOT_THERE:
                    return None
                raise
            messages = answer.get("messages")
            for message in messages if isinstance(messages, list) else []:
                metadata = fields_of(fields_of(message).get("metadata"))
                if (
                    metadata.get("event_type") == METADATA_TYPE
                    and fields_of(metadata.get("event_payload")).get("key") == key
                ):
                    return text_of(message.get("ts"))
            cursor = text_of(fields_of(answer.get("response_metadata")).get("next_cursor"))
            if cursor is None:
                return None
        raise NotSent("so much was said since that it cannot be looked for", final=True)

    async def files(self, chat_id: str, key: str) -> tuple[bool, str | None]:
        """Return whether the files of a message are shared, and the id of their message if Slack gives it.

        Their ids were kept before they were shared; a file that was not is none that Slack knows.
        Raises NotSent, UnclearError.
        """
        ids = self._position.uploads_of(key)
        if not ids:
            return False, None
        ts: str | None = None
        for file_id in ids:
            try:
                answer = await self._api.call("files.info", file=file_id)
            except RefusedError as error:
                if error.code == "file_not_found":
                    return False, None
                raise
            ts = ts or shared_in(fields_of(answer.get("file")), await self.conversation(chat_id))
        return True, ts

    async def conversation(self, chat_id: str) -> str:
        """Return the direct messages with a person in place of the person."""
        if not chat_id.startswith(("U", "W")):
            return chat_id
        answer = await self._api.call("conversations.open", users=chat_id)
        return text_of(fields_of(answer.get("channel")).get("id")) or chat_id


def shared_in(file: dict[str, Any], chat_id: str) -> str | None:
    """Return the id of the message with which a file was shared. Slack may say it a moment later."""
    shares = fields_of(file.get("shares"))
    for kind in ("public", "private"):
        found = fields_of(shares.get(kind)).get(chat_id)
        for share in found if isinstance(found, list) else []:
            if ts := text_of(fields_of(share).get("ts")):
                return ts
    return None
