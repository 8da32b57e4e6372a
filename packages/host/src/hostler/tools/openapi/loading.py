"""Getting a document from its file or address, and what the entry says of its digest."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from pathlib import Path

from hostler.domain.openapi_entry import OpenApiEntry
from hostler.egress import Egress, EgressError, EgressPolicy, ExchangeLimits, Resolver
from hostler.tools.foreign import status_text
from hostler.tools.openapi.document import DocumentError, read_document
from hostler.tools.openapi.limits import MAX_DOCUMENT_BYTES
from hostler.tools.openapi.operations import Operations, operations_of

LOAD_SECONDS = 60.0
"""Getting one document from its address."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A document that was read."""

    digest: str
    operations: Operations


async def load(entry: OpenApiEntry, resolver: Resolver | None = None) -> Loaded:
    """DocumentError says why there is none, or why it may not be used."""
    if entry.is_address:
        data, found_at = await _fetched(entry, resolver), entry.document
    else:
        data, found_at = await asyncio.to_thread(_read, Path(entry.document)), None
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if entry.digest is None and entry.is_address:
        raise DocumentError(f"it comes from elsewhere: look at it, then write digest: {digest}")
    if entry.digest not in (None, digest):
        raise DocumentError(f"it has changed: look at it again, then write digest: {digest}")
    operations = await asyncio.to_thread(_operations, data, entry, found_at)
    return Loaded(digest, operations)


def _operations(data: bytes, entry: OpenApiEntry, found_at: str | None) -> Operations:
    return operations_of(read_document(data), entry, found_at=found_at)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise DocumentError(f"the file can't be read: {error.strerror or type(error).__name__}") from None


async def _fetched(entry: OpenApiEntry, resolver: Resolver | None) -> bytes:
    egress = Egress(EgressPolicy.of(entry.network, any_port=True), resolver=resolver)
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
