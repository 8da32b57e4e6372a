"""The desk where pauses are decided: what people, clients and the clock do to them.

A request only records decisions; going on is what an attempt of the run does (docs/tour.md). A decision that
makes a pause ready puts its paused run back into the queue, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hostler.domain.events import Caller
from hostler.domain.pause_actions import ActionAnswer, ActRequest, PauseView, ResolveOutcome
from hostler.domain.pauses import PauseStatus
from hostler.endings import Asked
from hostler.ports import Database


@dataclass(frozen=True, slots=True)
class PausePage:
    """Pauses newest first; `next`: (created_at in ms, pause id) of the last one where more follow."""

    items: list[PauseView]
    next: tuple[int, str] | None


class PauseDesk:
    """Every way a pause is looked at or decided from outside its run.

    `on_changed` is told, after the commit, the id of each run whose pause changed; `on_cancelled` which
    active runs are to be stopped.
    """

    def __init__(
        self,
        db: Database,
        *,
        on_changed: Callable[[str], None] = lambda run_id: None,
        on_cancelled: Callable[[list[Asked]], None] = lambda asked: None,
    ) -> None:
        self._db = db
        self._on_changed = on_changed
        self._on_cancelled = on_cancelled

    async def get(self, caller: Caller, pause_id: str) -> PauseView:
        """The pause. NotFoundError where there is none that the caller may see."""
        raise NotImplementedError

    async def page(
        self,
        caller: Caller,
        *,
        conversation_id: str | None = None,
        run_id: str | None = None,
        status: PauseStatus | None = None,
        before: tuple[int, str] | None = None,
        limit: int = 50,
    ) -> PausePage:
        """The pauses that the caller may see, newest first."""
        raise NotImplementedError

    async def act(
        self, caller: Caller, pause_id: str, request: ActRequest, *, idempotency_key: str | None = None
    ) -> ActionAnswer:
        """Decide calls, all or none. The errors are those of domain/pause_actions, and NotFoundError."""
        raise NotImplementedError

    async def cancel(self, caller: Caller, pause_id: str, *, reason: str | None = None) -> PauseView:
        """Cancel the pause, and its run with it. SupersededError where it is over in another way."""
        raise NotImplementedError

    async def resolve(
        self,
        caller: Caller,
        pause_id: str,
        call_id: str,
        outcome: ResolveOutcome,
        result: Any = None,
        *,
        comment: str | None = None,
    ) -> PauseView:
        """Say what became of a call that is in doubt."""
        raise NotImplementedError

    async def sweep(self) -> int:
        """Expire what nobody answered in time; how many pauses changed."""
        raise NotImplementedError
