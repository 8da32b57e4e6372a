"""The budget of one attempt: what its calls may use is reserved before they are made, and settled after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeVar

from hostler.domain.budgets import NANO, NOTHING, Account, Use, merge_accounts
from hostler.domain.reservations import BudgetExhausted, Busy, Granted, Need
from hostler.journal.call_records import Reserved
from hostler.storage.port import Database, Tx
from hostler.storage.stores import budgets, run_notes
from hostler.storage.stores.budgets import Charge, NewReservation, Settlement, TimeBack, TimeCharge
from hostler_protocol.calls import CALLS
from hostler_protocol.errors import CancelledCallError, StorageError
from hostler_protocol.ids import new_id

FIRST_RETRY_SECONDS = 0.05
LAST_RETRY_SECONDS = 5.0
"""Back-off while the database takes nothing (disk full, connection lost): the call waits, nothing is lost.
What may have been counted, nobody knows, is counted again: a limit is not passed."""
MAX_WAIT_SECONDS = 300.0
"""How long a call waits for what other calls have reserved: as long as a model may be silent by default."""
LOOK_SECONDS = 0.5
"""How often it looks whether another host has given back what it waits for."""
T = TypeVar("T")


class Freed:
    """Wakes the calls of this host that wait until reservations are given back."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.waited = 0
        """How often a call had to wait."""
        self.overruns = 0
        """How many calls used more than was reserved for them."""

    def notify(self) -> None:
        """Wake all that wait now."""
        self._event.set()
        self._event = asyncio.Event()

    def begin(self) -> asyncio.Event:
        """Return what the next `notify` sets."""
        return self._event


