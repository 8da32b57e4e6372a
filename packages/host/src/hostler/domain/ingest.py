"""Turn a received envelope into an event that can be stored: identity, limits, inline content."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hostler.domain.caller_tools import check_caller_tools
from hostler.domain.events import Caller, Event
from hostler.domain.keys import check_depth
from hostler.domain.narrow_callers import within_scope
from hostler.domain.record import Record
from hostler_protocol.content import (
    ArtifactElement,
    ArtifactRef,
    ContentElement,
    FileBase64Element,
    ImageBase64Element,
    TextElement,
    text_of,
)
from hostler_protocol.errors import InvalidArgumentError, PayloadTooLargeError, UnauthorizedError
from hostler_protocol.events import EventEnvelope
from hostler_protocol.ids import digest, new_id
from hostler_protocol.limits import KIB, MAX_INLINE_BASE64_BYTES, MAX_INPUT_TEXT_BYTES

MAX_ID_CHARS = 512
"""Any id in an envelope. Ids of platforms are far shorter; index entries must stay small."""
MAX_NAME_CHARS = 1000
"""Display names and sources."""
MAX_EVENT_DATA_BYTES = 256 * KIB
"""`data`, `metadata`, `delivery`, actor and subject together, as JSON. Put more behind `raw_ref`."""
MIN_EVENT_TIME = -62_135_596_800.0
MAX_EVENT_TIME = 253_402_300_799.0
"""UTC epoch seconds of the years 1 to 9999, which clients can display and rows can hold."""
MAX_CONTENT_ELEMENTS = 256
MAX_ATTACHMENTS = 256

_EVENT_TYPE = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_ID_FIELDS = (
    "event_id",
    "event_type",
    "source_event_type",
    "source_event_id",
    "bot_id",
    "workspace_id",
    "conversation_id",
    "thread_id",
    "launcher_type",
    "launcher_id",
    "sender_id",
    "session_id",
    "raw_ref",
    "agent",
    "source",
)


class InlineContent(Record):
    """Decoded base64 content of an event, to be stored as an artifact."""

    artifact_id: str
    kind: str
    """The element's type: `image_base64` or `file_base64`."""
    data: bytes
    mime_type: str | None
    name: str | None


def event_of(envelope: EventEnvelope, caller: Caller, now: int) -> tuple[Event, list[InlineContent]]:
    """Check an envelope and derive its id.

    Returns the event to store, with inline base64 replaced by artifact references, and the removed content.
    InvalidArgumentError, PayloadTooLargeError, UnauthorizedError (not the key's workspace), and what
    `within_scope` raises for a narrow caller.
    """
    envelope = within_scope(envelope, caller)
    workspace = envelope.workspace_id or caller.workspace_id
    if workspace != caller.workspace_id:
        raise UnauthorizedError(f"this key is for workspace {caller.workspace_id!r}, not {workspace!r}")
    _check_ids(envelope)
    _check_sizes(envelope)
    request_digest = digest(msgspec.to_builtins(envelope))
    event_id = envelope.event_id or _derived_id(envelope, workspace)
    contents, inline = extract_inline(envelope.input.contents, "input.contents")
    text = envelope.input.text
    if text is None:
        text = text_of(contents) or None
    elif not contents:
        contents = [TextElement(text=text)]
    if envelope.event_type == "message.received" and not contents and not envelope.input.attachments:
        raise InvalidArgumentError(
            "input is empty: a message.received event needs text, contents or attachments"
        )
    stored = msgspec.structs.replace(
        envelope,
        event_id=event_id,
        workspace_id=workspace,
        input=msgspec.structs.replace(envelope.input, text=text, contents=contents),
    )
    event = Event(
        workspace_id=workspace,
        event_id=event_id,
        envelope=stored,
        request_digest=request_digest,
        content_redacted=bool(inline),
        created_at=now,
        requester=caller.subject,
        requester_roles=tuple(sorted(caller.roles)),
    )
    return event, inline


def replayed(event: Event, event_id: str, agent: str | None) -> EventEnvelope:
    """Return a stored event as a new one with this id, whose `metadata.replay_of` names the old one.

    `agent`: who gets it; None for the agent that it named, if any. It has no tools of its sender, who is not
    there to carry them out.
    """
    old = event.envelope
    return msgspec.structs.replace(
        old,
        event_id=event_id,
        agent=agent or old.agent,
        input=msgspec.structs.replace(old.input, tools=[]),
        metadata={**old.metadata, "replay_of": event.event_id},
    )


def is_event_type(name: str) -> bool:
    """Whether this is a valid event type: dotted lower-case names, at most MAX_ID_CHARS long."""
    return len(name) <= MAX_ID_CHARS and _EVENT_TYPE.fullmatch(name) is not None


def _derived_id(envelope: EventEnvelope, workspace: str) -> str:
    """Return the same id for the same delivery; without `source_event_id`, a new id for each delivery."""
    if envelope.source_event_id is None:
        return new_id()
    parts = {
        "source": envelope.source,
        "bot": envelope.bot_id,
        "workspace": workspace,
        "launcher": [envelope.launcher_type, envelope.launcher_id],
        "sender": envelope.sender_id,
        "source_event_id": envelope.source_event_id,
        "time": envelope.event_time,
    }
    return f"evt-{digest(parts)}"


