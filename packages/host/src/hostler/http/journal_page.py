"""One page of a run's journal, with the data of entries that are stored as blobs."""

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


_stored_result = msgspec.json.Decoder(_StoredResult)


async def journal_page(host: Host, workspace_id: str, run_id: str, after: int, limit: int) -> JournalPage:
    """Read the entries after a position: at most `limit`, and about 4 MiB.

    NotFoundError; CursorLostError if retention has removed entries after the position.
    """

    def read(tx: Any) -> journal.EntryPage:
        runs.get(tx, workspace_id, run_id)
        return journal.page(tx, run_id, after, limit)

    page = await host.db.read(read)
    items: list[tuple[StoredEntry, dict[str, Any]]] = []
    size = 0
    for entry in page.items:
        data = entry.data.encode()
        if entry.blob is not None:
            data = b"".join([chunk async for chunk in host.blobs.stream(entry.blob)])
        size += len(data)
        if items and size > MAX_PAGE_BYTES:
            return JournalPage(items, more=True)
        items.append((entry, _shown(entry.kind, data)))
    return JournalPage(items, page.more)


def _shown(kind: str, data: bytes) -> dict[str, Any]:
    if kind != "result":
        return {"data": msgspec.Raw(data)}
    stored = _stored_result.decode(data)
    usage = stored.usage if bytes(stored.usage) else None
    return {"data": stored.data, "usage": usage, "timestamp": stored.timestamp}
