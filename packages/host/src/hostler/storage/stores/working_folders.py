"""Working folders: what was configured of them, and whether anybody can come back to one."""

from __future__ import annotations

import msgspec

from hostler.domain.working_folders import FolderOwner, WorkingFolderSettings
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler.storage.stores import settings
from hostler_protocol.runs import TERMINAL_STATUSES

_q = load(__file__)

SETTING = "working_folders"
"""The kind of the setting; `policy` is its one name."""


def configured(tx: Tx, ws: str) -> WorkingFolderSettings:
    """What is stored of them; the defaults where nothing is."""
    found = settings.find(tx, ws, SETTING, "policy")
    return WorkingFolderSettings() if found is None else msgspec.convert(found.spec, WorkingFolderSettings)


def took_part(tx: Tx, owner: FolderOwner, actor_id: str, actor_type: str | None) -> bool:
    """Whether a person did something in the conversation of a folder. `actor_type` None: whatever type."""
    where = {"ws": owner.workspace_id, "conversation_id": owner.conversation_id, "actor_id": actor_id}
    return tx.one(_q.did, **where, actor_type=actor_type) is not None


def is_orphan(tx: Tx, owner: FolderOwner) -> bool:
    """Whether the run of a folder is over, or nothing is left of its conversation."""
    if owner.kind == "run":
        row = tx.one(_q.run_status, ws=owner.workspace_id, run_id=owner.run_id)
        return row is None or row["status"] in TERMINAL_STATUSES
    where = {"ws": owner.workspace_id, "conversation_id": owner.conversation_id}
    return all(tx.one(query, **where) is None for query in (_q.said, _q.happened, _q.active_run))
