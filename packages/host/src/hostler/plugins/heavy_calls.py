"""The queue of heavy Host API calls of one connection: a few at a time, in order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from hostler_protocol.calls import CALLS
from hostler_protocol.frames import MessageId
from hostler_protocol.incoming import Called

_HEAVY = frozenset(f"host/{call.method}" for call in CALLS.values() if call.heavy)


class HeavyCalls:
    """Heavy calls that are worked on, at most `slots`, and those that wait for their turn."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._admitted: set[MessageId] = set()
        self._waiting: OrderedDict[MessageId, Called] = OrderedDict()

    def add(self, called: Called) -> bool:
        """Queue a heavy call, which `admitted` yields in its turn. Return False for any other call."""
        if called.method not in _HEAVY:
            return False
        self._waiting[called.id] = called
        return True

    def admitted(self) -> Iterator[Called]:
        """Yield the calls whose turn has come, each once, in order."""
        while self._waiting and len(self._admitted) < self._slots:
            id_, called = self._waiting.popitem(last=False)
            self._admitted.add(id_)
            yield called

    def close(self, id_: MessageId) -> bool:
        """Remove a call that is over. Return whether it was still waiting; False for calls not queued."""
        self._admitted.discard(id_)
        return self._waiting.pop(id_, None) is not None

    def clear(self) -> None:
        """Remove all calls."""
        self._admitted.clear()
        self._waiting.clear()
