"""Calls of models: one row per call, with what it used, for reports of use by model."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, TypeAlias

from hostler.domain.record import Record
from hostler.storage.port import Tx
from hostler.storage.sql.statements import load
from hostler_protocol.content import Usage
from hostler_protocol.ids import new_id

Outcome: TypeAlias = Literal["completed", "failed", "given_up"]
_q = load(__file__)
_NOTHING = Usage()


class ModelCall(Record):
    """A call that is over. `given_up`: nobody waited for its end any more."""

    model_id: str
    outcome: Outcome
    milliseconds: int
    usage: Usage | None
    cost: Decimal | None


def add(tx: Tx, run_id: str, call: ModelCall) -> None:
    """Add a call of a run."""
    usage = call.usage or _NOTHING
    tx.run(
        _q.add,
        at=tx.now,
        call_id=new_id(),
        run_id=run_id,
        model_id=call.model_id,
        outcome=call.outcome,
        milliseconds=call.milliseconds,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        cached_tokens=usage.cached_tokens,
        cost=None if call.cost is None else str(call.cost),
    )
