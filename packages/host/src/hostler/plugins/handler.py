"""The interface through which a plugin's run reports to the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from hostler_protocol.errors import PluginError, RunFailure
from hostler_protocol.frames import MessageId
from hostler_protocol.incoming import ResultArrived


class RunHandler(Protocol):
    """Receives the events of one run. All methods are called on the loop, in order, and return at once.

    The last event is exactly one of `on_end`, `on_broken` and `on_lost`, or none of them if the host ends the
    run first (`end_run`, `park_run`). `on_call` may be called before `start_run` has returned.
    """

    def on_results(self, arrived: Sequence[ResultArrived]) -> None:
        """Results that arrived together, in the runner's sequence, with undecoded payloads.

        Give their number and sizes back with `credit`.
        """

    def on_end(self) -> None:
        """The runner finished."""

    def on_broken(self, code: RunFailure, reason: str) -> None:
        """The run broke the protocol and was fenced; it ends with `code`."""

    def on_warning(self, reason: str) -> None:
        """A message of this run was dropped."""

    def on_call(self, call_id: MessageId, method: str, params: Any) -> None:
        """A Host API call, `method` without `host/`; answer with `reply` or `refuse`."""

    def on_call_ahead(self, method: str, params: Any) -> None:
        """A Host API call that took the answer sent ahead of it. It gets no other."""

    def on_call_cancelled(self, call_id: MessageId) -> None:
        """The runner no longer waits for this call."""

    def on_lost(self, error: PluginError) -> None:
        """The plugin process is gone; the run ends with the error's `status_code`."""
