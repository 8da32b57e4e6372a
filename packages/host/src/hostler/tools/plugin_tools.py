"""Tools that plugins offer, as `<plugin name>.<function>`: found, checked, called in their own process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from hostler.tools.errors import ToolChangedError
from hostler.tools.port import Found, OfferedTool, ToolInvocation, ToolPin
from hostler.tools.schema import ToolSchema, check_argument_size
from hostler_protocol.calls import ToolDetail
from hostler_protocol.errors import InvalidArgumentError, NotFoundError, PluginError, UnavailableError
from hostler_protocol.grants import ToolResource
from hostler_protocol.ids import digest
from hostler_protocol.manifest import ToolManifest
from hostler_protocol.tools import ToolCallContext, ToolFound, ToolInvokeParams, ToolLookupParams

KEPT_SCHEMAS = 1024
"""Schemas that are kept ready; one takes some tens of kilobytes."""


class ToolProcessCalls(Protocol):
    """How the tools of a running plugin are called: `plugins.tool_calls.ToolCalls` is one."""

    async def call(
        self, params: ToolInvokeParams, deadline: float | None, confirm: Callable[[], Awaitable[None]] | None
    ) -> Any:
        """The result. ToolFailedError, OutcomeUnknownError; any other error: nothing was sent."""
        ...

    async def look_up(self, params: ToolLookupParams, deadline: float | None) -> ToolFound:
        """What is recorded under an effect key."""
        ...


class ToolProcess(Protocol):
    """A running plugin: `plugins.connection.PluginConnection` is one."""

    @property
    def tools(self) -> Mapping[str, ToolManifest]:
        """What this very process offers, by the tools' own names."""
        ...

    @property
    def tool_calls(self) -> ToolProcessCalls:
        """The way to them."""
        ...


class ToolCatalog(Protocol):
    """What all plugins offer, as last seen: `plugins.catalog.Catalog` is one."""

    @property
    def revision(self) -> int:
        """Rises with each change."""
        ...

    def tools(self) -> Mapping[str, Mapping[str, ToolManifest]]:
        """The tools of each plugin by its key, by their own names."""
        ...


