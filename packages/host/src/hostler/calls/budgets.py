"""The budget of one attempt: calls are charged before they are made, what they used when it is known."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal

from hostler.domain.budgets import Account, Use, use_of
from hostler.storage.port import Database
from hostler.storage.stores import budgets
from hostler.storage.stores.budgets import Charge
from hostler_protocol.content import Usage
from hostler_protocol.errors import StorageError

FIRST_RETRY_SECONDS = 0.05
LAST_RETRY_SECONDS = 5.0
"""Back-off while the database takes nothing (disk full, connection lost): the call waits, nothing is lost.
What may have been counted, nobody knows, is counted again: a limit is not passed."""
_ONE_CALL = Use(calls=1)


@dataclass(frozen=True, slots=True)
class RunBudget:
    """The remaining budget of a run: its own, its agent's for the day, and those of the runs above it.

    No accounts: it has no limit, and nothing is counted.
    """

    db: Database
    workspace_id: str
    accounts: tuple[Account, ...]

    async def take(self, *, spends: bool) -> None:
        """Count one call that is about to be made. `spends`: it costs tokens or money.

        UnauthorizedError: the budget of a run is used up; RateLimitedError: that of a day.
        """
        if self.accounts:
            charged = Charge(self.workspace_id, self.accounts, _ONE_CALL, checked=True, spends=spends)
            if (refused := (await self._charge(charged)).refused) is not None:
                raise refused.error

    async def spend(self, usage: Usage | None, cost: Decimal | None) -> None:
        """Count what a call has used; the next one that spends is refused where that was too much."""
        use = use_of(usage, cost)
        if self.accounts and use != Use():
            await self._charge(Charge(self.workspace_id, self.accounts, use))

    async def _charge(self, charged: Charge) -> Charge:
        pause = FIRST_RETRY_SECONDS
        while True:
            try:
                return await self.db.write(lambda tx: budgets.charge(tx, charged), synced=False)
            except StorageError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(pause)
                pause = min(pause * 2, LAST_RETRY_SECONDS)
