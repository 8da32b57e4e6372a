"""Budgets: what was used of them and is reserved, and what people add to them (docs/budgets.md)."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Annotated

import msgspec

from hostler.calls.cursors import ScopedCursors
from hostler.domain.budgets import (
    MILLISECONDS_PER_DAY,
    QUANTITIES,
    Account,
    AccountKey,
    Span,
    account_key,
    accounts_of_workspace,
    key_of,
)
from hostler.domain.reservations import Balance
from hostler.domain.top_ups import MAX_COMMENT_CHARS, Amounts, TopUp, check_may_top_up
from hostler.http.auth import has_right
from hostler.http.endpoint import endpoint
from hostler.http.pagination import PageQuery, list_cursors, listing
from hostler.http.request import ApiRequest
from hostler.http.responses import Listing
from hostler.runs.charged_accounts import charged_accounts
from hostler.storage.port import Tx
from hostler.storage.stores import budget_accounts, budgets, runs
from hostler.storage.stores.budget_accounts import AddedAmounts, StoredAccount
from hostler_protocol._base import Strict
from hostler_protocol.errors import ConflictError, InvalidArgumentError, NotFoundError, UnauthorizedError
from hostler_protocol.ids import new_id

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]


class WorkspaceQuery(Strict):
    """`workspace_id`: only the installation's administrator may name another one."""

    workspace_id: Name | None = None


class BudgetsQuery(PageQuery):
    """Filters of the list. `workspace_id`: only the installation's administrator may name another one."""

    span: Span | None = None
    agent: Name | None = None
    conversation_id: Name | None = None
    workspace_id: Name | None = None


class TopUpRequest(Amounts):
    """What is added to a budget, and why."""

    comment: Annotated[str, msgspec.Meta(max_length=MAX_COMMENT_CHARS)] | None = None


class TopUpRecord(Strict):
    """What a person added. `run_id` and `pause_id`: of the call for which they were asked."""

    id: str
    added: dict[str, float]
    subject: str
    comment: str | None
    run_id: str | None
    pause_id: str | None
    created_at: float


class BudgetRecord(Strict):
    """One budget: its limits, what was used and is reserved of them, and what people added.

    Amounts are by quantity: `calls`, `tool_calls`, `tokens`, `cost`, `seconds`; what is 0 is left out.
    `limits` are those of the last call that was charged; what people `added` raises them. `day` (UTC) of a
    budget that begins anew each day. `run_id`: of a run's own budget.
    """

    id: str
    span: Span
    day: str | None
    agent: str | None
    run_id: str | None
    conversation_id: str | None
    person: str | None
    limits: dict[str, float]
    used: dict[str, float]
    reserved: dict[str, float]
    added: dict[str, float]
    updated_at: float | None
    top_ups: list[TopUpRecord] = []


@endpoint("GET", "/v1/budgets", right="budgets:read", tag="budgets")
async def list_budgets(request: ApiRequest, query: BudgetsQuery) -> Listing[BudgetRecord]:
    """List budgets, those used last first."""
    workspace = _workspace(request, query.workspace_id)
    cursors = list_cursors(request.state.host.cursors, "budgets", workspace, query)
    before = None if query.cursor is None else _place(cursors, query.cursor)
    rows = await request.state.host.db.read(
        lambda tx: budget_accounts.page(
            tx,
            workspace,
            span=query.span,
            agent_name=query.agent,
            conversation_id=query.conversation_id,
            before=before,
            limit=query.size + 1,
        )
    )
    return listing(rows, query.size, _record, lambda one: [one.updated_at, one.key.account_id], cursors)


@endpoint("GET", "/v1/budgets/{budget_id}", right="budgets:read", tag="budgets")
async def get_budget(request: ApiRequest, query: WorkspaceQuery) -> BudgetRecord:
    """Get one budget, with the latest of what people added to it."""
    key = _key(_workspace(request, query.workspace_id), request.parameters["budget_id"])
    return await request.state.host.db.read(lambda tx: _with_top_ups(tx, key))


