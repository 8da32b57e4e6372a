"""Tools of plugins, named `<plugin name>.<function>`: listed, checked, and called in the plugin's process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol

from hostler.domain.same_fields import with_fields_of
from hostler.domain.tool_pins import ToolPin
from hostler.tools.errors import ToolChangedError
from hostler.tools.port import Found, OfferedTool, ToolInvocation
from hostler_protocol.errors import PluginError, UnavailableError
from hostler_protocol.grants import ToolResource
from hostler_protocol.ids import digest
from hostler_protocol.manifest import ToolManifest
from hostler_protocol.tools import ToolCallContext, ToolFound, ToolInvokeParams, ToolLookupParams


class ToolProcessCalls(Protocol):
    """Calls tools of a running plugin; implemented by `plugins.tool_calls.PluginToolCalls`."""

    async def call(
        self, params: ToolInvokeParams, deadline: float | None, confirm: Callable[[], Awaitable[None]] | None
    ) -> Any:
        """Return the result. Raises ToolFailedError or OutcomeUnknownError; after any other error nothing was
        sent."""
        ...

    async def look_up(self, params: ToolLookupParams, deadline: float | None) -> ToolFound:
        """Return the record under an effect key."""
        ...


class ToolProcess(Protocol):
    """A running plugin; implemented by `plugins.connection.PluginConnection`."""

    @property
    def tools(self) -> Mapping[str, ToolManifest]:
        """The tools this process offers, by their own names."""
        ...

    @property
    def version(self) -> str:
        """The plugin's own version."""
        ...

    @property
    def tool_calls(self) -> ToolProcessCalls:
        """Calls those tools."""
        ...


class ToolCatalog(Protocol):
    """Tools of all plugins, as last seen; implemented by `plugins.catalog.PluginCatalog`."""

    @property
    def revision(self) -> int:
        """Increases with each change."""
        ...

    def tools(self) -> Mapping[str, Mapping[str, ToolManifest]]:
        """Return the tools of each plugin by its key and their own names."""
        ...

    def version_of(self, plugin_key: str) -> str:
        """Return a plugin's own version, as last seen."""
        ...


class PluginTools:
    """The tools of plugins, as a `ToolSource`. `process` returns a plugin's process, started if necessary.


    Plugins belong to the operator, so every workspace sees the same tools; agents' policies choose among
    them.
    """

    id_prefix = "plugin:"

    def __init__(self, catalog: ToolCatalog, process: Callable[[str], Awaitable[ToolProcess]]) -> None:
        self._catalog = catalog
        self._process = process
        self._seen = -1
        self._offered: dict[str, OfferedTool] = {}

    @property
    def revision(self) -> int:
        """The catalog's revision."""
        return self._catalog.revision

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """Return every tool by its id, since two plugins may have the same name."""
        if self._seen != self._catalog.revision:
            self._seen = self._catalog.revision
            self._offered = {tool.pin.tool_id: tool for tool in self._read()}
        return self._offered

    async def call(self, invocation: ToolInvocation) -> Any:
        """Run the tool in its plugin's process."""
        own_name, process = await self._reach(invocation)
        params = ToolInvokeParams(
            tool_name=own_name, parameters=invocation.parameters, context=_context_of(invocation)
        )
        return await process.tool_calls.call(params, invocation.deadline, invocation.confirm)

    async def prepare(self, invocation: ToolInvocation) -> None:
        """See `PreparedSource`."""
        await self._reach(invocation)

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """Ask a reconcilable tool for the outcome of the call with this effect key."""
        own_name, process = await self._reach(invocation)
        params = ToolLookupParams(
            tool_name=own_name, effect_key=invocation.effect_key, context=_context_of(invocation)
        )
        record = await process.tool_calls.look_up(params, invocation.deadline)
        return Found(record.result) if record.found else None

    async def _reach(self, invocation: ToolInvocation) -> tuple[str, ToolProcess]:
        """Return the tool's own name and its plugin's process; the tool must still match its pin."""
        name, pin = invocation.tool_name, invocation.pin
        try:
            process = await self._process(pin.owner)
        except PluginError as error:
            raise UnavailableError(f"tool {name!r} cannot be reached: {error.message}") from error
        own_name = name.rpartition(".")[2]
        manifest = process.tools.get(own_name)
        if manifest is None or not self._is_same(invocation, manifest, process.version):
            raise ToolChangedError(f"tool {name!r} is no longer the one that this run was given")
        return own_name, process

    def _is_same(self, invocation: ToolInvocation, manifest: ToolManifest, version: str) -> bool:
        """Return whether the process offers the tool that was granted, and approved if people were asked."""
        if invocation.definition is not None:
            offered = _offer(invocation.tool_name, invocation.pin.owner, manifest, version)
            return offered.present.definition == invocation.definition
        return self._pin_now(invocation, manifest) == invocation.pin

    def _pin_now(self, invocation: ToolInvocation, manifest: ToolManifest) -> ToolPin:
        known = self.offered(invocation.workspace_id).get(invocation.pin.tool_id)
        if known is not None and known.parameters is manifest.parameters:
            return known.pin  # of this very process: no need to digest the schema again
        return _pin_of(invocation.pin.owner, manifest)

    def _read(self) -> Iterator[OfferedTool]:
        for plugin_key, tools in sorted(self._catalog.tools().items()):
            plugin_name = plugin_key.partition("/")[2]
            version = self._catalog.version_of(plugin_key)
            for manifest in tools.values():
                yield _offer(f"{plugin_name}.{manifest.name}", plugin_key, manifest, version)


def _offer(name: str, plugin_key: str, manifest: ToolManifest, version: str) -> OfferedTool:
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
        version=version,
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
    return with_fields_of(invocation, ToolCallContext)
