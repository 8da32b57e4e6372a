"""The port of tools: what the host asks of whoever runs one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from hostler.domain.place import NOWHERE, Place
from hostler.domain.tool_pins import ToolPin
from hostler_protocol.calls import ToolDetail
from hostler_protocol.content import ArtifactRef
from hostler_protocol.events import Actor
from hostler_protocol.grants import ToolResource

__all__ = [
    "Found",
    "GivenArtifact",
    "OfferedTool",
    "RunArtifacts",
    "ToolInvocation",
    "ToolPin",
    "ToolService",
]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as it stands now. `parameters` and `output_schema` are JSON Schema.

    `resource.approval` is what the tool itself asks for; an agent's policy can only add to it. The output
    schema is of what a call gives. `problem`, a sentence without its full stop: why nobody may be given it.
    """

    resource: ToolResource
    pin: ToolPin
    parameters: Mapping[str, Any] = field(default_factory=dict)
    output_schema: Mapping[str, Any] | None = None
    problem: str | None = None

    @property
    def name(self) -> str:
        """What runners call it."""
        return self.resource.tool_name


@dataclass(frozen=True, slots=True)
class GivenArtifact:
    """An artifact within the run's reach. `content` can be read once."""

    artifact_id: str
    name: str | None
    mime_type: str | None
    size_bytes: int
    content: AsyncIterator[bytes]


class RunArtifacts(Protocol):
    """The artifacts that a run may read, and those that one call of a tool makes for it."""

    async def open(self, artifact_id: str) -> GivenArtifact:
        """NotFoundError where the run has no such artifact in its reach."""
        ...

    async def keep(
        self, content: bytes | AsyncIterator[bytes], *, name: str | None = None, mime_type: str | None = None
    ) -> ArtifactRef:
        """Make an artifact. It is there once the call's outcome is, and never where the call fails.

        PayloadTooLargeError, StorageError.
        """
        ...


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """One call of a tool. `parameters` were checked, and are those that the effect key stands for."""

    tool_name: str
    parameters: dict[str, Any]
    run_id: str
    call_id: str
    effect_key: str
    workspace_id: str
    pin: ToolPin
    """The tool that the grant, or an approval, is for; another one is not called."""
    actor: Actor | None = None
    deadline: float | None = None
    """UTC epoch seconds; None: never."""
    confirm: Callable[[], Awaitable[None]] | None = None
    """Awaited right before the request goes out; raises where the call may no longer be made."""
    agent_id: str | None = None
    place: Place = NOWHERE
    """With the agent: runs of one agent in one place share the working folder of their conversation."""
    artifacts: RunArtifacts | None = None
    """Files for the tool and from it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a reconcilable tool has recorded of a call: its result as plain JSON."""

    result: Any


class ToolService(Protocol):
    """Runs the tools that a grant names. Raises HostlerErrors whose message says what to do."""

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """Every tool that can be granted now, by name."""
        ...

    def pin(self, workspace_id: str, tool_name: str) -> ToolPin | None:
        """The tool as it stands now; None where it is gone."""
        ...

    async def detail(self, workspace_id: str, tool_name: str) -> ToolDetail:
        """The tool in full. NotFoundError where it is gone since the grant was built."""
        ...

    async def check(self, workspace_id: str, tool_name: str, parameters: dict[str, Any]) -> None:
        """Hold parameters against the tool's schema. InvalidArgumentError names the path; NotFoundError."""
        ...

    async def call(self, invocation: ToolInvocation) -> Any:
        """Run the tool; its result as plain JSON.

        ToolFailedError: the tool's own error, an outcome. OutcomeUnknownError: it was asked, and what came of
        it is not known. Every other error: it was not asked.
        """
        ...

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """What a reconcilable tool has recorded under the invocation's effect key; None: nothing.

        Any error: it could not be asked, or could not tell.
        """
        ...
