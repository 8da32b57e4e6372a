"""What the host's core implements for each run that a plugin executes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from hostler_protocol.errors import PluginError, RunFailure
from hostler_protocol.frames import MessageId
from hostler_protocol.incoming import ResultArrived


class RunHandler(Protocol):
    """Told what a run's plugin does. All methods are called on the loop, in order, and return at once.

    Exactly one of `on_end`, `on_broken` and `on_lost` comes last, unless the core ends the run first
    (`end_run`, `park_run`): then none comes. Calls can be told from the moment `start_run` is called.
    """

    def on_results(self, arrived: Sequence[ResultArrived]) -> None:
        """Results that came together, with the runner's own sequences; their payloads are undecoded.

        Return their number and sizes by `credit`.
        """

    def on_end(self) -> None:
        """The runner finished."""

    def on_broken(self, code: RunFailure, reason: str) -> None:
        """The run broke the rules and was fenced; `code` is what it ends with."""

    def on_warning(self, reason: str) -> None:
        """Something of this run was dropped."""

    def on_call(self, call_id: MessageId, method: str, params: Any) -> None:
        """A Host API call, `method` without `host/`; answer by `reply` or `refuse`."""

    def on_call_cancelled(self, call_id: MessageId) -> None:
        """The runner no longer waits for this call."""

    def on_lost(self, error: PluginError) -> None:
        """The plugin process is gone; the run ends with the error's `status_code`."""
