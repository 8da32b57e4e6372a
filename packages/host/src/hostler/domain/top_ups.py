"""Add to a budget that is used up: by a person who is asked, or who comes by themselves. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import msgspec

from hostler.domain.budget_limits import Quantity
from hostler.domain.budgets import (
    MOST,
    OF_WORKSPACE,
    QUANTITIES,
    Account,
    AccountKey,
    Span,
    Use,
    in_units,
)
from hostler.domain.events import Caller
from hostler.domain.pause_actions import NotApproverError
from hostler.domain.pause_values import PausedCall
from hostler.domain.reservations import BudgetExhausted
from hostler_protocol._base import Sparse
from hostler_protocol.errors import InvalidArgumentError, UnauthorizedError

QUESTION = "budget"
"""The method in the names of questions about budgets."""
MAX_TOP_UP = 10**9
"""The most that is added at once, of any quantity: far above what anybody means, far below an overflow."""
MAX_COMMENT_CHARS = 1_000
"""A sentence or two on why."""
_SHARE = 4
"""A person is offered to add a quarter of the limit, if the call needs no more."""
_Number = Annotated[float, msgspec.Meta(gt=0, le=MAX_TOP_UP)]
_Whole = Annotated[int, msgspec.Meta(gt=0, le=MAX_TOP_UP)]


class Amounts(Sparse):
    """What is added to a budget, in the units of its limits."""

    calls: _Whole | None = None
    tokens: _Whole | None = None
    cost: _Number | None = None
    tool_calls: _Whole | None = None
    seconds: _Number | None = None

    @property
    def use(self) -> Use:
        """The amounts in the units of `Use`. InvalidArgumentError: there are none."""
        given = {name: getattr(self, name) for name in QUANTITIES}
        found = Use(**{name: in_units(name, value) for name, value in given.items() if value is not None})
        if found == Use():
            raise InvalidArgumentError(f"a top-up adds something: give one of {', '.join(QUANTITIES)}")
        return found


class TopUp(NamedTuple):
    """A person's addition to an account. `run_id` and `pause_id`: those of the call that it was asked for."""

    key: AccountKey
    top_up_id: str
    amounts: Use
    subject: str
    key_id: str
    comment: str | None = None
    run_id: str | None = None
    pause_id: str | None = None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments that people see of a call for which a budget has too little left.

    `account`: the account's id. `added`: how much of the limit people have added before. `top_up` is what
    they may change: what is added if they approve.
    """

    account: str
    budget: Quantity
    limit: float
    used: float
    reserved: float
    needs: float
    added: float
    call: dict[str, Any]
    top_up: dict[str, float]


LOCKED = [name for name in Asked.__struct_fields__ if name != "top_up"]
"""Arguments that an edit must not change."""


def asked_of(exhausted: BudgetExhausted, account_id: str, method: str, call_id: str, nth: int) -> Asked:
    """Return what people are asked. `call_id` is the host's id of the call, `nth` how often it asks."""
    most = exhausted.limit
    short = max(exhausted.short, most / _SHARE)
    offered = math.ceil(short * 100) / 100 if exhausted.what == "cost" else math.ceil(short)
    return Asked(
        account=account_id,
        budget=exhausted.what,
        limit=most,
        used=exhausted.used,
        reserved=exhausted.reserved,
        needs=exhausted.needs,
        added=exhausted.added,
        call={"method": method, "id": call_id, "nth": nth},
        top_up={exhausted.what: min(max(offered, 0.01 if exhausted.what == "cost" else 1), MAX_TOP_UP)},
    )


def arguments_of(asked: Asked) -> dict[str, Any]:
    """Return the arguments of the question as JSON."""
    arguments: dict[str, Any] = msgspec.to_builtins(asked)
    return arguments


def asked_in(call: PausedCall) -> Asked:
    """Read what people were asked in a stored call of kind `budget`."""
    return msgspec.convert(call.asked.arguments, Asked)


def was_added_to(asked: Asked, added: Use) -> bool:
    """Whether people have added to an account since they were asked, given what they added in all."""
    return added.of(asked.budget) > in_units(asked.budget, asked.added)


def was_raised(asked: Asked, span: Span, accounts: Iterable[Account]) -> bool:
    """Whether the limit of an account is higher now than when people were asked, or gone."""
    most = next((one.limits.most(asked.budget) for one in accounts if one.span == span), None)
    return most is None or most > in_units(asked.budget, asked.limit) - in_units(asked.budget, asked.added)


def schema_of(what: Quantity) -> dict[str, Any]:
    """Return the JSON Schema of the arguments, which an edited top-up has to fit."""
    number = {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_TOP_UP}
    whole = number if what in {"cost", "seconds"} else {**number, "type": "integer"}
    top_up = {
        "type": "object",
        "properties": {what: whole},
        "required": [what],
        "additionalProperties": False,
    }
    return {"type": "object", "properties": {"top_up": top_up}, "required": ["top_up"]}


def approved(call: PausedCall) -> Use:
    """Return what an approval of a stored call adds: the top-up with the edits of those who approved."""
    what = asked_in(call).budget
    amount = call.effective["top_up"][what]
    return Use(**{what: min(in_units(what, amount), MOST)})


def check_may_add(call: PausedCall, caller: Caller) -> None:
    """Check who approves that something is added to an account. NotApproverError."""
    span = asked_in(call).account.partition(".")[0]
    if span in OF_WORKSPACE and "installation" not in caller.rights:
        raise NotApproverError(_OF_INSTALLATION, call_id=call.call_id, right="installation")


def check_may_top_up(key: AccountKey, caller: Caller) -> None:
    """Check who adds to an account without being asked. UnauthorizedError."""
    if key.span in OF_WORKSPACE and "installation" not in caller.rights:
        raise UnauthorizedError(_OF_INSTALLATION, right="installation")


_OF_INSTALLATION = "the budget of a workspace is the installation's: its operator can add to it"
