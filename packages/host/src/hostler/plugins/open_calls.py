"""The Host API calls of one connection that wait for an answer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from hostler_protocol.calls import CALLS
from hostler_protocol.frames import MessageId
from hostler_protocol.incoming import Called

_HEAVY = frozenset(f"host/{call.method}" for call in CALLS.values() if call.heavy)


class OpenCalls:
    """Open calls by run, and a queue of heavy ones in order."""

    def __init__(self, heavy_calls: int) -> None:
        self._heavy_calls = heavy_calls
        self._runs: dict[MessageId, str] = {}
        self._of_run: dict[str, set[MessageId]] = {}
        self._heavy: set[MessageId] = set()
        self._waiting: OrderedDict[MessageId, Called] = OrderedDict()

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, called: Called) -> bool:
        """Add a call. Return True to work on it now; otherwise `admitted` yields it in its turn."""
        run_id = called.params.run_id
        self._runs[called.id] = run_id
        self._of_run.setdefault(run_id, set()).add(called.id)
        if called.method not in _HEAVY:
            return True
        self._waiting[called.id] = called
        return False

    def admitted(self) -> Iterator[Called]:
        """Yield the heavy calls whose turn has come, each once, in order."""
        while self._waiting and len(self._heavy) < self._heavy_calls:
            id_, called = self._waiting.popitem(last=False)
            self._heavy.add(id_)
            yield called

    def close(self, id_: MessageId) -> tuple[str, bool] | None:
        """Remove a call; return its run and whether it was admitted, or None if it is not open."""
        run_id = self._runs.pop(id_, None)
        if run_id is None:
            return None
        ids = self._of_run[run_id]
        ids.discard(id_)
        if not ids:
            del self._of_run[run_id]
        self._heavy.discard(id_)
        return run_id, self._waiting.pop(id_, None) is None

    def of_run(self, run_id: str) -> list[MessageId]:
        """Return the open calls of a run."""
        return list(self._of_run.get(run_id, ()))

    def clear(self) -> None:
        """Remove all calls."""
        self._runs.clear()
        self._of_run.clear()
        self._heavy.clear()
        self._waiting.clear()
