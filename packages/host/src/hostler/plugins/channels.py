"""The channels that are open on one connection to a plugin: requests of the host, and events of the plugin.

The plugin names a channel by the id under which this connection has opened it; any other is unknown here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from hostler.plugins.limits import ConnectionLimits
from hostler.plugins.pending_requests import PendingRequests
from hostler.tools.errors import OutcomeUnknownError
from hostler_protocol.channels import (
    ChannelCloseParams,
    ChannelOpenParams,
    IngestHealthNote,
)
from hostler_protocol.errors import (
    CancelledCallError,
    ConflictError,
    HostlerError,
    NotFoundError,
    PluginCrashedError,
    PluginError,
    UnavailableError,
)
from hostler_protocol.frames import MessageId
from hostler_protocol.incoming import Called

_log = logging.getLogger(__name__)


class ChannelHandler(Protocol):
    """Receives what a plugin says of one channel. All methods are called on the loop, and return at once."""

    def on_request(self, call_id: MessageId, method: str, params: Any) -> None:
        """A request, `method` without `ingest/`; answer it with `reply` or `refuse`."""

    def on_health(self, note: IngestHealthNote) -> None:
        """The plugin reports how the connection to the platform stands."""

    def on_lost(self, error: HostlerError) -> None:
        """The channel is open on this connection no longer."""


class PluginChannels:
    """The open channels of one connection. `refuse` refuses a request of the plugin."""

    def __init__(
        self,
        requests: PendingRequests,
        is_ready: Callable[[], bool],
        refuse: Callable[[MessageId, HostlerError], None],
        limits: ConnectionLimits,
    ) -> None:
        self._requests = requests
        self._is_ready = is_ready
        self._refuse = refuse
        self._limits = limits
        self._open: dict[str, ChannelHandler] = {}

    @property
    def open_ids(self) -> frozenset[str]:
        """The channels that are open."""
        return frozenset(self._open)

    async def open(self, params: ChannelOpenParams, handler: ChannelHandler) -> None:
        """Open a channel; `handler` receives its events, possibly before this returns.

        Raises what the plugin refuses it with, or PluginError if it is gone or does not answer.
        """
        if params.channel_id in self._open:
            raise ConflictError(f"channel {params.channel_id!r} is open on this connection already")
        self._open[params.channel_id] = handler
        try:
            await self._answered("channel/open", params, self._limits.answer_seconds)
        except BaseException as error:
            self._open.pop(params.channel_id, None)
            is_refusal = isinstance(error, HostlerError) and not isinstance(error, PluginError)
            if not is_refusal and self._is_ready():  # it may still come up, and must not stay
                close = ChannelCloseParams(channel_id=params.channel_id)
                self._requests.ask_in_passing("channel/close", close, lambda: None)
            raise

    async def close(self, channel_id: str) -> None:
        """Close a channel. Its handler hears nothing any more; a plugin that does not answer is replaced.

        Raises PluginError if the plugin does not answer, or is gone.
        """
        if self._open.pop(channel_id, None) is None:
            return
        await self._answered(
            "channel/close", ChannelCloseParams(channel_id=channel_id), self._limits.answer_seconds
        )

    async def close_all(self, why: str) -> None:
        """Close all channels before the process ends, then tell their handlers."""
        while self._open:
            channel_id, handler = next(iter(self._open.items()))
            try:
                await self.close(channel_id)
            except HostlerError as error:
                _log.info("channel %s was not closed in order: %s", channel_id, error.message)
            handler.on_lost(UnavailableError(why))

    async def ask(self, method: str, params: Any, seconds: float) -> Any:
        """Make a request that has an effect on the platform, and return its answer.

        Raises the plugin's refusal: nothing was done. OutcomeUnknownError: it may have been done.
        UnavailableError: nothing was sent.
        """
        if not self._is_ready():
            raise UnavailableError("the plugin is ending; nothing was sent")
        id_, answer = self._requests.begin(method, params)
        try:
            await asyncio.wait([answer], timeout=seconds)
        finally:
            self._requests.give_up(id_)
        if not answer.done() or answer.cancelled():
            raise OutcomeUnknownError(f"the plugin did not answer {method} within {seconds:g} s")
        error = answer.exception()
        if error is None:
            return answer.result()
        if isinstance(error, PluginError | CancelledCallError):
            raise OutcomeUnknownError(f"the answer to {method} was lost: {error.message}") from error
        raise error

    async def _answered(self, method: str, params: Any, seconds: float) -> None:
        if not self._is_ready():
            raise UnavailableError("the plugin is ending; try again")
        try:
            async with asyncio.timeout(seconds):
                await self._requests.ask(method, params)
        except TimeoutError:
            raise PluginCrashedError(f"the plugin did not answer {method} within {seconds:g} s") from None

    # -- incoming ---------------------------------------------------------------------------------

    def called(self, item: Called) -> None:
        """Deliver a request to the channel that it names."""
        handler = self._open.get(item.params.channel_id)
        if handler is None:
            text = f"channel {item.params.channel_id!r:.100} is not open on this connection"
            self._refuse(item.id, NotFoundError(text))
            return
        handler.on_request(item.id, item.method.removeprefix("ingest/"), item.params)

    def noted(self, params: Any) -> None:
        """Deliver a notification to the channel that it names; of an unknown one it is dropped."""
        if (
            isinstance(params, IngestHealthNote)
            and (handler := self._open.get(params.channel_id)) is not None
        ):
            handler.on_health(params)

    def lost(self, error: PluginError) -> None:
        """Tell all channels that the process is gone."""
        opened, self._open = self._open, {}
        for handler in opened.values():
            handler.on_lost(error)
