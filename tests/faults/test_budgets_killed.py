"""A cap of a dollar, 64 children at once, kill -9 in the middle: never over it, and nothing is paid twice.

The service counts the money itself, for every request that reaches it. Each call uses all that it may use, so
that whatever the host lets through beyond the cap is paid.
"""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.bank import Bank
from support.model_server import ModelServer
from support.server_process import PLUGINS, HostProcess, config_file
from support.two_hosts import LEASE, LOOKS
from support.wire_client import LOST, ask

pytestmark = pytest.mark.gate("budgets")

CAP = Decimal(1)
CHILDREN = 64
QUESTIONS = 4
"""Of each child: together they cost more than the cap."""
OUTPUT = 40
KILLS = [6, 30, 40]
"""After so many payments more; up to 64 calls are under way each time, three of them are paid at least."""
SECONDS = 600
LOOK_SECONDS = 0.1
CHILD = "child"
CONSTANTS = {**LOOKS, "hostler.domain.recovery.MAX_DELAY_SECONDS": 2}


def question(child: int, nth: int) -> list[Any]:
    message = {"role": "user", "content": f"c{child}.q{nth} " + "why " * 20}
    asked = {"model_id": "m", "messages": [message], "extra_args": {"max_tokens": OUTPUT}}
    return ["call", "model.stream" if nth % 2 else "model.invoke", asked]


def family() -> list[Any]:
    children = []
    for number in range(CHILDREN):
        steps = [*(question(number, nth) for nth in range(QUESTIONS)), ["tell"]]
        given = {"agent": CHILD, "input": {"text": json.dumps(steps)}, "wait": SECONDS}
        children.append([["call", "run.create", given]])
    return [["together", *children], ["tell"]]


class Attack:
    """The hosts that are killed in turn, and who looks at them."""

    def __init__(self, hosts: list[HostProcess], bank: Bank) -> None:
        self.hosts, self.bank = hosts, bank

    @property
    def host(self) -> HostProcess:
        """The next one to be killed; it is up."""
        return self.hosts[0]

    async def kill(self, next_after: int | None) -> None:
        """Kill a host while three requests that were paid are not answered; start it again.

        `next_after`: how many payments later is the next kill, however long this host takes to start.
        """
        assert self.bank.held_after is not None
        await self.bank.server.asked(self.bank.held_after + 3)
        self.host.kill()
        self.bank.hold_after(next_after)
        self.bank.release()
        await self.host.start()
        self.hosts.append(self.hosts.pop(0))

    async def get(self, path: str) -> Any:
        while True:
            try:
                answer = await ask(self.host.url, "GET", path)
            except LOST:
                await asyncio.sleep(LOOK_SECONDS)
                continue
            assert answer.status == 200, answer
            return answer.json()

    async def all(self, path: str) -> list[Any]:
        found: list[Any] = []
        cursor: str | None = ""
        while cursor is not None:
            page = await self.get(f"{path}&limit=100" + (f"&cursor={cursor}" if cursor else ""))
            found += page["items"]
            cursor = page["next_cursor"]
        return found

    async def waiting_for_money(self) -> list[Any]:
        """Wait until every child that is not over waits for a person; its pauses."""
        while True:
            runs = await self.all(f"/v1/runs?agent={CHILD}")
            left = {run["run_id"] for run in runs if run["status"] != "completed"}
            pauses = await self.all("/v1/pauses?status=open")
            if len(runs) == CHILDREN and left == {pause["run_id"] for pause in pauses}:
                return pauses
            self.host.check()
            await asyncio.sleep(LOOK_SECONDS)

    async def add(self, pause: Any, dollars: float) -> None:
        (call,) = pause["calls"]
        action = {
            "call_id": call["call_id"],
            "type": "approve",
            "args_hash": call["args_hash"],
            "edited_args": {**call["args"], "top_up": {"cost": dollars}},
        }
        body = {"revision": pause["revision"], "actions": [action]}
        answer = await ask(self.host.url, "POST", f"/v1/pauses/{pause['id']}/actions", body)
        assert answer.status == 202, answer

    async def ended(self, run_id: str) -> Any:
        while (run := await self.get(f"/v1/runs/{run_id}"))["status"] in {
            "queued",
            "claimed",
            "running",
            "paused",
        }:
            self.host.check()
            await asyncio.sleep(LOOK_SECONDS)
        return run

    async def answers(self, run_id: str) -> list[str]:
        """The recorded answers of a run's model."""
        entries: list[Any] = []
        more = True
        while more:
            after = entries[-1]["position"] if entries else 0
            page = await self.get(f"/v1/runs/{run_id}/journal?after={after}&limit=100")
            entries, more = entries + page["items"], page["has_more"]
        asked = [one for one in entries if one["kind"] == "call" and one["type"].startswith("model.")]
        replies = [entry["data"].get("reply") for entry in asked]
        return [reply["message"]["content"] for reply in replies if reply is not None]


