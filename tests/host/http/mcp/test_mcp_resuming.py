"""Streams of sessions go on where they broke, however late; the same request again is the same run."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from support.dialects.cutting import cutting
from support.dialects.mcp import (
    Heard,
    Wire,
    accept,
    follow,
    mcp_client,
    messages_in,
    result_in,
    texts_of,
    transcript,
    wire,
)
from support.dialects.players import playing, script
from support.http_host import ADMIN_KEY, OTHER, Served

TEXT = "你好 🙂 ünïcode " * 20
STEPS = [
    *(["delta", TEXT[at : at + 7]] for at in range(0, len(TEXT), 7)),
    ["say", TEXT],
    ["tool", "player.price", {"thing": "lamp"}, "a"],
    ["say", "done"],
]
TEXTS = [TEXT, 'player.price: {"thing": "lamp", "euros": 4}', "done"]


def call(steps: list[Any], id_: Any = 7, **meta: Any) -> dict[str, Any]:
    params = {
        "name": "player",
        "arguments": {"message": script(*steps)},
        "_meta": {"progressToken": 3, **meta},
    }
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


async def runs_of(served: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await served.client.get("/v1/runs")).json()["items"]
    return found


async def test_a_stream_that_breaks_anywhere_has_every_message_once(served: Served) -> None:
    async with wire(served.url, ADMIN_KEY) as client:
        await client.begin()
        whole = messages_in(await client.post(call(STEPS, 1)))
        for seed in range(8):
            parts = await follow(client, call(STEPS, 100 + seed), random.Random(seed))
            assert texts_of(parts[-1]["result"]) == TEXTS
            assert _said(parts) == _said(whole)
    assert len(await runs_of(served)) == 9


def _said(messages: list[dict[str, Any]]) -> str:
    return "".join(
        one["params"]["message"] for one in messages if one.get("method") == "notifications/progress"
    )


async def test_the_official_client_goes_on_after_cuts(served: Served, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    heard = Heard()
    async with cutting(served.port) as proxy, mcp_client(proxy.url, ADMIN_KEY, "legacy") as client:
        steps = script(["delta", "one "], ["wait", str(gate)], ["say", "one two"])
        calling = asyncio.create_task(
            client.call_tool("player", {"message": steps}, progress_callback=heard.note_progress)
        )
        async with asyncio.timeout(30):
            while heard.text != "one":
                await asyncio.sleep(0.02)
        proxy.cut()
        gate.touch()
        assert texts_of(await calling) == ["one two"]
    assert heard.text == "one two"
    assert len(await runs_of(served)) == 1


async def test_bytes_one_at_a_time(served: Served) -> None:
    heard = Heard()
    async with cutting(served.port) as proxy:
        proxy.crumbs = True
        for mode in ("legacy", "2026-07-28"):
            async with mcp_client(proxy.url, ADMIN_KEY, mode) as client:
                given = {"message": script(["delta", "你好"], ["say", "你好 🙂"])}
                result = await client.call_tool("player", given, progress_callback=heard.note_progress)
                assert texts_of(result) == ["你好 🙂"]
    assert heard.text == "你好 🙂" * 2


async def test_long_after_its_end_a_call_is_still_answered(served: Served) -> None:
    async with wire(served.url, ADMIN_KEY) as client:
        await client.begin()
        longest = call(STEPS, "ø" * 127, progressToken="ø" * 127)  # the ids of its events are, too
        answer = await client.post(longest)
        first = answer.text.partition("\n")[0].removeprefix("id: ")
        await client.begin()  # the session is another one by now
        again = await client.http.get("/mcp", headers=client.headers(last_event_id=first))
        assert again.text == answer.text.partition("\n\n")[2]
        assert texts_of(messages_in(again)[-1]["result"]) == TEXTS


async def test_a_cursor_is_good_for_its_workspace_and_as_it_was_given(served: Served) -> None:
    async with wire(served.url, ADMIN_KEY) as client, wire(served.url, await served.key(OTHER)) as other:
        await client.begin()
        await other.begin()
        answer = await client.post(call(STEPS))
        last = answer.text.partition("\n")[0].removeprefix("id: ")
        foreign = await other.http.get("/mcp", headers=other.headers(last_event_id=last))
        assert foreign.status_code == 400
        assert "Last-Event-ID" in foreign.json()["error"]["message"]
        for wrong in ("1", "x.1", last + "9999999999999999", last[:-4] + "x.1", ".", "é.1"):
            headers = {**client.headers(), "last-event-id": wrong.encode()}
            refused = await client.http.get("/mcp", headers=headers)  # type: ignore[arg-type]
            assert refused.status_code == 400, (wrong, refused.text)
            assert refused.json()["error"]["code"] == -32602
        assert (await client.http.get("/mcp", headers=client.headers())).status_code == 405
        del client.session["mcp-session-id"]
        bare = await client.http.get("/mcp", headers=client.headers(last_event_id=last))
        assert bare.status_code == 400


@pytest.mark.shows("mcp", "repeated")
async def test_the_same_request_twice_is_one_run(served: Served) -> None:
    async with wire(served.url, ADMIN_KEY) as client:
        await client.begin()
        answers = await asyncio.gather(*(client.post(call(STEPS)) for _ in range(3)))
        assert len({answer.text for answer in answers}) == 1
        assert len(await runs_of(served)) == 1
        other = await client.post(call([["say", "x"]]))
        assert result_in(other)["isError"]
        assert result_in(other)["structuredContent"]["error"]["code"] == "conflict"
        arguments = {"name": "player", "arguments": {"message": script(["say", "y"])}}
        keyed = [await client.ask_stateless("tools/call", arguments, id_=n) for n in (1, 2)]
        assert len(await runs_of(served)) == 3  # without a key there is no way to tell
        assert all(texts_of(result_in(answer)) == ["y"] for answer in keyed)
        client.session["idempotency-key"] = "k"
        for n in (3, 4):
            assert texts_of(result_in(await client.ask_stateless("tools/call", arguments, id_=n))) == ["y"]
        assert len(await runs_of(served)) == 4


async def test_a_superseded_attempt_is_not_in_the_result(served: Served, tmp_path: Path) -> None:
    heard = Heard()
    steps = [["delta", "lost "], ["crash", str(tmp_path / "crashed")], ["say", "kept"]]
    async with mcp_client(served.url, ADMIN_KEY, "legacy", heard=heard) as client:
        given = {"message": script(*steps)}
        result = await client.call_tool("player", given, progress_callback=heard.note_progress)
    assert texts_of(result) == ["kept"]
    assert ("notice", {"message_dropped": "lost"}) in heard.logs


async def test_everything_goes_on_after_the_host_has_started_again(tmp_path: Path) -> None:
    """The session, the stream, the question that was asked, the state of a call, and a task."""
    order = ["tool", "player.order", {"thing": "lamp"}, "a"]
    asking = {"name": "player", "arguments": {"message": script(["say", "before"], order)}}
    async with playing(tmp_path / "data") as served, wire(served.url, ADMIN_KEY) as client:
        await client.begin(elicits=True)
        session = dict(client.session)
        opened = call([["say", "before"], order], 1)
        async with client.http.stream("POST", "/mcp", json=opened, headers=client.headers()) as stream:
            last, form = "", {}
            async for line in stream.aiter_lines():
                if line.startswith("id: "):
                    last = line.removeprefix("id: ")
                elif "elicitation/create" in line:
                    form = json.loads(line.removeprefix("data: "))
                    break
        state = result_in(await client.ask_stateless("tools/call", asking, elicitation={}))
        async with asyncio.timeout(30):
            while len((await served.client.get("/v1/pauses?status=open")).json()["items"]) < 2:
                await asyncio.sleep(0.02)
    async with playing(tmp_path / "data") as served, wire(served.url, ADMIN_KEY) as client:
        client.session = session
        yes = {"action": "accept", "content": {"approved": True}}
        reply = {"jsonrpc": "2.0", "id": form["id"], "result": yes}
        assert (await client.post(reply)).status_code == 202
        rest = await client.http.get("/mcp", headers=client.headers(last_event_id=last))
        assert texts_of(messages_in(rest)[-1]["result"]) == ["before", 'player.order: "ordered 1 lamp"']
        (key,) = state["inputRequests"]
        repeated = {**asking, "inputResponses": {key: yes}, "requestState": state["requestState"]}
        done = result_in(await client.ask_stateless("tools/call", repeated, elicitation={}))
        assert texts_of(done) == ["before", 'player.order: "ordered 1 lamp"']
        run_id = done["structuredContent"]["run_id"]
        assert await transcript(served.url, ADMIN_KEY, run_id, random.Random(1)) == texts_of(done)


@pytest.mark.shows("mcp", "disconnect")
async def test_disconnecting_cancels_a_stateless_call_and_no_other(served: Served) -> None:
    async def disconnect(client: Wire, id_: int, body: dict[str, Any], headers: dict[str, str]) -> str:
        async with client.http.stream("POST", "/mcp", json=body, headers=headers) as stream:
            async for line in stream.aiter_lines():
                if "begun" in line:
                    break
        newest: str = (await runs_of(served))[0]["run_id"]
        return newest

    async with wire(served.url, ADMIN_KEY) as client:
        await client.begin()
        kept = await disconnect(client, 1, call([["say", "begun"], ["hold"]]), client.headers())
        client.session = {
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": "player",
        }
        capable: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {}}
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", **capable}
        body = call([["say", "begun"], ["hold"]], **meta)
        gone = await disconnect(client, 2, body, client.headers())
        async with asyncio.timeout(30):
            while (await served.client.get(f"/v1/runs/{gone}")).json()["status"] != "cancelled":
                await asyncio.sleep(0.02)
        stays = await disconnect(client, 3, body, client.headers(hostler_on_disconnect="continue"))
        poor = await served.key("default", "events:write", "runs:read")
        async with wire(served.url, poor) as weak:
            left = await disconnect(weak, 4, body, {**weak.headers(), **client.session})
        for run_id in (kept, stays, left):
            run = (await served.client.get(f"/v1/runs/{run_id}")).json()
            assert (run["status"], run.get("cancel_requested_at")) == ("running", None)
            await served.client.post(f"/v1/runs/{run_id}/cancel", json={})


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_answer_comes_after_a_reconnect_of_the_user(served: Served, mode: str) -> None:
    """Two questions one after the other, in one call."""
    contents = [{"size": "s"}, {"size": "xl"}]
    async with mcp_client(served.url, ADMIN_KEY, mode, answer=lambda _: accept(**contents.pop(0))) as client:
        result = await client.call_tool("player", {"message": script(["ask", "One?"], ["ask", "Two?"])})
    assert texts_of(result) == ['answered: {"size": "s"}', 'answered: {"size": "xl"}']
