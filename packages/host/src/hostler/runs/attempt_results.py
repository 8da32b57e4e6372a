"""Write an attempt's results, warnings and ending to the journal, and return credit to the plugin.

Nothing is shown to anyone before its commit; the plugin gets credit for a result after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from hostler.calls.gate import GatedRun
from hostler.calls.scope import CallScope
from hostler.domain.outcomes import Ending, Paused, ResultWarning, Step, Stored, StoredDeltas
from hostler.domain.recording import RESUMED, Resumed
from hostler.journal.feed import StoredResult
from hostler.journal.run_log import Item
from hostler.plugins.connection import PluginConnection
from hostler.runs.attempt_end import AttemptEnd, result_item, without_secrets
from hostler.runs.growing_replies import GrowingReply
from hostler.runs.projections import Projector
from hostler.runs.run_meter import RunMeter
from hostler.secrets.known_values import redact
from hostler.storage.stores.journal import Deltas, NewEntry
from hostler_protocol.errors import HostlerError
from hostler_protocol.incoming import ResultArrived

WIDER_CREDIT = 960
"""Added to the first credit once a run has stored results, so that a stream of deltas fills one commit while
the one before it is on its way. The bytes in flight are bounded for the whole connection."""

_encoder = msgspec.json.Encoder()


@dataclass(slots=True, eq=False)
class AttemptResults:
    """Stores the steps of an attempt's result stream."""

    end: AttemptEnd
    connection: PluginConnection
    gated: GatedRun
    meter: RunMeter
    scope: CallScope
    projector: Projector
    growing: GrowingReply | None = None
    had_effects: bool = False
    """Whether a result had an effect outside of the journal, which a restart would repeat."""
    _credit: int = 0
    _credit_bytes: int = 0
    _wider: int = WIDER_CREDIT

    def write(self, steps: list[Step], credited: Stored | None = None, size: int = 0) -> Paused | None:
        """Write steps in order. `credited` is the one that was received, of `size` bytes.

        An ending closes the gate. Return the pause that the runner asks for, if any: it is not stored yet.
        """
        for step in steps:
            if isinstance(step, ResultWarning):
                data = _encoder.encode({"reason": redact(step.reason), "result_type": step.result_type})
                self._add(Item(entry=NewEntry("warning", "dropped", data), synced=False, size=len(data)))
            elif isinstance(step.outcome, Paused):
                return step.outcome
            else:
                self._store(step, size, credited=step is credited)
        return None

    def write_deltas(self, deltas: StoredDeltas, size: int) -> None:
        """Write deltas that were received together, of `size` bytes in all."""
        published = StoredResult.deltas(self.end.run.run_id, deltas.first, deltas.payloads)
        done = partial(self._committed, len(published), size)
        entry = Deltas(deltas.bodies())
        self._add(Item(entry=entry, published=published, synced=False, size=size, done=done))

    def see(self, arrived: Sequence[ResultArrived]) -> None:
        """Look at results before they are taken: an answer may be shown as it grows."""
        if self.growing is not None:
            self.growing.see(arrived)

    def close(self) -> None:
        """Show no more of an answer."""
        if self.growing is not None:
            self.growing.close()

    def went_live(self, frontier: int) -> None:
        """Note that the attempt does new work from here on; `frontier`: the last sequence it repeated."""
        if self.growing is not None:
            self.growing.is_live = True
        data = _encoder.encode(Resumed(self.end.run.attempt, frontier))
        self._add(Item(entry=NewEntry("attempt", RESUMED, data), synced=False, size=len(data)))

    def take_unstored(self, results: int, size: int) -> None:
        """Return credit for results of which nothing is stored: dropped and repeated ones."""
        self._committed(results, size, None, None)

    def _add(self, item: Item) -> None:
        self.end.journal.add(item)

    def _store(self, stored: Stored, size: int, *, credited: bool) -> None:
        stored = without_secrets(stored)
        item, entry = result_item(self.end.run.run_id, stored)
        settled: Callable[[], None] | None = None
        if stored.projection is not None:
            work = self.projector.project(self.scope, stored)
            item.before, item.after, settled = work
            self.had_effects = True
        if isinstance(stored.outcome, Ending):
            self.gated.standing = "ended"
            self.end.finish(item, entry, stored.outcome, self.meter.used)
            return
        if credited:
            item.done = partial(self._committed, 1, size)
        if settled is not None:
            item.done = partial(_then, item.done, settled)
        self._add(item)

    def _committed(self, results: int, size: int, _answer: Any, error: HostlerError | None) -> None:
        if error is None:
            if self._credit == 0:
                # one credit message for all results of the commit that is being reported
                asyncio.get_running_loop().call_soon(self._send_credit)
            self._credit += results
            self._credit_bytes += size

    def _send_credit(self) -> None:
        results, size = self._credit + self._wider, self._credit_bytes
        self._credit = self._credit_bytes = self._wider = 0
        self.connection.credit(self.end.run.run_id, results, size)


def _then(
    done: Callable[[Any, HostlerError | None], None] | None,
    settled: Callable[[], None],
    answer: Any,
    error: HostlerError | None,
) -> None:
    """Report the outcome of an item, then clear up after it."""
    if done is not None:
        done(answer, error)
    settled()
