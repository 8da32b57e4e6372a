"""The first words with a plugin process: who it is and what it offers."""

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
from hostler_protocol.methods import (
    HostIdentity,
    InitializeParams,
    InitializeReply,
    NoParams,
    VersionRange,
)


@dataclass(frozen=True, slots=True)
class Introduced:
    """What a plugin said of itself; `warnings` about what of it does not count."""

    identity: PluginIdentity
    runners: dict[str, AgentRunnerManifest]
    tools: dict[str, ToolManifest]
    warnings: list[str]


async def shake_hands(
    request: Callable[[str, Any], Awaitable[Any]], expected_key: str, limits: Limits
) -> Introduced:
    """Initialize, check the identity against what was started, and learn runners and tools.

    PluginStartError where the plugin refuses or is another one.
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
    # beside the loop: hostile schemas take many seconds
    tools, more = await asyncio.to_thread(read_tools, offered) if offered.tools else ({}, [])
    return Introduced(reply.plugin, runners, tools, warnings + more)
