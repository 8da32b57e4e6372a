"""Watch over one connection: pings, a peer that does not read, and messages that break the rules."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from hostler.plugins.limits import ConnectionLimits
from hostler.plugins.liveness import Liveness
from hostler.plugins.read_pause import ReadPause
from hostler.plugins.send_queue import SendQueue
from hostler_protocol.errors import PluginCrashedError, PluginError, PluginProtocolError

BAD_MESSAGES_SECONDS = 60.0
"""Time in which messages that break the rules are counted."""

_log = logging.getLogger(__name__)


class ConnectionMonitor:
    """Calls `fail` with the reason if a process neither answers nor reads, or breaks the rules too often.

    `ping` sends a ping, and calls its argument once that is answered; it returns False if none can be sent.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        out: SendQueue,
        reading: ReadPause,
        ping: Callable[[Callable[[], None]], bool],
        fail: Callable[[PluginError], None],
    ) -> None:
        self._limits = limits
        self._liveness = Liveness(limits)
        self._out = out
        self._reading = reading
        self._ping = ping
        self._fail = fail
        self._bad_messages = 0
        self._task: asyncio.Task[None] | None = None
        self.heard = self._liveness.heard

    def start(self) -> None:
        """Start to watch."""
        self._task = asyncio.get_running_loop().create_task(self._watch())
        self._task.add_done_callback(self._watched)

    def stop(self) -> None:
        """Stop to watch: the connection is closed."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def _watched(self, task: asyncio.Task[None]) -> None:
        """Fail the connection if it is no longer watched because of an unexpected error."""
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a connection could not be watched", exc_info=error)
            self._fail(PluginCrashedError("the host failed to watch its connection; the log says more"))

    def bad_message(self, reason: str) -> bool:
        """Count a message that broke the rules. Return False if it was one too many."""
        self._bad_messages += 1
        if self._bad_messages <= self._limits.bad_messages_per_minute:
            return True
        text = f"{self._bad_messages} messages within a minute broke the rules, the last: {reason}"
        self._fail(PluginProtocolError(text))
        return False

    async def _watch(self) -> None:
        seconds = 0.0
        while True:
            await asyncio.sleep(self._liveness.tick_seconds)
            seconds += self._liveness.tick_seconds
            if seconds >= BAD_MESSAGES_SECONDS:
                seconds, self._bad_messages = 0.0, 0
            wrong = self._liveness.tick(
                reading=not self._reading.is_paused,
                sent=self._out.sent_bytes,
                unsent=self._out.transport_bytes,
            )
            if wrong is not None:
                self._fail(PluginCrashedError(wrong))
                return
            if self._liveness.ping_is_due and self._ping(self._liveness.answered):
                self._liveness.pinged()
