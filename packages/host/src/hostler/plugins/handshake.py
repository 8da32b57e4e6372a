"""The handshake with a plugin process: its identity, runners and tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from hostler.plugins.catalog import read_runners
from hostler.plugins.tool_list import read_tools
from hostler_protocol.errors import HostlerError, PluginError, PluginStartError
from hostler_protocol.ids import PluginIdentity
from hostler_protocol.limits import PROTOCOL_VERSION, Limits
from hostler_protocol.manifest import AgentRunnerManifest, RunnerList, ToolList, ToolManifest
from hostler_protocol.methods import HostIdentity, InitializeParams, InitializeReply, NoParams, VersionRange


@dataclass(frozen=True, slots=True)
class PluginOffer:
    """A plugin's identity and valid manifests; `warnings` are about the invalid ones."""

    identity: PluginIdentity
    runners: dict[str, AgentRunnerManifest]
    tools: dict[str, ToolManifest]
    warnings: list[str]


async def shake_hands(
    request: Callable[[str, Any], Awaitable[Any]], expected_key: str, limits: Limits
) -> PluginOffer:
    """Initialize, check the identity against the expected key, and list runners and tools.

    Raises PluginStartError if the plugin refuses, or has another identity.
    """
    params = InitializeParams(
        protocol=VersionRange(min=PROTOCOL_VERSION, max=PROTOCOL_VERSION),
        host=HostIdentity(name="hostler", version=version("hostler")),
        limits=limits,
    )
    try:
        reply: InitializeReply = await request("initialize", params)
        if reply.plugin.key != expected_key:
            raise PluginStartError(
                f"it says that it is {reply.plugin.key}, but {expected_key} was expected: "
                "author and name must be those of its manifest",
                lasting=True,
            )
        listed: RunnerList = await request("runners/list", NoParams())
        offered: ToolList = await request("tools/list", NoParams()) if reply.tools else ToolList(tools=[])
    except PluginError:
        raise
    except HostlerError as error:
        raise PluginStartError(f"it refused the handshake: {error.message}", lasting=True) from error
    runners, warnings = read_runners(reply.plugin, listed)
    # in a thread: hostile schemas take many seconds
    tools, more = await asyncio.to_thread(read_tools, offered) if offered.tools else ({}, [])
    return PluginOffer(reply.plugin, runners, tools, warnings + more)
