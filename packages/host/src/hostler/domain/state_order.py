"""Which state of a channel may be kept: none that came after an event that is yet to be delivered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

MAX_REFUSED = 1_000
"""Refused events that one channel has at once; beyond them it keeps no state until it is opened again."""
NOTHING: Final = object()


@dataclass(slots=True)
class StateOrder:
    """The requests of one open channel in the order in which they came.

    An event that is refused for a passing reason is delivered again later: a state that came after it, like a
    poll offset, would have the platform forget it if the host ended before that.
    """

    _count: int = 0
    _refused: dict[str, int] = field(default_factory=dict)
    """The events that are to be delivered again, and the places that they had."""
    _newest: tuple[int, Any] | None = None
    """The newest state that is not kept yet."""
    _overflown: bool = False

    def came(self) -> int:
        """Return the place of the next request."""
        self._count += 1
        return self._count

    def refused(self, event_id: str, place: int) -> None:
        """Note that an event is to be delivered again."""
        if len(self._refused) < MAX_REFUSED:
            self._refused.setdefault(event_id, place)
        elif event_id not in self._refused:
            self._overflown = True

    def settled(self, event_id: str, place: int) -> int:
        """Note that an event is delivered, or will never be; return the place that it had at first."""
        return self._refused.pop(event_id, place)

    def is_behind(self, place: int) -> bool:
        """Whether a request came after an event that is yet to be delivered."""
        return self._overflown or min(self._refused.values(), default=place) < place

    def next(self, place: int, state: Any = NOTHING) -> Any:
        """Return the state to be kept now, or NOTHING. `state`: what came at this place."""
        if state is not NOTHING and (self._newest is None or self._newest[0] < place):
            self._newest = (place, state)
        if self._newest is None or self.is_behind(self._newest[0]):
            return NOTHING
        (_, found), self._newest = self._newest, None
        return found