@pytest.mark.timeout(SECONDS + 60)
async def test_a_dollar_is_a_dollar(tmp_path: Path, database_url: str) -> None:
    """On SQLite by one host, on PostgreSQL by two that are killed in turn."""
    names = ["first", "second"] if database_url.startswith("postgresql:") else ["alone"]
    database = database_url if len(names) > 1 else None
    async with ModelServer() as server, asyncio.timeout(SECONDS):
        bank = Bank(server)
        budget = {"max_cost_per_run": float(CAP), "on_exceeded": "ask"}
        shared = {"runner": "plugin:test/stepper/resumable", "recovery": {"max_attempts": 20}}
        agents = [
            {"name": "parent", **shared, "resource_policy": {"allowed_agents": [CHILD], "budget": budget}},
            {"name": CHILD, **shared, "resource_policy": {"allowed_model_ids": ["m"]}},
        ]
        models = [msgspec.to_builtins(bank.entry())]
        plugins = [PLUGINS / "stepper"]
        config = config_file(tmp_path / "config.yaml", plugins=plugins, agents=agents, models=models)
        options = ["--hold-seconds", "0.2", *(LEASE if database else ())]
        hosts = [
            HostProcess(tmp_path / name, config, database, options=options, constants=CONSTANTS)
            for name in names
        ]
        try:
            for host in hosts:
                await host.start()
            await attacked(Attack(hosts, bank))
        except BaseException:
            print(*(host.log for host in hosts), sep="\n---\n")
            raise
        finally:
            for host in hosts:
                host.end()


async def attacked(attack: Attack) -> None:
    bank = attack.bank
    event = {"event_type": "message.received", "agent": "parent", "input": {"text": json.dumps(family())}}
    bank.hold_after(KILLS[0])
    accepted = (await ask(attack.host.url, "POST", "/v1/events", event)).json()
    run_id = accepted["run"]["run_id"]
    for next_after in [*KILLS[1:], None]:
        await attack.kill(next_after)
        assert bank.paid <= CAP
    pauses = await attack.waiting_for_money()
    assert pauses, "it was enough for all"
    assert bank.paid <= CAP
    (account,) = {pause["calls"][0]["args"]["account"] for pause in pauses}
    assert account == f"run.0.{run_id}"
    for pause in pauses:
        asked = pause["calls"][0]["args"]
        assert asked["used"] + asked["reserved"] + asked["needs"] > CAP, "there was enough left"
        assert asked["used"] >= bank.paid or asked["reserved"] > 0

    bank.hold_after(20)
    await attack.add(pauses[0], 4.0)
    await attack.kill(None)
    children = [await attack.ended(one["run_id"]) for one in await attack.all(f"/v1/runs?agent={CHILD}")]
    assert [child["status"] for child in children] == ["completed"] * CHILDREN
    assert (await attack.ended(run_id))["status"] == "completed"
    assert bank.paid <= CAP + 4
    assert not bank.unlimited

    recorded: dict[str, int] = {}
    for child in children:
        for answer in await attack.answers(child["run_id"]):
            text, _, number = answer.rpartition("#")
            assert text not in recorded, "two answers to one question are recorded"
            recorded[text] = int(number)
    assert len(recorded) == CHILDREN * QUESTIONS
    for payment in bank.payments:
        assert payment.number <= recorded[payment.question], (
            f"{payment} was paid after its answer was recorded"
        )
    again = len(bank.payments) - len(recorded)
    assert again >= len(KILLS), "no kill hit a call that was paid: the test shows less than it should"
