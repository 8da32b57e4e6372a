"""Messages that people write to the robot: who, where, how they called it, their text and their files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dingtalk_stream import ChatbotMessage

from hostler_dingtalk.fields import fields_of, list_of, seconds_of, text_of
from hostler_dingtalk.kept import Kept
from hostler_protocol.channels import Addressed
from hostler_sdk.channels import ChannelEvent, Chat, Person

PRIVATE = "user:"
"""How the id of a private chat begins; the person's follows, by which DingTalk takes messages for it."""
UNNAMED = "unnamed:"
"""A private chat with somebody whose id DingTalk does not say: nothing can be sent there."""
_VIDEO_TYPES = {"mp4": "video/mp4", "mov": "video/quicktime"}


@dataclass(frozen=True, slots=True)
class FileOf:
    """A file of a message."""

    code: str
    name: str | None = None
    mime_type: str | None = None


@dataclass(frozen=True, slots=True)
class Drafted:
    """An event without its files, and these."""

    event: ChannelEvent
    files: list[FileOf] = field(default_factory=list)


class Messages:
    """Reads messages to a robot."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept

    def read(self, data: dict[str, Any], frame_id: str) -> Drafted:
        """Return a message as an event. Raises what the library raises for what is none."""
        message = ChatbotMessage.from_dict(data)
        kind = text_of(message.message_type) or "unknown"
        text, files, known = _content(kind, data)
        chat = self._chat(message)
        message_id = text_of(message.message_id)
        addressed: list[Addressed] = ["private"] if chat.kind == "private" else []
        if chat.kind == "group" and message.is_in_at_list is True:
            addressed = ["mention"]
        reply_to = self._reply_to(message)
        if reply_to is not None and _quoted(data).get("senderId") == message.chatbot_user_id:
            addressed.append("reply")
        event = ChannelEvent(
            event_type="message.received" if known else "platform.message",
            event_id=f"message:{message_id or frame_id}",
            source_event_type=kind,
            event_time=seconds_of(message.create_at),
            chat=chat,
            person=self._person(message),
            message_id=message_id,
            reply_to=reply_to,
            text=text,
            addressed=addressed,
            data={"dingtalk": data},
        )
        return Drafted(event, files)

    def _chat(self, message: ChatbotMessage) -> Chat:
        conversation = text_of(message.conversation_id)
        if str(message.conversation_type) == "2" and conversation is not None:
            return Chat(chat_id=conversation, kind="group", title=text_of(message.conversation_title))
        person = text_of(message.sender_staff_id)
        if person is None:
            return Chat(chat_id=f"{UNNAMED}{text_of(message.sender_id) or conversation}", kind="private")
        chat = Chat(chat_id=f"{PRIVATE}{person}", kind="private")
        if conversation is not None:
            self._kept.talked(chat.chat_id, conversation)
        return chat

    def _person(self, message: ChatbotMessage) -> Person | None:
        person_id, name = text_of(message.sender_staff_id), text_of(message.sender_nick)
        person_id = person_id or text_of(message.sender_id)
        if person_id is None:
            return None
        if name is not None:
            self._kept.named(person_id, name)
        is_own = text_of(message.sender_id) is not None and message.sender_id == message.chatbot_user_id
        return Person(person_id=person_id, name=name, is_bot=is_own)

    def _reply_to(self, message: ChatbotMessage) -> str | None:
        """Return the id of the message that is answered: of one of the robot's, as `send` returned it."""
        carrier = text_of(message.extensions.get("originalProcessQueryKey"))
        if carrier is not None:
            return self._kept.replied_to(carrier)
        return text_of(message.extensions.get("originalMsgId"))


def _quoted(data: dict[str, Any]) -> dict[str, Any]:
    return fields_of(fields_of(data.get("text") or data.get("content")).get("repliedMsg"))


def _content(kind: str, data: dict[str, Any]) -> tuple[str, list[FileOf], bool]:
    """Return a message's text and files, and whether its kind is known."""
    content = fields_of(data.get("content"))
    text, files = "", []
    match kind:
        case "text":
            text = text_of(fields_of(data.get("text")).get("content")) or ""
        case "richText":
            for part in map(fields_of, list_of(content.get("richText"))):
                text += text_of(part.get("text")) or ""
                files += _file(part, name="picture")
        case "picture":
            files = _file(content, name="picture")
        case "audio":
            text = text_of(content.get("recognition")) or ""
            files = _file(content, name="voice.amr", mime_type="audio/amr")
        case "video":
            suffix = text_of(content.get("videoType")) or "mp4"
            files = _file(content, name=f"video.{suffix}", mime_type=_VIDEO_TYPES.get(suffix))
        case "file":
            files = _file(content, name=text_of(content.get("fileName")) or "file")
        case _:
            return "", [], False
    return text.strip(), files, True


def _file(content: dict[str, Any], *, name: str, mime_type: str | None = None) -> list[FileOf]:
    code = text_of(content.get("downloadCode")) or text_of(content.get("pictureDownloadCode"))
    return [] if code is None else [FileOf(code, name, mime_type)]
