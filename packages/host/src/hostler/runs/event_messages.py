"""The transcript items of an event, made before its transaction: splitting texts into words takes a while."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hostler.domain.caller_history import METADATA
from hostler.domain.events import Event
from hostler.domain.ingest import artifact_refs_of
from hostler.domain.place import Place
from hostler.runs.projections import LONG_TEXT_CHARS
from hostler.storage.stores import transcripts
from hostler.storage.stores.transcripts import NewTranscriptItem
from hostler_protocol.content import HistoryMessage, Message, text_of
from hostler_protocol.events import EventEnvelope


async def history_items(event: Event, history: Sequence[HistoryMessage]) -> list[NewTranscriptItem]:
    """Return the items of a history, which may be a whole conversation: on another thread."""

    def items() -> list[NewTranscriptItem]:
        place = Place.of(event.envelope)
        return [
            transcripts.item_of(message, place, event_id=event.event_id, metadata=METADATA)
            for message in history
        ]

    return await asyncio.to_thread(items) if history else []


async def message_item(event: Event) -> NewTranscriptItem | None:
    """Return the item of a person's message, or None for any other event; of a long one on another thread."""
    if len(event.envelope.input.text or "") > LONG_TEXT_CHARS:
        return await asyncio.to_thread(_message_of, event)
    return _message_of(event)


def _message_of(event: Event) -> NewTranscriptItem | None:
    envelope = event.envelope
    if envelope.event_type != "message.received":
        return None
    given = envelope.input
    content = given.contents if _is_rich(envelope) else given.text or text_of(given.contents)
    return transcripts.item_of(
        Message(role="user", content=content, artifact_refs=artifact_refs_of(envelope)),
        Place.of(envelope),
        event_id=event.event_id,
    )


def _is_rich(envelope: EventEnvelope) -> bool:
    return any(element.__struct_config__.tag != "text" for element in envelope.input.contents)
