"""Conformance checks of tools. Only tools with effect `pure` are called."""

from __future__ import annotations

import asyncio
from collections import Counter

from hostler_protocol.errors import HostlerError, InvalidArgumentError, to_fault
from hostler_protocol.limits import MAX_TOOL_NAME_CHARS
from hostler_protocol.manifest import ToolManifest
from hostler_protocol.tools import ToolCancelNote, ToolLookupParams
from hostler_sdk.conformance.process import (
    TOOL_CONTEXT,
    Candidate,
    NotOfferedError,
    PluginUnderTest,
    ViolationError,
)

CONCURRENT_CALLS = 32
STRANGE = "conformance_unknown"
"""A name that no tool, parameter or effect key of a plugin has."""


async def listed(candidate: Candidate) -> str:
    """`tools/list` answers valid manifests with unique names."""
    async with candidate.started(for_tools=True) as plugin:
        tools = await plugin.tools()
        doubled = [name for name, times in Counter(tool.name for tool in tools).items() if times > 1]
        if doubled:
            raise ViolationError(f"tools/list: two tools are named {doubled[0]!r}")
        for tool in tools:
            if not 1 <= len(tool.name) <= MAX_TOOL_NAME_CHARS:
                raise ViolationError(f"tools/list: a name has 1 to {MAX_TOOL_NAME_CHARS} characters")
            if tool.parameters.get("type", "object") != "object":
                raise ViolationError(f"tools/list: the parameters of {tool.name} must be an object")
        return ", ".join(tool.name for tool in tools) or "no tool"


async def unknown(candidate: Candidate) -> str:
    """A call of an unknown tool is refused; cancelling an unknown call has no effect."""
    async with candidate.started(for_tools=True) as plugin:
        await plugin.tools()
        refused = await _refusal(plugin, STRANGE, {})
        if refused is None:
            raise ViolationError("tool/call of a tool that is not offered was answered with a result")
        plugin.write(plugin.session.link.notify("tool/cancel", ToolCancelNote(id=STRANGE)))
        await plugin.ping()
        return refused.message


async def parameters(candidate: Candidate) -> str:
    """Parameters that do not match the tool's schema are refused as `invalid_argument`."""
    async with candidate.started(for_tools=True) as plugin:
        tools = [
            tool for tool in await _harmless(plugin) if tool.parameters.get("additionalProperties") is False
        ]
        if not tools:
            raise NotOfferedError("no tool without effect closes its parameters")
        for tool in tools:
            refused = await _refusal(plugin, tool.name, {STRANGE: 1})
            if not isinstance(refused, InvalidArgumentError):
                got = "a result" if refused is None else to_fault(refused).code
                raise ViolationError(
                    f"{tool.name} was given an unknown parameter: {got}, not invalid_argument"
                )
        return ", ".join(tool.name for tool in tools)


async def calls(candidate: Candidate) -> str:
    """Many calls run at once, and each is answered."""
    async with candidate.started(for_tools=True) as plugin:
        tools = [tool for tool in await _harmless(plugin) if not tool.parameters.get("required")]
        if not tools:
            raise NotOfferedError("no tool without effect can be called without parameters")
        name = tools[0].name
        together = asyncio.gather(*(_answer(plugin, name) for _ in range(CONCURRENT_CALLS)))
        await plugin.awaited(f"{CONCURRENT_CALLS} answers of {name}", together)
        return f"{CONCURRENT_CALLS} calls of {name}"


async def lookup(candidate: Candidate) -> str:
    """A reconcilable tool finds no outcome for an effect key that was never used."""
    async with candidate.started(for_tools=True) as plugin:
        tools = [tool for tool in await plugin.tools() if tool.effect == "reconcilable" and not tool.client]
        if not tools:
            raise NotOfferedError("no tool is reconcilable")
        for tool in tools:
            params = ToolLookupParams(tool_name=tool.name, effect_key=STRANGE, context=TOOL_CONTEXT)
            asking = plugin.session.request("tool/lookup", params)
            if (await plugin.awaited(f"an answer to tool/lookup of {tool.name}", asking)).found:
                raise ViolationError(f"{tool.name} has an outcome for an effect key that was never used")
        return ", ".join(tool.name for tool in tools)


async def _harmless(plugin: PluginUnderTest) -> list[ToolManifest]:
    return [tool for tool in await plugin.tools() if tool.effect == "pure" and not tool.client]


async def _answer(plugin: PluginUnderTest, name: str) -> None:
    try:
        await plugin.call_tool(name, {})
    except HostlerError as error:
        if plugin.session.lost_because is not None:
            raise ViolationError(f"{name}: {error.message}") from error  # its own refusal is an answer too


async def _refusal(plugin: PluginUnderTest, name: str, given: dict[str, int]) -> HostlerError | None:
    async def asked() -> HostlerError | None:
        try:
            await plugin.call_tool(name, given)
        except HostlerError as error:
            return error
        return None

    refused = await plugin.awaited(f"an answer to tool/call of {name}", asked())
    if plugin.session.lost_because is not None:
        raise ViolationError(f"tool/call of {name}: {plugin.session.lost_because}")
    return refused
