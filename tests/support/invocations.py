"""Calling a source of tools as the host does: checked by its schema, with the pin of the moment."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from hostler.domain.tool_pins import ToolPin
from hostler.tools.port import ReadableArtifact, ToolInvocation
from hostler.tools.sources import ToolSource, ToolSources
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import NotFoundError


@dataclass
class KeptFiles:
    """The artifacts of a call, in memory; `given` are those that it may read."""

    given: dict[str, ReadableArtifact] = field(default_factory=dict)
    kept: list[tuple[bytes, str | None, str | None]] = field(default_factory=list)

    async def open(self, artifact_id: str) -> ReadableArtifact:
        if artifact_id not in self.given:
            raise NotFoundError(f"no artifact {artifact_id}")
        return self.given[artifact_id]

    def give(self, artifact_id: str, content: bytes, name: str | None, mime_type: str | None) -> None:
        """Have an artifact that can be read once."""

        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(content), 1024):
                yield content[start : start + 1024]

        self.given[artifact_id] = ReadableArtifact(artifact_id, name, mime_type, len(content), pieces())

    async def keep(
        self, content: bytes | AsyncIterator[bytes], *, name: str | None = None, mime_type: str | None = None
    ) -> ArtifactRef:
        data = content if isinstance(content, bytes) else b"".join([piece async for piece in content])
        self.kept.append((data, name, mime_type))
        number = str(len(self.kept))
        return ArtifactRef(
            artifact_id=number, artifact_type="file", mime_type=mime_type, name=name, size_bytes=len(data)
        )


def pin_of(tools: ToolSources, workspace: str, name: str) -> ToolPin | None:
    """Return the pin of a tool as it is now, None if it is gone."""
    found = tools.offered(workspace).get(name)
    return None if found is None else found.pin


@dataclass
class Calling:
    """The tools of some sources, and the shortest way to call them."""

    sources: list[ToolSource]
    workspace: str = "main"
    files: KeptFiles = field(default_factory=KeptFiles)

    def __post_init__(self) -> None:
        self.tools = ToolSources(self.sources)

    async def call(self, name: str, /, _more: dict[str, Any] | None = None, **parameters: Any) -> Any:
        await self.tools.check(self.workspace, name, parameters)
        return await self.tools.call(self.invocation(name, parameters, **(_more or {})))

    def invocation(self, name: str, parameters: dict[str, Any], **more: Any) -> ToolInvocation:
        pin = more.pop("pin", None) or pin_of(self.tools, self.workspace, name)
        assert pin is not None, f"no tool {name}"
        fields: dict[str, Any] = {
            "run_id": "r",
            "call_id": "c",
            "effect_key": "key-of-the-call",
            "workspace_id": self.workspace,
            "artifacts": self.files,
        }
        return ToolInvocation(tool_name=name, parameters=parameters, pin=pin, **(fields | more))