def _check_ids(envelope: EventEnvelope) -> None:
    values: dict[str, Any] = {name: getattr(envelope, name) for name in _ID_FIELDS}
    if envelope.actor:
        values |= {"actor.actor_id": envelope.actor.actor_id, "actor.actor_type": envelope.actor.actor_type}
    if envelope.subject:
        values |= {
            "subject.subject_id": envelope.subject.subject_id,
            "subject.subject_type": envelope.subject.subject_type,
        }
    if any("\x00" in ref.artifact_id for ref in artifact_refs_of(envelope)):
        raise InvalidArgumentError("input: an artifact_id holds a NUL character; ids may not")
    for name, value in values.items():
        if value is None:
            continue
        if value == "":
            raise InvalidArgumentError(f"{name} is empty: leave it out, or give it a value")
        if "\x00" in value:
            raise InvalidArgumentError(f"{name} holds a NUL character; ids and keys may not")
        if len(value) > MAX_ID_CHARS:
            raise InvalidArgumentError(f"{name} has {len(value)} characters; at most {MAX_ID_CHARS}")
    when = envelope.event_time
    if when is not None and not MIN_EVENT_TIME <= when <= MAX_EVENT_TIME:
        raise InvalidArgumentError(f"event_time {when:g} is no time: expected UTC epoch seconds")
    shown = envelope.actor.actor_name if envelope.actor else None
    if shown and len(shown) > MAX_NAME_CHARS:
        raise InvalidArgumentError(f"actor.actor_name has {len(shown)} characters; at most {MAX_NAME_CHARS}")
    if not is_event_type(envelope.event_type):
        raise InvalidArgumentError(
            f"event_type {envelope.event_type!r}: expected dotted lower-case names such as message.received"
        )


def _check_sizes(envelope: EventEnvelope) -> None:
    given = envelope.input
    if len(given.contents) > MAX_CONTENT_ELEMENTS:
        raise PayloadTooLargeError(
            f"input.contents has {len(given.contents)} elements; at most {MAX_CONTENT_ELEMENTS}"
        )
    if len(given.attachments) > MAX_ATTACHMENTS:
        raise PayloadTooLargeError(
            f"input.attachments has {len(given.attachments)}; at most {MAX_ATTACHMENTS}"
        )
    text = len((given.text or "").encode())
    parts = sum(len(e.text.encode()) for e in given.contents if isinstance(e, TextElement))
    if max(text, parts) > MAX_INPUT_TEXT_BYTES:
        raise PayloadTooLargeError(
            f"the text has {max(text, parts):,} bytes; at most {MAX_INPUT_TEXT_BYTES:,}"
        )
    inline = sum(
        len(_base64_of(e)[0]) for e in given.contents if isinstance(e, ImageBase64Element | FileBase64Element)
    )
    if inline > MAX_INLINE_BASE64_BYTES:
        raise PayloadTooLargeError(
            f"inline base64 has {inline:,} bytes in all; at most {MAX_INLINE_BASE64_BYTES:,}: "
            "upload larger files as artifacts and attach them"
        )
    check_caller_tools(given.tools)
    for name in ("data", "metadata"):
        check_depth(name, getattr(envelope, name))
    loose = len(
        msgspec.json.encode(
            [envelope.data, envelope.metadata, envelope.delivery, envelope.actor, envelope.subject]
        )
    )
    if loose > MAX_EVENT_DATA_BYTES:
        raise PayloadTooLargeError(
            f"data, metadata, delivery, actor and subject have {loose:,} bytes; "
            f"at most {MAX_EVENT_DATA_BYTES:,}"
        )


def _base64_of(element: ImageBase64Element | FileBase64Element) -> tuple[str, str]:
    if isinstance(element, ImageBase64Element):
        return element.image_base64, "image_base64"
    return element.file_base64, "file_base64"


def extract_inline(
    contents: Sequence[ContentElement], place: str
) -> tuple[list[ContentElement], list[InlineContent]]:
    """Return the elements with inline files replaced by references, and these files.

    InvalidArgumentError for one that is not base64; `place` names the list in it.
    """
    kept: list[ContentElement] = []
    inline: list[InlineContent] = []
    for index, element in enumerate(contents):
        if not isinstance(element, ImageBase64Element | FileBase64Element):
            kept.append(element)
            continue
        text, kind = _base64_of(element)
        mime_type = element.mime_type
        if text.startswith("data:"):
            head, _, text = text.partition(",")
            mime_type = mime_type or head.removeprefix("data:").partition(";")[0] or None
        try:
            data = base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidArgumentError(f"{place}[{index}].{kind} is not base64: {error}") from None
        name = element.file_name if isinstance(element, FileBase64Element) else None
        content = InlineContent(new_id(), kind, data, mime_type, name)
        inline.append(content)
        kept.append(
            ArtifactElement(
                artifact_id=content.artifact_id, mime_type=mime_type, file_name=name, size_bytes=len(data)
            )
        )
    return kept, inline


def artifact_refs_of(envelope: EventEnvelope) -> list[ArtifactRef]:
    """Return the artifacts of an event: its attachments and the artifact elements of its contents."""
    return refs_in(envelope.input.contents, envelope.input.attachments)


def refs_in(contents: Iterable[ContentElement], known: Iterable[ArtifactRef]) -> list[ArtifactRef]:
    """Return the known references, and one for each other artifact element."""
    found = {ref.artifact_id: ref for ref in known}
    for element in contents:
        if isinstance(element, ArtifactElement):
            found.setdefault(
                element.artifact_id,
                ArtifactRef(
                    artifact_id=element.artifact_id,
                    mime_type=element.mime_type,
                    name=element.file_name,
                    size_bytes=element.size_bytes,
                ),
            )
    return list(found.values())
