"""Threads of the LangGraph interface: metadata, search, history, copies, and messages added without a run."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from itertools import pairwise
from typing import Any

import pytest
from langgraph_sdk.errors import (
    APIStatusError,
    BadRequestError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
)

from hostler.domain.caller_history import MAX_MESSAGES
from hostler.http.langgraph.conditions import MAX_CONDITIONS
from hostler.storage.port import Tx
from hostler.storage.stores import pauses
from support.dialects.langgraph import AGENT, collect, langgraph, last_values, plain, said, texts_of
from support.every_row import everything
from support.http_host import WORKSPACE, Served


def contents(values: Any) -> list[Any]:
    """The contents of the messages of a state."""
    return [one["content"] for one in values["messages"]]


async def test_threads(served: Served) -> None:
    async with langgraph(served.url) as client:
        with pytest.raises(NotFoundError, match="no thread"):
            await client.threads.get("unknown")
        mine = await client.threads.create(thread_id="mine", if_exists="do_nothing")
        assert mine["thread_id"] == "mine"
        await client.runs.wait("mine", AGENT, input=plain("a"))
        with pytest.raises(ConflictError, match="there already"):
            await client.threads.create(thread_id="mine")
        await client.threads.create(thread_id="mine", if_exists="do_nothing")
        await client.runs.wait("other", AGENT, input=said(["ask", "?"]))
        found = await client.threads.search()
        assert [one["thread_id"] for one in found] == ["other", "mine"]
        assert texts_of(found[1]["values"]) == ["you said: a"]
        assert [one["thread_id"] for one in await client.threads.search(status="interrupted")] == ["other"]
        by_agent = await client.threads.search(metadata={"graph_id": AGENT}, offset=1)
        assert [one["thread_id"] for one in by_agent] == ["mine"]
        assert await client.threads.search(metadata={"user": "x"}) == []
        assert await client.threads.count(status="idle") == 1
        assert [one["thread_id"] for one in await client.threads.search(ids=["mine", "nope"])] == ["mine"]
        await client.threads.delete("mine")
        with pytest.raises(NotFoundError):
            await client.threads.get_state("mine")
        for refusal in (
            client.threads.create(ttl=60),
            client.threads.search(values={"messages": []}, extract={"a": "values.messages[0]"}),
            client.runs.create("other", AGENT, input=plain("x"), webhook="http://a"),
            client.runs.create("other", AGENT, input=plain("x"), interrupt_before=["agent"]),
            client.runs.create("other", AGENT, input=plain("x"), checkpoint_id="c"),
            client.runs.create("other", AGENT, input=plain("x"), after_seconds=5),
            client.runs.create("other", AGENT, command={"goto": "agent"}),
            client.runs.create("other", AGENT, input={"topic": "x"}),
        ):
            with pytest.raises(BadRequestError):
                await refusal
        with pytest.raises(BadRequestError, match="debug"):
            await collect(client.runs.stream("other", AGENT, input=plain("x"), stream_mode="debug"))


async def test_a_thread_that_many_create_at_once_is_created_once(served: Served) -> None:
    steps = [{"updates": [{"values": plain("first"), "as_node": "__input__"}]}]
    async with langgraph(served.url) as client:
        for name, if_exists, refused in (("one", None, 7), ("other", "do_nothing", 0)):
            asked = [
                client.threads.create(thread_id=name, if_exists=if_exists, supersteps=steps) for _ in range(8)
            ]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            failed = [type(one) for one in answers if isinstance(one, BaseException)]
            assert failed == [ConflictError] * refused
            assert contents((await client.threads.get_state(name))["values"]) == ["first"]


async def test_metadata_of_threads(served: Served) -> None:
    async with langgraph(served.url) as client:
        made = await client.threads.create(
            metadata={"user": "ada", "tags": ["a", "b"], "n": {"x": 1, "y": 2}}
        )
        name = made["thread_id"]
        assert made["metadata"]["user"] == "ada"
        await client.threads.create(thread_id="named", metadata={"user": "bob", "n": True})
        with pytest.raises(ConflictError, match="there already"):
            await client.threads.create(thread_id="named")
        kept = await client.threads.create(thread_id="named", if_exists="do_nothing", metadata={"user": "x"})
        assert kept["metadata"] == {"user": "bob", "n": True}

        async def found(**metadata: Any) -> list[str]:
            return [one["thread_id"] for one in await client.threads.search(metadata=metadata)]

        # found before its first run, by what its metadata contain
        assert await found(user="ada") == await found(tags=["b"]) == await found(n={"y": 2}) == [name]
        assert await found(user="ada", tags=["c"]) == await found(n=1) == await found(user=["ada"]) == []
        assert await client.threads.count(metadata={"user": "bob"}) == 1
        # an update changes what it names; the agent of its runs is known to the host alone
        await client.runs.wait(name, AGENT, input=plain("a"))
        changed = await client.threads.update(name, metadata={"user": "eve", "graph_id": "other"})
        expected = {"user": "eve", "tags": ["a", "b"], "n": {"x": 1, "y": 2}}
        assert changed["metadata"] == {**expected, "graph_id": AGENT, "assistant_id": AGENT}
        assert (await client.threads.get(name))["metadata"] == changed["metadata"]
        assert await client.threads.update(name, metadata={}, return_minimal=True) is None
        assert await found(user="eve", graph_id=AGENT) == [name]
        by_name = [
            one["thread_id"] for one in await client.threads.search(sort_by="thread_id", sort_order="asc")
        ]
        assert by_name == sorted([name, "named"])
        # many at once: each change counts
        await asyncio.gather(*(client.threads.update(name, metadata={f"k{n}": n}) for n in range(8)))
        metadata = (await client.threads.get(name))["metadata"]
        assert [metadata[f"k{n}"] for n in range(8)] == list(range(8))
        with pytest.raises(APIStatusError, match="bytes of JSON"):
            await client.threads.update(name, metadata={"big": "x" * 300_000})
        with pytest.raises(NotFoundError):
            await client.threads.update("nobody", metadata={})
    async with langgraph(served.url, await served.key("other")) as foreign:
        assert await foreign.threads.search(metadata={"user": "bob"}) == []
        with pytest.raises(NotFoundError):
            await foreign.threads.update("named", metadata={"user": "x"})
    async with langgraph(served.url) as client:
        await client.threads.delete("named")
        assert await client.threads.search(metadata={"user": "bob"}) == []
        with pytest.raises(NotFoundError):
            await client.threads.get("named")


async def test_a_named_thread_stays_where_its_metadata_are_taken_away(served: Served) -> None:
    async with langgraph(served.url) as client:
        for name in ("titled", "told", "plain"):
            await client.threads.create(thread_id=name)
        for title in ("A name", None):
            path = "/v1/conversations/titled/title"
            assert (await served.client.put(path, json={"title": title})).status_code == 200
        for metadata in ({"topic": "t"}, {}):
            answer = await served.client.post("/v1/conversations/told", json={"metadata": metadata})
            assert answer.status_code == 200
        found = await client.threads.search()
        assert {one["thread_id"] for one in found} == {"titled", "told", "plain"}


async def test_pages_of_a_history(served: Served) -> None:
    async with langgraph(served.url) as client:
        for text in "abcde":
            await client.runs.wait("t", AGENT, input=plain(text))
        whole = await client.threads.get_history("t", limit=100)
        assert [len(one["values"]["messages"]) for one in whole] == [10, 8, 6, 4, 2]
        for one, older in pairwise(whole):
            assert one["parent_checkpoint"] == older["checkpoint"]
        assert whole[-1]["parent_checkpoint"] is None
        pages, before = [], None
        while page := await client.threads.get_history("t", limit=2, before=before):
            pages += page
            before = page[-1]["checkpoint"]
        assert pages == whole
        for one in whole:
            for place in (one["checkpoint"], one["checkpoint_id"]):
                named = {"checkpoint" if isinstance(place, dict) else "checkpoint_id": place}
                state = await client.threads.get_state("t", **named)
                assert state["values"] == one["values"]
                assert state["checkpoint"] == one["checkpoint"]
        # a state keeps its name, whatever comes after it
        newest = whole[0]["checkpoint"]
        held = await client.runs.create("t", AGENT, input=said(["ask", "?"]))
        await client.runs.join("t", held["run_id"])
        state = await client.threads.get_state("t", checkpoint=newest)
        assert contents(state["values"]) == contents(whole[0]["values"])
        later = await client.threads.get_history("t", limit=3)
        assert [one["checkpoint_id"] for one in later][1:] == [one["checkpoint_id"] for one in whole[:2]]
        assert later[0]["next"] == ["agent"]
        assert await client.threads.get_history("t", metadata={"run_id": held["run_id"]}) == later[:1]
        same = (await served.client.get("/langgraph/threads/t/history?limit=3")).json()
        assert same == later
        for wrong in ("nothing", "999999999", f"{held['run_id']}.9"):
            with pytest.raises(NotFoundError, match="no checkpoint"):
                await client.threads.get_state("t", checkpoint_id=wrong)
        assert await client.threads.get_history("t", before="nothing") == []
        # a thread of another has other places
        await client.runs.wait("u", AGENT, input=plain("u"))
        with pytest.raises(NotFoundError):
            await client.threads.get_state("u", checkpoint=newest)


async def test_a_message_has_the_same_id_in_every_window(served: Served) -> None:
    """Also where the first messages of its run are before the newest hundred, which are all that is shown."""
    async with langgraph(served.url) as client:
        for run in range(3):
            says = [["say", f"{run}.{number}"] for number in range((6, 97, 2)[run])]
            stream = client.runs.stream("t", AGENT, input=said(*says), stream_mode=["values"])
            told = last_values(await collect(stream))
            if run == 0:
                first = {one["content"]: one["id"] for one in told["messages"] if one["type"] == "ai"}
        assert len(told["messages"]) == 103, "a hundred, the last question, and what it was answered"
        assert "0.3" not in contents(told)
        shown = [told, (await client.threads.get_state("t"))["values"]]
        shown += [one["values"] for one in await client.threads.get_history("t", limit=10)]
        shown += [one["values"] for one in await client.threads.search()]
        assert len(shown) == 6
        for values in shown:
            for one in values["messages"]:
                if one["content"].startswith("0."):
                    assert one["id"] == first[one["content"]], "shown under another id"


async def test_messages_are_added_to_a_thread(served: Served) -> None:
    async with langgraph(served.url) as client:
        seed: Any = {"messages": [{"role": "user", "content": "before", "id": "m1"}, ["assistant", "yes 好"]]}
        thread = await client.threads.create(supersteps=[{"updates": [{"values": seed, "as_node": "agent"}]}])
        name = thread["thread_id"]
        state = await client.threads.get_state(name)
        assert contents(state["values"]) == ["before", "yes 好"]
        assert state["values"]["messages"][0]["id"] == "m1"
        done = await client.runs.wait(name, AGENT, input=plain("now"))
        assert contents(done) == ["before", "yes 好", "now", "you said: now"]
        place = await client.threads.update_state(
            name, {"messages": [["ai", "from a person"]]}, as_node="agent"
        )
        state = await client.threads.get_state(name)
        assert state["checkpoint_id"] == place["checkpoint_id"]
        assert contents(state["values"])[-1] == "from a person"
        assert (await client.threads.update_state(name, None))["checkpoint_id"] == place["checkpoint_id"]
        done = await client.runs.wait(name, AGENT, input=plain("more"))
        assert contents(done)[-3:] == ["from a person", "more", "you said: more"]
        history = (await served.client.get(f"/v1/conversations/{name}/history")).json()["items"]
        assert [one["content"] for one in history[::-1]] == contents(done)
        image = {"type": "image_url", "image_url": {"url": "https://a/b.png"}}
        for values, words in (
            ({"topic": "x"}, "values.topic"),
            ({"messages": [{"type": "remove", "id": "m1"}]}, "human, ai"),
            ({"messages": [{"type": "tool", "content": "x", "tool_call_id": "c"}]}, "type tool"),
            (
                {"messages": [{"type": "ai", "content": "", "tool_calls": [{"name": "a", "id": "b"}]}]},
                "journals",
            ),
            ({"messages": [{"type": "human", "content": [image]}]}, "files"),
            ({"messages": [["user", ""]]}, "says nothing"),
            ("x", "an object with messages"),
            ({"messages": [["user", "x"]] * (MAX_MESSAGES + 1)}, "at most 1,000"),
        ):
            with pytest.raises(BadRequestError, match=words):
                await client.threads.update_state(name, values)
        with pytest.raises(BadRequestError, match="past"):
            await client.threads.update_state(name, {"messages": []}, checkpoint_id="1")
        with pytest.raises(BadRequestError, match="no node"):
            await client.threads.update_state(name, {"messages": []}, as_node="planner")
        await client.runs.wait(name, AGENT, input=said(["ask", "?"]))
        with pytest.raises(ConflictError, match="works or waits"):
            await client.threads.update_state(name, {"messages": [["user", "x"]]})
        await client.threads.create(thread_id="free", metadata={"a": 1})
        reader = await served.key(WORKSPACE, "conversations:read", "conversations:write")
        async with langgraph(served.url, reader) as other:
            with pytest.raises(PermissionDeniedError, match="events:write"):
                await other.threads.update_state("free", {"messages": [["user", "x"]]})


async def test_a_copy_is_a_thread_of_its_own(served: Served) -> None:
    async with langgraph(served.url) as client:
        await client.threads.create(thread_id="t", metadata={"user": "ada"})
        first = await client.runs.wait("t", AGENT, input=said(["file", "its bytes", "f.txt"]))
        await client.runs.wait("t", AGENT, input=said(["ask", "?"]))
        copy = await client.threads.copy("t")
        name = copy["thread_id"]
        assert copy["status"] == "idle", "what waits, waits in the thread that asked"
        assert copy["metadata"]["user"] == "ada"
        assert await client.runs.list(name) == []
        state = await client.threads.get_state(name)
        file = next(
            b for m in first["messages"] for b in m["content"] if isinstance(b, dict) and b["type"] == "file"
        )
        copied = next(
            b for c in contents(state["values"]) for b in c if isinstance(b, dict) and b["type"] == "file"
        )
        assert copied["file_id"] != file["file_id"]
        # it goes on by itself, and neither thread sees the other
        done = await client.runs.wait(name, AGENT, input=plain("on"))
        assert texts_of(done)[-1] == "you said: on"
        assert len((await client.threads.get_state("t"))["values"]["messages"]) == 3
        await client.runs.cancel("t", (await client.runs.list("t"))[0]["run_id"], wait=True)
        await client.threads.delete("t")
        assert (await served.client.get(copied["url"])).text == "its bytes"
        assert (await served.client.get(file["url"])).status_code == 404
        again = await client.threads.copy(name)
        assert contents((await client.threads.get_state(again["thread_id"]))["values"])[-1] == "you said: on"
        with pytest.raises(NotFoundError):
            await client.threads.copy("nobody")
        # the same request twice is one copy
        key = {"Idempotency-Key": "copy"}
        twice = [(await client.threads.copy(name, headers=key))["thread_id"] for _ in "ab"]
        assert twice[0] == twice[1]
        assert texts_of((await client.threads.get_state(twice[0]))["values"]) == texts_of(done)


async def test_a_persons_messages_go_from_copies_as_well(served: Served) -> None:
    for who in ("ada", "bob"):
        actor = {"actor_type": "user", "actor_id": who}
        await served.say(f"canary of {who}", agent=AGENT, conversation_id="t", actor=actor)
    async with langgraph(served.url) as client:
        copy = await client.threads.copy("t")
        again = await client.threads.copy(copy["thread_id"])
        await client.runs.wait(again["thread_id"], AGENT, input=plain("its run has read them"))
        await client.threads.delete("t")
        await client.store.put_item(["people", "ada"], key="k", value={"note": "canary of ada"})
        await client.store.put_item(["notes"], key="ada", value={"note": "canary of ada"})
        await client.store.put_item(["people", "adam"], key="k", value={"note": "of adam"})
        assert "canary of ada" in await served.host.db.read(everything)
        answer = await served.client.delete("/v1/actors/ada")
        assert answer.status_code == 200, answer.text
        rows = await served.host.db.read(everything)
        assert "canary of ada" not in rows
        assert "canary of bob" in rows
        state = await client.threads.get_state(copy["thread_id"])
        assert contents(state["values"]) == ["canary of bob", "you said: canary of bob"]
        assert (await client.store.get_item(["people", "adam"], key="k"))["value"] == {"note": "of adam"}


async def test_what_a_search_compares_is_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async with langgraph(served.url) as client:
        await client.threads.create(thread_id="t", metadata={"tags": list(range(200)), "user": "ada"})
        most = {"tags": list(range(MAX_CONDITIONS - 1))}  # the member `tags` is a part itself
        found = await client.threads.search(metadata=most)
        assert [one["thread_id"] for one in found] == ["t"]
        more = {"tags": list(range(MAX_CONDITIONS))}
        deep: Any = {}
        for _ in range(MAX_CONDITIONS + 1):
            deep = {"a": deep}
        for condition in (more, deep, {f"k{n}": n for n in range(MAX_CONDITIONS + 1)}):
            for refused in (
                client.threads.search(metadata=condition),
                client.threads.count(metadata=condition),
                client.threads.get_history("t", metadata=condition),
                client.assistants.search(metadata=condition),
            ):
                with pytest.raises(BadRequestError, match="more than 100 parts"):
                    await refused
            with pytest.raises(BadRequestError, match="more than 100 parts"):
                await client.store.search_items(["a"], filter=condition)
        # long lists in many threads: 99 tags that are each looked for in 200
        monkeypatch.setattr("hostler.http.langgraph.conditions.MAX_COMPARED", 10_000)
        assert await client.threads.count(metadata={"tags": list(range(50))}) == 1
        await client.threads.create(thread_id="u", metadata={"tags": list(range(200))})
        with pytest.raises(BadRequestError, match="10,000 values would have to be compared"):
            await client.threads.search(metadata={"tags": list(range(150, 200))})


async def test_the_status_of_many_threads_is_one_query(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    waiting_runs = pauses.waiting_runs

    def counted(tx: Tx, ws: str, run_ids: Collection[str]) -> frozenset[str]:
        asked.append(len(run_ids))
        return waiting_runs(tx, ws, run_ids)

    async with langgraph(served.url) as client:
        for number in range(4):
            await client.runs.wait(f"w{number}", AGENT, input=said(["ask", "?"]))
        await client.runs.wait("idle", AGENT, input=plain("a"))
        monkeypatch.setattr(pauses, "waiting_runs", counted)
        found = await client.threads.search(limit=100)
        assert {one["thread_id"]: one["status"] for one in found} == {
            **{f"w{number}": "interrupted" for number in range(4)},
            "idle": "idle",
        }
        assert asked == [4]
        assert len(await client.threads.search(status="interrupted", limit=2)) == 2
        assert asked == [4, 4]
