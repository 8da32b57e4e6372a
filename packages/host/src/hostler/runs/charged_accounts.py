"""The accounts of budgets that a run's calls are charged to."""

from __future__ import annotations

from hostler.domain.budgets import Account, Spender, accounts_of, merge_accounts
from hostler.domain.grants import decode_grant
from hostler.storage.port import Tx
from hostler.storage.stores import runs
from hostler.storage.stores.run_rows import Run


def charged_accounts(tx: Tx, run: Run) -> tuple[Account, ...]:
    """Return the accounts that a run's calls are charged to, but for those of its workspace."""
    return merge_accounts(account for one in [run, *runs_above(tx, run)] for account in own_accounts(one))


def own_accounts(run: Run) -> list[Account]:
    """Return the accounts of a run itself; none before its grant is frozen."""
    if run.grant_json is None:
        return []
    return accounts_of(spender_of(run), decode_grant(run.grant_json).budget)


def spender_of(run: Run) -> Spender:
    """Return whose accounts a run is charged to."""
    return Spender(
        run_id=run.run_id,
        agent_id=run.agent_id,
        agent_name=run.agent_name,
        bot_id=run.bot_id,
        conversation_id=run.conversation_id,
        requester=run.requester,
    )


def runs_above(tx: Tx, run: Run) -> list[Run]:
    """Return the run's parent, its parent, and so on."""
    found: list[Run] = []
    while run.parent_run_id is not None:
        parent = runs.find(tx, run.workspace_id, run.parent_run_id)
        if parent is None:  # deleted meanwhile
            break
        found.append(parent)
        run = parent
    return found
