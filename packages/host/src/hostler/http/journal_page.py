"""One page of a run's journal: whole, with the data of entries that are stored as blobs, or in brief."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from hostler.storage.stores import journal, runs
from hostler.storage.stores.journal import StoredEntry
from hostler_protocol._base import Lenient
from hostler_protocol.limits import MAX_PAGE_BYTES

if TYPE_CHECKING:
    from hostler.host.host import Host


class _StoredResult(Lenient):
    data: msgspec.Raw = msgspec.Raw(b"{}")
    usage: msgspec.Raw = msgspec.Raw()
    timestamp: float | None = None


class JournalPage(NamedTuple):
    """Entries with the fields shown of each: `data`, and for results `usage` and `timestamp`."""

    items: list[tuple[StoredEntry, dict[str, Any]]]
    more: bool
    last: int
    """Position of the last entry that was looked at."""


SEARCHED_ENTRIES = 1_000
"""Entries that a search looks at before it answers, within 4 MiB."""
BRIEF_BYTES = 600
"""Data up to this length stays as it is."""
BRIEF_CHARS = 240
BRIEF_ITEMS = 3
BRIEF_VALUES = 60
BRIEF_DEPTH = 6
_stored_result = msgspec.json.Decoder(_StoredResult)


async def journal_page(
    host: Host,
    workspace_id: str,
    run_id: str,
    after: int,
    limit: int,
    *,
    brief: bool = False,
    contains: str | None = None,
) -> JournalPage:
    """Read the entries after a position: at most `limit`, and about 4 MiB.

    `brief`: long texts and lists in their data are cut, and blobs are not read. `contains`: only entries with
    this text, in whatever case, of SEARCHED_ENTRIES that are looked at.

    NotFoundError; CursorLostError if retention has removed entries after the position.
    """
    room = SEARCHED_ENTRIES if contains is not None else limit

    def read(tx: Any) -> journal.EntryPage:
        runs.get(tx, workspace_id, run_id)
        return journal.page(tx, run_id, after, room)

    page = await host.db.read(read)
    wanted = None if contains is None else _needle(contains)
    items: list[tuple[StoredEntry, dict[str, Any]]] = []
    size, last = 0, after
    for entry in page.items:
        data = entry.data.encode()
        if entry.blob is not None and not (brief and wanted is None):
            data = b"".join([chunk async for chunk in host.blobs.stream(entry.blob)])
        size += len(data)
        if last > after and size > MAX_PAGE_BYTES:
            return JournalPage(items, more=True, last=last)
        if wanted is None or wanted in data.decode("utf-8", "replace").lower():
            if len(items) == limit:
                return JournalPage(items, more=True, last=last)
            items.append((entry, _shown(entry.kind, _in_brief(entry.data.encode()) if brief else data)))
        last = entry.position
    return JournalPage(items, page.more, last)


def _needle(text: str) -> str:
    """Return a text as it is written within JSON, in small letters."""
    return msgspec.json.encode(text)[1:-1].decode().lower()


def _shown(kind: str, data: bytes) -> dict[str, Any]:
    if kind != "result":
        return {"data": msgspec.Raw(data)}
    stored = _stored_result.decode(data)
    usage = stored.usage if bytes(stored.usage) else None
    return {"data": stored.data, "usage": usage, "timestamp": stored.timestamp}


def _in_brief(data: bytes) -> bytes:
    if len(data) <= BRIEF_BYTES:
        return data
    return msgspec.json.encode(_cut(msgspec.json.decode(data), [BRIEF_VALUES], 0))


def _cut(value: Any, left: list[int], depth: int) -> Any:
    """Return a value with its long texts and lists cut; `left`: how many values there is room for."""
    left[0] -= 1
    if isinstance(value, str):
        return value if len(value) <= BRIEF_CHARS else f"{value[:BRIEF_CHARS]}…"
    if not isinstance(value, dict | list):
        return value
    if depth == BRIEF_DEPTH or left[0] <= 0:
        return None
    if isinstance(value, list):
        return [_cut(one, left, depth + 1) for one in value[:BRIEF_ITEMS] if left[0] > 0]
    return {
        name[:BRIEF_CHARS]: _cut(one, left, depth + 1)
        for name, one in sorted(value.items(), key=lambda item: isinstance(item[1], dict | list))
        if left[0] > 0
    }
