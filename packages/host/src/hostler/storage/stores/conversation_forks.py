"""Forks of conversations: a new conversation that begins with copies of another one's messages and files."""

from __future__ import annotations

from functools import partial

import msgspec

from hostler.domain.place import Place
from hostler.domain.quotas import QuotaExceeded, Quotas
from hostler.domain.record import Record
from hostler.storage.port import Tx
from hostler.storage.stores import artifacts, copies, transcripts
from hostler.storage.stores.artifacts import NewArtifact, StoredArtifact
from hostler.storage.stores.copies import Origin
from hostler.storage.stores.filters import NEWEST
from hostler.storage.stores.transcripts import StoredItem
from hostler_protocol.content import ArtifactElement, ArtifactRef, Content, HistoryMessage, Role
from hostler_protocol.limits import MAX_PAGE_ITEMS, MIB

MAX_MESSAGES = 1_000
"""Messages of a fork, the newest: a model reads no more."""
MAX_BYTES = 8 * MIB
"""The same in bytes of content: they are written in one transaction."""
SAID_AT = "said_at"
"""Metadata key of a copy: when the original was said, in UTC epoch seconds."""


class Fork(Record):
    """What was copied. `omitted`: older messages were left out."""

    messages: int
    omitted: bool


def fork(
    tx: Tx, ws: str, source: str, target: str, *, before_seq: int | None, bounds: Quotas
) -> Fork | QuotaExceeded:
    """Copy the messages of `source` before a sequence (None: all), with their files, into `target`.

    Copies are of no thread or bot: whoever writes in the new conversation sees them. Files that are gone are
    left out. Returns the quota that has no room for the files: then the transaction has to be given up.
    """
    items, omitted = _read(tx, ws, source, NEWEST if before_seq is None else before_seq)
    copier = _Copier(tx, ws, target, bounds)
    for item in items:
        exceeded = copier.copy(item)
        if exceeded is not None:
            return exceeded
    return Fork(len(items), omitted)


def _read(tx: Tx, ws: str, source: str, before: int) -> tuple[list[StoredItem], bool]:
    """Return the newest messages before a sequence, oldest first, and whether older ones are left out."""
    found: list[StoredItem] = []
    room, more = MAX_BYTES, True
    while more and len(found) < MAX_MESSAGES:
        limit = min(MAX_PAGE_ITEMS, MAX_MESSAGES - len(found))
        page = transcripts.page(tx, ws, conversation_id=source, before_seq=before, limit=limit)
        for item in page.items:
            room -= len(msgspec.json.encode(item.content_json))
            if room < 0 and found:
                return found[::-1], True
            found.append(item)
        more = page.has_more
        before = page.items[-1].seq if page.items else before
    return found[::-1], more


class _Copier:
    """Copies messages into one conversation, and each of their files once."""

    def __init__(self, tx: Tx, ws: str, target: str, bounds: Quotas) -> None:
        self._tx, self._ws, self._target, self._bounds = tx, ws, target, bounds
        self._files: dict[str, str | None] = {}

    def copy(self, item: StoredItem) -> QuotaExceeded | None:
        """Copy a message; return the quota that has no room for one of its files."""
        message = _message(item)
        parts = [] if isinstance(message.content, str) else message.content
        wanted = [part.artifact_id for part in parts if isinstance(part, ArtifactElement)]
        for artifact_id in (
            *wanted,
            *(ref.artifact_id for ref in (*message.artifact_refs, *item.artifact_refs)),
        ):
            exceeded = self._copy_file(artifact_id)
            if exceeded is not None:
                return exceeded
        origin = Origin(item.event_id, item.run_id)
        if item.event_id is None and item.run_id is None:  # a copy of a copy
            origin = copies.origin_of_item(self._tx, self._ws, item.seq) or origin
        new = transcripts.item_of(
            msgspec.structs.replace(
                message,
                content=self._content(message.content),
                artifact_refs=self._refs(message.artifact_refs or item.artifact_refs),
            ),
            Place(conversation_id=self._target),
            metadata={SAID_AT: item.created_at / 1000, **item.metadata},
        )
        transcripts.append(self._tx, self._ws, new, partial(self._note, origin))
        return None

    def _note(self, origin: Origin, seq: int) -> None:
        copies.add_item(self._tx, self._ws, seq, self._target, origin)

    def _copy_file(self, artifact_id: str) -> QuotaExceeded | None:
        if artifact_id in self._files:
            return None
        found = artifacts.find(self._tx, self._ws, artifact_id)
        if found is None:
            self._files[artifact_id] = None
            return None
        new = NewArtifact(
            artifact_type=found.artifact_type,
            blob=found.blob,
            source=found.source,
            registered=found.registered,
            mime_type=found.mime_type,
            name=found.name,
            place=Place(conversation_id=self._target),
            metadata=found.metadata,
            expires_at=found.expires_at,
        )
        made = artifacts.create(self._tx, self._ws, new, self._bounds)
        if isinstance(made, QuotaExceeded):
            return made
        if not isinstance(made, StoredArtifact):
            raise RuntimeError("a new id is taken")
        origin = Origin(found.event_id, found.run_id)
        if found.event_id is None and found.run_id is None:
            origin = copies.origin_of_file(self._tx, self._ws, artifact_id) or origin
        copies.add_file(self._tx, self._ws, made.artifact_id, self._target, origin)
        self._files[artifact_id] = made.artifact_id
        return None

    def _content(self, content: Content) -> Content:
        if isinstance(content, str):
            return content
        shown = []
        for part in content:
            if isinstance(part, ArtifactElement):
                copied = self._files[part.artifact_id]
                if copied is None:
                    continue
                part = msgspec.structs.replace(part, artifact_id=copied)  # noqa: PLW2901
            shown.append(part)
        return shown

    def _refs(self, refs: list[ArtifactRef]) -> list[ArtifactRef]:
        return [
            msgspec.structs.replace(ref, artifact_id=copied)
            for ref in refs
            if (copied := self._files[ref.artifact_id]) is not None
        ]


def _message(item: StoredItem) -> HistoryMessage:
    """Return the whole message, only its text if it has an unknown form."""
    try:
        return msgspec.convert(item.content_json, HistoryMessage)
    except msgspec.ValidationError:
        return HistoryMessage(role=_role(item.role), content=item.content)


def _role(name: str) -> Role:
    return "assistant" if name == "assistant" else "user"
