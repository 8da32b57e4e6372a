"""What budgets are of: families, conversations, persons, workspaces; and what a call may use of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.allowances import WorkspaceEntry
from hostler.domain.budget_limits import WorkspaceBudget
from hostler.domain.events import Caller
from hostler.domain.model_entries import ModelEntry, Price
from hostler.host.config import ConfigFile
from hostler.host.maintenance import delete_conversation
from hostler.storage.stores import budget_accounts
from hostler.storage.stores.budget_accounts import StoredAccount
from hostler_protocol.events import EventEnvelope
from support.bank import Bank
from support.budgeted import ASK, INPUT, PLACE, QUESTION, READ, codes, model
from support.gates import Gate
from support.model_answers import Answer
from support.model_server import ModelServer
from support.stepping import WORKSPACE, Ended, Stage, Steps, stage, within

pytestmark = pytest.mark.gate("budgets")

TELL = ["tell"]


@contextlib.asynccontextmanager
async def host_at(tmp_path: Path, database: str | None = None, **settings: Any) -> AsyncIterator[Stage]:
    if database is not None and not database.startswith("postgresql:"):
        database = None
    async with within(), stage(tmp_path, database=database, **settings) as host:
        yield host


def bounded(**budget: Any) -> dict[str, Any]:
    return {"resource_policy": {"budget": budget}}


def asks_models(**budget: Any) -> dict[str, Any]:
    return {"resource_policy": {"budget": budget, "allowed_model_ids": ["m"]}}


async def accounts(host: Stage) -> dict[str, StoredAccount]:
    found = await host.host.db.read(lambda tx: budget_accounts.page(tx, WORKSPACE, limit=100))
    return {account.key.span: account for account in found}


def asking(**changes: Any) -> list[Any]:
    return ["call", "model.invoke", {**QUESTION, **changes}]


async def from_(host: Stage, subject: str, steps: Steps, **fields: Any) -> Ended:
    given = {
        "event_type": "message.received",
        "agent": "main",
        "input": {"text": json.dumps(steps)},
        **fields,
    }
    caller = Caller(WORKSPACE, subject, f"key of {subject}")
    accepted = await host.host.orchestrator.accept(msgspec.convert(given, EventEnvelope), caller)
    assert accepted.run is not None
    return await host.ended(accepted.run.run_id)


# -- whose ----------------------------------------------------------------------------------------


async def test_a_conversation_has_its_own_budget_ever(tmp_path: Path, database_url: str) -> None:
    async with host_at(tmp_path, database_url) as host:
        await host.agent(**bounded(max_calls_per_conversation=3))
        steps: Steps = [READ, READ, TELL]
        assert codes(await host.run(steps, **PLACE, conversation_id="c1")) == ["ok", "ok"]
        ended = await host.run(steps, **PLACE, conversation_id="c1", thread_id="t")
        assert codes(ended) == ["ok", "unauthorized"]
        assert ended.told[1]["error"]["details"]["account"] == "conversation"
        assert codes(await host.run(steps, **PLACE, conversation_id="c2")) == ["ok", "ok"]
        alone = await host.run([READ] * 4 + [TELL], **PLACE)
        assert codes(alone) == ["ok", "ok", "ok", "unauthorized"], "one by itself"


async def test_a_person_is_who_sent_it_and_not_whom_it_names(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.agent(**bounded(max_calls_per_person_day=3))
        steps: Steps = [READ, READ, TELL]
        for number, expected in enumerate((["ok", "ok"], ["ok", "rate_limited"], ["rate_limited"] * 2)):
            actor = {"actor_id": f"made-up-{number}"}
            conversation = f"c{number}"
            ended = await from_(host, "ann", steps, actor=actor, conversation_id=conversation)
            assert codes(ended) == expected
        assert codes(await from_(host, "bob", steps, actor={"actor_id": "made-up-0"})) == ["ok", "ok"]


async def test_a_workspace_has_a_budget_that_holds_at_once(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.agent()
        await host.agent("other", **bounded(max_calls_per_day=99))

        async def limit(most: int | None) -> None:
            entry = WorkspaceEntry(name=WORKSPACE, budget=WorkspaceBudget(max_calls_per_day=most))
            await host.host.apply(ConfigFile(workspaces=[entry]), actor="operator")

        await limit(3)
        assert codes(await host.run([READ, READ, TELL], **PLACE)) == ["ok", "ok"]
        ended = await host.run([READ, READ, TELL], agent="other", **PLACE)
        assert codes(ended) == ["ok", "rate_limited"]
        assert ended.told[1]["error"]["details"]["account"] == "workspace_day"
        await limit(4)
        assert codes(await host.run([READ, READ, TELL], **PLACE)) == ["ok", "rate_limited"]
        await limit(None)
        assert codes(await host.run([READ, READ, TELL], **PLACE)) == ["ok", "ok"]


async def test_a_childs_models_are_paid_by_everyone_above_it(tmp_path: Path, database_url: str) -> None:
    async with ModelServer() as server, host_at(tmp_path, database_url) as host:
        bank = Bank(server)
        await host.models(bank.entry())
        question = asking(extra_args={"max_tokens": 50})
        grandchild = {"agent": "deep", "input": {"text": json.dumps([question] * 3 + [TELL])}, "wait": 30}
        child = {
            "agent": "child",
            "input": {"text": json.dumps([["call", "run.create", grandchild], TELL])},
            "wait": 30,
        }
        policy = {"allowed_agents": ["child", "deep"]}
        await host.agent(resource_policy={**policy, "budget": {"max_cost_per_run": 0.012}})
        await host.agent("child", resource_policy={**policy, "budget": {"max_cost_per_day": 1.0}})
        await host.agent("deep", resource_policy={"allowed_model_ids": ["m"]})
        ended = await host.run([["call", "run.create", child], TELL], **PLACE)
        said = ended.told[0]["output"]["text"]
        assert "unauthorized" in said
        assert len(bank.payments) == 2, "two fit into what may be used; of the third too little was left"
        found = await accounts(host)
        paid = int(bank.paid * 10**9)
        assert (found["run"].balance.used.cost, found["day"].balance.used.cost) == (paid, paid)


async def test_a_deleted_conversation_leaves_its_budget_without_its_name(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.agent(**bounded(max_calls_per_conversation=3))
        await host.run([READ, READ, TELL], **PLACE, conversation_id="c1")
        assert (await accounts(host))["conversation"].conversation_id == "c1"
        await delete_conversation(host.host.data, WORKSPACE, "c1", by="tester")
        after = (await accounts(host))["conversation"]
        assert (after.conversation_id, after.balance.used.calls) == (None, 2)
        assert codes(await host.run([READ, READ, TELL], **PLACE, conversation_id="c1")) == [
            "ok",
            "unauthorized",
        ]


# -- how much -------------------------------------------------------------------------------------


async def test_a_call_gets_less_output_where_less_is_left(tmp_path: Path) -> None:
    async with ModelServer() as server, host_at(tmp_path) as host:
        await model(host, server)
        await host.agent(**asks_models(max_tokens_per_run=INPUT + 400))
        ended = await host.run(
            [asking(extra_args={"max_tokens": 1000}), asking(extra_args={}), TELL], **PLACE
        )
        assert codes(ended) == ["ok", "ok"]
        first, second = (request.json for request in server.requests)
        assert 390 <= first["max_tokens"] <= 400
        assert second["max_tokens"] == first["max_tokens"] - 18 + len('"max_tokens":1000')
        (call, _) = ended.entries("call", "model.invoke")
        reserved = call["data"]["reserved"]
        assert (reserved["output_tokens"], reserved["tokens"]) == (first["max_tokens"], INPUT + 400)


async def test_calls_at_once_wait_for_each_other_and_all_are_made(tmp_path: Path, database_url: str) -> None:
    """Of what they may use two fit at once; of what they do use all six."""
    async with ModelServer() as server, host_at(tmp_path, database_url) as host:
        await model(host, server)
        gates = [Gate() for _ in range(6)]
        for gate in gates:
            server.add(Answer(pieces=["ok"], hold=gate))
        await host.agent(**asks_models(max_tokens_per_run=2 * (INPUT + 1000) + 200))
        together: list[Any] = ["together", *([asking(extra_args={"max_tokens": 1000})] for _ in range(6))]
        run_id = await host.start([together, TELL], **PLACE)
        await server.asked(2)
        for number, gate in enumerate(gates):
            await server.asked(min(number + 2, 6))
            assert len(server.requests) <= number + 2
            gate.open()
        ended = await host.ended(run_id)
        assert codes(ended) == ["ok"] * 6
        (account,) = (await accounts(host)).values()
        assert (account.balance.used.tokens, account.balance.reserved.tokens) == (6 * 18, 0)
        assert host.host.freed.waited > 0


async def test_a_model_without_a_price_is_refused_under_a_budget_of_cost(tmp_path: Path) -> None:
    async with ModelServer() as server, host_at(tmp_path) as host:
        server.always("ok")
        await host.models(ModelEntry(id="m", base_url=server.base_url, model="x"))
        await host.agent(**asks_models(max_cost_per_day=5.0))
        ended = await host.run([ASK, TELL], **PLACE)
        error = ended.told[0]["error"]
        assert (error["code"], error["details"]["reason"]) == ("unauthorized", "no_price")
        await host.models(ModelEntry(id="m", base_url=server.base_url, model="x", price=Price()))
        assert codes(await host.run([ASK, TELL], **PLACE)) == ["ok"]
        assert len(server.requests) == 1


async def test_a_runner_may_not_send_what_changes_the_price(tmp_path: Path) -> None:
    async with ModelServer() as server, host_at(tmp_path) as host:
        await model(host, server)
        await host.agent(**asks_models(max_cost_per_day=5000.0))
        dear = asking(extra_args={"service_tier": "priority"})
        endless = asking(extra_args={"max_tokens": -1})
        assert codes(await host.run([dear, endless, TELL], **PLACE)) == ["invalid_argument"] * 2
        await host.agent()
        assert server.requests == []


@pytest.mark.parametrize(
    ("answer", "code", "counted"),
    [
        ({"status": 400, "body": b'{"error": {"message": "no"}}'}, "invalid_argument", 0),
        ({"status": 503, "body": b'{"error": {"message": "busy"}}'}, "runtime_error", 0),
        ({"status": 504, "body": b"gateway"}, "runtime_error", INPUT + 7),
        ({"close": True}, "runtime_error", INPUT + 7),
        ({"pieces": ["x"], "cut_after": 9}, "runtime_error", INPUT + 7),
        ({"pieces": ["x"], "usage": None}, "ok", INPUT + 7),
        ({"pieces": ["x"]}, "ok", 18),
        ({"pieces": ["x"], "usage": {"prompt_tokens": 5, "completion_tokens": 900}}, "ok", 905),
    ],
)
async def test_what_is_not_known_counts_as_it_was_reserved(
    tmp_path: Path, answer: dict[str, Any], code: str, counted: int
) -> None:
    async with ModelServer() as server, host_at(tmp_path) as host:
        await host.models(ModelEntry(id="m", base_url=server.base_url, model="x", max_retries=0))
        server.add(Answer(**answer))
        await host.agent(**asks_models(max_tokens_per_day=10_000))
        assert codes(await host.run([ASK, TELL], **PLACE)) == [code]
        (account,) = (await accounts(host)).values()
        assert (account.balance.used.tokens, account.balance.reserved.tokens) == (counted, 0)
        assert host.host.freed.overruns == (counted == 905)


async def test_embeddings_take_what_their_service_says(tmp_path: Path) -> None:
    async with ModelServer() as server, host_at(tmp_path) as host:
        price = Price(input=1_000_000.0)
        entry = ModelEntry(id="v", base_url=server.base_url, model="x", price=price, type="embedding")
        await host.models(entry)
        body = json.dumps({"data": [{"index": 0, "embedding": [0.5]}], "usage": {"prompt_tokens": 3}})
        for _ in range(2):
            server.raw(body.encode())
        policy = {"allowed_model_ids": ["v"], "budget": {"max_cost_per_run": 90.0}}
        await host.agent(resource_policy=policy)
        embed = ["call", "model.embed", {"model_id": "v", "inputs": ["some text"]}]
        long = ["call", "model.embed", {"model_id": "v", "inputs": ["some text" * 20]}]
        ended = await host.run([embed, long, embed, TELL], **PLACE)
        assert codes(ended) == ["ok", "unauthorized", "ok"]
        assert (await accounts(host))["run"].balance.used.cost == 6 * 10**9


async def test_a_request_that_is_repeated_is_reserved_for_again(tmp_path: Path) -> None:
    async with ModelServer() as server, host_at(tmp_path) as host:
        await host.models(ModelEntry(id="m", base_url=server.base_url, model="x", max_retries=2))
        await host.agent(**asks_models(max_tokens_per_day=3 * (INPUT + 7)))
        server.refuse_connection(times=2)
        server.say("ok")
        assert codes(await host.run([ASK, TELL], **PLACE)) == ["ok"]
        (account,) = (await accounts(host)).values()
        assert account.balance.used.tokens == 2 * (INPUT + 7) + 18
        await host.agent("poor", **asks_models(max_tokens_per_day=2 * (INPUT + 7) - 1))
        server.refuse_connection(times=2)
        assert codes(await host.run([ASK, TELL], agent="poor", **PLACE)) == ["runtime_error"]
        assert len(server.requests) == 4, "of the second try nothing was left: it was not made"


async def test_a_run_that_ends_in_the_middle_of_a_call_leaves_nothing_reserved(tmp_path: Path) -> None:
    async with ModelServer() as server, host_at(tmp_path) as host:
        await model(host, server)
        server.add(Answer(pieces=["x"], hold=Gate()))
        await host.agent(**asks_models(max_tokens_per_day=10_000))
        run_id = await host.start([ASK, TELL], **PLACE)
        await server.asked(1)
        (account,) = (await accounts(host)).values()
        assert (account.balance.used.tokens, account.balance.reserved.tokens) == (0, INPUT + 7)
        await host.cancel(run_id)
        assert (await host.ended(run_id)).record.status == "cancelled"
        (account,) = (await accounts(host)).values()
        assert (account.balance.used.tokens, account.balance.reserved.tokens) == (INPUT + 7, 0)


async def test_calls_of_tools_and_time(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        foreign = ["call", "tool.call", {"tool_name": "nobody.knows", "parameters": {}}]
        await host.agent(**bounded(max_tool_calls_per_run=0, max_seconds_per_day=3600))
        assert codes(await host.run([foreign, READ, TELL], **PLACE)) == ["not_found", "ok"]
        while (await accounts(host))["day"].balance.used.seconds >= 10_000:
            await asyncio.sleep(0.01)  # what was charged ahead is given back after the end


async def test_time_that_is_used_up(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await host.agent(**bounded(max_seconds_per_day=0.05))
        while codes(await host.run([READ, TELL], **PLACE)) != ["rate_limited"]:
            pass  # each takes some of it
        await host.agent("strict", **bounded(max_seconds_per_run=0.2, on_exceeded="end"))
        ended = await host.run([["hold"]], agent="strict", **PLACE)
        assert (ended.record.status, ended.record.status_code) == ("failed", "budget.exceeded")
        assert ended.last["error"] == "the budget of 0.2 seconds of this run is used up"
        run = (await accounts(host))["run"]
        assert run.balance.used.seconds < 5_000, "it ended soon after"


async def test_what_waits_for_people_is_counted_once(tmp_path: Path) -> None:
    """Parked and made again, an approved call of a tool is one call."""
    from support.shop import BOOK, decide, decision, parked, shop, waiting

    async with shop(tmp_path) as host:
        policy = {"allowed_tool_names": ["shop.*"], "tool_approval": {"shop.*": "required"}}
        budget = {"max_tool_calls_per_run": 1, "max_calls_per_run": 2}
        await host.agent(runner="resumable", resource_policy={**policy, "budget": budget})
        run_id = await host.start([BOOK, READ, READ, TELL], **PLACE)
        pause = await waiting(host, run_id)
        await parked(host, run_id)
        await decide(host, pause, decision(pause.calls[0]))
        assert codes(await host.ended(run_id)) == ["ok", "ok", "unauthorized"]


async def test_ten_runs_at_once_use_no_more_than_there_is(tmp_path: Path, database_url: str) -> None:
    async with ModelServer() as server, host_at(tmp_path, database_url) as host:
        bank = Bank(server)
        await host.models(bank.entry())
        await host.agent(**asks_models(max_cost_per_day=0.1))
        steps: Steps = [asking(extra_args={"max_tokens": 60})] * 4 + [TELL]
        await asyncio.gather(*(host.run(steps, **PLACE, conversation_id=f"c{n}") for n in range(10)))
        assert float(bank.paid) <= 0.1
        assert float(bank.paid) > 0.09
