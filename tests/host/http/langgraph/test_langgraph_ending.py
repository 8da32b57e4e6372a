"""The ends of runs of the LangGraph interface: cancel, roll back, delete; the strategies of busy threads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from langgraph_sdk.errors import BadRequestError, ConflictError, NotFoundError, PermissionDeniedError

from hostler.host.config import ConfigFile
from hostler.http.langgraph.ending import ROLLED_BACK
from hostler.storage.stores import conversations
from support.databases import TEST_SECONDS
from support.dialects.langgraph import (
    AGENT,
    collect,
    interrupts_of,
    langgraph,
    last_values,
    plain,
    said,
    texts_of,
)
from support.dialects.players import PLAYER, player, playing
from support.every_row import everything
from support.http_host import WORKSPACE, Served
from support.server_process import LOOK_SECONDS
from support.trust import trusted

LISTENER = PLAYER.with_name("listener")
PICTURE = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]


def blob_files(served: Served) -> list[Path]:
    """The files that the host keeps."""
    return sorted(one for one in (served.host.settings.data_dir / "blobs").rglob("*") if one.is_file())


async def begin(client: Any, thread_id: str, *steps: list[Any]) -> dict[str, Any]:
    """Begin a run that says something and goes on; return it once that is said."""
    run = await client.runs.create(thread_id, AGENT, input=said(["say", "first"], *steps))
    async for part in client.runs.join_stream(thread_id, run["run_id"], stream_mode="updates"):
        if part.event == "updates":
            break
    found: dict[str, Any] = run
    return found


@pytest.mark.shows("langgraph", "cancel")
async def test_cancelling(served: Served, tmp_path: Path) -> None:
    async with langgraph(served.url) as client:
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(
            thread_id, AGENT, input=said(["say", "first"], ["hold"]), metadata={"mine": 1}
        )
        assert run["metadata"]["mine"] == 1
        stream = client.runs.join_stream(thread_id, run["run_id"], stream_mode="updates")
        async for part in stream:
            if part.event == "updates":
                break
        assert (await client.threads.get(thread_id))["status"] == "busy"
        with pytest.raises(ConflictError, match="busy"):
            await client.runs.create(thread_id, AGENT, input=plain("x"), multitask_strategy="reject")
        await client.runs.cancel(thread_id, run["run_id"], wait=True)
        assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "interrupted"
        whole: Any = await client.runs.join(thread_id, run["run_id"])
        assert texts_of(whole) == ["first"]
        with pytest.raises(BadRequestError, match="no action"):
            await client.runs.cancel(thread_id, run["run_id"], action="stop")
        # a new run may take the place of one that works
        await client.runs.create(thread_id, AGENT, input=said(["hold"]))
        values: Any = await client.runs.wait(
            thread_id, AGENT, input=plain("now"), multitask_strategy="interrupt"
        )
        assert texts_of(values)[-1] == "you said: now"
        found = await client.runs.list(thread_id)
        assert [one["status"] for one in found] == ["success", "interrupted", "interrupted"]
        assert [one["status"] for one in await client.runs.list(thread_id, status="success")] == ["success"]
        # runs that wait for their turn
        first = await client.runs.create(
            thread_id, AGENT, input=said(["wait", str(tmp_path / "go")], ["say", "first"])
        )
        second = await client.runs.create(
            thread_id, AGENT, input=plain("second"), multitask_strategy="enqueue"
        )
        assert (await client.runs.get(thread_id, second["run_id"]))["status"] == "pending"
        (tmp_path / "go").touch()
        whole = await client.runs.join(thread_id, second["run_id"])
        assert texts_of(whole)[-1] == "you said: second"
        assert (await client.runs.get(thread_id, first["run_id"]))["status"] == "success"


async def test_the_state_keeps_what_a_run_says_while_a_later_one_is_cancelled(
    served: Served, tmp_path: Path
) -> None:
    async with langgraph(served.url) as client:
        thread_id = (await client.threads.create())["thread_id"]
        first = await begin(client, thread_id, ["wait", str(tmp_path / "go")], ["say", "two"])
        later = await client.runs.create(thread_id, AGENT, input=plain("no"), multitask_strategy="enqueue")
        await client.runs.cancel(thread_id, later["run_id"], wait=True)
        (tmp_path / "go").touch()
        await client.runs.join(thread_id, first["run_id"])
        state = await client.threads.get_state(thread_id)
        assert texts_of(state["values"]) == ["first", "two"]
        history = await client.threads.get_history(thread_id, limit=1)
        assert history[0]["values"] == state["values"]
        streamed = await collect(client.runs.join_stream(thread_id, first["run_id"], stream_mode="values"))
        own = last_values(streamed)["messages"]
        assert [one for one in state["values"]["messages"] if one["content"] != "no"] == own
        whole = await client.runs.wait(thread_id, AGENT, input=plain("on"))
        assert texts_of(whole) == ["first", "two", "you said: on"]
        assert whole["messages"][:-2] == state["values"]["messages"]


async def test_the_state_keeps_the_runs_that_waited_with_one_that_was_cancelled(
    served: Served, tmp_path: Path
) -> None:
    async with langgraph(served.url) as client:
        thread_id = (await client.threads.create())["thread_id"]
        await begin(client, thread_id, ["wait", str(tmp_path / "go")], ["say", "two"])
        second, third = [
            await client.runs.create(thread_id, AGENT, input=plain(text), multitask_strategy="enqueue")
            for text in ("second", "third")
        ]
        await client.runs.cancel(thread_id, third["run_id"], wait=True)
        (tmp_path / "go").touch()
        await client.runs.join(thread_id, second["run_id"])
        state = await client.threads.get_state(thread_id)
        contents = [one["content"] for one in state["values"]["messages"]]
        assert contents[1:] == ["first", "third", "two", "second", "you said: second"]
        whole = await client.runs.wait(thread_id, AGENT, input=plain("on"))
        assert whole["messages"][:-2] == state["values"]["messages"]


async def test_the_state_keeps_what_steers_a_run_while_a_later_one_is_cancelled(
    served: Served, tmp_path: Path
) -> None:
    await served.host.apply(ConfigFile(plugins=[trusted(LISTENER)]), actor="test")
    runner = {"runner": "plugin:test/listener/default", "resource_policy": {}}
    await player(served, AGENT, **runner)
    async with langgraph(served.url) as client:
        thread_id = (await client.threads.create())["thread_id"]
        first = await client.runs.create(thread_id, AGENT, input=plain(f"wait {tmp_path / 'go'}"))
        async with asyncio.timeout(TEST_SECONDS):
            while (await client.runs.get(thread_id, first["run_id"]))["status"] == "pending":
                await asyncio.sleep(0.02)
        await client.runs.create(thread_id, AGENT, input=plain("hurry"), multitask_strategy="enqueue")
        await player(served, AGENT, concurrency={"on_busy": "queue"}, **runner)
        later = await client.runs.create(thread_id, AGENT, input=plain("no"), multitask_strategy="enqueue")
        await client.runs.cancel(thread_id, later["run_id"], wait=True)
        (tmp_path / "go").touch()
        await client.runs.join(thread_id, first["run_id"])
        state = await client.threads.get_state(thread_id)
        contents = [one["content"] for one in state["values"]["messages"]]
        assert [one for one in contents if one in ("no", "hurry")] == ["no", "hurry"]
        assert "hurry" in texts_of(state["values"])[-1]


@pytest.mark.shows("langgraph", "disconnect")
async def test_a_stream_whose_client_wants_its_run_to_end_with_it(served: Served) -> None:
    async with langgraph(served.url) as client:
        thread_id = (await client.threads.create())["thread_id"]
        stream = client.runs.stream(
            thread_id,
            AGENT,
            input=said(["say", "a"], ["hold"]),
            stream_mode="updates",
            on_disconnect="cancel",
        )
        async for part in stream:
            if part.event == "updates":
                break
        await stream.aclose()
        (run,) = await client.runs.list(thread_id)
        async with asyncio.timeout(30):
            while (await client.runs.get(thread_id, run["run_id"]))["status"] == "running":
                await asyncio.sleep(0.02)
        assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "interrupted"


async def test_a_rollback_leaves_nothing_of_a_run(served: Served) -> None:
    async with langgraph(served.url) as client:
        await client.runs.wait("t", AGENT, input=plain("kept"))
        run = await begin(client, "t", ["say", "canary-答"], ["file", "canary-file", "f.txt"], ["hold"])
        after = await client.runs.wait("t", AGENT, input=plain("now"), multitask_strategy="rollback")
        assert texts_of(after) == ["you said: kept", "you said: now"]
        assert [one["content"] for one in after["messages"] if one["type"] == "human"] == ["kept", "now"]
        assert len(await client.runs.list("t")) == 2
        for gone in (
            client.runs.get("t", run["run_id"]),
            client.runs.join("t", run["run_id"]),
            client.runs.cancel("t", run["run_id"]),
            client.runs.delete("t", run["run_id"]),
        ):
            with pytest.raises((NotFoundError, httpx.HTTPStatusError), match=r"404|no run"):
                await gone
        assert "canary" not in await served.host.db.read(everything)
        receipts = (await served.client.get("/v1/audit?limit=100")).json()["items"]
        assert any(str(one.get("target", "")).startswith("run:") for one in receipts)
        # the interface's own way to say it of one run
        run = await begin(client, "t", ["hold"])
        await client.runs.cancel("t", run["run_id"], action="rollback")
        assert len(await client.runs.list("t")) == 2


async def test_a_rollback_that_broke_off_goes_on(served: Served) -> None:
    async with langgraph(served.url) as client:
        run = await begin(client, "t", ["hold"])
        run_id = run["run_id"].removeprefix("run_")
        await served.host.cancel(
            WORKSPACE, run_id, reason=ROLLED_BACK, actor="test"
        )  # and then the host died
        await client.runs.join("t", run["run_id"])
        after = await client.runs.wait("t", AGENT, input=plain("now"), multitask_strategy="rollback")
        assert texts_of(after) == ["you said: now"]
        assert len(await client.runs.list("t")) == 1


async def test_a_run_is_deleted_with_what_it_heard_and_said(served: Served) -> None:
    async with langgraph(served.url) as client:
        for text in ("one", "two", "three"):
            await client.runs.wait("t", AGENT, input=plain(text))
        second = (await client.runs.list("t"))[1]["run_id"]
        await client.runs.delete("t", second)
        state = await client.threads.get_state("t")
        assert [one["content"] for one in state["values"]["messages"]] == [
            *("one", "you said: one"),
            *("three", "you said: three"),
        ]
        assert [len(one["values"]["messages"]) for one in await client.threads.get_history("t")] == [4, 2]
        # not while it works or waits, and not a part of one
        held = await begin(client, "t", ["hold"])
        with pytest.raises(ConflictError, match="cancel it first"):
            await client.runs.delete("t", held["run_id"])
        await client.runs.cancel("t", held["run_id"], wait=True)
        parts = await collect(client.runs.stream("u", AGENT, input=said(["ask", "?"])))
        with pytest.raises(ConflictError, match="cancel it first"):
            await client.runs.delete("u", parts[0].data["run_id"])
        command = {"resume": {interrupts_of(parts)[0]["id"]: "s"}}
        parts = await collect(client.runs.stream("u", AGENT, command=command))
        with pytest.raises(BadRequestError, match="delete the whole"):
            await client.runs.delete("u", parts[0].data["run_id"])
        # the rights of both: to end runs, and to delete of conversations
        ender = await served.key(WORKSPACE, "runs:read", "runs:write", "events:write", "conversations:read")
        async with langgraph(served.url, ender) as other:
            for denied in (
                other.runs.delete("t", held["run_id"]),
                other.runs.cancel("t", held["run_id"], action="rollback"),
                other.runs.create("t", AGENT, input=plain("x"), multitask_strategy="rollback"),
            ):
                with pytest.raises(PermissionDeniedError, match="conversations:write"):
                    await denied


async def test_of_many_requests_at_once_that_reject_a_busy_thread_one_runs(served: Served) -> None:
    async with langgraph(served.url) as client:
        thread_id = (await client.threads.create())["thread_id"]
        asked = [
            client.runs.create(thread_id, AGENT, input=said(["hold"]), multitask_strategy="reject")
            for _ in range(20)
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refused = [one for one in answers if isinstance(one, BaseException)]
        assert [type(one) for one in refused] == [ConflictError] * 19
        (run,) = await client.runs.list(thread_id)
        assert run["run_id"] in [one["run_id"] for one in answers if not isinstance(one, BaseException)]
        files = blob_files(served)
        with pytest.raises(ConflictError, match="busy"):
            await client.runs.create(thread_id, AGENT, input=plain(PICTURE), multitask_strategy="reject")
        assert blob_files(served) == files, "what is refused is not stored first"
        await client.runs.cancel(thread_id, run["run_id"], wait=True)
        state = await client.threads.get_state(thread_id)
        assert len([one for one in state["values"]["messages"] if one["type"] == "human"]) == 1


@pytest.mark.parametrize(
    "database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
async def test_hosts_look_one_after_the_other_whether_a_thread_is_busy(
    tmp_path: Path, database_url: str
) -> None:
    """Neither sees what the other is about to store: a run that waits for its turn takes no lane."""
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    async with playing(tmp_path / "data", database=database_url) as served, langgraph(served.url) as client:
        thread_id = (await client.threads.create())["thread_id"]
        with psycopg.connect(database_url, autocommit=True) as look, psycopg.connect(database_url) as other:
            lock = conversations.lock_of(WORKSPACE, thread_id)
            other.execute(conversations._q.hold.postgres, {"lock": lock})
            asking = client.runs.wait(thread_id, AGENT, input=plain("hi"), multitask_strategy="reject")
            asked = asyncio.create_task(asking)
            while look.execute(waiting).fetchone() == (0,):
                assert not asked.done()
                await asyncio.sleep(LOOK_SECONDS)
        assert texts_of(await asked) == ["you said: hi"]