@dataclass(slots=True, eq=False)
class Reservation:
    """What one call of a model has reserved, until it is known what it used.

    `output`: the tokens of output that it may have. `used` None: not known, so that all of it counts. Where
    no account limits tokens or cost it is of nothing: then it only counts what was used.
    """

    budget: RunBudget
    method: str
    need: Need
    output: int
    reserved: Use
    reservation_id: str
    used: Use | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether the call may use no more than was reserved."""
        return self.need.spends

    @property
    def shown(self) -> Reserved | None:
        """What was reserved, for the journal."""
        if not self.is_bounded:
            return None
        return Reserved(self.reserved.tokens, Decimal(self.reserved.cost) / NANO, self.output)

    def settle(self, tx: Tx) -> None:
        """Replace the reservation by what was used, in the transaction that journals the outcome."""
        budgets.settle(tx, Settlement(self.budget.workspace_id, self.reservation_id, self.used))

    def settled(self) -> None:
        """Note that the settlement is committed."""
        self.budget.unsettled.discard(self.reservation_id)
        self.budget.freed.notify()

    async def again(self) -> bool:
        """Reserve the same once more, for a request that is repeated although the last one may have cost.

        Return False if too little is left: then the request is not repeated.
        """
        budget, last = self.budget, Settlement(self.budget.workspace_id, self.reservation_id, None)
        need = self.need._replace(counted=NOTHING, output=self.output, least=self.output)
        taken = await budget.take(need, self.method, before=last)
        if not isinstance(taken, Reservation):
            return False
        budget.unsettled.discard(self.reservation_id)
        self.reservation_id = taken.reservation_id
        return True


@dataclass(slots=True)
class RunBudget:
    """The remaining budget of a run: its own, its agent's, those of the runs above it, and its workspace's.

    No accounts: it has no limit, and nothing is counted. `of_workspace` returns the workspace's accounts as
    the installation limits them now.
    """

    db: Database
    workspace_id: str
    run_id: str
    attempt: int
    of_run: tuple[Account, ...]
    of_workspace: Callable[[], Sequence[Account]] = tuple
    freed: Freed = field(default_factory=Freed)
    unsettled: set[str] = field(default_factory=set)
    """Reservations of this attempt that are not known to be settled."""

    @property
    def accounts(self) -> tuple[Account, ...]:
        """The accounts that the run's calls are charged to now."""
        more = self.of_workspace()
        return merge_accounts([*self.of_run, *more]) if more else self.of_run

    async def take(
        self, need: Need, method: str, *, before: Settlement | None = None
    ) -> Reservation | BudgetExhausted | None:
        """Charge one call that is about to be made; wait for what others have reserved, where that helps.

        None: it is no call of a model. `before` is settled in the same transaction, and nothing is waited
        for. CancelledCallError: another attempt has the run.
        """
        accounts, asks_model = self.accounts, CALLS[method].spends
        if not accounts or (need.counted == NOTHING and not asks_model):
            return None
        reservation_id = new_id() if asks_model else None
        loop = asyncio.get_running_loop()
        until = loop.time() + MAX_WAIT_SECONDS
        while True:
            freed = self.freed.begin()
            may_wait = loop.time() < until and before is None
            charged = Charge(self.workspace_id, accounts, need, may_wait=may_wait)
            outcome = await self._charge(charged, reservation_id, method, before)
            if not isinstance(outcome, Busy):
                break
            self.freed.waited += 1
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await freed.wait()
            except TimeoutError:
                pass
        if isinstance(outcome, BudgetExhausted):
            return outcome
        if reservation_id is None:
            return None
        return Reservation(self, method, need, outcome.output, outcome.reserved, reservation_id)

    async def take_time(self, wanted: int, back: TimeBack | None = None) -> TimeCharge:
        """Charge milliseconds of work, at most `wanted`; `back` corrects what was charged before."""

        def work_of(again: bool) -> Callable[[Tx], TimeCharge]:
            def work(tx: Tx) -> TimeCharge:
                if back is not None and not again:  # perhaps it was given back already
                    budgets.give_time_back(tx, back)
                return budgets.charge_time(tx, TimeCharge(self.workspace_id, self.accounts, wanted))

            return work

        return await self._write(work_of, synced=False)

    async def give_time_back(self, back: TimeBack) -> None:
        """Correct what was charged as time."""
        await self.db.write(lambda tx: budgets.give_time_back(tx, back), synced=False)

    def settle_all(self, tx: Tx) -> None:
        """Settle what calls have reserved that get no outcome, as their attempt is over."""
        if self.unsettled:
            budgets.settle_run(tx, self.workspace_id, self.run_id)

    async def _charge(
        self, charged: Charge, reservation_id: str | None, method: str, before: Settlement | None
    ) -> Granted | Busy | BudgetExhausted:
        """Charge a call. What it reserves is durable before it is made: a power cut does not make it free."""

        def work_of(again: bool) -> Callable[[Tx], Charge | CancelledCallError]:
            def work(tx: Tx) -> Charge | CancelledCallError:
                if reservation_id is not None:
                    if (fenced := self._fenced(tx)) is not None:
                        return fenced
                    charged.reservation = NewReservation(
                        reservation_id, self.run_id, self.attempt, method, again
                    )
                if before is not None:
                    budgets.settle(tx, before)
                return budgets.charge(tx, charged)

            return work

        if reservation_id is not None:
            self.unsettled.add(reservation_id)  # as soon as it may be stored
        done = await self._write(work_of, synced=charged.need.spends)
        if reservation_id is not None and not (
            isinstance(done, Charge) and isinstance(done.outcome, Granted)
        ):
            self.unsettled.discard(reservation_id)
        if isinstance(done, CancelledCallError):
            raise done
        return done.outcome

    def _fenced(self, tx: Tx) -> CancelledCallError | None:
        run = run_notes.hold(tx, self.run_id)  # whoever takes the run over finds what is reserved here
        if run is not None and run.attempt == self.attempt and run.status in {"claimed", "running"}:
            return None
        return CancelledCallError("this attempt of the run is over: the model was not asked")

    async def _write(self, work_of: Callable[[bool], Callable[[Tx], T]], *, synced: bool) -> T:
        """Write, again if it is not known whether it was written; `work_of` gets whether that is so."""
        pause, again = FIRST_RETRY_SECONDS, False
        while True:
            try:
                return await self.db.write(work_of(again), synced=synced)
            except StorageError as error:
                if not error.retryable:
                    raise
                again = True
                await asyncio.sleep(pause)
                pause = min(pause * 2, LAST_RETRY_SECONDS)
