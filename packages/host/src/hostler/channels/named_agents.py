"""Agents that entries of hooks and widgets name: whether they are there, or will be."""

from __future__ import annotations

from collections.abc import Collection

from hostler.storage.port import Database
from hostler.storage.stores import agents


async def has_agent(db: Database, workspace_id: str, name: str, planned: Collection[str] | None) -> bool:
    """Whether a workspace has an agent of this name. `planned`: the names that it will have; None: look."""
    if planned is not None:
        return name in planned
    return await db.read(lambda tx: agents.current_version(tx, workspace_id, name)) is not None
