"""Budgets that ask: a call for which too little is left waits for a person, who adds to the budget or not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.allowances import WorkspaceEntry
from hostler.domain.budget_limits import WorkspaceBudget
from hostler.domain.pause_actions import StaleViewError, UnprocessableError
from hostler.domain.pause_views import PauseView
from hostler.host.config import ConfigFile
from hostler.storage.stores import audit, budget_accounts
from hostler.storage.stores.budget_accounts import StoredAccount
from support.budgeted import ASK, PLACE, READ, SET, codes, model
from support.model_server import ModelServer
from support.shop import ADMIN, decide, decision, parked, person, waiting
from support.stepping import WORKSPACE, Latch, Stage, Steps, stage, within

pytestmark = pytest.mark.gate("budgets")

RESUMABLE: dict[str, Any] = {"runner": "resumable"}
TELL = ["tell"]


def asking(**budget: Any) -> dict[str, Any]:
    policy: dict[str, Any] = {"budget": {"on_exceeded": "ask", **budget}}
    if "max_cost_per_run" in budget:
        policy["allowed_model_ids"] = ["m"]
    return {"resource_policy": policy}


@contextlib.asynccontextmanager
async def host_at(tmp_path: Path, database: str | None = None, **settings: Any) -> AsyncIterator[Stage]:
    if database is not None and not database.startswith("postgresql:"):
        database = None
    async with within(), stage(tmp_path, database=database, **({"hold_seconds": 0.05} | settings)) as host:
        yield host


async def accounts(host: Stage) -> list[StoredAccount]:
    return await host.host.db.read(lambda tx: budget_accounts.page(tx, WORKSPACE, limit=100))


@pytest.mark.parametrize("hold", [60.0, 0.05], ids=["held", "parked"])
async def test_a_call_goes_on_once_a_person_added_to_the_budget(
    tmp_path: Path, database_url: str, hold: float
) -> None:
    async with host_at(tmp_path, database_url, hold_seconds=hold) as host:
        await host.agent(**RESUMABLE, **asking(max_calls_per_run=2))
        run_id = await host.start([SET, READ, SET, READ, TELL], **PLACE)
        pause = await waiting(host, run_id)
        (call,) = pause.calls
        assert (call.kind, call.tool, call.editable, call.execution) == ("budget", None, True, "none")
        assert call.description == "the budget of 2 calls of this run is used up"
        asked = {name: call.args[name] for name in ("budget", "limit", "used", "reserved", "needs", "top_up")}
        assert asked == {
            "budget": "calls", "limit": 2, "used": 2, "reserved": 0, "needs": 1, "top_up": {"calls": 1},
        }  # fmt: skip
        assert call.args["call"]["method"] == "state.set"
        if hold < 1:
            await parked(host, run_id)
        edited = {**call.args, "top_up": {"calls": 5}}
        assert await decide(host, pause, decision(call, edited_args=edited, comment="two more")) == "ready"
        ended = await host.ended(run_id)
        assert (ended.record.status, codes(ended)) == ("completed", ["ok"] * 4)
        assert ended.record.attempt == (1 if hold > 1 else 2)
        assert (await waiting(host, run_id, status="resumed")).calls[0].decided_by == "admin"
        (account,) = await accounts(host)
        assert (account.balance.used.calls, account.balance.added.calls) == (4, 5), "nothing is counted twice"
        facts = await host.host.db.read(lambda tx: audit.page(tx, WORKSPACE))
        (fact,) = [fact for fact in facts if fact.action == "budget.topped_up"]
        assert (fact.actor, fact.target) == ("admin", f"run.0.{run_id}")
        assert fact.body == {"added": {"calls": 5}, "comment": "two more", "run_id": run_id}


async def test_a_denied_call_is_refused_and_nobody_is_asked_about_the_same_again(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.agent(**RESUMABLE, **asking(max_calls_per_run=1))
        run_id = await host.start([READ, SET, READ, READ, TELL], **PLACE)
        pause = await waiting(host, run_id)
        await decide(host, pause, decision(pause.calls[0], "deny", comment="enough"))
        ended = await host.ended(run_id)
        assert (ended.record.status, codes(ended)) == (
            "completed",
            ["ok", "denied", "denied", "denied"],
        )
        assert "denied by admin: enough" in ended.told[1]["error"]["message"]
        assert ended.types.count("interaction.requested") == 1
        assert (await waiting(host, run_id, status="resumed")).segment == 1


async def test_a_denied_call_ends_the_run_where_the_budget_says_so(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.agent(**RESUMABLE, **asking(max_calls_per_run=1, on_denied="end"))
        run_id = await host.start([READ, SET, READ, TELL], **PLACE)
        pause = await waiting(host, run_id)
        await decide(host, pause, decision(pause.calls[0], "deny"))
        ended = await host.ended(run_id)
        assert (ended.record.status, ended.record.status_code) == ("failed", "budget.exceeded")


async def test_a_budget_may_end_the_run(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        policy = {"budget": {"max_calls_per_run": 2, "on_exceeded": "end"}}
        await host.agent(resource_policy=policy)
        ended = await host.run([READ, READ, READ, ["hold"]], **PLACE)
        assert (ended.record.status, ended.record.status_code) == ("failed", "budget.exceeded")
        assert ended.last["error"] == "the budget of 2 calls of this run is used up"


async def test_a_paid_call_waits_unpaid_and_what_was_recorded_is_not_paid_again(
    tmp_path: Path, database_url: str
) -> None:
    async with ModelServer() as server, host_at(tmp_path, database_url) as host:
        await model(host, server)
        await host.agent(**RESUMABLE, **asking(max_cost_per_run=150.0))
        run_id = await host.start([ASK, ASK, ASK, ASK, ASK, ASK, ASK, TELL], **PLACE)
        paid = 0
        while True:
            pause = await waiting(host, run_id)
            await parked(host, run_id)
            assert len(server.requests) > paid
            paid = len(server.requests)
            (account,) = await accounts(host)
            assert account.balance.used.cost == paid * 11 * 10**9
            assert account.balance.reserved.cost == 0
            await decide(host, pause, decision(pause.calls[0]))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(20):
                    ended = await host.ended(run_id)
                    break
        assert codes(ended) == ["ok"] * 7
        assert len(server.requests) == 7
        (account,) = await accounts(host)
        assert account.balance.used.cost == 7 * 11 * 10**9


async def test_what_is_added_lets_all_go_on_that_wait_for_it(tmp_path: Path, database_url: str) -> None:
    """One person is asked by five runs of one account, and says it once."""
    async with host_at(tmp_path, database_url) as host:
        await host.agent(**RESUMABLE, **asking(max_calls_per_day=5))
        steps: Steps = [READ, READ, TELL]
        runs = [await host.start(steps, **{**PLACE, "conversation_id": f"c{n}"}) for n in range(5)]
        found: dict[str, PauseView] = {}
        while sum(len(pause.calls) for pause in found.values()) < 5:
            page = await host.host.pauses.page(ADMIN, statuses=["open"])
            found = {pause.run_id: pause for pause in page.items}
            ended = [
                run for run in runs if (await host.host.runs.record(WORKSPACE, run)).status == "completed"
            ]
            if len(found) + len(ended) == 5:
                break
            await asyncio.sleep(0.01)
        pause = next(iter(found.values()))
        edited = {**pause.calls[0].args, "top_up": {"calls": 50}}
        await decide(host, pause, decision(pause.calls[0], edited_args=edited))
        for run_id in runs:
            assert codes(await host.ended(run_id)) == ["ok", "ok"]
        (account,) = await accounts(host)
        assert (account.balance.used.calls, account.balance.added.calls) == (10, 50)
        facts = await host.host.db.read(lambda tx: audit.page(tx, WORKSPACE))
        assert [fact.action for fact in facts].count("budget.topped_up") == 1


@pytest.mark.parametrize("after", [WorkspaceBudget(max_calls=50, on_exceeded="ask"), WorkspaceBudget(), None])
async def test_a_workspaces_budget_that_is_raised_or_removed_lets_go_on(
    tmp_path: Path, database_url: str, after: WorkspaceBudget | None
) -> None:
    async with host_at(tmp_path, database_url) as host:
        await host.agent(**RESUMABLE)

        async def limit(budget: WorkspaceBudget | None) -> None:
            entry = WorkspaceEntry(name=WORKSPACE, budget=budget)
            await host.host.apply(ConfigFile(workspaces=[entry]), actor="operator")

        await limit(WorkspaceBudget(max_calls=1, on_exceeded="ask"))
        run_id = await host.start([SET, READ, TELL], **PLACE)
        pause = await waiting(host, run_id)
        assert pause.calls[0].args["account"].startswith("workspace.0.")
        await limit(WorkspaceBudget(max_calls=1, max_calls_per_day=9, on_exceeded="ask"))
        for _ in range(2):  # it is as full as before
            assert await host.host.pauses.sweep() == 0
        await limit(after)
        assert codes(await host.ended(run_id)) == ["ok", "ok"]
        ended = await host.host.pauses.get(ADMIN, pause.id)
        assert ended.calls[0].decision == "approved"
        facts = await host.host.db.read(lambda tx: audit.page(tx, WORKSPACE))
        assert "budget.topped_up" not in [fact.action for fact in facts]


async def test_parallel_calls_of_one_run_wait_in_one_pause(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.agent(**RESUMABLE, **asking(max_calls_per_run=0))
        together: list[Any] = ["together", [READ], [SET], [READ]]
        run_id = await host.start([together, TELL], **PLACE)
        pause = await waiting(host, run_id, calls=3)
        edited = {**pause.calls[1].args, "top_up": {"calls": 2}}
        await decide(host, pause, decision(pause.calls[1], edited_args=edited))
        # two go on; the third finds too little again, and asks again
        while len((again := await waiting(host, run_id)).calls) != 1 or again.id == pause.id:
            await asyncio.sleep(0.01)
        await decide(host, again, decision(again.calls[0]))
        ended = await host.ended(run_id)
        assert sorted(codes(ended)) == ["ok"] * 3


async def test_nobody_answers(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.agent(**RESUMABLE, **asking(max_calls_per_run=1, expires_in=60))
        run_id = await host.start([READ, READ, READ, TELL], **PLACE)
        await waiting(host, run_id)
        await parked(host, run_id)
        late = "UPDATE pause_calls SET expires_at = 1"

        def expire(tx: Any) -> None:
            from hostler.storage.port import Query

            for text in (late, "UPDATE pauses SET expires_at = 1"):
                tx.run(Query("test.sql", text, text))

        await host.host.db.write(expire)
        await host.host.pauses.sweep()
        assert codes(await host.ended(run_id)) == ["ok", "expired", "expired"]


async def test_who_may_add(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        ann, bob = await person(host, "ann"), await person(host, "bob")
        await host.agent(**RESUMABLE, **asking(max_calls_per_run=1, approvers=["user:ann"]))
        run_id = await host.start([READ, SET, TELL], **PLACE)
        pause = await waiting(host, run_id)
        (call,) = pause.calls
        with pytest.raises(Exception, match="no pause"):  # he may not even see it
            await decide(host, pause, decision(call), by=bob)
        for wrong in (
            {**call.args, "limit": 99},
            {**call.args, "account": "day.0.x"},
            {**call.args, "top_up": {"calls": -5}},
            {**call.args, "top_up": {"calls": 10**30}},
            {**call.args, "top_up": {"cost": 5}},
            {**call.args, "top_up": {"calls": 1, "cost": 5}},
            {"top_up": {"calls": 1}},
        ):
            with pytest.raises(UnprocessableError):
                await decide(host, pause, decision(call, edited_args=wrong), by=ann)
        stale = msgspec.structs.replace(decision(call), args_hash="x")
        with pytest.raises(StaleViewError):
            await decide(host, pause, stale, by=ann)
        assert await decide(host, pause, decision(call), by=ann) == "ready"
        assert await decide(host, pause, decision(call), by=ann) in {"ready", "resuming", "resumed"}
        assert codes(await host.ended(run_id)) == ["ok", "ok"]
        (account,) = await accounts(host)
        assert (account.balance.added.calls, account.added_by) == (1, "ann"), "said twice, added once"


async def test_a_runner_that_gives_the_call_up_leaves_nobody_asked(tmp_path: Path) -> None:
    async with host_at(tmp_path, hold_seconds=60.0) as host, Latch(tmp_path) as asked:
        await host.agent(**asking(max_calls_per_run=1))
        async with Latch(tmp_path, "end") as end:
            leave = ["leave", READ[1], READ[2], asked.path]
            run_id = await host.start([READ, leave, ["gate", end.path], ["say", "on"]], **PLACE)
            pause = await waiting(host, run_id)
            asked.open()
            over = await waiting(host, run_id, status="resumed")
            assert (over.id, over.calls[0].decision) == (pause.id, "cancelled")
        assert (await host.ended(run_id)).record.status == "completed"
