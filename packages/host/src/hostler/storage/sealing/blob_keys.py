"""The keys of sealed blobs: made before their bytes are stored, kept with the first reference to them."""

from __future__ import annotations

from hostler.storage.port import Database, Tx
from hostler.storage.sealing.envelope import DataKey, SealedError, new_data_key
from hostler.storage.sealing.keyring import Change, Sealer
from hostler.storage.sealing.tx import SealingTx


class SealedBlobKeys:
    """The `BlobKeys` of an installation that seals."""

    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer

    def new(self) -> DataKey:
        """Return a key for new bytes, known to this process at once."""
        key = new_data_key()
        self._sealer.keep(Change(opened={key.key_id: key}))
        return key

    def known(self, key_id: str) -> DataKey | None:
        """Return a key that was made or opened before."""
        return self._sealer.known(key_id)

    async def find(self, key_id: str) -> DataKey | None:
        """Return a key; None if there is none. SealedError if it does not open."""

        def found(tx: Tx) -> DataKey | None:
            return tx.key_of(key_id) if isinstance(tx, SealingTx) else None

        return await self._database.read(found, brief=True)


class LockedBlobKeys:
    """The `BlobKeys` of an installation whose keys cannot be read: it stores nothing in the clear."""

    def __init__(self, why: str) -> None:
        self._why = why

    def new(self) -> DataKey:
        """SealedError."""
        raise SealedError(f"nothing is stored: content is sealed here, and {self._why}")

    def known(self, key_id: str) -> DataKey | None:
        """Return None."""
        return None

    async def find(self, key_id: str) -> DataKey | None:
        """SealedError."""
        raise SealedError(f"a file is sealed with key {key_id}, and {self._why}")
