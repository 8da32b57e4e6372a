"""A shipped channel in one real process for many tests: each opens it anew, and plays the host."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hostler_protocol.channels import (
    ChannelActed,
    ChannelActParams,
    ChannelCloseParams,
    ChannelEditParams,
    ChannelEvent,
    ChannelFindParams,
    ChannelFound,
    ChannelMessage,
    ChannelOpenParams,
    ChannelRequestParams,
    ChannelResponse,
    ChannelSendParams,
    ChannelSent,
    ChannelTarget,
    IngestHealthNote,
)
from hostler_protocol.errors import HostlerError
from hostler_sdk.conformance.process import PluginUnderTest
from hostler_sdk.scripted.ingest import ScriptedIngest
from support.child_plugins import folder_plugin
from support.ready_candidates import forked_plugin

TEST_SECONDS = 200.0
"""Bound of one test; it only has to end what hangs."""


@dataclass(slots=True)
class OpenChannel:
    """A channel that is open in a plugin's process."""

    plugin: PluginUnderTest
    channel_id: str
    ingest: ScriptedIngest

    @property
    def health(self) -> IngestHealthNote | None:
        """What it said last about its connection."""
        return self.ingest.health_of(self.channel_id)

    @property
    def state(self) -> Any:
        """What it kept last."""
        return self.ingest.states.get(self.channel_id)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something is so, as far as the plugin's messages tell."""
        await self.plugin.session.until(reached)

    async def until_health(self, health: str) -> IngestHealthNote:
        """Wait until it says so of its connection."""
        await self.until(lambda: self.health is not None and self.health.health == health)
        assert self.health is not None
        return self.health

    async def events(self, count: int) -> list[ChannelEvent]:
        """Wait for so many events, and return them."""
        await self.until(lambda: len(self.ingest.events) >= count)
        assert len(self.ingest.events) == count, self.ingest.events
        return self.ingest.events

    async def event(self) -> ChannelEvent:
        """Wait for one event; it is taken away."""
        (event,) = await self.events(1)
        self.ingest.events.clear()
        return event

    async def send(
        self,
        text: str = "",
        chat: Any = "7",
        *,
        key: str = "k",
        attempt: int = 1,
        at: Any = None,
        **message: Any,
    ) -> ChannelSent:
        """Send a message. `at`: the rest of the target."""
        target = ChannelTarget(chat_id=str(chat), **(at or {}))
        sent: ChannelSent = await self.plugin.session.request(
            "channel/send",
            ChannelSendParams(
                channel_id=self.channel_id,
                key=key,
                target=target,
                message=ChannelMessage(text=text, **message),
                attempt=attempt,
            ),
        )
        return sent

    async def edit(
        self, message_id: str | None, text: str, chat: Any = "7", *, last: bool = True, **message: Any
    ) -> None:
        """Replace a message. `last`: no further edit is expected."""
        assert message_id is not None
        params = ChannelEditParams(
            channel_id=self.channel_id,
            target=ChannelTarget(chat_id=str(chat)),
            message_id=message_id,
            message=ChannelMessage(text=text, **message),
            last=last,
        )
        await self.plugin.session.request("channel/edit", params)

    async def find(
        self,
        text: str = "",
        chat: Any = "7",
        *,
        key: str = "k",
        since: float | None = None,
        at: Any = None,
        **message: Any,
    ) -> ChannelFound:
        """Ask whether a message was sent. `since`: without it, from now on. `at`: the rest of the target."""
        params = ChannelFindParams(
            channel_id=self.channel_id,
            key=key,
            target=ChannelTarget(chat_id=str(chat), **(at or {})),
            message=ChannelMessage(text=text, **message),
            since=time.time() if since is None else since,
        )
        found: ChannelFound = await self.plugin.session.request("channel/find", params)
        return found

    async def act(self, action: str, target: dict[str, Any], **payload: Any) -> ChannelActed:
        """Carry out an action."""
        acted: ChannelActed = await self.plugin.session.request(
            "channel/act",
            ChannelActParams(
                channel_id=self.channel_id, action=action, key="k", target=target, payload=payload
            ),
        )
        return acted

    async def request(self, **request: Any) -> ChannelResponse:
        """Pass on an HTTP request of the platform."""
        params = ChannelRequestParams(channel_id=self.channel_id, **request)
        response: ChannelResponse = await self.plugin.session.request("channel/request", params)
        return response

    async def kill(self) -> Any:
        """Kill the plugin; return what it kept."""
        self.plugin.signal(signal.SIGKILL)
        await self.plugin.exit_status()
        return self.state

    async def close(self) -> None:
        """Close it."""
        await self.plugin.session.request("channel/close", ChannelCloseParams(channel_id=self.channel_id))


async def refusal(work: Awaitable[Any]) -> HostlerError:
    """Return the error that a request is answered with."""
    with pytest.raises(HostlerError) as caught:
        await work
    return caught.value


@asynccontextmanager
async def opened_in(
    plugin: PluginUnderTest, channel: str, config: dict[str, Any], *, state: Any = None, channel_id: str = "c"
) -> AsyncIterator[OpenChannel]:
    """Open a channel in a process; it keeps what it delivers apart from others before it."""
    ingest = plugin.session.ingest = ScriptedIngest()
    opened = OpenChannel(plugin, channel_id, ingest)
    params = ChannelOpenParams(channel_id=channel_id, channel=channel, config=config, state=state)
    await plugin.session.request("channel/open", params)
    yield opened


@dataclass(slots=True)
class ChannelDesk:
    """The process of a plugin folder. The first test that needs it starts it; it serves one by one."""

    folder: Path
    channel: str
    _runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    _started: Any = None
    _plugin: PluginUnderTest | None = None
    _number: int = 0

    def run(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run an async test, within a bound."""

        async def bounded() -> None:
            async with asyncio.timeout(TEST_SECONDS):
                await body()

        self._runner.run(bounded())

    @asynccontextmanager
    async def opened(self, config: dict[str, Any], *, state: Any = None) -> AsyncIterator[OpenChannel]:
        """Open the channel; at the end it is closed, and has written nothing but messages."""
        plugin = await self._process()
        self._number += 1
        opening = opened_in(plugin, self.channel, config, state=state, channel_id=f"c{self._number}")
        async with opening as channel:
            yield channel
            await channel.close()
            assert plugin.junk is None

    @asynccontextmanager
    async def alone(
        self, config: dict[str, Any], *, state: Any = None, **environment: str
    ) -> AsyncIterator[OpenChannel]:
        """Open the channel in a process of its own, which may be killed.

        With an environment it is a new interpreter, as Python reads some of it when it starts.
        """
        made = folder_plugin(self.folder, **environment) if environment else forked_plugin(self.folder)
        async with (
            made.started() as plugin,
            opened_in(plugin, self.channel, config, state=state) as channel,
        ):
            yield channel

    async def _process(self) -> PluginUnderTest:
        if self._plugin is None:
            self._started = forked_plugin(self.folder).started()
            self._plugin = await self._started.__aenter__()
        return self._plugin

    def close(self) -> None:
        """End the process."""
        if self._started is not None:
            self._runner.run(self._started.__aexit__(None, None, None))
        self._runner.close()
