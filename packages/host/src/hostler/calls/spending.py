"""Charge the calls of an attempt: reserve what each may use, and see what happens where too little is left.

By the terms of the budget that is used up the call is refused, its run ends, or people are asked to add to
the budget; then the call waits like any other that waits for people, and nothing of it has been made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from hostler.calls.active_time import ActiveTime
from hostler.calls.budgets import RunBudget
from hostler.calls.gate import CallToCharge
from hostler.calls.needs import Needs
from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.budgets import DEFAULT_TERMS, NOTHING, Terms, account_key
from hostler.domain.record import Record
from hostler.domain.recording import CallName
from hostler.domain.reservations import BudgetExhausted, Need
from hostler.domain.top_ups import LOCKED, QUESTION, Asked, arguments_of, asked_in, asked_of
from hostler.journal.call_log import CallRecord
from hostler.journal.run_log import RunLog
from hostler.pauses.held_calls import HeldCalls
from hostler.pauses.question import Question, refusal_of
from hostler.storage.stores import pause_calls
from hostler_protocol.errors import DeniedError, ExpiredError, HostlerError


class WaitingBefore(Record):
    """The calls in the unsettled pause of earlier attempts, by their ids.

    `for_budgets`: those that wait for a budget, with what people were asked last. `counted`: all others,
    which were counted when they were first made.
    """

    for_budgets: Mapping[str, Asked] = msgspec.field(default_factory=dict)
    counted: frozenset[str] = frozenset()


class _Ask(NamedTuple):
    """What people are asked. `nth`: how often it is asked about this call."""

    asked: Asked
    terms: Terms
    sentence: str
    nth: int


@dataclass(slots=True, eq=False)
class Spending:
    """Charges the calls of one attempt. `held` None: nobody can be asked. `over` ends the run."""

    budget: RunBudget
    needs: Needs
    before: WaitingBefore = field(default_factory=WaitingBefore)
    time: ActiveTime | None = None
    held: HeldCalls | None = None
    journal: RunLog | None = None
    over: Callable[[str], None] = lambda _: None
    _asked: dict[str, int] = field(default_factory=dict)
    """How often was asked about each call."""

    async def take(self, charged: CallToCharge) -> None:
        """Charge a call that is about to be made, and reserve what it may use.

        UnauthorizedError or RateLimitedError: a budget has too little left. DeniedError, ExpiredError: people
        did not add to it.
        """
        if not self.budget.accounts:
            return
        record, call_id = charged.record, charged.record.name.call_id
        need = await self.needs.of(charged.call, record)
        if charged.begun or call_id in self.before.counted:
            need = need._replace(counted=NOTHING)
        before = self.before.for_budgets.get(call_id)
        if before is not None and call_id not in self._asked and self.held is not None:
            nth = self._asked[call_id] = before.call["nth"]
            await self._ask(record, _Ask(before, self._terms(before.account), "", nth))
        while (exhausted := await self._exhausted(record, need)) is not None:
            await self._exceeded(exhausted, charged)

    async def _exhausted(self, record: CallRecord, need: Need) -> BudgetExhausted | None:
        """Reserve what the call needs. Return which account has too little left, if one has."""
        if self.time is not None and (over := await self.time.used_up()) is not None:
            return over
        taken = await self.budget.take(need, record.name.method)
        if isinstance(taken, BudgetExhausted):
            return taken
        record.reservation = taken
        return None

    async def _exceeded(self, exhausted: BudgetExhausted, charged: CallToCharge) -> None:
        """Return if people added to the account; raise what the call is refused with otherwise."""
        terms = exhausted.account.terms
        if terms.on_exceeded == "end":
            self.over(exhausted.sentence)
        if terms.on_exceeded != "ask" or self.held is None or not charged.may_ask:
            raise exhausted.error
        record, account_id = charged.record, exhausted.key(self.budget.workspace_id).account_id
        if (refused := await self._refused_before(exhausted, account_id)) is not None:
            raise self._refused(refused, terms)
        call_id = record.name.call_id
        nth = self._asked[call_id] = self._asked.get(call_id, 0) + 1
        asked = asked_of(exhausted, account_id, record.name.method, call_id, nth)
        await self._ask(record, _Ask(asked, terms, exhausted.sentence, nth))

    async def _ask(self, record: CallRecord, ask: _Ask) -> None:
        """Wait until people have added to the account. DeniedError, ExpiredError or CancelledCallError."""
        held, journal = self.held, self.journal
        if held is None or journal is None:
            raise RuntimeError("people are asked without a pause")
        terms = ask.terms
        question = Question(
            kind="budget",
            name=CallName(QUESTION, record.name.call_id, ask.nth),
            parameters=arguments_of(ask.asked),
            rule=ToolApprovalPolicy(
                subjects=list(terms.approvers), editable=True, locked=LOCKED, expires_in=terms.expires_in
            ),
            reason=ask.sentence or None,
        )
        record.asking = question.call_id
        verdict = await held.ask(question)
        record.asking = None
        if self.time is not None:
            self.time.rest()
        refused = refusal_of(verdict, f"more {ask.asked.budget.replace('_', ' ')} for {record.name.method}")
        settle = verdict.settle
        if settle is not None:
            await journal.write(lambda tx: (None, settle(tx, refused)))
        if refused is not None:
            raise self._refused(refused, terms)

    def _refused(self, error: HostlerError, terms: Terms) -> HostlerError:
        if terms.on_denied == "end":
            self.over(error.message)
        return error

    async def _refused_before(self, exhausted: BudgetExhausted, account_id: str) -> HostlerError | None:
        """Return the error if people did not add to this account when asked, and nobody did since."""
        run_id = self.budget.run_id
        for call in await self.budget.db.read(lambda tx: pause_calls.refused_budgets(tx, run_id)):
            asked = asked_in(call)
            same = (asked.account, asked.budget) == (account_id, exhausted.what)
            if same and asked.added >= exhausted.added:
                if call.decision == "denied":
                    return DeniedError(f"{exhausted.sentence}, and people did not add to it")
                return ExpiredError(f"{exhausted.sentence}, and nobody added to it in time")
        return None

    def _terms(self, account_id: str) -> Terms:
        key = account_key(self.budget.workspace_id, account_id)
        for account in self.budget.accounts:
            if key is not None and (account.span, account.owner_id) == (key.span, key.owner_id):
                return account.terms
        return DEFAULT_TERMS
