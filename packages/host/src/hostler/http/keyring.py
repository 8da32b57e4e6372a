"""Keys as the database knows them, for the key ring."""

from __future__ import annotations

from hostler.domain.events import Caller
from hostler.http.auth import FindKey, KeyHolder
from hostler.storage.port import Database
from hostler.storage.stores import api_keys


def find_key(db: Database) -> FindKey:
    """The lookup of a key in the database."""

    async def find(token: str) -> KeyHolder | None:
        key = await db.read(lambda tx: api_keys.find_by_token(tx, token))
        if key is None:
            return None
        caller = Caller(
            workspace_id=key.workspace_id,
            subject=key.subject,
            key_id=key.key_id,
            roles=key.roles,
            rights=key.rights,
        )
        return KeyHolder(caller, plugin=key.plugin, expires_at=key.expires_at)

    return find
