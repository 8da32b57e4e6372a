"""The operator's approvals of servers' tools, stored in the database: a `tools.mcp.port.PinStore`."""

from __future__ import annotations

from collections.abc import Mapping

from hostler.domain.tool_pins import ListedTool, StoredPin
from hostler.storage.port import Database
from hostler.storage.stores import tool_pins
from hostler.tools.port import OfferedTool


class StoredPins:
    """The pins of one workspace."""

    def __init__(self, db: Database, workspace_id: str) -> None:
        self._db = db
        self._workspace = workspace_id

    async def known(self, owner: str) -> Mapping[str, StoredPin]:
        """See `PinStore`."""
        return await self._db.read(lambda tx: tool_pins.of_owner(tx, self._workspace, owner))

    async def see(self, owner: str, seen: Mapping[str, ListedTool]) -> Mapping[str, StoredPin]:
        """See `PinStore`."""
        return await self._db.write(lambda tx: tool_pins.see(tx, self._workspace, owner, seen))

    async def approve(self, owner: str, tool: str, digest: str, actor: str) -> bool:
        """See `PinStore`."""
        ws = self._workspace
        return await self._db.write(
            lambda tx: tool_pins.approve(tx, ws, owner, tool, digest=digest, actor=actor)
        )

    async def refused(self, owner: str, tool: str, digest: str, reason: str) -> None:
        """See `PinStore`."""
        await self._refuse(self._workspace, f"{owner}#{tool}", digest, reason)

    async def refuse(self, workspace_id: str, tool: OfferedTool) -> None:
        """Record that a run asked for a tool it may not get: see `OnRefused` (tools.sources)."""
        await self._refuse(workspace_id, tool.pin.tool_id, tool.pin.schema_digest, tool.problem or "")

    async def _refuse(self, workspace_id: str, tool_id: str, digest: str, reason: str) -> None:
        await self._db.write(
            lambda tx: tool_pins.record_refusal(tx, workspace_id, tool_id, digest=digest, reason=reason)
        )