@endpoint("POST", "/v1/budgets/{budget_id}/top-up", right="budgets:write", tag="budgets")
async def top_up_budget(request: ApiRequest, query: WorkspaceQuery, body: TopUpRequest) -> BudgetRecord:
    """Add to a budget. Runs that wait for it go on.

    What is added to the budget of a day ends with the day, to that of a run with the run. To the budgets of
    workspaces only the installation's administrator adds.
    """
    key = _key(_workspace(request, query.workspace_id), request.parameters["budget_id"])
    check_may_top_up(key, request.caller)
    caller, host = request.caller, request.state.host
    added = TopUp(key, new_id(), body.use, caller.subject, caller.key_id, body.comment)

    def add(tx: Tx) -> None:
        account = _find(tx, key)
        if key.day and key.day != tx.now // MILLISECONDS_PER_DAY:
            raise ConflictError("the day of this budget is over")
        given = [name for name in QUANTITIES if added.amounts.of(name)]
        if unlimited := [name for name in given if account.limits.most(name) is None]:
            raise InvalidArgumentError(f"this budget has no limit of {', '.join(unlimited)} to add to")
        budgets.top_up(tx, added)

    await host.db.write(add)
    host.pauses.budget_added_to()
    return await host.db.read(lambda tx: _with_top_ups(tx, key))


@endpoint("GET", "/v1/runs/{run_id}/budgets", right="runs:read", tag="runs")
async def list_run_budgets(request: ApiRequest) -> Listing[BudgetRecord]:
    """List the budgets that a run's calls are charged to: its own, its agent's, those of runs above it."""
    host, workspace = request.state.host, request.workspace_id
    of_workspace = accounts_of_workspace(workspace, host.allowances.of(workspace).budget)

    def read(tx: Tx) -> list[BudgetRecord]:
        run = runs.get(tx, workspace, request.parameters["run_id"])
        today = tx.now // MILLISECONDS_PER_DAY
        return [
            _of_run(tx, key_of(workspace, account, today), account)
            for account in (*charged_accounts(tx, run), *of_workspace)
        ]

    return Listing(items=await host.db.read(read))


def _workspace(request: ApiRequest, named: str | None) -> str:
    if named is None or named == request.workspace_id:
        return request.workspace_id
    if not has_right(request.caller, "installation"):
        raise UnauthorizedError("only the installation's administrator sees budgets of another workspace")
    return named


def _key(workspace_id: str, budget_id: str) -> AccountKey:
    key = account_key(workspace_id, budget_id)
    if key is None:
        raise NotFoundError(f"there is no budget {budget_id!r:.300}")
    return key


def _find(tx: Tx, key: AccountKey) -> StoredAccount:
    found = budget_accounts.find(tx, key)
    if found is None:
        raise NotFoundError(f"there is no budget {key.account_id!r:.300}: nothing was charged to it yet")
    return found


def _with_top_ups(tx: Tx, key: AccountKey) -> BudgetRecord:
    record = _record(_find(tx, key))
    added = [_top_up(one) for one in budget_accounts.top_ups(tx, key)]
    return msgspec.structs.replace(record, top_ups=added)


def _of_run(tx: Tx, key: AccountKey, account: Account) -> BudgetRecord:
    """Return a budget with the limits that hold for a run, whether anything was charged to it or not."""
    stored = budget_accounts.find(tx, key)
    names = account.names
    empty = StoredAccount(key, Balance(), account.limits, *names, None, 0)
    return _record((stored or empty)._replace(limits=account.limits))


def _record(account: StoredAccount) -> BudgetRecord:
    key, balance = account.key, account.balance
    limits = {name: getattr(account.limits, name) for name in QUANTITIES}
    return BudgetRecord(
        id=key.account_id,
        span=key.span,
        day=(date(1970, 1, 1) + timedelta(days=key.day)).isoformat() if key.day else None,
        agent=account.agent_name,
        run_id=key.owner_id if key.span == "run" else None,
        conversation_id=account.conversation_id,
        person=account.person,
        limits={name: limit for name, limit in limits.items() if limit is not None},
        used=balance.used.amounts(),
        reserved=balance.reserved.amounts(),
        added=balance.added.amounts(),
        updated_at=account.updated_at / 1000 or None,
    )


def _top_up(added: AddedAmounts) -> TopUpRecord:
    return TopUpRecord(
        id=added.top_up_id,
        added=added.amounts.amounts(),
        subject=added.subject,
        comment=added.comment,
        run_id=added.run_id,
        pause_id=added.pause_id,
        created_at=added.created_at / 1000,
    )


def _place(cursors: ScopedCursors, cursor: str) -> tuple[int, str, str, int]:
    at, budget_id = cursors.read_place(cursor)
    key = account_key("", budget_id)
    if key is None:
        raise InvalidArgumentError("cursor does not hold a place in this list: begin again without it")
    return at, key.span, key.owner_id, key.day
