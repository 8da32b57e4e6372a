"""Rotation of the keys of workspaces, which wrap the keys that seal content (docs/encryption.md)."""

from __future__ import annotations

from typing import NamedTuple

from hostler.host.content_sealing import ContentSealing
from hostler.storage.port import Tx
from hostler.storage.stores import audit
from hostler_protocol.errors import ConflictError, NotFoundError

EVERY = "*"
"""The target of the fact about a rotation of all workspaces."""


class RotatedKeys(NamedTuple):
    """`replaced`: keys of workspaces and of their conversations. `erasure_key`: the id of the new one."""

    replaced: int
    erasure_key: str


async def rotate(
    sealing: ContentSealing, own_workspace: str, workspace_id: str | None, *, by: str
) -> RotatedKeys:
    """Replace the keys of one workspace, or of all, and the erasure key, while the host works.

    The fact is in the audit chain of `own_workspace` before any key is replaced. ConflictError where content
    is not sealed; NotFoundError for a workspace that has none.
    """
    if sealing.eraser is None:
        raise ConflictError(
            "there are no keys to rotate: "
            + (
                sealing.problem
                or sealing.warning
                or "no master key is configured, so content is not encrypted"
            )
        )

    def note(tx: Tx) -> None:
        audit.record(tx, own_workspace, by, "workspace_keys.rotated", workspace_id or EVERY, {})

    replaced, erasure_key = await sealing.eraser.rotate(workspace_id, note)
    if not replaced:
        of = "no workspace" if workspace_id is None else f"workspace {workspace_id!r}"
        raise NotFoundError(f"there is nothing sealed in {of}, so there are no keys to rotate")
    return RotatedKeys(replaced, erasure_key)
