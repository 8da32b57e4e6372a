"""The runs of one connection: their handlers, uncommitted bytes, and whether more may come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hostler.plugins.handler import RunHandler
from hostler_protocol.errors import PluginError
from hostler_protocol.frames import MessageId
from hostler_protocol.incoming import Called, CalledAhead, ResultArrived


@dataclass(slots=True)
class ConnectionRun:
    """A run that the host has not ended yet."""

    handler: RunHandler
    live: bool = True
    """The plugin may still send messages of it."""
    said_end: bool = False
    """The plugin has finished with it."""
    starting: bool = True
    """`run/start` is not answered yet: a loss is raised by `start_run`, not reported to the handler."""
    held_bytes: int = 0
    warnings: int = 0

    def started(self) -> None:
        """Note that `run/start` was answered: from now on the handler learns of a loss."""
        self.starting = False


class ConnectionRuns:
    """Calls the handlers. An exception in the handler of one run goes to `failed` and affects no other
    run."""

    def __init__(self, max_warnings: int, failed: Callable[[str, ConnectionRun], None]) -> None:
        self._max_warnings = max_warnings
        self._failed = failed
        self._runs: dict[str, ConnectionRun] = {}
        self.held_bytes = 0
        """Bytes of results that were read and not given back."""

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._runs

    @property
    def live(self) -> frozenset[str]:
        """The runs the plugin works on."""
        return frozenset(run_id for run_id, run in self._runs.items() if run.live)

    def add(self, run_id: str, handler: RunHandler) -> ConnectionRun:
        """Add a run that is about to start."""
        run = self._runs[run_id] = ConnectionRun(handler)
        return run

    def forget(self, run_id: str) -> ConnectionRun | None:
        """Remove a run that the host has ended, and its bytes. Return it, or None if it is unknown."""
        run = self._runs.pop(run_id, None)
        if run is not None:
            self.held_bytes -= run.held_bytes
        return run

    def give_back(self, run_id: str, size: int) -> bool:
        """Deduct committed bytes. Return whether the plugin may send more results of this run."""
        run = self._runs.get(run_id)
        if run is None:
            return False  # its bytes were deducted when it was removed
        size = min(size, run.held_bytes)
        run.held_bytes -= size
        self.held_bytes -= size
        return run.live

    # -- events -----------------------------------------------------------------------------------

    def results(self, arrived: Sequence[ResultArrived]) -> None:
        """Deliver results of one run that arrived together."""
        run_id = arrived[0].result.run_id
        run = self._runs.get(run_id)
        if run is not None:
            size = sum([item.size for item in arrived])
            run.held_bytes += size
            self.held_bytes += size
            self._tell(run_id, run, run.handler.on_results, arrived)

    def call(self, called: Called) -> None:
        """Deliver a call to work on."""
        run_id = called.params.run_id
        run = self._runs.get(run_id)
        if run is not None:
            method = called.method.removeprefix("host/")
            self._tell(run_id, run, run.handler.on_call, called.id, method, called.params)

    def call_ahead(self, called: CalledAhead) -> None:
        """Deliver a call that took the answer sent ahead of it."""
        run = self._runs.get(called.run_id)
        if run is not None:
            self._tell(called.run_id, run, run.handler.on_call_ahead, called.method, called.params)

    def call_cancelled(self, run_id: str, call_id: MessageId) -> None:
        """Report that the runner no longer waits for a delivered call."""
        run = self._runs.get(run_id)
        if run is not None:
            self._tell(run_id, run, run.handler.on_call_cancelled, call_id)

    def ended(self, run_id: str) -> None:
        """Report that the runner has finished."""
        run = self._runs.get(run_id)
        if run is not None and run.live:
            run.live, run.said_end = False, True
            self._tell(run_id, run, run.handler.on_end)

    def broken(self, run_id: str, code: str, reason: str) -> None:
        """Report that the run broke the protocol."""
        run = self._runs.get(run_id)
        if run is not None and run.live:
            run.live = False
            self._tell(run_id, run, run.handler.on_broken, code, reason)

    def warned(self, run_id: str, reason: str) -> None:
        """Report that a message of a run was dropped, up to a maximum number of warnings."""
        run = self._runs.get(run_id)
        if run is None:
            return
        run.warnings += 1
        if run.warnings < self._max_warnings:
            self._tell(run_id, run, run.handler.on_warning, reason)
        elif run.warnings == self._max_warnings:
            self._tell(run_id, run, run.handler.on_warning, "more warnings follow; they are not kept")

    def lost(self, error: PluginError) -> None:
        """Report to all live runs that the process is gone."""
        runs, self._runs = self._runs, {}
        self.held_bytes = 0
        for run_id, run in runs.items():
            if run.live and not run.starting:
                self._tell(run_id, run, run.handler.on_lost, error)

    def _tell(self, run_id: str, run: ConnectionRun, tell: Callable[..., None], *what: Any) -> None:
        try:
            tell(*what)
        except Exception:  # noqa: BLE001 - recorded with its traceback by `failed`
            self._failed(run_id, run)
