"""What is said in a chat: the messages that an answer becomes, and which answers go there at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from hostler.domain.agents import DeliveryPolicy
from hostler.domain.channels import channel_of_subject
from hostler.domain.events import Event
from hostler.domain.ingest import refs_in
from hostler.domain.message_split import MIN_LIMIT, split_message
from hostler.domain.record import Record
from hostler_protocol.channels import ChannelMessage, ChannelTarget, MessageUnit
from hostler_protocol.content import (
    ArtifactRef,
    FileUrlElement,
    ImageUrlElement,
    Message,
    text_of,
)

MAX_MESSAGES = 100
"""Messages of one answer: a chat with more of them is of no use to its readers."""
TOO_LONG = "[The answer is longer: its end does not fit into this chat.]"


class ReplyTarget(Record):
    """Where the answers to an event go, as the host wrote it into the event when it came."""

    channel: str
    target: ChannelTarget
    limit: int
    unit: MessageUnit
    files: bool
    buttons: bool = False
    edit_seconds: float | None = None
    """The shortest time between two edits of a message; None: answers do not grow there."""


class _Capabilities(msgspec.Struct):
    max_message: int
    message_unit: MessageUnit = "characters"
    files: bool = False
    buttons: bool = False
    edit_seconds: float | None = None


class _Target(ChannelTarget):
    channel: str = ""


def reply_target_of(event: Event) -> ReplyTarget | None:
    """Return where the answers to an event go; None if it did not come through a channel.

    Who sends events over HTTP may write any delivery into them: only what a channel brought goes out.
    """
    channel, delivery = channel_of_subject(event.requester), event.envelope.delivery
    if channel is None or delivery is None or not isinstance(delivery.reply_target, dict):
        return None
    target = msgspec.convert(delivery.reply_target, _Target)
    can = msgspec.convert(delivery.platform_capabilities, _Capabilities)
    if target.channel != channel:
        return None
    return ReplyTarget(
        channel,
        ChannelTarget(chat_id=target.chat_id, thread_id=target.thread_id, reply_to=target.reply_to),
        can.max_message,
        can.message_unit,
        can.files,
        can.buttons,
        can.edit_seconds if delivery.supports_streaming else None,
    )


def files_of(message: Message) -> list[ArtifactRef]:
    """Return the files of an answer."""
    return refs_in([] if isinstance(message.content, str) else message.content, message.artifact_refs)


def size_of(message: Message) -> int:
    """Return how many characters of an answer are split."""
    return sum(map(len, (text_of(message.content), *_links(message))))


def messages_of(
    message: Message, files: Sequence[ArtifactRef], to: ReplyTarget, policy: DeliveryPolicy
) -> list[ChannelMessage]:
    """Return the messages that an answer becomes, in order. One with neither text nor files has none.

    `files`: those that may go out. They go with the last message; where the platform takes none, their names
    are said.
    """
    said = [text_of(message.content), *_links(message)]
    if not to.files:
        said += [f"[{ref.name or ref.mime_type or 'file'}]" for ref in files]
    parts = text_messages("\n".join(one for one in said if one), to, policy.max_message_size)
    return _with_files(parts, files if to.files else [])


def text_messages(
    text: str, to: ReplyTarget, most: int | None = None, *, plain: bool = False
) -> list[ChannelMessage]:
    """Return the messages of a text. `most`: the agent's bound of their size."""
    limit = max(MIN_LIMIT, to.limit if most is None else min(to.limit, most))
    pieces = split_message(text, limit, to.unit, most=MAX_MESSAGES + 1)
    if len(pieces) > MAX_MESSAGES:
        pieces[MAX_MESSAGES - 1 :] = [TOO_LONG[:limit]]
    return [ChannelMessage(text=piece, plain=plain) for piece in pieces]


def targets(to: ReplyTarget, count: int) -> Iterator[ChannelTarget]:
    """Yield the target of each of several messages: only the first one replies."""
    yield to.target
    for _ in range(count - 1):
        yield msgspec.structs.replace(to.target, reply_to=None)


def is_part(message_id: str, sent_as: str | None) -> bool:
    """Whether a message of the platform is what was sent, or a part of it.

    A plugin makes several of one that does not fit with its marks, and joins their ids with `|`.
    """
    return sent_as is not None and (message_id == sent_as or message_id in sent_as.split("|"))


def _links(message: Message) -> list[str]:
    """Return the addresses of pictures and files that the answer names by URL."""
    if isinstance(message.content, str):
        return []
    found: list[Any] = [
        element.image_url.url
        if isinstance(element, ImageUrlElement)
        else element.file_url
        if isinstance(element, FileUrlElement)
        else None
        for element in message.content
    ]
    return [url for url in found if url is not None]


def _with_files(parts: list[ChannelMessage], files: Sequence[ArtifactRef]) -> list[ChannelMessage]:
    if not files:
        return parts
    *before, last = parts or [ChannelMessage()]
    return [*before, msgspec.structs.replace(last, attachments=list(files))]
