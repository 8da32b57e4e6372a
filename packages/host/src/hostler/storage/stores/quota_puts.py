"""Bytes that become an artifact later: put in the blob folder as far as quotas have room for them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hostler.domain.quotas import NOTHING, Allotment, Amounts, QuotaExceeded
from hostler.storage.port import Database, Tx
from hostler.storage.stores import quotas
from hostler.storage.stores.blobs import Blob, BlobFolder
from hostler_protocol.errors import PayloadTooLargeError
from hostler_protocol.limits import MAX_UPLOAD_BYTES


async def put_within_quota(
    database: Database,
    folder: BlobFolder,
    content: bytes | AsyncIterator[bytes],
    *,
    ws: str,
    allotment: Allotment,
    before: Amounts = NOTHING,
    declared_bytes: int = 0,
    max_bytes: int = MAX_UPLOAD_BYTES,
) -> Blob:
    """Store the bytes of one more artifact; `before` is what is to be stored together with it.

    PayloadTooLargeError if a quota has no room for the declared size, and as soon as more come than it has
    room for: then nothing is left. The transaction that names the bytes checks the quotas again.
    """

    def look(tx: Tx, size: int) -> QuotaExceeded | None:
        return quotas.check(tx, ws, allotment, before.plus(Amounts(1, size)))

    def room(tx: Tx) -> int | None:
        exceeded = look(tx, len(content) if isinstance(content, bytes) else declared_bytes)
        if exceeded is not None:
            raise exceeded.error
        left = quotas.room(tx, ws, allotment)
        return None if left is None else left - before.artifact_bytes

    left = await database.read(room)
    most = max_bytes if left is None else min(max_bytes, left)
    try:
        return await folder.put(content, max_bytes=most)
    except PayloadTooLargeError:
        exceeded = await database.read(lambda tx: look(tx, most + 1))
        if most == max_bytes or exceeded is None:
            raise
        raise exceeded.error from None
