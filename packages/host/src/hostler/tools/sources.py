"""The tools of a host: many sources behind one service, with unique names and every call checked.

A source knows its tools and how to call them. This module ensures what holds for all tools: a name means one
tool, arguments fit the tool's schema before it is called, and its result fits the schema it declares.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec.structs import replace

from hostler.domain.allowances import Allowances
from hostler.domain.record import Record
from hostler.domain.tool_pins import ToolPin
from hostler.tools.errors import ToolChangedError, ToolFailedError
from hostler.tools.port import Found, OfferedTool, ToolInvocation
from hostler.tools.schema import ToolSchema, check_argument_size, check_off_loop
from hostler.tools.schema_cost import SchemaError
from hostler_protocol.calls import ToolDetail
from hostler_protocol.errors import HostlerError, InvalidArgumentError, NotFoundError
from hostler_protocol.grants import ToolResource

MAX_CACHED_SCHEMAS = 1024
"""Compiled schemas in the cache; one takes some tens of kilobytes."""
MAX_CACHED_WORKSPACES = 64
"""Workspaces whose list of tools is cached."""


class ToolSource(Protocol):
    """A kind of tools: of plugins, MCP servers or OpenAPI documents, or built in."""

    @property
    def id_prefix(self) -> str:
        """The prefix of all its tool ids, used by no other source: `plugin:`, `mcp:`."""
        ...

    @property
    def revision(self) -> int:
        """Increases with each change of the offered tools."""
        ...

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """Return all its tools, by a key of its own: a name, or an id where names are not unique.

        Both schemas of each are usable by `ToolSchema`. A tool that no run may get now, because it has
        changed and waits for a person, says so in its `problem`.
        """
        ...

    async def call(self, invocation: ToolInvocation) -> Any:
        """Run the tool; return its result as plain JSON. The arguments fit the schema.

        Raises the errors of `ToolService`, and ToolChangedError if the tool no longer matches
        `invocation.pin`. `invocation.confirm` is awaited right before the request is sent.
        """
        ...

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """Return a reconcilable tool's record under the effect key, or None if there is none."""
        ...


@runtime_checkable
class PreparedSource(Protocol):
    """A source whose tools are in processes, which are started to be called: only then they are known."""

    async def prepare(self, invocation: ToolInvocation) -> None:
        """Start the tool's process. Raises ToolChangedError if its tool is not that of the invocation."""
        ...


class _Listing(Record):
    """The tools of one workspace at these revisions of the sources.

    `resources` and `pins` are those of what is offered, by name: every grant is built from them.
    """

    revisions: tuple[int, ...]
    offered: dict[str, OfferedTool] = msgspec.field(default_factory=dict)
    resources: dict[str, ToolResource] = msgspec.field(default_factory=dict)
    pins: dict[str, ToolPin] = msgspec.field(default_factory=dict)
    refused: list[OfferedTool] = msgspec.field(default_factory=list)
    by_id: dict[str, OfferedTool] = msgspec.field(default_factory=dict)
    withheld: dict[str, OfferedTool] = msgspec.field(default_factory=dict)
    """By id the tools that exist, and that the workspace may not use."""


class _CompiledSchema(Record):
    """A compiled schema and its source."""

    source: Mapping[str, Any]
    schema: ToolSchema


OnRefused = Callable[[str, OfferedTool], Awaitable[None]]
"""Called with the workspace and the tool when a run asks for a tool that it may not get."""


