"""Lists of runs by filters on both databases: each once, in order, in pages of any size; and their sums."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.storage.port import Tx
from hostler.storage.sql.connect import open_database
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import run_lists, runs, transcripts
from hostler.storage.stores.erasure import drop_journal
from hostler.storage.stores.journal import NewEntry
from hostler.storage.stores.run_lists import RunFilter
from hostler_protocol.content import Message, Usage
from support.databases import read, write
from support.many_runs import insert_runs
from support.run_rows import H1, append, move, new, opened, result

pytestmark = pytest.mark.gate("both-databases")


def listed(database: SqlDatabase, limit: int = 7, **fields: Any) -> list[str]:
    """All runs of a list, page by page."""
    wanted, after = RunFilter(**fields), None
    found: list[str] = []
    while True:
        page = read(
            database, partial(run_lists.page, workspace_id="w1", wanted=wanted, after=after, limit=limit)
        )
        assert len(page.items) <= limit
        found += [run.run_id for run in page.items]
        after = page.after
        if after is None:
            return found


def summed(database: SqlDatabase, **fields: Any) -> run_lists.RunTotals:
    found, after = read(
        database, partial(run_lists.totals, workspace_id="w1", wanted=RunFilter(**fields), after=None)
    )
    assert after is None
    return found


def fill(database: SqlDatabase) -> list[str]:
    """Twenty runs, oldest first: of two agents, in three conversations, every fourth failed."""

    def work(tx: Tx) -> None:
        for number in range(20):
            agent = {"agent_id": f"a{number % 2}", "agent_name": f"agent{number % 2}"}
            runs.open(tx, new(f"r{number:02}", conversation_id=f"c{number % 3}", **agent), H1)
        runs.open(tx, new("foreign", workspace="w2"), H1)

    write(database, work)
    for number in range(20):
        usage = Usage(input_tokens=number, output_tokens=1)
        cost = None if number == 0 else f"{number}.5"
        to = "failed" if number % 4 == 3 else "completed"

        def end(tx: Tx, number: int = number, to: Any = to, usage: Usage = usage, cost: Any = cost) -> None:
            runs.transition(tx, f"r{number:02}", 1, "running", cause="test", actor="t")
            code: dict[str, Any] = {"status_code": "runner.error"} if to == "failed" else {}
            runs.transition(
                tx, f"r{number:02}", 1, to, cause="test", actor="t", usage=usage, cost=cost, **code
            )

        write(database, end)
    return [f"r{number:02}" for number in range(19, -1, -1)]


def test_each_filter_finds_its_runs_once_and_in_order(database: SqlDatabase) -> None:
    newest_first = fill(database)

    def of(*keep: bool) -> list[str]:
        return [run_id for run_id in newest_first if keep[int(run_id[1:])]]

    every = range(20)
    for limit in (1, 3, 100):
        assert listed(database, limit) == newest_first
        assert listed(database, limit, statuses=["failed"]) == of(*(n % 4 == 3 for n in every))
        assert listed(database, limit, statuses=["failed", "completed"]) == newest_first
        assert listed(database, limit, agent_name="agent1") == of(*(n % 2 == 1 for n in every))
        assert listed(database, limit, conversation_id="c2", agent_name="agent0") == of(
            *(n % 3 == 2 and n % 2 == 0 for n in every)
        )
        assert listed(database, limit, min_cost=15.5) == of(*(n >= 15 for n in every))
        assert listed(database, limit, tool="nothing") == []
        assert listed(database, limit, agent_name="foreign") == []
    first = read(database, partial(runs.get, workspace_id="w1", run_id="r05")).created_at
    assert set(listed(database, since=first)) >= {"r05", "r19"}
    assert "r19" not in listed(database, until=first - 1)


def test_sums_are_those_of_the_list(database: SqlDatabase) -> None:
    fill(database)
    whole = summed(database)
    assert whole.by_status == {"failed": 5, "completed": 15}
    assert (whole.input_tokens, whole.output_tokens, whole.cost, whole.timed) == (190, 20, 199.5, 20)
    some = summed(database, agent_name="agent1", statuses=["completed"])
    assert some.by_status == {"completed": 5}
    assert some.input_tokens == 1 + 5 + 9 + 13 + 17
    assert summed(database, tool="nothing") == run_lists.RunTotals()


async def test_a_run_is_found_by_the_tools_it_used_until_its_journal_is_dropped(
    database: SqlDatabase,
) -> None:
    await opened(database, new("r1"), new("r2"), new("r3"))
    for run_id in ("r1", "r2", "r3"):
        await move(database, run_id, 1, "running")
    call = NewEntry("call", "tool.call", '{"method":"tool.call","params":{"tool_name":"a"},"reply":{}}')
    large = NewEntry("call", "tool.call", '{"method":"tool.call","resource":"b","size_bytes":99}')
    told = result("tool.call.started", '{"tool_name":"a","tool_call_id":"1","parameters":{}}')
    await append(database, "r1", 1, call, call, large)
    await append(
        database, "r2", 1, told, NewEntry("refusal", "tool.call", '{"method":"tool.call","resource":"b"}')
    )
    await append(database, "r3", 1, result("tool.call.started", '{"tool_name":"' + "x" * 5000 + '"}'))
    find = partial(run_lists.page, workspace_id="w1", after=None, limit=9)
    found = {
        name: await database.read(partial(find, wanted=RunFilter(tool=name)))
        for name in ("a", "b", "x" * 5000)
    }
    assert [sorted(run.run_id for run in page.items) for page in found.values()] == [["r1", "r2"], ["r1"], []]
    await database.write(lambda tx: drop_journal(tx, "r1"))
    assert (await database.read(partial(find, wanted=RunFilter(tool="b")))).items == []


@pytest.mark.parametrize("hits", [2, 100])
def test_a_run_is_found_by_what_was_asked_or_answered_and_only_once(
    database: SqlDatabase, monkeypatch: pytest.MonkeyPatch, hits: int
) -> None:
    monkeypatch.setattr(run_lists, "_HITS", hits)

    def work(tx: Tx) -> None:
        for number in range(6):
            runs.open(tx, new(f"r{number}", conversation_id="c"), H1)
            for role, text in (
                ("user", f"where is order {number}?"),
                ("assistant", f"Order {number} is here: 订单"),
            ):
                message = msgspec.convert({"role": role, "content": text}, Message)
                item = transcripts.item_of(message, run_id=f"r{number}")
                transcripts.append(tx, "w1", item)

    write(database, work)
    for limit in (1, 2, 4, 100):
        assert listed(database, limit, text="order") == ["r5", "r4", "r3", "r2", "r1", "r0"]
    assert listed(database, text="订单", statuses=["claimed"]) == ["r5", "r4", "r3", "r2", "r1", "r0"]
    assert listed(database, text="order 3") == ["r3"]
    assert listed(database, text="order", agent_name="nobody") == []
    assert sum(summed_in_parts(database, "order")) == 6


def summed_in_parts(database: SqlDatabase, text: str) -> list[int]:
    parts, after = [], None
    while True:
        found, after = read(
            database,
            partial(run_lists.totals, workspace_id="w1", wanted=RunFilter(text=text), after=after),
        )
        parts.append(sum(found.by_status.values()))
        if after is None:
            return parts


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (RunFilter(), "runs_by_created"),
        (RunFilter(min_cost=1), "runs_by_created"),
        (RunFilter(agent_name="agent-3", statuses=["completed"]), "runs_by_agent"),
        (RunFilter(conversation_id="c"), "runs_by_conversation"),
        (RunFilter(statuses=["failed", "timeout"]), "runs_unsuccessful"),
        (RunFilter(tool="rare.tool"), "sqlite_autoindex_run_tools_1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_keys_are_read_from_an_index_alone(tmp_path: Path, wanted: RunFilter, index: str) -> None:
    path = tmp_path / "facts.db"
    open_database(path, readers=0)._driver.close()
    query = wanted.walk
    given = {"workspace_id": "w", "before_time": 9, "before_id": "", "limit": 5, "skip": 0, **wanted.params}
    with sqlite3.connect(path) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query.sqlite}", query.values(given)).fetchall()
    connection.close()
    assert index in plan[0][3], plan
    assert "COVERING" in plan[0][3] or index == "runs_unsuccessful", plan
    assert len(plan) == 1, plan


async def test_a_page_of_many_runs_reads_a_bounded_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lists, "SCANNED_RUNS", 500)
    database = open_database(tmp_path / "facts.db")
    try:
        insert_runs(tmp_path / "facts.db", 5000)
        asked: list[int] = []
        kept = run_lists._keys

        def counted(*args: Any) -> Any:
            keys = kept(*args)
            asked.append(len(keys.run_ids))
            return keys

        monkeypatch.setattr(run_lists, "_keys", counted)
        wanted, after, found, pages = RunFilter(min_cost=8.0), None, [], 0
        while pages == 0 or after is not None:
            asked.clear()
            look = partial(run_lists.page, workspace_id="default", wanted=wanted, after=after, limit=10)
            page = await database.read(look)
            assert sum(asked) <= 500
            found += page.items
            after, pages = page.after, pages + 1
        assert [run.cost for run in found] == ["9"] * 5
        assert pages == 10
    finally:
        await database.close()
