"""The tools of one run: those of the host, and those that the sender of its event carries out itself."""

from __future__ import annotations

import asyncio
from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any

from hostler.domain.caller_tools import pin_of
from hostler.domain.grants import Grant
from hostler.tools.port import Found, OfferedTool, ToolInvocation, ToolService
from hostler.tools.schema import ToolSchema
from hostler.tools.schema_cost import SchemaError
from hostler_protocol.calls import ToolDetail
from hostler_protocol.errors import InvalidArgumentError, NotFoundError
from hostler_protocol.events import CallerTool


async def check_schemas(tools: Sequence[CallerTool]) -> None:
    """Check that each schema can be used, in a thread: hostile ones take a while. InvalidArgumentError."""
    if tools:
        await asyncio.to_thread(_check_schemas, tools)


def _check_schemas(tools: Sequence[CallerTool]) -> None:
    for number, tool in enumerate(tools):
        try:
            ToolSchema(tool.parameters)
        except SchemaError as error:
            raise InvalidArgumentError(
                f"input.tools[{number}].parameters of {tool.name!r} cannot be used: {error}"
            ) from error


class RunTools:
    """The `ToolService` of a run whose caller brought tools. They are what the grant says, for ever."""

    def __init__(self, host: ToolService | None, grant: Grant) -> None:
        self._host = host
        self._own = {
            name: OfferedTool(resource=grant.tools[name], pin=pin_of(tool), parameters=tool.parameters)
            for name, tool in grant.caller_tools.items()
        }
        self._schemas: dict[str, ToolSchema] = {}

    def offered(self, workspace_id: str) -> Mapping[str, OfferedTool]:
        """See `ToolService`."""
        host = {} if self._host is None else dict(self._host.offered(workspace_id))
        return ChainMap(self._own, host)

    async def detail(self, workspace_id: str, tool_name: str) -> ToolDetail:
        """See `ToolService`."""
        own = self._own.get(tool_name)
        if own is None:
            return await self._of_host(tool_name).detail(workspace_id, tool_name)
        return ToolDetail(
            name=tool_name, description=own.resource.description, parameters=dict(own.parameters)
        )

    async def check(self, workspace_id: str, tool_name: str, parameters: dict[str, Any]) -> None:
        """See `ToolService`."""
        own = self._own.get(tool_name)
        if own is None:
            await self._of_host(tool_name).check(workspace_id, tool_name, parameters)
            return
        schema = self._schemas.get(tool_name)
        if schema is None:
            try:
                schema = self._schemas[tool_name] = ToolSchema(own.parameters)
            except SchemaError as error:
                raise InvalidArgumentError(
                    f"a schema of tool {tool_name!r} can't be used: {error}"
                ) from error
        schema.check_arguments(tool_name, parameters)

    async def call(self, invocation: ToolInvocation) -> Any:
        """See `ToolService`. InvalidArgumentError for a tool of the caller."""
        return await self._of_host(invocation.tool_name).call(invocation)

    async def prepare(self, invocation: ToolInvocation) -> None:
        """See `ToolService`. InvalidArgumentError for a tool of the caller."""
        await self._of_host(invocation.tool_name).prepare(invocation)

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """See `ToolService`. InvalidArgumentError for a tool of the caller."""
        return await self._of_host(invocation.tool_name).lookup(invocation)

    def _of_host(self, tool_name: str) -> ToolService:
        if tool_name in self._own:
            raise InvalidArgumentError(f"tool {tool_name!r} runs on the client only")
        if self._host is None:
            raise NotFoundError(f"tool {tool_name!r} is gone since this run began")
        return self._host


def tools_of_run(host: ToolService | None, grant: Grant) -> ToolService | None:
    """Return the tools of a run: the host's, with those of its caller."""
    return RunTools(host, grant) if grant.caller_tools else host
