"""Agent Protocol on the LangGraph interface: its routes, and answers as its document has them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

from support.dialects.agent_protocol import (
    AGENT,
    AGENT_SCHEMAS,
    ITEM,
    RUN,
    STATE,
    THREAD,
    WAITED,
    agent_protocol,
    listed,
    read_events,
    shape,
    texts,
    user,
)
from support.dialects.langgraph import plain
from support.dialects.players import player
from support.front_ends import make_token
from support.http_host import WORKSPACE, Served

ORDER: list[Any] = ["tool", "player.order", {"thing": "茶"}, "o"]
CLIENT_TOOL = {"name": "pick", "description": "Picks.", "parameters": {"type": "object"}}


async def test_agents(served: Served) -> None:
    async with agent_protocol(served.url) as client:
        (found,) = await client.ask("POST", "/agents/search", listed(AGENT), json={})
        assert found["agent_id"] == "player"
        assert found["capabilities"] == {"ap.io.messages": True}
        assert await client.ask("GET", "/agents/player", AGENT) == found
        schemas = await client.ask("GET", "/agents/player/schemas", AGENT_SCHEMAS)
        assert "messages" in schemas["input_schema"]["properties"]
        await player(served, "second")
        for body, names in (
            ({"name": "sec"}, ["second"]),
            ({"limit": 1, "offset": 1}, ["second"]),
            ({"metadata": {"created_by": "system"}}, ["player", "second"]),
            ({"metadata": {"created_by": "nobody"}}, []),
        ):
            listing = await client.ask("POST", "/agents/search", listed(AGENT), json=body)
            assert [one["agent_id"] for one in listing] == names, body
        for path in ("/agents/nobody", "/agents/nobody/schemas"):
            assert "nobody" in (await client.ask("GET", path, status=404)).text
        # of several, a request names one, or a thread that knows its own
        answer = await client.ask("POST", "/runs/wait", status=400, json={"messages": user("x")})
        assert "agent_id" in answer.json()["detail"]
        await client.wait(
            path="/threads/t/runs/wait", messages=user("a"), agent_id="second", if_not_exists="create"
        )
        again = await client.wait(thread_id="t", messages=user("b"))
        assert again["run"]["agent_id"] == "second"
        assert (
            "nobody"
            in (
                await client.ask(
                    "POST", "/runs/wait", status=404, json={"agent_id": "nobody", "messages": user("x")}
                )
            ).text
        )


async def test_a_run_of_its_own_thread(served: Served) -> None:
    """Created, polled, waited for, listed, streamed and deleted by its id alone."""
    async with agent_protocol(served.url) as client:
        done = await client.wait(
            ["tool", "player.price", {"thing": "茶"}, "p"],
            ["say", "你好 👩‍👩‍👧"],
            metadata={"mine": {"a": 1}},
        )
        assert done["run"]["status"] == "success"
        assert done["values"] == {}
        assert texts(done["messages"])[-1] == "你好 👩‍👩‍👧"
        (called,) = [one["tool_calls"][0] for one in done["messages"] if one.get("tool_calls")]
        (told,) = [one for one in done["messages"] if one["role"] == "tool"]
        assert (called["name"], told["tool_call_id"]) == ("player.price", called["id"])
        made = await client.ask("POST", "/runs", RUN, json={"messages": user("later")})
        assert made["status"] in ("pending", "success")
        run_id = made["run_id"]
        waited = await client.ask("GET", f"/runs/{run_id}/wait", WAITED)
        of_thread = f"/threads/{made['thread_id']}/runs/{run_id}/wait"
        assert await client.ask("GET", of_thread, WAITED) == waited
        assert texts(waited["messages"]) == ["you said: later"]
        assert await client.ask("GET", f"/runs/{run_id}", RUN) == waited["run"]
        for body, names in (
            ({}, [run_id, done["run"]["run_id"]]),
            ({"thread_id": made["thread_id"]}, [run_id]),
            ({"metadata": {"mine": {"a": 1}}}, [done["run"]["run_id"]]),
            ({"status": "success", "agent_id": "player", "limit": 1, "offset": 1}, [done["run"]["run_id"]]),
            ({"status": "error"}, []),
            ({"agent_id": "nobody"}, []),
        ):
            found = await client.ask("POST", "/runs/search", listed(RUN), json=body)
            assert [one["run_id"] for one in found] == names, body
        streamed = await client.events("GET", f"/runs/{run_id}/stream?stream_mode=values")
        assert streamed[0].data["run_id"] == run_id
        assert streamed[-1].data["messages"][-1]["content"] == "you said: later"
        rest = await client.events(
            "GET",
            f"/runs/{run_id}/stream?stream_mode=values",
            headers={"last-event-id": streamed[1].id or ""},
        )
        assert rest == streamed[2:]
        await client.ask("DELETE", f"/runs/{run_id}", status=204)
        await client.ask("GET", f"/runs/{run_id}", status=404)
        thread = await client.ask("GET", f"/threads/{made['thread_id']}", THREAD)
        assert thread["messages"] == []


async def test_failed_and_repeated(served: Served) -> None:
    async with agent_protocol(served.url) as client:
        failed = await client.wait(["fail", "broken"])
        assert failed["run"]["status"] == "error"
        assert "broken" in failed["values"]["__error__"]["message"]
        key = {"idempotency-key": "k"}
        first, again = [
            await client.ask("POST", "/runs/wait", WAITED, json={"messages": user("x")}, headers=key)
            for _ in "ab"
        ]
        assert first == again
        held = {"messages": user(["hold"])}
        at_once = await asyncio.gather(
            *(
                client.ask("POST", "/runs", RUN, json=held, headers={"idempotency-key": "h"})
                for _ in range(16)
            )
        )
        (run_id,) = {one["run_id"] for one in at_once}
        await client.ask("POST", f"/runs/{run_id}/cancel?wait=true", status=204)
        other = await client.ask("POST", "/runs/wait", status=422, json={"messages": user("y")}, headers=key)
        assert "another request" in other.json()["detail"]
        # whatever the words of the request: `assistant_id` is LangGraph's, and is answered as LangGraph does
        plainly = await client.ask("POST", "/runs/wait", json={"assistant_id": "player", "input": plain("x")})
        assert list(plainly.json()) == ["messages"]


async def test_threads(served: Served) -> None:
    async with agent_protocol(served.url) as client:
        name = str(uuid4())
        made = await client.ask("POST", "/threads", THREAD, json={"thread_id": name, "metadata": {"a": 1}})
        assert (made["thread_id"], made["status"]) == (name, "idle")
        await client.ask("POST", "/threads", status=409, json={"thread_id": name})
        await client.ask("POST", "/threads", THREAD, json={"thread_id": name, "if_exists": "do_nothing"})
        done = await client.wait(path=f"/threads/{name}/runs/wait", messages=user("one"))
        assert done["run"]["thread_id"] == name
        await client.wait(thread_id=name, messages=user("two"))
        thread = await client.ask("GET", f"/threads/{name}", THREAD)
        assert texts(thread["messages"]) == ["you said: one", "you said: two"]
        assert texts(thread["messages"], "user") == ["one", "two"]
        changed = await client.ask(
            "PATCH",
            f"/threads/{name}",
            THREAD,
            json={
                "metadata": {"b": 2},
                "messages": [{"role": "assistant", "content": "from a person", "id": "m1"}],
            },
        )
        assert changed["metadata"] | {"a": 1, "b": 2} == changed["metadata"]
        assert changed["messages"][-1] == {"role": "assistant", "content": "from a person", "id": "m1"}
        # all of a change or nothing; what the thread says is for who may read it
        more = {"messages": user("more"), "metadata": {"big": "x" * 300_000}}
        await client.ask("PATCH", f"/threads/{name}", status=413, json=more)
        assert (await client.ask("GET", f"/threads/{name}", THREAD))["messages"] == changed["messages"]
        writer = await served.key(WORKSPACE, "events:write", "conversations:write")
        async with agent_protocol(served.url, writer) as blind:
            told = await blind.ask("PATCH", f"/threads/{name}", THREAD, json={"messages": user("三")})
            assert "messages" not in told
            assert told["values"] is None
        changed = await client.ask("GET", f"/threads/{name}", THREAD)
        assert texts(changed["messages"], "user")[-1] == "三"
        history = await client.ask("GET", f"/threads/{name}/history?limit=2", listed(STATE))
        assert len(history) == 2
        copied = await client.ask("POST", f"/threads/{name}/copy", THREAD)
        copy = await client.ask("GET", f"/threads/{copied['thread_id']}", THREAD)
        assert texts(copy["messages"]) == texts(changed["messages"])
        found = await client.ask("POST", "/threads/search", listed(THREAD), json={"metadata": {"a": 1}})
        assert {one["thread_id"] for one in found} == {name, copied["thread_id"]}
        await client.ask("DELETE", f"/threads/{name}", status=204)
        for values in ({"values": {"topic": "x"}}, {"messages": [{"role": "tool", "content": "x"}]}):
            await client.ask("PATCH", f"/threads/{copied['thread_id']}", status=400, json=values)
        # a thread whose id its client has chosen is there, also with nothing in it
        own = {"thread_id": str(uuid4())}
        await client.ask("POST", "/threads", THREAD, json=own)
        await client.ask("POST", "/threads", status=409, json=own)
        await client.ask("PATCH", f"/threads/{own['thread_id']}", THREAD, json={"metadata": {}})
        assert (await client.ask("GET", f"/threads/{own['thread_id']}", THREAD))["messages"] == []
        assert (await client.wait(**own, messages=user("x")))["run"]["status"] == "success"
        # a thread that is not there is made only if the request says so
        body = {"thread_id": "unknown", "messages": user("x")}
        assert "no thread" in (await client.ask("POST", "/runs", status=404, json=body)).text
        await client.ask("POST", "/runs", RUN, json={**body, "if_not_exists": "create"})


async def test_the_store(served: Served) -> None:
    item = {"namespace": ["users", "ada"], "key": "likes", "value": {"tea": "茶"}}
    async with agent_protocol(served.url) as client:
        await client.ask("PUT", "/store/items", status=204, json=item)
        query = {"key": "likes", "namespace": ["users", "ada"]}
        found = await client.ask("GET", "/store/items", ITEM, params=query)
        assert found["value"] == {"tea": "茶"}
        assert (
            await client.ask("GET", "/store/items", params={"key": "likes", "namespace": "users.ada"})
        ).json() == found
        searched = await client.ask(
            "POST",
            "/store/items/search",
            shape({"items": listed(ITEM)}),
            json={"namespace_prefix": None, "filter": {"tea": "茶"}},
        )
        assert len(searched["items"]) == 1
        listing = await client.ask("POST", "/store/namespaces", json={"prefix": ["users"]})
        assert listing.json() == {"namespaces": [["users", "ada"]]}, (
            "in an object, as LangGraph's servers say it"
        )
        await client.ask(
            "DELETE", "/store/items", status=204, json={"namespace": ["users", "ada"], "key": "likes"}
        )


async def test_what_waits_is_interrupted_and_goes_on(served: Served) -> None:
    """An approval, a question, and a tool that the client carries out."""
    async with agent_protocol(served.url) as client:
        held = await client.wait(ORDER, ["say", "Bye."])
        run, (interrupt,) = held["run"], held["values"]["__interrupt__"]
        assert run["status"] == "interrupted"
        assert await client.ask("GET", f"/runs/{run['run_id']}", RUN) == run
        found = await client.ask("POST", "/runs/search", listed(RUN), json={"status": "interrupted"})
        assert [one["run_id"] for one in found] == [run["run_id"]]
        thread = await client.ask("GET", f"/threads/{run['thread_id']}", THREAD)
        assert thread["status"] == "interrupted"
        busy = {"thread_id": run["thread_id"], "messages": user("x")}
        assert (await client.ask("POST", "/runs", status=409, json=busy)).json()["detail"]
        answer = {
            "thread_id": run["thread_id"],
            "input": {interrupt["id"]: {"decisions": [{"type": "approve"}]}},
        }
        done = await client.ask("PATCH", "/runs/resume/wait", WAITED, json=answer)
        assert done["run"]["status"] == "success"
        assert texts(done["messages"])[-1] == "Bye."
        facts = (await served.client.get("/v1/audit?limit=20")).json()["items"]
        assert ("pause.call.approved", "admin") in [(one["action"], one["actor"]) for one in facts]
        again = await client.ask("PATCH", "/runs/resume", RUN, json=answer)
        assert again == done["run"], "the same answer again is the same run"
        # the answer names its run, whoever answered last in the thread
        await player(served, "second")
        held = await client.wait(ORDER, agent_id="player")
        own = {"thread_id": held["run"]["thread_id"]}
        more = {**own, "agent_id": "second", "multitask_strategy": "enqueue", "messages": user("x")}
        await client.ask("GET", f"/runs/{(await client.ask('POST', '/runs', RUN, json=more))['run_id']}/wait")
        (interrupt,) = held["values"]["__interrupt__"]
        answer = {**own, "input": {interrupt["id"]: {"decisions": [{"type": "reject"}]}}}
        done = await client.ask("PATCH", "/runs/resume/wait", WAITED, json=answer)
        assert (done["run"]["agent_id"], done["run"]["status"]) == ("player", "success")
        await served.client.delete("/v1/agents/second")
        held = await client.wait(["ask", "Which size?"])
        answer = {"thread_id": held["run"]["thread_id"], "agent_id": "player", "input": "xl"}
        parts = await client.events("PATCH", "/runs/resume/stream", json={**answer, "stream_mode": "values"})
        assert "xl" in parts[-1].data["messages"][-1]["content"]
        tools = {"messages": user(["tool", "pick", {"of": "a"}, "c"]), "input": {"tools": [CLIENT_TOOL]}}
        held = await client.ask("POST", "/runs/wait", WAITED, json=tools)
        (interrupt,) = held["values"]["__interrupt__"]
        assert interrupt["value"]["toolCall"]["args"] == {"of": "a"}
        answer = {"thread_id": held["run"]["thread_id"], "input": "a it is"}
        done = await client.ask("PATCH", "/runs/resume/wait", WAITED, json=answer)
        assert any("a it is" in str(one["content"]) for one in done["messages"])
        for body, status in (
            ({"thread_id": "unknown", "input": 1}, 404),
            ({"thread_id": done["run"]["thread_id"], "input": True}, 409),
            ({"thread_id": done["run"]["thread_id"]}, 400),
            ({"thread_id": "a\x00", "input": 1}, 400),
        ):
            await client.ask("PATCH", "/runs/resume", status=status, json=body)


async def test_cancelling(served: Served) -> None:
    async with agent_protocol(served.url) as client:
        for query, gone in (("?wait=true", False), ("?action=rollback", True)):
            run = await client.ask("POST", "/runs", RUN, json={"messages": user(["hold"])})
            path = f"/runs/{run['run_id']}"
            await client.ask("DELETE", path, status=409)
            busy = {"thread_id": run["thread_id"], "messages": user("x")}
            assert "busy" in (await client.ask("POST", "/runs/wait", status=409, json=busy)).text
            await client.ask("POST", f"{path}/cancel{query}", status=204)
            if gone:
                await client.ask("GET", path, status=404)
            else:
                assert (await client.ask("GET", path, RUN))["status"] == "interrupted"
                assert (await client.ask("GET", f"{path}/wait", WAITED))["run"]["status"] == "interrupted"
        answer = await client.ask("POST", f"{path}/cancel?action=x", status=404)
        assert answer.status_code == 404


async def test_a_client_that_disconnects_cancels_unless_it_says_otherwise(
    served: Served, tmp_path: Path
) -> None:
    """The default of the protocol; streams that are joined leave their run alone."""
    async with agent_protocol(served.url) as client:
        for number, (more, ends) in enumerate(
            (({}, "interrupted"), ({"on_disconnect": "continue"}, "success"))
        ):
            gate = tmp_path / f"gate-{number}"
            body = {
                "messages": user(["say", "first"], ["wait", str(gate)]),
                "stream_mode": ["updates"],
                **more,
            }
            async with client.http.stream("POST", "/runs/stream", json=body) as answer:
                place = answer.headers["content-location"]
                async for event in read_events(answer):
                    if event.name == "updates":
                        break
            if ends == "success":
                async with client.http.stream("GET", f"{place}/stream") as joined:
                    await anext(read_events(joined))
                gate.touch()
            done = await client.ask("GET", f"{place}/wait", WAITED)
            assert done["run"]["status"] == ends, more


async def test_what_is_refused(served: Served) -> None:
    async with agent_protocol(served.url) as client:
        message = {"messages": user("x")}
        refused: list[dict[str, Any]] = [
            {},
            {"input": {"prompt": "x"}},
            {"messages": "x"},
            {"messages": [{"content": "x"}]},
            {"messages": [{"role": "user", "content": 1}]},
            {**message, "input": "x"},
            {**message, "webhook": "https://a.example"},
            {**message, "after_seconds": 5},
            {**message, "stream_mode": "debug"},
            {**message, "on_completion": "delete"},
            {**message, "on_disconnect": "x"},
            {**message, "agent_id": 1},
            {**message, "thread_id": ""},
            {**message, "thread_id": "a\x00", "if_not_exists": "create"},
            {"command": {"resume": True}},
        ]
        for body in refused:
            answer = await client.ask("POST", "/runs", status=400, json=body)
            assert answer.json()["detail"], body
        refused = [{"status": "x"}, {"limit": 0}, {"offset": -1}, {"thread_id": "\x00"}, {"metadata": 1}]
        for body in refused:
            await client.ask("POST", "/runs/search", status=400, json=body)
        for path in ("/runs/x", "/runs/run_x", "/runs/run_x_1/wait", "/runs/crons/stream"):
            await client.ask("GET", path, status=404)
    run = (await served.say("mine", agent="player", conversation_id="c"))["run_id"]
    own = f"/runs/run_{run}"
    paths = [("GET", own), ("GET", f"{own}/wait"), ("DELETE", own)]
    async with agent_protocol(served.url, "wrong") as stranger:
        for method, path in (*paths, ("POST", "/runs/search"), ("POST", "/agents/search")):
            await stranger.ask(method, path, status=401, json={} if method == "POST" else None)
    async with agent_protocol(served.url, await served.key("other")) as foreign:
        for method, path in paths:
            await foreign.ask(method, path, status=404)
        assert (await foreign.ask("POST", "/runs/search", json={})).json() == []
    async with agent_protocol(served.url, await served.key(WORKSPACE, "runs:read")) as reader:
        await reader.ask("GET", own, RUN)
        await reader.ask("DELETE", own, status=403)
        await reader.ask("POST", f"{own}/cancel", status=403)
        await reader.ask("PATCH", "/runs/resume", status=403, json={"thread_id": "t", "input": 1})
    # a front-end token: the runs of its own thread and agent, which it need not name
    await player(served, "second")
    token = (await make_token(served, agent="player", conversation_id="c"))["token"]
    async with agent_protocol(served.url, token) as page:
        done = await page.wait("from a page", path="/threads/c/runs/wait")
        assert texts(done["messages"])[-1] == "you said: from a page"
        of_thread = f"/threads/c/runs/{done['run']['run_id']}/wait"
        assert await page.ask("GET", of_thread, WAITED) == done
        for path, status in (
            ("/threads/c/runs/wait", 404),
            ("/threads/d/runs/wait", 404),
            ("/runs/wait", 403),
        ):
            await page.ask("POST", path, status=status, json={"agent_id": "second", "messages": user("x")})
        await page.ask("GET", own, status=403)
    # its conversation need not have begun, and where it is sent it may go
    token = (await make_token(served, agent="player", conversation_id="new"))["token"]
    async with agent_protocol(served.url, token) as page:
        answer = await page.ask("POST", "/threads/new/runs/wait", json={"messages": user("x")})
        assert await page.ask("GET", answer.headers["location"], WAITED) == answer.json()
        assert (await page.ask("GET", answer.headers["content-location"])).json()["thread_id"] == "new"
        key = {"idempotency-key": "k"}
        place, body = "/threads/new/runs", {"messages": user(["hold"])}
        held = await page.ask("POST", place, RUN, json=body, headers=key)
        for strategy in ("reject", "interrupt"):
            body["multitask_strategy"] = strategy  # not against the run of the same request
            assert (await page.ask("POST", place, RUN, json=body, headers=key))["run_id"] == held["run_id"]
        assert (await page.ask("GET", f"{place}/{held['run_id']}")).json()["status"] != "interrupted"
        await page.ask("POST", f"{place}/{held['run_id']}/cancel?wait=true")
