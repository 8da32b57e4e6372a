"""Refused requests of hooks and channels, in the audit log: the first of a kind at once, the rest counted by
the minute.

Anyone can send wrong requests, as many as they like: so what they can write is bounded by the number of hooks
and channels, and of reasons.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hostler.domain.clock import monotonic_clock
from hostler.domain.record import Record
from hostler.storage.port import Database, Tx
from hostler.storage.stores import audit
from hostler_protocol.errors import StorageError

log = logging.getLogger(__name__)

WINDOW_SECONDS = 60.0
"""Refusals of one hook or channel for one reason within this time are one fact after the first."""


class Refused(Record):
    """A kind of refusal. `action`: `hook.refused`, `hook.conflict` for an id with another body, or
    `channel.refused`. `name`: of the hook or channel.
    """

    workspace_id: str
    name: str
    action: str
    reason: str

    @property
    def source(self) -> str:
        """The hook or channel, as subjects name it."""
        return f"{self.action.partition('.')[0]}:{self.name}"


@dataclass(slots=True)
class _Window:
    began_at: float
    count: int = 0
    """Refusals that wait to be written."""
    address: str = ""
    """Of the last one."""


class RequestRefusals:
    """Writes refusals into the audit log; call `flush` from time to time, and at the end."""

    def __init__(self, db: Database, clock: Callable[[], float] = monotonic_clock) -> None:
        self._db = db
        self._clock = clock
        self._windows: dict[Refused, _Window] = {}

    async def note(self, refused: Refused, address: str) -> None:
        """Note a refusal. The first of a window is in the audit log afterwards, unless the database does not
        answer: then it is counted, and `flush` writes it.
        """
        window = self._windows.get(refused)
        if window is None:
            window = self._windows[refused] = _Window(self._clock())
            try:
                await self._db.write(lambda tx: _record(tx, refused, 1, address))
            except StorageError as error:
                log.warning("a refusal of %s is audited later: %s", refused.source, error.message)
            else:
                return
        window.count += 1
        window.address = address

    async def flush(self, *, all_of_them: bool = False) -> None:
        """Write what was counted in windows that are over. What cannot be written is counted on."""
        now = self._clock()
        over = {
            refused: window
            for refused, window in self._windows.items()
            if all_of_them or now - window.began_at >= WINDOW_SECONDS
        }
        counted = [(one, window.count, window.address) for one, window in over.items() if window.count]
        if counted:
            await self._db.write(lambda tx: _record_all(tx, counted))
        for refused, window in over.items():
            left = window.count - next((count for one, count, _ in counted if one == refused), 0)
            if left:
                self._windows[refused] = _Window(now, left, window.address)
            else:
                del self._windows[refused]


def _record_all(tx: Tx, counted: Sequence[tuple[Refused, int, str]]) -> None:
    for one in counted:
        _record(tx, *one)


def _record(tx: Tx, refused: Refused, count: int, address: str) -> None:
    body = {"reason": refused.reason, "count": count, "address": address}
    audit.record(
        tx,
        refused.workspace_id,
        actor=refused.source,
        action=refused.action,
        target=refused.name,
        body=body,
    )