class ToolSources:
    """The `ToolService` of a host. A name that is offered twice is refused, since it is ambiguous."""

    def __init__(
        self,
        sources: Sequence[ToolSource],
        on_refused: OnRefused | None = None,
        allowances: Allowances | None = None,
    ) -> None:
        prefixes = [source.id_prefix for source in sources]
        for prefix in prefixes:
            if sum(other.startswith(prefix) for other in prefixes) > 1:
                raise ValueError(f"two sources of tools claim the ids that begin with {prefix!r}")
        self._sources = tuple(sources)
        self._on_refused = on_refused
        self._allowances = allowances
        self._listings: OrderedDict[str, _Listing] = OrderedDict()
        self._schemas: OrderedDict[tuple[str, str], _CompiledSchema] = OrderedDict()

    # -- the list of tools ------------------------------------------------------------------------

    def revisions(self) -> tuple[int, ...]:
        """Return the revisions of all sources and of what may be used; equal while nothing has changed."""
        of_sources = (source.revision for source in self._sources)
        return (0 if self._allowances is None else self._allowances.revision, *of_sources)

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """Return every tool that can be granted now, by name."""
        return self._listing(workspace_id).offered

    def granted_from(self, workspace_id: str) -> tuple[Mapping[str, ToolResource], Mapping[str, ToolPin]]:
        """Return the resources and the pins of the tools that can be granted now, by name."""
        listing = self._listing(workspace_id)
        return listing.resources, listing.pins

    def refused(self, workspace_id: str) -> Sequence[OfferedTool]:
        """Return the tools that no run may get now, with the reason in `problem`."""
        return self._listing(workspace_id).refused

    def withheld(self, workspace_id: str) -> Collection[str]:
        """Return the names of tools that exist, and that the workspace may not use."""
        return {tool.name for tool in self._listing(workspace_id).withheld.values()}

    async def detail(self, workspace_id: str, tool_name: str) -> ToolDetail:
        """Return the tool's full description. Raises NotFoundError."""
        tool = self._get(workspace_id, tool_name)
        return ToolDetail(
            name=tool_name, description=tool.resource.description, parameters=dict(tool.parameters)
        )

    # -- calls ------------------------------------------------------------------------------------

    async def check(self, workspace_id: str, tool_name: str, parameters: dict[str, Any]) -> None:
        """Check parameters; raise InvalidArgumentError, PayloadTooLargeError or NotFoundError."""
        for refused in self.refused(workspace_id):
            if refused.name == tool_name:
                await self._report_refused(workspace_id, refused)
        tool = self._get(workspace_id, tool_name)
        check_argument_size(tool_name, parameters)
        self._schema("parameters", tool, tool.parameters).check_arguments(tool_name, parameters)

    async def call(self, invocation: ToolInvocation) -> Any:
        """Call the tool through its source; see `ToolService.call`."""
        self._check_allowed(invocation)
        refused = self._refused(invocation)
        if refused is not None:
            await self._report_refused(invocation.workspace_id, refused)
            raise ToolChangedError(f"tool {invocation.tool_name!r} is not called: {refused.problem}")
        result = await self._source(invocation).call(invocation)
        await self._check_result(invocation, result)
        return result

    async def prepare(self, invocation: ToolInvocation) -> None:
        """Start what the tool needs to be called; see `ToolService.prepare`."""
        source = self._source(invocation)
        if isinstance(source, PreparedSource):
            await source.prepare(invocation)

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """Ask a reconcilable tool for the outcome of the call with this effect key."""
        if invocation.pin.effect != "reconcilable":
            raise InvalidArgumentError(f"tool {invocation.tool_name!r} can't tell what came of a call")
        return await self._source(invocation).lookup(invocation)

    def _source(self, invocation: ToolInvocation) -> ToolSource:
        if invocation.pin.client:
            raise InvalidArgumentError(f"tool {invocation.tool_name!r} runs on the client only")
        for source in self._sources:
            if invocation.pin.tool_id.startswith(source.id_prefix):
                return source
        raise ToolChangedError(f"tool {invocation.tool_name!r} is of a kind that this host has no more")

    def _check_allowed(self, invocation: ToolInvocation) -> None:
        """Raise ToolChangedError if the workspace may no longer use the tool: it might when the run began."""
        workspace_id, tool_id = invocation.workspace_id, invocation.pin.tool_id
        if self._allowances is not None and tool_id in self._listing(workspace_id).withheld:
            why = self._allowances.of(workspace_id).refused("tool", invocation.tool_name)
            raise ToolChangedError(f"tool {invocation.tool_name!r} is not called: {why}")

    def _refused(self, invocation: ToolInvocation) -> OfferedTool | None:
        """Return the pinned tool if it may not be called. A second tool of the same name is no reason."""
        tool = self._listing(invocation.workspace_id).by_id.get(invocation.pin.tool_id)
        return None if tool is None or tool.problem is None else tool

    async def _report_refused(self, workspace_id: str, tool: OfferedTool) -> None:
        if self._on_refused is not None:
            await self._on_refused(workspace_id, tool)

    async def _check_result(self, invocation: ToolInvocation, result: Any) -> None:
        """Raise ToolFailedError if the result is not as declared; the tool has done its work all the same."""
        tool = self._listing(invocation.workspace_id).by_id.get(invocation.pin.tool_id)
        if tool is None or tool.output_schema is None:
            return
        what = f"{invocation.tool_name} was called, but its result is not what it declares"
        try:
            schema = self._schema("output", tool, tool.output_schema)
            await check_off_loop(result, partial(schema.check, result, what))
        except InvalidArgumentError as error:
            raise ToolFailedError.of(HostlerError(error.message)) from error

    # -- lists and schemas ------------------------------------------------------------------------

    def _get(self, workspace_id: str, tool_name: str) -> OfferedTool:
        listing = self._listing(workspace_id)
        found = listing.offered.get(tool_name)
        if found is not None:
            return found
        for tool in listing.refused:
            if tool.name == tool_name:
                raise NotFoundError(f"tool {tool_name!r} can't be used: {tool.problem}")
        raise NotFoundError(f"tool {tool_name!r} is gone: nothing offers it now")

    def _listing(self, workspace_id: str) -> _Listing:
        revisions = self.revisions()
        listing = self._listings.get(workspace_id)
        if listing is None or listing.revisions != revisions:
            tools = [tool for source in self._sources for tool in source.offered(workspace_id).values()]
            withheld = self._withheld(workspace_id, tools)
            allowed = [tool for tool in tools if tool.pin.tool_id not in withheld]
            listing = self._listings[workspace_id] = _list_tools(revisions, allowed, withheld)
            if len(self._listings) > MAX_CACHED_WORKSPACES:
                self._listings.popitem(last=False)
        self._listings.move_to_end(workspace_id)
        return listing

    def _withheld(self, workspace_id: str, tools: Sequence[OfferedTool]) -> dict[str, OfferedTool]:
        if self._allowances is None:
            return {}
        may = self._allowances.of(workspace_id)
        return {tool.pin.tool_id: tool for tool in tools if not may.tool(tool.name, tool.pin.tool_id)}

    def _schema(self, which: str, tool: OfferedTool, source: Mapping[str, Any]) -> ToolSchema:
        key = (which, tool.pin.tool_id)
        compiled = self._schemas.get(key)
        if compiled is None or compiled.source is not source:
            try:
                compiled = self._schemas[key] = _CompiledSchema(source, ToolSchema(source))
            except SchemaError as error:
                raise InvalidArgumentError(
                    f"a schema of tool {tool.name!r} can't be used: {error}"
                ) from error
            if len(self._schemas) > MAX_CACHED_SCHEMAS:
                self._schemas.popitem(last=False)
        self._schemas.move_to_end(key)
        return compiled.schema


def _list_tools(
    revisions: tuple[int, ...], tools: Sequence[OfferedTool], withheld: dict[str, OfferedTool]
) -> _Listing:
    named: dict[str, list[OfferedTool]] = {}
    for tool in tools:
        named.setdefault(tool.name, []).append(tool)
    listing = _Listing(revisions, by_id={tool.pin.tool_id: tool for tool in tools}, withheld=withheld)
    for name, found in sorted(named.items()):
        if len(found) > 1:
            owners = " and ".join(tool.pin.owner for tool in found)
            problem = f"it is offered by {owners}; remove all but one"
            listing.refused.extend(tool if tool.problem else replace(tool, problem=problem) for tool in found)
        elif found[0].problem is not None:
            listing.refused.append(found[0])
        else:
            listing.offered[name] = tool = found[0]
            listing.resources[name], listing.pins[name] = tool.resource, tool.pin
    return listing
