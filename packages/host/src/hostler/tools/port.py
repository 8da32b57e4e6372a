"""The port of tools: what the host asks of whoever runs one."""

from __future__ import annotations

from typing import Any, Protocol

from hostler_protocol.calls import ToolDetail


class ToolService(Protocol):
    """Runs the tools that a grant names. Raises HostlerErrors whose message says what to do."""

    async def detail(self, workspace_id: str, tool_name: str) -> ToolDetail:
        """The tool in full. NotFoundError where it is gone since the grant was built."""
        ...

    async def call(
        self,
        workspace_id: str,
        tool_name: str,
        parameters: dict[str, Any],
        *,
        run_id: str,
        deadline: float | None,
    ) -> Any:
        """Run the tool; its result as plain JSON. `deadline` in UTC epoch seconds."""
        ...
