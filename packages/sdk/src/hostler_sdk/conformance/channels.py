"""Conformance checks of channels. There is no platform: a channel says so, and still keeps to the rules."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

from hostler_protocol.channels import (
    ChannelCloseParams,
    ChannelManifest,
    ChannelMessage,
    ChannelOpenParams,
    ChannelSendParams,
    ChannelSent,
    ChannelTarget,
)
from hostler_protocol.errors import ConflictError, HostlerError, NotFoundError, to_fault
from hostler_protocol.manifest import defaults_of
from hostler_protocol.methods import NoParams
from hostler_sdk.conformance.process import (
    Candidate,
    PluginUnderTest,
    ViolationError,
)

ID = "conformance"
"""The id of the channel that the checks open."""
STRANGE = "conformance_unknown"
SETTLE_SECONDS = 5.0
"""Time for an opened channel to connect or fail; one that still waits for its platform then is let be."""
MISTAKES = {
    "AttributeError",
    "ImportError",
    "IndentationError",
    "ModuleNotFoundError",
    "NameError",
    "SyntaxError",
    "TypeError",
    "UnboundLocalError",
}
"""Python errors that no missing platform causes."""


async def listed(candidate: Candidate) -> str:
    """`channels/list` answers valid manifests with unique names."""
    async with candidate.started(for_channels=True) as plugin:
        channels = await plugin.channels()
        doubled = [name for name, times in Counter(one.name for one in channels).items() if times > 1]
        if doubled:
            raise ViolationError(f"channels/list: two channels are named {doubled[0]!r}")
        return ", ".join(one.name for one in channels) or "no channel"


async def unknown(candidate: Candidate) -> str:
    """An unknown channel is not opened; a channel that is not open sends and closes nothing."""
    async with candidate.started(for_channels=True) as plugin:
        await plugin.channels()
        opening = ChannelOpenParams(channel_id=ID, channel=STRANGE)
        for method, params in (
            ("channel/open", opening),
            ("channel/send", _message(STRANGE)),
            ("channel/close", ChannelCloseParams(channel_id=STRANGE)),
        ):
            refused = await _refusal(plugin, method, params)
            if not isinstance(refused, NotFoundError):
                got = "a result" if refused is None else to_fault(refused).code
                raise ViolationError(f"{method} of a channel that is not there: {got}, not not_found")
        return "3 requests refused"


async def opened(candidate: Candidate) -> str:
    """An opened channel says how its connection stands, is opened once, and is silent once it is closed."""
    said = []
    async with candidate.started(for_channels=True) as plugin:
        for channel in await plugin.channels():
            await _open(plugin, channel)
            again = await _refusal(plugin, "channel/open", _opening(channel))
            if not isinstance(again, ConflictError):
                got = "a result" if again is None else to_fault(again).code
                raise ViolationError(f"channel/open of {channel.name}, which is open: {got}, not conflict")
            await plugin.awaited(f"ingest/health of {channel.name}", _health(plugin))
            await _settled(plugin)
            _check_mistake(f"{channel.name} cannot be opened", _reason(plugin))
            await _close(plugin, channel)
            ingest = plugin.session.ingest
            note, count = ingest.health_of(ID), len(ingest.health)
            await plugin.ping()
            if len(ingest.health) != count:
                raise ViolationError(f"{channel.name} spoke after its channel/close was answered")
            state = "" if note is None else note.health + (f" ({note.reason})" if note.reason else "")
            said.append(f"{channel.name}: {state}")
            await _open(plugin, channel)  # what was closed can be opened again
            await _close(plugin, channel)
            ingest.health.clear()
        return ", ".join(said)


async def sending(candidate: Candidate) -> str:
    """A message is answered: sent, in doubt, or refused with an error that says whether to try again."""
    said = []
    async with candidate.started(for_channels=True) as plugin:
        for channel in await plugin.channels():
            await _open(plugin, channel)
            await _settled(plugin)
            answer = await plugin.awaited(f"an answer to channel/send of {channel.name}", _sent(plugin))
            _check_mistake(f"{channel.name} cannot send", answer.removeprefix("in doubt: "))
            said.append(f"{channel.name}: {answer}")
            await _close(plugin, channel)
            plugin.session.ingest.health.clear()
        return ", ".join(said)


async def shutdown_closes(candidate: Candidate) -> str:
    """`shutdown` closes what is open; then the process exits with status 0."""
    async with candidate.started(for_channels=True) as plugin:
        channels = await plugin.channels()
        for channel in channels[:1]:
            await _open(plugin, channel)
        stopping = plugin.session.request("shutdown", NoParams())
        await plugin.awaited("an answer to shutdown", stopping)
        if (status := await plugin.exit_status()) != 0:
            raise ViolationError(f"the process ended with status {status} after shutdown, not 0")
        return "with an open channel"


def _opening(channel: ChannelManifest) -> ChannelOpenParams:
    # a platform of that address and key does not exist: the channel fails or keeps trying
    placeholders = {
        item.name: _placeholder(item.kind) for item in channel.config_schema if item.required
    } | defaults_of(channel.config_schema)
    return ChannelOpenParams(channel_id=ID, channel=channel.name, config=placeholders)


def _placeholder(kind: str) -> Any:
    return {"integer": 1, "float": 1.0, "boolean": False, "json": {}, "multiselect": []}.get(
        kind, "conformance.invalid"
    )


def _message(channel_id: str) -> ChannelSendParams:
    return ChannelSendParams(
        channel_id=channel_id,
        key="conformance",
        target=ChannelTarget(chat_id="conformance"),
        message=ChannelMessage(text="Conformance suite: *hello*, 漢字."),
    )


async def _open(plugin: PluginUnderTest, channel: ChannelManifest) -> None:
    request = plugin.session.request("channel/open", _opening(channel))
    await plugin.awaited(f"an answer to channel/open of {channel.name}", request)


async def _close(plugin: PluginUnderTest, channel: ChannelManifest) -> None:
    request = plugin.session.request("channel/close", ChannelCloseParams(channel_id=ID))
    await plugin.awaited(f"an answer to channel/close of {channel.name}", request)


async def _health(plugin: PluginUnderTest) -> None:
    await plugin.session.until(lambda: plugin.session.ingest.health_of(ID) is not None)


async def _settled(plugin: PluginUnderTest) -> None:
    """Wait, within a bound, until the channel is connected or has failed."""
    ingest = plugin.session.ingest

    def settled() -> bool:
        note = ingest.health_of(ID)
        return note is not None and note.health != "connecting"

    async def waited() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await plugin.session.until(settled)

    await plugin.awaited("ingest/health", waited(), 2 * SETTLE_SECONDS)


def _reason(plugin: PluginUnderTest) -> str:
    note = plugin.session.ingest.health_of(ID)
    return "" if note is None or note.health != "failed" else note.reason


def _check_mistake(what: str, reason: str) -> None:
    """Raise ViolationError if a channel failed by an error of its own code."""
    if reason.partition(":")[0] in MISTAKES:
        raise ViolationError(f"{what}: {reason}; that is a mistake of the plugin, not a missing platform")


async def _sent(plugin: PluginUnderTest) -> str:
    try:
        sent: ChannelSent = await plugin.session.request("channel/send", _message(ID))
    except HostlerError as error:
        if plugin.session.lost_because is not None:
            raise
        fault = to_fault(error)
        return f"{fault.code}, {'to be tried again' if fault.retryable else 'final'}"
    if sent.in_doubt:
        return f"in doubt: {sent.reason}" if sent.reason else "in doubt"
    return "sent"


async def _refusal(plugin: PluginUnderTest, method: str, params: Any) -> HostlerError | None:
    async def asked() -> HostlerError | None:
        try:
            await plugin.session.request(method, params)
        except HostlerError as error:
            return error
        return None

    refused = await plugin.awaited(f"an answer to {method}", asked())
    if plugin.session.lost_because is not None:
        raise ViolationError(f"{method}: {plugin.session.lost_because}")
    return refused
