"""What a call may use at most, and what it used: of its parameters, its reply and the prices of models."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from msgspec.structs import replace

from hostler.calls.budgets import Reservation, RunBudget
from hostler.calls.scope import CallScope, ModelService, PricedModel
from hostler.domain.budgets import Use, nano
from hostler.domain.model_bounds import (
    TOKENS_PER_REQUEST,
    artifacts_in,
    asked_output,
    check_args,
    default_output,
    input_bound,
    limited,
    need_of,
)
from hostler.domain.record import Record
from hostler.domain.reservations import ONE_CALL, Need
from hostler.journal.call_log import CallRecord
from hostler.models.errors import is_unpaid
from hostler.models.token_counts import estimate_text
from hostler.storage.port import Tx
from hostler.storage.stores import artifacts
from hostler_protocol.calls import (
    Call,
    EmbedParams,
    EmbedReply,
    ModelParams,
    ModelReply,
    RerankParams,
    RerankReply,
)
from hostler_protocol.errors import HostlerError, UnauthorizedError

TOOL_CALL = Use(calls=1, tool_calls=1)
log = logging.getLogger(__name__)


class Needs(Record):
    """Says what calls may use, under the budget of one run."""

    budget: RunBudget
    models: ModelService

    async def of(self, call: Call, record: CallRecord) -> Need:
        """Return what a call may use at most.

        UnauthorizedError: a model without a price, under a budget of money. InvalidArgumentError: arguments
        that would change what a model's call may use.
        """
        if call.method in {"tool.call", "action.request"}:
            return Need(TOOL_CALL)
        limits = [account.limits for account in self.budget.accounts]
        costs = any(one.cost is not None for one in limits)
        if not call.spends or not (costs or any(one.tokens is not None for one in limits)):
            return Need(ONE_CALL)
        params = record.params
        model = self.models.get(params.model_id)
        if costs and model.entry.price is None:
            raise UnauthorizedError(
                f"model {params.model_id!r} has no price, and this run has a budget of cost: give the model "
                "a `price` in the configuration, `{}` if it is free",
                budget="cost",
                reason="no_price",
            )
        match params:
            case ModelParams():
                return await self._chat(params, model)
            case RerankParams():
                return _without_output([params.query, params.documents], model)
            case EmbedParams():
                return _without_output(params.inputs, model)
            case _:
                return Need(ONE_CALL)

    async def _chat(self, params: ModelParams, model: PricedModel) -> Need:
        check_args(params.extra_args)
        output = asked_output(params.extra_args, model.entry)
        if output is None:
            estimate = 0
            if model.context_window is not None:
                estimate = (await model.provider.count_tokens(params.messages, params.tools)).input_tokens
            output = default_output(model.entry, model.context_window, estimate)
        ids = artifacts_in(params.messages)
        sizes = await self.budget.db.read(lambda tx: self._sizes(tx, ids)) if ids else {}
        tokens = input_bound(params.messages, params.tools, params.extra_args, model.entry, sizes)
        return need_of(tokens, output, model.entry, model.context_window)

    def _sizes(self, tx: Tx, ids: list[str]) -> dict[str, int]:
        found = {one: artifacts.find(tx, self.budget.workspace_id, one) for one in ids}
        return {one: artifact.size_bytes for one, artifact in found.items() if artifact is not None}


def _without_output(sent: object, model: PricedModel) -> Need:
    return need_of(len(msgspec.json.encode(sent)) + TOKENS_PER_REQUEST, 0, model.entry, None)


def within_reservation(scope: CallScope, record: CallRecord) -> tuple[CallScope, Any]:
    """Return scope and parameters of a call for its function, bounded by what it has reserved."""
    params, reservation = record.params, record.reservation
    if not isinstance(reservation, Reservation) or not reservation.is_bounded:
        return scope, params

    async def may_repeat(error: HostlerError) -> bool:
        return is_unpaid(error) or await reservation.again()

    if isinstance(params, ModelParams):
        entry = scope.services.models.get(params.model_id).entry
        extra_args = limited(params.extra_args, entry, reservation.output)
        params = msgspec.structs.replace(params, extra_args=extra_args)
    return replace(scope, may_repeat=may_repeat), params


def note_reply(record: CallRecord, reply: object) -> None:
    """Note what a call used of its reservation. What a service does not say counts as it was reserved."""
    reservation = record.reservation
    if not isinstance(reservation, Reservation):
        return
    reserved = reservation.reserved
    match reply:
        case ModelReply(usage=usage) | EmbedReply(usage=usage):
            known = usage is not None and usage.input_tokens is not None and usage.output_tokens is not None
            tokens = reserved.tokens
            if usage is not None and (known or usage.total_tokens):
                tokens = usage.total_tokens or (usage.input_tokens or 0) + (usage.output_tokens or 0)
            cost = reserved.cost if record.cost is None else nano(record.cost)
            reservation.used = Use(tokens=tokens, cost=cost)
        case RerankReply():
            params: RerankParams = record.params
            tokens = sum(map(estimate_text, [params.query, *params.documents]))
            share = min(tokens / max(reserved.tokens, 1), 1)
            reservation.used = Use(tokens=min(tokens, reserved.tokens), cost=int(reserved.cost * share) + 1)
        case _:
            return
    used = reservation.used
    if reservation.is_bounded and (used.tokens > reserved.tokens or used.cost > reserved.cost):
        reservation.budget.freed.overruns += 1
        log.warning(
            "run %s: %s used %s tokens where at most %s were reserved: the service used more than asked for",
            reservation.budget.run_id,
            reservation.method,
            f"{used.tokens:,}",
            f"{reserved.tokens:,}",
        )


def note_error(record: CallRecord, error: HostlerError) -> None:
    """Note that a call that ended with this error used nothing, where that is sure."""
    reservation = record.reservation
    if isinstance(reservation, Reservation) and not record.chunks and is_unpaid(error):
        reservation.used = Use()
