"""Where the states of pauses are kept: in their row, or in the blob folder where they are large."""

from __future__ import annotations

import asyncio
from typing import Any

from hostler.domain.pause_sealing import Codec
from hostler.domain.pause_state import EncodedState, decode_state, encode_state
from hostler.domain.pause_values import Pause
from hostler.domain.pauses import MAX_INLINE_STATE_BYTES, MAX_STATE_BYTES
from hostler.domain.record import Record
from hostler.storage.port import Tx
from hostler.storage.stores.blobs import Blob, BlobFolder, reference
from hostler_protocol.errors import StorageError

FIELD = "state"
"""The field name that an encrypted state is bound to, with its pause."""


class KeptState(Record):
    """The columns of a pause that hold its state; `reference` names its blob in the same transaction."""

    state: bytes | None
    state_digest: str
    state_format: int
    data_key: bytes | None
    blob: Blob | None = None

    @property
    def state_blob(self) -> str | None:
        """The name of the blob, where it lies in one."""
        return None if self.blob is None else self.blob.name

    def refer(self, tx: Tx) -> None:
        """Note that the pause names the blob."""
        if self.blob is not None:
            reference(tx, self.blob)


async def keep(blobs: BlobFolder, codec: Codec, pause_id: str, state: Any) -> KeptState:
    """Make a state ready to be stored. The errors are those of `encode_state`, and SealedError."""
    encoded = await asyncio.to_thread(encode_state, state)
    data_key, data = await asyncio.to_thread(_seal, codec, pause_id, encoded)
    if len(data) <= MAX_INLINE_STATE_BYTES:
        return KeptState(data, encoded.digest, encoded.format, data_key)
    blob = await blobs.put(data)
    return KeptState(None, encoded.digest, encoded.format, data_key, blob)


async def load(blobs: BlobFolder, codec: Codec, pause: Pause) -> Any:
    """The state of a pause; None where it has none. Errors: those of `decode_state`, and SealedError."""
    if pause.state_digest is None:
        return None
    data = pause.state
    if data is None and pause.state_blob is not None:
        data = b"".join([piece async for piece in blobs.stream(pause.state_blob)])
    if data is None or len(data) > 2 * MAX_STATE_BYTES:
        raise StorageError(f"the state of pause {pause.pause_id} is no longer kept")
    return await asyncio.to_thread(_open, codec, pause, data)


def _seal(codec: Codec, pause_id: str, encoded: EncodedState) -> tuple[bytes | None, bytes]:
    data_key = codec.new_key(pause_id)
    if data_key is None:
        return None, encoded.data
    return data_key, codec.seal(pause_id, data_key, FIELD, encoded.data)


def _open(codec: Codec, pause: Pause, data: bytes) -> Any:
    if pause.data_key is not None:
        data = codec.open(pause.pause_id, pause.data_key, FIELD, data)
    return decode_state(data, pause.state_digest or "", pause.state_format)