class PluginTools:
    """A `ToolService`. `process` gives a plugin's running process, and starts it where there is none.

    Plugins are the operator's, so that every workspace sees the same tools; agents' policies tell them apart.
    A name that two plugins offer is nobody's: which of them was meant can't be known.
    """

    def __init__(self, catalog: ToolCatalog, process: Callable[[str], Awaitable[ToolProcess]]) -> None:
        self._catalog = catalog
        self._process = process
        self._schemas: OrderedDict[str, ToolSchema] = OrderedDict()
        self._seen = -1
        self._offered: dict[str, OfferedTool] = {}
        self._doubled: dict[str, list[OfferedTool]] = {}

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """Every tool that can be granted now, by name."""
        if self._seen != self._catalog.revision:
            self._seen = self._catalog.revision
            self._read()
        return self._offered

    def doubled(self) -> Mapping[str, list[OfferedTool]]:
        """The tools of the same name that several plugins offer; none of them can be granted."""
        self.offered("")
        return self._doubled

    def pin(self, workspace_id: str, tool_name: str) -> ToolPin | None:
        """The tool as it stands now; None where it is gone."""
        found = self.offered(workspace_id).get(tool_name)
        return None if found is None else found.pin

    async def detail(self, workspace_id: str, tool_name: str) -> ToolDetail:
        """The tool in full. NotFoundError."""
        tool = self._get(workspace_id, tool_name)
        return ToolDetail(
            name=tool_name, description=tool.resource.description, parameters=dict(tool.parameters)
        )

    async def check(self, workspace_id: str, tool_name: str, parameters: dict[str, Any]) -> None:
        """Hold parameters against the schema. InvalidArgumentError, PayloadTooLargeError, NotFoundError."""
        tool = self._get(workspace_id, tool_name)
        check_argument_size(tool_name, parameters)
        self._schema_of(tool).check_arguments(tool_name, parameters)

    async def call(self, invocation: ToolInvocation) -> Any:
        """Run the tool in its plugin's process."""
        own_name, process = await self._reach(invocation)
        params = ToolInvokeParams(
            tool_name=own_name, parameters=invocation.parameters, context=_context_of(invocation)
        )
        return await process.tool_calls.call(params, invocation.deadline, invocation.confirm)

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """Ask a reconcilable tool what came of the call with this effect key."""
        if invocation.pin.effect != "reconcilable":
            raise InvalidArgumentError(f"tool {invocation.tool_name!r} can't tell what came of a call")
        own_name, process = await self._reach(invocation)
        params = ToolLookupParams(
            tool_name=own_name, effect_key=invocation.effect_key, context=_context_of(invocation)
        )
        told = await process.tool_calls.look_up(params, invocation.deadline)
        return Found(told.result) if told.found else None

    async def _reach(self, invocation: ToolInvocation) -> tuple[str, ToolProcess]:
        """The tool's own name and the process that has it, still as it was pinned."""
        name, pin = invocation.tool_name, invocation.pin
        if pin.client:
            raise InvalidArgumentError(f"tool {name!r} runs on the client; no plugin can be asked")
        try:
            process = await self._process(pin.owner)
        except PluginError as error:
            raise UnavailableError(f"tool {name!r} cannot be reached: {error.message}") from error
        own_name = name.rpartition(".")[2]
        manifest = process.tools.get(own_name)
        if manifest is None or self._pin_now(invocation, manifest) != pin:
            raise ToolChangedError(f"tool {name!r} is no longer the one that this run was given")
        return own_name, process

    def _pin_now(self, invocation: ToolInvocation, manifest: ToolManifest) -> ToolPin:
        known = self.offered(invocation.workspace_id).get(invocation.tool_name)
        if known is not None and known.parameters is manifest.parameters:
            return known.pin  # of this very process: no need to digest the schema again
        return _pin_of(invocation.pin.owner, manifest)

    def _get(self, workspace_id: str, tool_name: str) -> OfferedTool:
        found = self.offered(workspace_id).get(tool_name)
        if found is not None:
            return found
        if doubled := self._doubled.get(tool_name):
            owners = " and ".join(tool.pin.owner for tool in doubled)
            raise NotFoundError(f"tool {tool_name!r} is offered by {owners}: remove all but one")
        raise NotFoundError(f"tool {tool_name!r} is gone: no plugin offers it now")

    def _read(self) -> None:
        found: dict[str, list[OfferedTool]] = {}
        for plugin_key, tools in sorted(self._catalog.tools().items()):
            plugin_name = plugin_key.partition("/")[2]
            for manifest in tools.values():
                name = f"{plugin_name}.{manifest.name}"
                found.setdefault(name, []).append(_offer(name, plugin_key, manifest))
        self._offered = {name: tools[0] for name, tools in found.items() if len(tools) == 1}
        self._doubled = {name: tools for name, tools in found.items() if len(tools) > 1}

    def _schema_of(self, tool: OfferedTool) -> ToolSchema:
        key = tool.pin.schema_digest
        schema = self._schemas.get(key)
        if schema is None:
            schema = self._schemas[key] = ToolSchema(tool.parameters)
            if len(self._schemas) > KEPT_SCHEMAS:
                self._schemas.popitem(last=False)
        self._schemas.move_to_end(key)
        return schema


def _offer(name: str, plugin_key: str, manifest: ToolManifest) -> OfferedTool:
    return OfferedTool(
        resource=ToolResource(
            tool_name=name,
            tool_type="client" if manifest.client else "plugin",
            description=manifest.description,
            operations=["detail", "call"],
            approval=manifest.approval or "never",
        ),
        pin=_pin_of(plugin_key, manifest),
        parameters=manifest.parameters,
        output_schema=manifest.output_schema,
    )


def _pin_of(plugin_key: str, manifest: ToolManifest) -> ToolPin:
    return ToolPin(
        tool_id=f"plugin:{plugin_key}#{manifest.name}",
        owner=plugin_key,
        schema_digest=digest(manifest.parameters),
        effect=manifest.effect,
        client=manifest.client,
    )


def _context_of(invocation: ToolInvocation) -> ToolCallContext:
    return ToolCallContext(
        run_id=invocation.run_id,
        call_id=invocation.call_id,
        effect_key=invocation.effect_key,
        workspace_id=invocation.workspace_id,
        actor=invocation.actor,
        deadline=invocation.deadline,
    )
