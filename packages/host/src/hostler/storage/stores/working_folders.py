"""Working folders: their stored settings, and whether their owners still exist."""

from __future__ import annotations

import msgspec

from hostler.domain.working_folders import FolderOwner, WorkingFolderSettings
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import settings
from hostler_protocol.runs import TERMINAL_STATUSES

_q = load(__file__)

SETTING = "working_folders"
"""The kind of the setting; its only name is `policy`."""


def configured(tx: Tx, ws: str) -> WorkingFolderSettings:
    """Return the stored settings, or the defaults."""
    found = settings.find(tx, ws, SETTING, "policy")
    return WorkingFolderSettings() if found is None else msgspec.convert(found.spec, WorkingFolderSettings)


def took_part(tx: Tx, owner: FolderOwner, actor_id: str, actor_type: str | None) -> bool:
    """Whether a person is an actor in the conversation of a folder. `actor_type` None means any type."""
    where = {"ws": owner.workspace_id, "conversation_id": owner.conversation_id, "actor_id": actor_id}
    return tx.one(_q.actor_event, **where, actor_type=actor_type) is not None


def is_orphan(tx: Tx, owner: FolderOwner) -> bool:
    """Whether the run of a folder has ended, or its conversation has no data and no active run."""
    if owner.kind == "run":
        row = tx.one(_q.run_status, ws=owner.workspace_id, run_id=owner.run_id)
        return row is None or row["status"] in TERMINAL_STATUSES
    where = {"ws": owner.workspace_id, "conversation_id": owner.conversation_id}
    return all(tx.one(query, **where) is None for query in (_q.message, _q.event, _q.active_run))
