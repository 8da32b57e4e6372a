"""Conversations and use, as lists and reports show them, on both databases."""

from __future__ import annotations

import time
from typing import Any

from hostler.domain.keys import state_value_of
from hostler.domain.place import Place
from hostler.domain.scopes import StateArea
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import conversations, runs, transcripts, usage
from hostler.storage.stores import state_values as states
from hostler.storage.stores.hosts import Membership
from hostler_protocol.content import Message, Usage
from hostler_protocol.limits import MAX_INTEGER
from hostler_protocol.runs import RunStatus
from support.databases import read, write
from support.run_rows import new


def say(database: SqlDatabase, conversation: str | None, text: str, ws: str = "w") -> None:
    item = transcripts.item_of(Message(role="user", content=text), Place(conversation_id=conversation))
    write(database, lambda tx: transcripts.append(tx, ws, item))


def pages(database: SqlDatabase, limit: int, ws: str = "w") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    before: int | None = None
    for _ in range(100):
        page = read(database, lambda tx, at=before: conversations.page(tx, ws, before=at, limit=limit))  # type: ignore[misc]
        found += [(item.conversation_id, item.content) for item in page.items]
        before = page.before
        if before is None:
            return found
    raise AssertionError("the list does not end")


def test_conversations_come_by_their_latest_message(database: SqlDatabase) -> None:
    for conversation, text in (("a", "1"), ("b", "2"), (None, "3"), ("a", "4"), ("c", "5"), ("b", "6")):
        say(database, conversation, text)
    say(database, "a", "other", ws="v")
    expected = [("b", "6"), ("c", "5"), ("a", "4")]
    for limit in (1, 2, 3, 100):
        assert pages(database, limit) == expected
    assert pages(database, 10, "v") == [("a", "other")]
    assert pages(database, 10, "nobody") == []
    assert read(database, lambda tx: conversations.known(tx, "w", "a"))
    assert not read(database, lambda tx: conversations.known(tx, "v", "b"))


def test_a_page_looks_at_a_bounded_number_of_messages(database: SqlDatabase, monkeypatch: Any) -> None:
    monkeypatch.setattr(conversations, "SCAN_ROWS", 3)
    monkeypatch.setattr(conversations, "MAX_STEPS", 2)
    say(database, "old", "first")
    for number in range(13):
        say(database, "busy", str(number))
    first = read(database, lambda tx: conversations.page(tx, "w", before=None, limit=10))
    assert [item.conversation_id for item in first.items] == ["busy"]
    assert first.before is not None  # six messages were looked at; the rest is for the next page
    assert pages(database, 10) == [("busy", "12"), ("old", "first")]


def test_the_state_of_a_conversation_of_all_agents(database: SqlDatabase) -> None:
    def fill(tx: Any) -> None:
        for agent in ("x", "y"):
            for key in ("k1", "k2", "k3"):
                area = StateArea("conversation", agent * 64, agent, "c")
                states.set(tx, "w", area, key, state_value_of(f"{agent} {key}"))
        states.set(tx, "w", StateArea("conversation", "z" * 64, "x", "other"), "k", '"foreign"')
        states.delete(tx, "w", "y" * 64, "k2")

    write(database, fill)
    seen: list[tuple[str, str, bytes]] = []
    after = ("", "")
    while True:
        found, more = read(
            database,
            lambda tx, at=after: conversations.states(tx, "w", "c", after=at, limit=2),  # type: ignore[misc]
        )
        seen += [(entry.agent_id, entry.key, bytes(entry.value)) for entry in found]
        if not more:
            break
        after = (found[-1].scope_key, found[-1].key)
    assert seen == [
        *[("x", key, f'"x {key}"'.encode()) for key in ("k1", "k2", "k3")],
        *[("y", key, f'"y {key}"'.encode()) for key in ("k1", "k3")],
    ]


def test_use_and_cost_are_summed_per_agent_and_day(database: SqlDatabase) -> None:
    def run(
        number: int, agent: str, to: RunStatus | None, used: Usage | None, cost: str | None, ws: str = "w"
    ) -> None:
        opened = new(f"{ws}{number}", workspace=ws, agent_id=agent, agent_name=agent)

        def work(tx: Any) -> None:
            runs.open(tx, opened, Membership("host"))
            runs.transition(tx, opened.run_id, 1, "running", cause="t", actor="t")
            if to is not None:
                runs.transition(tx, opened.run_id, 1, to, cause="t", actor="t", usage=used, cost=cost)

        write(database, work)

    run(1, "a", "completed", Usage(input_tokens=10, output_tokens=5), "0.25")
    run(2, "a", "failed", Usage(input_tokens=1), "0.5")
    run(3, "a", None, None, None)
    run(4, "b", "completed", None, None)
    run(5, "a", "completed", Usage(input_tokens=1000), "99", ws="v")
    now = int(time.time() * 1000)
    day = 86_400_000
    rows = read(database, lambda tx: usage.by_agent(tx, "w", since=now - day, until=now + day))
    assert [(row.agent_name, row.runs, row.completed, row.failed) for row in rows] == [
        ("a", 3, 1, 1),
        ("b", 1, 1, 0),
    ]
    first, second = rows
    assert (first.input_tokens, first.output_tokens, first.cached_tokens, first.cost) == (11, 5, None, 0.75)
    assert (second.input_tokens, second.cost) == (None, None)
    assert first.day in ((now - day) // day, now // day)
    only = read(
        database, lambda tx: usage.by_agent(tx, "w", since=now - day, until=now + day, agent_name="b")
    )
    assert [row.agent_name for row in only] == ["b"]
    assert read(database, lambda tx: usage.by_agent(tx, "w", since=0, until=now - day)) == []
    assert read(database, usage.open_runs) == {"running": 1}


def test_a_sum_of_the_largest_numbers_is_capped(database: SqlDatabase) -> None:
    def work(tx: Any) -> None:
        for number in range(1_100):  # 1,025 of them go over 64 bits
            runs.open(tx, new(f"r{number}", workspace="w"), Membership("host"))
            used = Usage(total_tokens=MAX_INTEGER, input_tokens=1)
            runs.transition(tx, f"r{number}", 1, "failed", cause="t", actor="t", usage=used)

    write(database, work)
    (row,) = read(database, lambda tx: usage.by_agent(tx, "w", since=0, until=2**50))
    assert (row.input_tokens, row.total_tokens, row.output_tokens) == (1_100, MAX_INTEGER, None)
