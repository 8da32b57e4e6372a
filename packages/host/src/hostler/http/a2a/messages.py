"""Messages of a client as events of the host, and events of the host as messages of a task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hostler.http.a2a.extensions import TOOLS, Lent
from hostler.http.a2a.wire import GivenMessage, GivenPart, Message, Part
from hostler.http.dialects.files import UNKNOWN_TYPE, artifact_at, artifact_url, checked_base64
from hostler.http.request import ApiRequest
from hostler_protocol.content import (
    ArtifactElement,
    ContentElement,
    FileBase64Element,
    FileUrlElement,
    ImageBase64Element,
    ImageUrl,
    ImageUrlElement,
    TextElement,
)
from hostler_protocol.errors import InvalidArgumentError
from hostler_protocol.events import CallerTool, Delivery, EventEnvelope, Input
from hostler_protocol.ids import digest

DATA_KEY = "a2a"
"""Where the id and the metadata of a message are in the event's data."""
MAX_ID_CHARS = 400


def wrong(field: str, expected: str) -> InvalidArgumentError:
    """Return the error for a member of a request that is not as it should be."""
    return InvalidArgumentError(
        f"{field}: expected {expected}", errors=[{"field": field, "expected": expected}]
    )


def check_message(message: GivenMessage) -> None:
    """Raise InvalidArgumentError for what the types do not say."""
    if message.role not in (None, "ROLE_USER"):
        raise wrong("message.role", "ROLE_USER")
    for name, value in (
        ("messageId", message.message_id),
        ("contextId", message.context_id),
        ("taskId", message.task_id),
    ):
        if value is None or (value == "" and name != "messageId"):
            continue
        if not value or len(value) > MAX_ID_CHARS or "\x00" in value:
            raise wrong(f"message.{name}", f"a text of 1 to {MAX_ID_CHARS} characters, none of them NUL")


def event_id_of(request: ApiRequest, agent: str, message: GivenMessage) -> str:
    """Return the id of the event of a message: the same message of the same client is one event."""
    place = [message.context_id or "", message.task_id or ""]
    return f"a2a-{digest([agent, request.caller.key_id, *place, message.message_id])}"


def envelope_of(
    request: ApiRequest, agent: str, message: GivenMessage, context_id: str | None = None
) -> EventEnvelope:
    """Return the event that a message is. A message without a context begins one."""
    event_id = event_id_of(request, agent, message)
    contents = [
        element_of(part, f"message.parts[{number}]", request.addresses)
        for number, part in enumerate(message.parts)
    ]
    tools = tools_of(message)
    only = contents[0] if len(contents) == 1 else None
    if isinstance(only, TextElement):
        given = Input(text=only.text, tools=tools)
    else:
        given = Input(contents=contents, tools=tools)
    own: dict[str, Any] = {"message_id": message.message_id}
    if metadata := {name: value for name, value in (message.metadata or {}).items() if name != TOOLS}:
        own["metadata"] = metadata
    return EventEnvelope(
        event_type="message.received",
        input=given,
        event_id=event_id,
        agent=agent,
        conversation_id=context_id or message.context_id or f"a2a-{digest(event_id)[:32]}",
        delivery=Delivery(surface="a2a"),
        data={DATA_KEY: own},
    )


def tools_of(message: GivenMessage) -> list[CallerTool]:
    """Return the tools that a client lends with a message."""
    given = (message.metadata or {}).get(TOOLS)
    if given is None:
        return []
    try:
        return msgspec.convert({"tools": given} if isinstance(given, list) else given, Lent).tools
    except msgspec.ValidationError as error:
        raise wrong(f"message.metadata[{TOOLS!r}]", f"tools of name and parameters: {error}") from None


def element_of(part: GivenPart, place: str, addresses: Iterable[str]) -> ContentElement:
    """Return a part of a message as content. InvalidArgumentError if it has none, or more than one.

    `addresses`: of this host, whose files are artifacts.
    """
    given = [name for name in ("text", "raw", "url") if getattr(part, name) is not None]
    if part.data is not msgspec.UNSET:
        given.append("data")
    if len(given) != 1:
        raise wrong(place, "one of text, raw, url and data")
    kind, name = part.media_type or UNKNOWN_TYPE, part.filename or None
    if part.text is not None:
        return TextElement(text=part.text)
    if part.raw is not None:
        try:
            data = checked_base64(part.raw.replace("-", "+").replace("_", "/"))
        except ValueError as error:
            raise wrong(f"{place}.raw", f"bytes in base64: {error}") from None
        if kind.startswith("image/"):
            return ImageBase64Element(image_base64=data, mime_type=kind)
        return FileBase64Element(file_base64=data, file_name=name, mime_type=kind)
    if part.url is not None:
        return _of_url(part.url, part.media_type, name, place, addresses)
    return TextElement(text=msgspec.json.encode(part.data).decode())


def _of_url(
    url: str, kind: str | None, name: str | None, place: str, addresses: Iterable[str]
) -> ContentElement:
    if (own := artifact_at(url, addresses)) is not None:
        return ArtifactElement(artifact_id=own, mime_type=kind, file_name=name)
    if not url.startswith(("https://", "http://")):
        raise wrong(f"{place}.url", "an address that begins with https:// or http://")
    if (kind or "").startswith("image/"):
        return ImageUrlElement(image_url=ImageUrl(url=url))
    return FileUrlElement(file_url=url, file_name=name)


def part_of(element: ContentElement, base: str) -> Part:
    """Return content of an event as a part of a message. `base`: the address of the host."""
    match element:
        case TextElement(text=text):
            return Part(text=text)
        case ImageBase64Element(image_base64=data, mime_type=kind):
            return Part(raw=data, media_type=kind)
        case FileBase64Element(file_base64=data, mime_type=kind, file_name=name):
            return Part(raw=data, media_type=kind, filename=name)
        case ImageUrlElement(image_url=image):
            return Part(url=image.url, media_type="image/*")
        case FileUrlElement(file_url=url, file_name=name):
            return Part(url=url, filename=name)
        case ArtifactElement(artifact_id=own, mime_type=kind, file_name=name):
            return Part(url=base + artifact_url(own), media_type=kind, filename=name)


def message_of(
    envelope: EventEnvelope, event_id: str, task_id: str, context_id: str | None, base: str
) -> Message:
    """Return an event as the message of a task's history: under the id that its client gave it."""
    own = envelope.data.get(DATA_KEY)
    message_id = own.get("message_id") if isinstance(own, dict) else None
    given = envelope.input
    texts = [] if given.text is None else [TextElement(text=given.text)]
    elements: Sequence[ContentElement] = given.contents or texts
    return Message(
        message_id=message_id if isinstance(message_id, str) else event_id,
        role="ROLE_USER",
        parts=[part_of(element, base) for element in elements] or [Part(text="")],
        task_id=task_id,
        context_id=context_id,
    )
