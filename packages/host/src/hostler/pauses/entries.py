"""Journal entries by which a run's results show its pauses: `interaction.requested` and `run.paused`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostler.domain.pause_values import NewCall, Pause, PausedCall
from hostler.pauses.requests import pending_of, request_of
from hostler.storage.port import Tx
from hostler.storage.stores import journal, pause_calls
from hostler.storage.stores.journal import NewEntry
from hostler_protocol._base import Lenient
from hostler_protocol.results import TYPE_OF, InteractionRequested, ResultData, RunPaused

_encoder = msgspec.json.Encoder()


class _Shown(Lenient):
    data: InteractionRequested


_shown = msgspec.json.Decoder(_Shown)


def requested(call: PausedCall) -> NewEntry:
    """Build the result that shows a call which is put to people."""
    return _result(request_of(call))


def paused(calls: Sequence[NewCall | PausedCall], expires_in: float | None = None) -> NewEntry:
    """Build the result that ends an attempt whose run waits for these calls; it holds no runner's state."""
    return _result(RunPaused(pending=[pending_of(call) for call in calls], expires_in=expires_in))


def after_loss(tx: Tx, pause: Pause) -> list[NewEntry]:
    """Build what a lost attempt did not come to say: calls that were not shown, and that the run waits."""
    waiting = [call for call in pause_calls.of_pause(tx, pause) if not call.settled]
    shown = _last_shown(tx, pause.run_id)
    missing = [call for call in waiting if _is_news(request_of(call), shown.get(call.call_id))]
    return [*map(requested, missing), paused(waiting)]


def _last_shown(tx: Tx, run_id: str) -> dict[str, InteractionRequested]:
    """Return the last request shown for each call, by call id."""
    shown: dict[str, InteractionRequested] = {}
    after, more = 0, True
    while more:
        page = journal.of_type(tx, run_id, TYPE_OF[InteractionRequested], after_position=after)
        for entry in page.items:
            call = _shown.decode(entry.data).data
            shown[call.call_id] = call
            after = entry.position
        more = page.more
    return shown


def _is_news(now: InteractionRequested, before: InteractionRequested | None) -> bool:
    """Whether people are asked something else by now: asked again it expires at another time."""
    return before is None or (before.kind, before.expires_at) != (now.kind, now.expires_at)


def _result(data: ResultData) -> NewEntry:
    return NewEntry("result", TYPE_OF[type(data)], _encoder.encode({"data": data}))
