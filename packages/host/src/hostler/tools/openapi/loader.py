"""Load a document from its file or address, and check its digest."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from pathlib import Path

from hostler.domain.openapi_entry import OpenApiEntry
from hostler.domain.record import Record
from hostler.egress import Egress, EgressError, EgressPolicy, ExchangeLimits, Network
from hostler.tools.openapi.document import DocumentError, read_document
from hostler.tools.openapi.limits import MAX_DOCUMENT_BYTES
from hostler.tools.openapi.operations import Operations, operations_of
from hostler.tools.untrusted import status_text
from hostler_protocol.ids import new_id

log = logging.getLogger(__name__)

LOAD_SECONDS = 20.0
"""Time to fetch one document."""


class Loaded(Record):
    """A loaded document: its digest and its operations."""

    digest: str
    operations: Operations


async def load(entry: OpenApiEntry, cache: Path, network: Network | None = None) -> Loaded:
    """Load the entry's document. DocumentError if there is none or it may not be used.

    A document from an address that has the entry's digest is kept in the folder `cache` and not fetched
    again, so that a host starts with its tools even if the address does not answer.
    """
    found_at = entry.document if entry.is_address else None
    if not entry.is_address:
        data = await asyncio.to_thread(_read, Path(entry.document))
    elif (cached := await asyncio.to_thread(_cached, cache, entry.digest)) is not None:
        data = cached
    else:
        data = await _fetch(entry, network)
    digest = _digest(data)
    if entry.digest is None and entry.is_address:
        raise DocumentError(f"it comes from elsewhere: look at it, then write digest: {digest}")
    if entry.digest not in (None, digest):
        raise DocumentError(f"it has changed: look at it again, then write digest: {digest}")
    if entry.is_address:
        await asyncio.to_thread(_store, cache, digest, data)
    operations = await asyncio.to_thread(_operations, data, entry, found_at)
    return Loaded(digest, operations)


def _operations(data: bytes, entry: OpenApiEntry, found_at: str | None) -> Operations:
    return operations_of(read_document(data), entry, found_at=found_at)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _cached(cache: Path, digest: str | None) -> bytes | None:
    """Return the cached document of a digest, if it is intact."""
    if digest is None:
        return None
    try:
        data = _read(cache / digest.partition(":")[2])
    except DocumentError:
        return None
    return data if _digest(data) == digest else None


def _store(cache: Path, digest: str, data: bytes) -> None:
    """Write a document atomically to the cache. A failure is logged; the document is used all the same."""
    path = cache / digest.partition(":")[2]
    fresh = path.with_name(f"{path.name}.{new_id()}")
    try:
        if path.exists() and _cached(cache, digest) is not None:
            return
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh.write_bytes(data)
        fresh.replace(path)
    except OSError as error:
        log.warning("a document can't be kept: %s", error)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise DocumentError(f"the file can't be read: {error.strerror or type(error).__name__}") from None


async def _fetch(entry: OpenApiEntry, network: Network | None) -> bytes:
    egress = Egress(EgressPolicy.of(entry.network, any_port=True), network=network)
    limits = ExchangeLimits(seconds=LOAD_SECONDS, max_bytes=MAX_DOCUMENT_BYTES)
    try:
        answer = await egress.request("GET", entry.document, limits=limits, redirects="same-origin")
    except EgressError as error:
        raise DocumentError(error.message) from None
    finally:
        await egress.close()
    if answer.status != 200:
        raise DocumentError(f"it can't be fetched: {status_text(answer.status)}")
    if answer.truncated:
        raise DocumentError(f"it has over {MAX_DOCUMENT_BYTES:,} bytes")
    return answer.body
