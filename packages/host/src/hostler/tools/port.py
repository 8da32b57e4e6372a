"""The interface between the host and the services that run tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, Protocol

import msgspec

from hostler.domain.place import NOWHERE, Place
from hostler.domain.record import Record
from hostler.domain.tool_pins import PresentTool, ToolPin
from hostler_protocol.calls import ToolDetail
from hostler_protocol.content import ArtifactRef
from hostler_protocol.events import Actor
from hostler_protocol.grants import ToolResource


class OfferedTool(Record, dict=True):
    """The current definition of a tool. `parameters` and `output_schema` are JSON Schema.

    `resource.approval` is what the tool itself asks for; an agent's policy can only add to it. The output
    schema describes the result of a call. `problem`, a sentence without its full stop, is why no run may get
    the tool.
    """

    resource: ToolResource
    pin: ToolPin
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)
    output_schema: Mapping[str, Any] | None = None
    problem: str | None = None
    version: str = ""
    """Of the plugin that offers it."""

    @cached_property
    def present(self) -> PresentTool:
        """The tool as people are shown it: one, so that what it is approved by is computed once."""
        result = None if self.output_schema is None else dict(self.output_schema)
        description = self.resource.description or None
        return PresentTool(self.pin, description, dict(self.parameters), result, self.version)

    @property
    def name(self) -> str:
        """The name that runners use."""
        return self.resource.tool_name


class ReadableArtifact(Record):
    """An artifact that the run may read. `content` can be read once."""

    artifact_id: str
    name: str | None
    mime_type: str | None
    size_bytes: int
    content: AsyncIterator[bytes]


class RunArtifacts(Protocol):
    """The artifacts that a run may read, and those that a call of a tool creates for it."""

    async def open(self, artifact_id: str) -> ReadableArtifact:
        """Open an artifact. Raises NotFoundError if the run may not read it or it does not exist."""
        ...

    async def keep(
        self, content: bytes | AsyncIterator[bytes], *, name: str | None = None, mime_type: str | None = None
    ) -> ArtifactRef:
        """Create an artifact. It exists once the call's outcome is recorded, and never if the call fails.

        Raises PayloadTooLargeError or StorageError.
        """
        ...


class ToolInvocation(Record):
    """One call of a tool. `parameters` were checked, and are those that the effect key was made from."""

    tool_name: str
    parameters: dict[str, Any]
    run_id: str
    call_id: str
    effect_key: str
    workspace_id: str
    pin: ToolPin
    """The tool that was granted or approved; no other is called."""
    definition: str | None = None
    """The definition that people approved, as of `PresentTool`; no other is called. None: nobody was asked,
    or the call was begun before.
    """
    actor: Actor | None = None
    deadline: float | None = None
    """UTC epoch seconds; None for no deadline."""
    confirm: Callable[[], Awaitable[None]] | None = None
    """Awaited right before the request is sent; raises if the call may no longer be made."""
    agent_id: str | None = None
    place: Place = NOWHERE
    """With the agent: runs of one agent in one place share the working folder of their conversation."""
    artifacts: RunArtifacts | None = None
    """Artifacts for the tool to read and create."""


class Found(Record):
    """A reconcilable tool's record of a call: its result as plain JSON."""

    result: Any


class ToolService(Protocol):
    """Runs the tools of a grant. Raises HostlerErrors whose message says what to do."""

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """Return every tool that can be granted now, by name."""
        ...

    async def detail(self, workspace_id: str, tool_name: str) -> ToolDetail:
        """Return the tool's full description. Raises NotFoundError if it is gone since the grant was
        built."""
        ...

    async def check(self, workspace_id: str, tool_name: str, parameters: dict[str, Any]) -> None:
        """Check parameters against the tool's schema. Raises InvalidArgumentError with the path, or
        NotFoundError."""
        ...

    async def call(self, invocation: ToolInvocation) -> Any:
        """Run the tool; return its result as plain JSON.

        Raises ToolFailedError for the tool's own error, which is an outcome; OutcomeUnknownError if the tool
        was called and its outcome is unknown. After any other error it was not called.
        """
        ...

    async def prepare(self, invocation: ToolInvocation) -> None:
        """Start what the tool needs to be called, and call nothing.

        Raises ToolChangedError if the tool is not the one of the invocation, or the errors of `call`.
        """
        ...

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """Return a reconcilable tool's record under the invocation's effect key, or None if there is none.

        After any error the outcome stays unknown.
        """
        ...


def present_tool(tools: ToolService, workspace_id: str, tool_name: str) -> PresentTool | None:
    """Return a tool as it is now, or None if it is gone."""
    found = tools.offered(workspace_id).get(tool_name)
    return None if found is None else found.present
