"""Crons of LangGraph's official client: schedules of the host, and the runs that they begin."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from langgraph_sdk.errors import (
    AuthenticationError,
    BadRequestError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    UnprocessableEntityError,
)

from hostler.host.data_directory import own_database
from hostler.storage.stores import schedules
from support.databases import TEST_SECONDS
from support.dialects.langgraph import AGENT, NODE_CLIENT, langgraph, plain, said, texts_of
from support.dialects.players import player, playing
from support.due_schedules import make_due
from support.front_ends import make_token
from support.http_host import ADMIN_KEY, OTHER, WORKSPACE, Served
from support.node_clients import node_clients

pytestmark = pytest.mark.gate("schedules")
DAILY = "30 7 * * mon-fri"
DRIVER = Path(__file__).parents[3] / "support" / "dialects" / "langgraph_crons.mjs"
TEXT = "早报 ☕👩‍👩‍👧"


async def fired(served: Served, cron_id: str, count: int = 1) -> list[dict[str, Any]]:
    """Wait until a cron has fired so often; its firings, newest first."""
    async with asyncio.timeout(TEST_SECONDS):
        while True:
            answer = await served.client.get(f"/v1/schedules/cron-{cron_id}/firings")
            items: list[dict[str, Any]] = answer.json()["items"]
            if len(items) >= count:
                return items
            await asyncio.sleep(0.02)


async def test_a_cron_of_a_thread(served: Served) -> None:
    async with langgraph(served.url) as client:
        thread = (await client.threads.create())["thread_id"]
        made = await client.crons.create_for_thread(
            thread,
            AGENT,
            schedule=DAILY,
            timezone=ZoneInfo("Europe/Berlin"),
            input=plain(TEXT, topic="天气"),
            config={"configurable": {"tone": "dry"}},
            context={"tone": "kind"},
            metadata={"user": "ada"},
            stream_mode="updates",
            multitask_strategy="enqueue",
            end_time=datetime(2190, 1, 1, tzinfo=UTC),
        )
        assert (made["assistant_id"], made["thread_id"], made["enabled"]) == (AGENT, thread, True)
        assert (made["schedule"], made["timezone"]) == (DAILY, "Europe/Berlin")
        assert (made["end_time"], made["metadata"]) == ("2190-01-01T00:00:00+00:00", {"user": "ada"})
        assert made["payload"]["input"] == {"messages": [{"role": "user", "content": TEXT}], "topic": "天气"}
        assert made["payload"]["config"] == {"configurable": {"tone": "dry"}}
        assert (made["on_run_completed"], made["user_id"]) == (None, "admin")
        assert datetime.fromisoformat(made["next_run_date"]) > datetime.now(UTC)
        cron = made["cron_id"]

        await make_due(served.host, f"cron-{cron}")
        await fired(served, cron)
        (run,) = await client.runs.list(thread)
        assert run["metadata"]["user"] == "ada"
        done = await client.runs.join(thread, run["run_id"])
        await make_due(served.host, f"cron-{cron}")
        newest, oldest = await fired(served, cron, 2)
        newer, older = await client.runs.list(thread)
        assert older["run_id"] == run["run_id"] == f"run_{oldest['run_id']}"
        both = await client.runs.join(thread, newer["run_id"])
        told = f"you said: {TEXT}"
        assert [one["content"] for one in done["messages"]] == [TEXT, told]
        assert [one["content"] for one in both["messages"]] == [TEXT, told] * 2
        assert len({one["id"] for one in both["messages"]}) == 4, "each firing says a message of its own"
        event = (await served.client.get(f"/v1/events/{newest['event_id']}")).json()["envelope"]
        assert event["data"]["params"] == {"topic": "天气", "tone": "kind"}

        assert (await client.crons.delete(cron)) is None
        for again in (client.crons.delete(cron), client.crons.update(cron, enabled=False)):
            with pytest.raises(NotFoundError, match=cron):
                await again
        assert len(await client.runs.list(thread)) == 2, "its runs stay"


async def test_what_is_changed_of_a_cron(served: Served) -> None:
    async with langgraph(served.url) as client:
        made = await client.crons.create(
            AGENT,
            schedule="*/5 * * * * 30",
            input=plain("a", topic="x"),
            context={"tone": "kind"},
            metadata={"user": "ada", "n": 1},
            enabled=False,
        )
        cron, place = made["cron_id"], f"/v1/schedules/cron-{made['cron_id']}"
        assert (made["enabled"], made["next_run_date"], made["on_run_completed"]) == (False, None, "keep")
        assert made["schedule"] == "*/5 * * * * 30", "seconds are last"
        shown = (await served.client.get(place)).json()
        assert (shown["status"], shown["spec"]["cron"]) == ("paused", "30 */5 * * * *")

        changed = await client.crons.update(cron, enabled=True)
        assert changed["enabled"]
        planned = datetime.fromisoformat(changed["next_run_date"])
        assert (planned.minute % 5, planned.second) == (0, 30)
        changed = await client.crons.update(cron, input=plain("b"), metadata={"n": 2})
        assert changed["metadata"] == {"user": "ada", "n": 2}
        payload = changed["payload"]
        assert payload["input"] == {"messages": [{"role": "user", "content": "b"}]}
        assert payload["context"] == {"tone": "kind"}
        assert changed["next_run_date"] == planned.isoformat(), "its times did not change"
        end = datetime.now(ZoneInfo("Asia/Tokyo")).replace(microsecond=0) + timedelta(days=900)
        changed = await client.crons.update(cron, end_time=end, schedule="@daily", timezone="Asia/Tokyo")
        assert datetime.fromisoformat(changed["end_time"]) == end
        assert datetime.fromisoformat(changed["next_run_date"]).hour == 15, "midnight in Tokyo"
        assert (await client.crons.update(cron, end_time=None))["end_time"] is None
        with pytest.raises(BadRequestError, match="never fire"):
            await client.crons.update(cron, end_time=datetime(2020, 1, 1, tzinfo=UTC))
        with pytest.raises(BadRequestError, match="a field that changes"):
            await client.crons.update(cron)

        # an operator sees and changes the same
        await served.client.post(f"{place}/pause")
        (found,) = await client.crons.search(enabled=False)
        assert (found["cron_id"], found["end_time"]) == (cron, None)
        actions = [one["action"] for one in (await served.client.get("/v1/audit")).json()["items"]]
        told = [one.removeprefix("schedule.") for one in actions if one.startswith("schedule.")]
        assert told == [*("paused", "changed", "changed", "changed", "resumed", "paused", "added")]
        spec = (await served.client.get(place)).json()["spec"]
        spec["data"]["ward"] = "north"
        assert (await served.client.put(place, json={**spec, "text": "c"})).status_code == 200
        changed = await client.crons.update(cron, context={"tone": "dry"})
        assert changed["payload"]["input"]["messages"][0]["content"] == "c"
        kept = (await served.client.get(place)).json()["spec"]["data"]
        assert (kept["ward"], kept["params"]) == ("north", {"tone": "dry"})
        spec = {**spec, "cron": None, "every": 600}
        assert (await served.client.put(place, json=spec)).status_code == 200
        assert await client.crons.search() == [], "one with an interval is a cron no more"
        with pytest.raises(NotFoundError):
            await client.crons.delete(cron)


async def test_each_run_of_a_cron_without_a_thread_has_one_of_its_own(served: Served) -> None:
    async with langgraph(served.url) as client:
        made = await client.crons.create(
            AGENT, schedule=DAILY, input={"messages": "hello"}, on_run_completed="keep"
        )
        name = f"cron-{made['cron_id']}"
        await make_due(served.host, name)
        await fired(served, made["cron_id"])
        key = {"idempotency-key": "once"}
        asked = [await served.client.post(f"/v1/schedules/{name}/run", headers=key) for _ in range(2)]
        assert {one.status_code for one in asked} == {202}
        await fired(served, made["cron_id"], 2)
        threads = await client.threads.search(metadata={"assistant_id": AGENT})
        assert len(threads) == 2
        for thread in threads:
            (run,) = await client.runs.list(thread["thread_id"])
            whole = await client.runs.join(thread["thread_id"], run["run_id"])
            assert texts_of(whole) == ["you said: hello"]
            age = datetime.now(UTC) - datetime.fromisoformat(thread["created_at"])
            assert timedelta() <= age < timedelta(seconds=TEST_SECONDS)


async def test_a_cron_speaks_to_agents_that_gather_messages_or_are_busy(served: Served) -> None:
    await player(served, "gathering", concurrency={"debounce": 0.05})
    await player(served, "refusing", concurrency={"on_busy": "reject"})
    async with langgraph(served.url) as client:
        for agent in ("gathering", "refusing"):
            await client.threads.create(thread_id=agent, metadata={"a": 1})
        made = await client.crons.create_for_thread("gathering", "gathering", schedule=DAILY, input="hello")
        await make_due(served.host, f"cron-{made['cron_id']}")
        await fired(served, made["cron_id"])
        (run,) = await client.runs.list("gathering")
        assert texts_of(await client.runs.join("gathering", run["run_id"])) == ["you said: hello"]

        busy = await client.runs.create("refusing", "refusing", input=said(["hold"]))
        made = await client.crons.create_for_thread("refusing", "refusing", schedule=DAILY, input="hello")
        await make_due(served.host, f"cron-{made['cron_id']}")
        (firing,) = await fired(served, made["cron_id"])
        assert (firing["outcome"], firing["run_id"]) == ("rejected", None)
        await client.runs.cancel("refusing", busy["run_id"], wait=True)


async def test_crons_are_searched_and_counted(served: Served) -> None:
    await served.client.post("/v1/schedules", json={"name": "own", "cron": DAILY, "agent": AGENT})
    async with langgraph(served.url) as client:
        await client.threads.create(thread_id="t", metadata={"a": 1})
        made = [
            await client.crons.create(AGENT, schedule=f"{n} * * * *", input="x", metadata={"n": n, "茶": "✓"})
            for n in range(3)
        ]
        in_thread = await client.crons.create_for_thread("t", AGENT, schedule="@weekly", input="x")
        names = [one["cron_id"] for one in (*made, in_thread)]
        assert [one["cron_id"] for one in await client.crons.search()] == names[::-1]
        assert await client.crons.search(thread_id="t") == [in_thread]
        page = await client.crons.search(limit=2, offset=1, sort_by="created_at", sort_order="asc")
        assert page == made[1:]
        assert await client.crons.search(metadata={"n": 1}, select=["cron_id", "schedule"]) == [
            {"cron_id": names[1], "schedule": "1 * * * *"}
        ]
        assert await client.crons.search(assistant_id="nobody") == []
        by_end = await client.crons.search(sort_by="end_time")
        assert len(by_end) == 4
        assert await client.crons.count() == 4
        assert await client.crons.count(metadata={"茶": "✓"}, assistant_id=AGENT) == 3
        assert await client.crons.count(thread_id="other") == 0
        with pytest.raises(BadRequestError, match="names of fields"):
            await client.crons.search(select=["secret"])
        answer = await served.client.get(f"/langgraph/runs/crons/{names[0]}")
        assert answer.json() == made[0]

        await client.threads.delete("t")
        assert await client.crons.count() == 3, "what is deleted does not come back by itself"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"schedule": "* * * *"}, "schedule: .* has 4 fields"),
    ({"schedule": "* * * * * 99"}, r"'\* \* \* \* \* 99': its second is not valid"),
    ({"schedule": "0 0 30 2 *"}, "day-of-month is not valid"),
    ({"schedule": "每天 * * * *"}, "ASCII"),
    ({"timezone": "Europe/Berlni"}, "Europe/Berlin"),
    ({"end_time": datetime(2020, 1, 1, tzinfo=UTC)}, "never fire"),
    ({"input": None}, "input: expected"),
    ({"input": {"topic": "x"}}, "an object with messages"),
    ({"input": {"messages": [["user", "a"], ["assistant", "b"], ["user", "c"]]}}, r"messages\[1\].type"),
    ({"input": {"messages": [{"role": "user", "content": "a", "id": "m"}]}}, r"messages\[0\].id"),
    (
        {"input": plain([{"type": "image", "url": "https://a.example/b.png", "mime_type": "image/png"}])},
        "sends no files",
    ),
    ({"input": plain("x", tools=[{"name": "t"}])}, "input.tools: no client is there"),
    ({"input": plain("x" * 40_000)}, "input: expected at most 32,768 bytes"),
    ({"context": {"a": "x" * 40_000}}, "context and metadata: they take"),
    ({"config": {"recursion_limit": 3}}, "config.recursion_limit"),
    ({"config": {"configurable": {"thread_id": "other"}}}, "config.configurable.thread_id"),
    ({"webhook": "https://a.example"}, "webhook: webhooks are configured"),
    ({"interrupt_before": ["agent"]}, "interrupt_before: an agent has no nodes"),
    ({"interrupt_after": "*"}, "interrupt_after: an agent has no nodes"),
    ({"multitask_strategy": "rollback"}, "multitask_strategy: .*concurrency"),
    ({"on_run_completed": "delete"}, "on_run_completed: threads are kept"),
    ({"stream_mode": "debug"}, "'debug' is no mode"),
]


async def test_what_cannot_be_done_is_refused_with_what_would_be_right(served: Served) -> None:
    async with langgraph(served.url) as client:
        good: dict[str, Any] = {"schedule": DAILY, "input": plain("x")}
        for given, sentence in REFUSED:
            with pytest.raises(BadRequestError, match=sentence):
                await client.crons.create(AGENT, **{**good, **given})
        cron = (await client.crons.create(AGENT, **good))["cron_id"]
        for given, sentence in REFUSED:
            if given.keys() != {"multitask_strategy"} and given != {"input": None}:
                with pytest.raises(BadRequestError, match=sentence):
                    await client.crons.update(cron, **given)
        with pytest.raises(NotFoundError, match="no assistant 'nobody'"):
            await client.crons.create("nobody", **good)
        with pytest.raises(NotFoundError, match="no thread 'nowhere'"):
            await client.crons.create_for_thread("nowhere", AGENT, **good)
        with pytest.raises(BadRequestError, match="shedule"):
            await client.http.post("/runs/crons", json={"assistant_id": AGENT, "shedule": DAILY})
        (found,) = await client.crons.search()
        assert found["schedule"] == DAILY, "nothing of it was stored"


async def test_a_repeated_request_makes_one_cron(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async with langgraph(served.url) as client:
        once: dict[str, Any] = {"input": plain("x"), "headers": {"idempotency-key": "k"}}
        made = [await client.crons.create(AGENT, schedule=DAILY, **once) for _ in range(2)]
        assert made[0] == made[1]
        assert await client.crons.count() == 1
        with pytest.raises(UnprocessableEntityError, match="used for another request"):
            await client.crons.create(AGENT, schedule="@daily", **once)
        monkeypatch.setattr(schedules, "MAX_SCHEDULES", 1)
        with pytest.raises(ConflictError, match="1 schedules already"):
            await client.crons.create(AGENT, schedule=DAILY, input=plain("x"))


async def test_who_may_see_and_change_crons(served: Served) -> None:
    good: dict[str, Any] = {"schedule": DAILY, "input": plain("x")}
    async with contextlib.AsyncExitStack() as stack:

        async def as_key(key: str) -> Any:
            return await stack.enter_async_context(langgraph(served.url, key))

        admin = await as_key(ADMIN_KEY)
        cron = (await admin.crons.create(AGENT, **good))["cron_id"]
        reader = await as_key(await served.key(WORKSPACE, "agents:read", "events:write"))
        assert [one["cron_id"] for one in await reader.crons.search()] == [cron]
        sender = await as_key(await served.key(WORKSPACE, "events:write", "runs:read"))
        keeper = await as_key(await served.key(WORKSPACE, "agents:write"))
        assert not (await keeper.crons.update(cron, enabled=False))["enabled"]
        page = await as_key((await make_token(served, agent=AGENT, conversation_id="t"))["token"])
        for refusal in (
            *(one.crons.create(AGENT, **good) for one in (reader, sender, keeper, page)),
            *(one.crons.create_for_thread("t", AGENT, **good) for one in (sender, page)),
            *(one.crons.delete(cron) for one in (reader, sender, page)),
            *(one.crons.search() for one in (sender, keeper, page)),
            *(one.crons.count() for one in (sender, page)),
            keeper.crons.update(cron, schedule="@daily"),
            page.crons.update(cron, enabled=True),
        ):
            with pytest.raises(PermissionDeniedError):
                await refusal
        await served.agent("puppet", OTHER)
        foreign = await as_key(await served.key(OTHER))
        assert await foreign.crons.search() == []
        assert await foreign.crons.count() == 0
        for hidden in (foreign.crons.update(cron, enabled=True), foreign.crons.delete(cron)):
            with pytest.raises(NotFoundError):
                await hidden
        unknown = await as_key("wrong")
        with pytest.raises(AuthenticationError):
            await unknown.crons.search()
        (found,) = await admin.crons.search()
        assert (found["enabled"], found["schedule"]) == (False, DAILY)


async def test_a_cron_whose_agent_is_gone_is_among_the_problems(served: Served) -> None:
    async with langgraph(served.url) as client:
        cron = (await client.crons.create(AGENT, schedule=DAILY, input=plain("x")))["cron_id"]
        assert (await served.client.delete(f"/v1/agents/{AGENT}")).status_code == 204
        problems = (await served.client.get("/v1/problems")).json()["items"]
        assert [one["name"] for one in problems] == [f"cron-{cron}"]
        with pytest.raises(NotFoundError, match="no assistant"):
            await client.crons.create(AGENT, schedule=DAILY, input=plain("x"))


async def test_a_host_that_was_restarted_fires_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with playing(data) as served, langgraph(served.url) as client:
        made = await client.crons.create(AGENT, schedule=DAILY, input=plain(TEXT))
    with contextlib.closing(sqlite3.connect(own_database(data))) as stopped, stopped:
        due = int(time.time() * 1000)
        moved = stopped.execute("UPDATE schedules SET next_planned = ?, next_at = ?", (due, due))
        assert moved.rowcount == 1
    async with playing(data) as served, langgraph(served.url) as client:
        (firing,) = await fired(served, made["cron_id"])
        assert firing["planned_at"] == due / 1000
    async with playing(data) as served, langgraph(served.url) as client:
        assert len(await fired(served, made["cron_id"])) == 1
        (thread,) = await client.threads.search()
        (run,) = await client.runs.list(thread["thread_id"])
        whole = await client.runs.join(thread["thread_id"], run["run_id"])
        assert whole["messages"][0]["content"] == TEXT


async def test_crons_of_the_client_for_javascript(served: Served, tmp_path: Path) -> None:
    node = node_clients(*NODE_CLIENT)
    made = await asyncio.to_thread(node.run, DRIVER, tmp_path, served.url, ADMIN_KEY)
    cron, other = made["cron"], made["other"]
    assert (cron["timezone"], cron["enabled"], other["enabled"]) == ("Asia/Shanghai", True, False)
    assert (other["end_time"], other["thread_id"]) == ("2190-01-01T00:00:00+00:00", None)
    assert made["refused"] == [400, 404]
    await make_due(served.host, f"cron-{cron['cron_id']}")
    await fired(served, cron["cron_id"])
    told = await asyncio.to_thread(node.run, DRIVER, tmp_path, served.url, ADMIN_KEY, json.dumps(made))
    assert told["messages"] == ["早报 👩‍👩‍👧", "you said: 早报 👩‍👩‍👧"]
    assert told["user"] == "ada"
    assert told["searched"] == [cron["cron_id"], other["cron_id"]]
    assert told["ofThread"] == [cron["cron_id"]]
    assert told["counted"] == [2, 1]
    changed = told["changed"]
    assert (changed["schedule"], changed["end_time"], changed["enabled"]) == ("*/5 * * * * 30", None, True)
    assert told["deleted"] == [None, 404]
    assert told["left"] == [other["cron_id"]]
