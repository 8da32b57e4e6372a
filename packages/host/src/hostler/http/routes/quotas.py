"""What is stored, and how much may be."""

from __future__ import annotations

from hostler.domain.quotas import (
    NOTHING,
    QUANTITIES,
    Account,
    AgentQuota,
    Amounts,
    Bounds,
    Level,
    Quantity,
    WorkspaceQuota,
    quotas_of,
)
from hostler.http.endpoint import endpoint
from hostler.http.request import ApiRequest
from hostler.http.responses import Listing
from hostler.storage.port import Tx
from hostler.storage.stores import agents, quotas, runs
from hostler_protocol._base import Strict
from hostler_protocol.limits import MAX_PAGE_ITEMS


class QuotaQuery(Strict):
    """`agent`: this agent, instead of the first 100 that have something stored. `run`: this run, too."""

    agent: str | None = None
    run: str | None = None


class QuotaUse(Strict):
    """How much of one quantity a workspace, an agent or a run has stored, and may store at most.

    `name`: that of the workspace or agent, or the run's id. `limit` null: no bound; of an agent that is gone,
    none is known. A run keeps the limits of its agent that it began with; shown are those of today.
    """

    level: Level
    name: str
    quantity: Quantity
    used: int
    limit: int | None


@endpoint("GET", "/v1/quotas", right="usage:read", tag="usage")
async def list_quotas(request: ApiRequest, query: QuotaQuery) -> Listing[QuotaUse]:
    """List what the workspace, its agents and a run have stored, with their quotas."""
    ws = request.workspace_id
    quota = request.state.host.allowances.of(ws).quota
    return Listing(items=await request.state.host.db.read(lambda tx: _uses(tx, ws, query, quota)))


def _uses(tx: Tx, ws: str, query: QuotaQuery, quota: WorkspaceQuota) -> list[QuotaUse]:
    account = Account("workspace")
    stored = quotas.of_accounts(tx, ws, [account]).get(account, NOTHING)
    found = _lines("workspace", ws, stored, quotas_of(quota).workspace)
    if query.agent is not None:
        agent = agents.get(tx, ws, query.agent)
        owners = [(agent.agent_id, _stored(tx, ws, Account("agent", agent.agent_id)))]
    else:
        owners = quotas.of_level(tx, ws, "agent", limit=MAX_PAGE_ITEMS)
    for agent_id, amounts in owners:
        known = agents.by_id(tx, ws, agent_id)
        bounds = _bounds(None if known is None else known.spec.resource_policy.quota, "agent")
        found += _lines("agent", agent_id if known is None else known.name, amounts, bounds)
    if query.run is not None:
        run = runs.get(tx, ws, query.run)
        known = agents.by_id(tx, ws, run.agent_id)
        bounds = _bounds(None if known is None else known.spec.resource_policy.quota, "run")
        of_run = _lines("run", run.run_id, _stored(tx, ws, Account("run", run.run_id)), bounds)
        found += [line for line in of_run if line.quantity != "state_bytes"]
    return found


def _stored(tx: Tx, ws: str, account: Account) -> Amounts:
    return quotas.of_accounts(tx, ws, [account]).get(account, NOTHING)


def _bounds(quota: AgentQuota | None, level: Level) -> Bounds:
    if quota is None:
        return Bounds()
    whole = quotas_of(WorkspaceQuota(), quota)
    return whole.agent if level == "agent" else whole.run


def _lines(level: Level, name: str, stored: Amounts, bounds: Bounds) -> list[QuotaUse]:
    return [
        QuotaUse(level=level, name=name, quantity=what, used=used, limit=limit)
        for what, used, limit in zip(QUANTITIES, stored, bounds, strict=True)
    ]
