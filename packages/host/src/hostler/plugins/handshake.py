"""The handshake with a plugin process: its identity, runners, tools and channels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hostler.domain.record import Record
from hostler.plugins.catalog import read_runners
from hostler.plugins.channel_list import read_channels
from hostler.plugins.tool_list import read_tools
from hostler.version import VERSION
from hostler_protocol.channels import ChannelList, ChannelManifest
from hostler_protocol.errors import HostlerError, PluginError, PluginStartError
from hostler_protocol.ids import PluginIdentity
from hostler_protocol.limits import PROTOCOL_VERSION, Limits
from hostler_protocol.manifest import AgentRunnerManifest, RunnerList, ToolList, ToolManifest
from hostler_protocol.methods import HostIdentity, InitializeParams, InitializeReply, NoParams, VersionRange


class PluginOffer(Record):
    """A plugin's identity and valid manifests; `warnings` are about the invalid ones.

    `takes_ahead`: whether answers may be sent ahead of their calls.
    """

    identity: PluginIdentity
    runners: dict[str, AgentRunnerManifest]
    tools: dict[str, ToolManifest]
    warnings: list[str]
    takes_ahead: bool
    channels: dict[str, ChannelManifest]


Ask = Callable[[str, Any], Awaitable[Any]]
"""Sends a request and returns its answer."""


async def shake_hands(ask: Ask, expected_key: str, limits: Limits, seconds: float) -> PluginOffer:
    """Initialize, check the identity against the expected key, and list runners, tools and channels.

    Raises PluginStartError if the plugin refuses, ends, has another identity, or takes longer than `seconds`.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _offer(ask, expected_key, limits)
    except TimeoutError:
        # lasting: it may have used a processor all that time, and must not be restarted soon
        text = f"it did not finish its handshake within {seconds:g} s"
        raise PluginStartError(text, lasting=True) from None
    except PluginStartError:
        raise
    except PluginError as error:
        raise PluginStartError(error.message, **error.details) from error
    except HostlerError as error:
        raise PluginStartError(f"it refused the handshake: {error.message}", lasting=True) from error


async def _offer(ask: Ask, expected_key: str, limits: Limits) -> PluginOffer:
    params = InitializeParams(
        protocol=VersionRange(min=PROTOCOL_VERSION, max=PROTOCOL_VERSION),
        host=HostIdentity(name="hostler", version=VERSION),
        limits=limits,
        reasoning=True,
    )
    reply: InitializeReply = await ask("initialize", params)
    if reply.plugin.key != expected_key:
        raise PluginStartError(
            f"it says that it is {reply.plugin.key}, but {expected_key} was expected: "
            "author and name must be those of its manifest",
            lasting=True,
        )
    listed: RunnerList = await ask("runners/list", NoParams())
    offered: ToolList = await ask("tools/list", NoParams()) if reply.tools else ToolList(tools=[])
    runners, warnings = read_runners(reply.plugin, listed)
    # in a thread: hostile schemas take many seconds
    tools, more = await asyncio.to_thread(read_tools, offered) if offered.tools else ({}, [])
    said: ChannelList = await ask("channels/list", NoParams()) if reply.channels else ChannelList(channels=[])
    channels, others = read_channels(said)
    return PluginOffer(reply.plugin, runners, tools, warnings + more + others, reply.ahead, channels)
