"""Calls of the built-in tools without a host: what a call is given, and artifacts that are kept in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from hostler.domain.place import Place
from hostler.tools.port import OfferedTool, ReadableArtifact, ToolInvocation
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import NotFoundError

PLACE = Place(conversation_id="c")


@dataclass
class MemoryArtifacts:
    """`RunArtifacts` of one run."""

    given: dict[str, bytes] = field(default_factory=dict)
    made: dict[str, bytes] = field(default_factory=dict)

    async def open(self, artifact_id: str) -> ReadableArtifact:
        if artifact_id not in self.given:
            raise NotFoundError(f"artifact_id {artifact_id!r} is no artifact that this run may see")
        content = self.given[artifact_id]
        return ReadableArtifact(artifact_id, None, None, len(content), _pieces(content))

    async def keep(
        self, content: bytes | AsyncIterator[bytes], *, name: str | None = None, mime_type: str | None = None
    ) -> ArtifactRef:
        whole = content if isinstance(content, bytes) else b"".join([piece async for piece in content])
        artifact_id = f"made-{len(self.made)}"
        self.made[artifact_id] = whole
        return ArtifactRef(artifact_id=artifact_id, name=name, mime_type=mime_type, size_bytes=len(whole))


def invocation(
    tool: OfferedTool,
    parameters: dict[str, Any],
    *,
    agent_id: str = "agent",
    place: Place = PLACE,
    run_id: str = "run",
    workspace_id: str = "w",
    effect_key: str = "key",
    **more: Any,
) -> ToolInvocation:
    """One call of a tool, as the ledger would make it."""
    return ToolInvocation(
        tool_name=tool.name,
        parameters=parameters,
        run_id=run_id,
        call_id="call",
        effect_key=effect_key,
        workspace_id=workspace_id,
        pin=tool.pin,
        agent_id=agent_id,
        place=place,
        **{"artifacts": MemoryArtifacts(), **more},
    )


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1000):
        yield content[start : start + 1000]
