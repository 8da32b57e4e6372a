"""`/v1/ws` over real sockets: subscriptions and commands of one connection, limits, keys that end, fuzz."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from hostler.http.limits import MAX_BODY_BYTES, MAX_SUBSCRIPTIONS
from hostler.http.live.messages import schema
from support.followed import ends, opened, take
from support.front_ends import make_token
from support.http_host import ADMIN_KEY, serving
from support.json_schema import faults
from support.live_socket import LiveClient, Refused, live

pytestmark = pytest.mark.gate("streams-over-runs")


def message(text: str, **fields: Any) -> dict[str, Any]:
    return {"event_type": "message.received", "input": {"text": text}, **fields}


@pytest.mark.shows("websocket", "text", "repeated")
async def test_one_connection_follows_a_run_a_conversation_and_the_workspace(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, live(served.url, ADMIN_KEY) as client:
        conversation = await client.follow("c", conversation_id="c1")
        workspace = await client.follow("w", types=["message.completed", "run.status"])
        sent = await client.ask("send", event=message("say 2", conversation_id="c1", event_id="e1"))
        run_id = sent["run"]["run_id"]
        run = await client.follow("r", run_id=run_id)
        of_conversation = await take(conversation, ends(run_id))
        of_workspace = await take(workspace, ends(run_id))
        of_run = await take(run, lambda one: one.type == "run.completed")
        assert await client.ended["r"] is None
        assert [one for one in of_conversation if "sequence" in one.data] != []
        assert [one.data for one in of_run] == [one.data for one in of_conversation if "sequence" in one.data]
        assert of_workspace == [
            one for one in of_conversation if one.type in ("message.completed", "run.status")
        ]
        async with opened(served.client, "/v1/conversations/c1/stream", from_="start") as events:
            assert await take(events, ends(run_id)) == of_conversation  # the same cursors, too
        again = await client.ask("send", event=message("say 2", conversation_id="c1", event_id="e1"))
        assert (again["duplicate"], again["run"]["run_id"]) == (True, run_id)
        assert await client.ask("ping") is None
        await client.ask("unsubscribe", subscription="w")
        client.events["w"] = asyncio.Queue()
        other = await client.ask("send", event=message("say 1", conversation_id="c1"))
        await take(conversation, ends(other["run"]["run_id"]))
        assert client.events["w"].empty()
    assert not served.server.app.state.sockets
    assert served.host.runs.timelines.watchers == 0


@pytest.mark.shows("websocket", "steer", "cancel")
async def test_steering_deciding_and_cancelling(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, live(served.url, ADMIN_KEY) as client:
        events = await client.follow("c", conversation_id="c1")
        held = await client.ask("send", event=message("hold", conversation_id="c1"))
        run_id = held["run"]["run_id"]
        await take(events, lambda one: one.type == "message.delta")
        said = await client.ask("steer", run_id=run_id, input={"text": "more"}, event_id="s1")
        assert said["outcome"] in ("steered", "queued")
        assert said == {
            **await client.ask("steer", run_id=run_id, input={"text": "more"}, event_id="s1"),
            "duplicate": False,
        }
        cancelled = await client.ask("cancel", run_id=run_id, reason="enough", grace=0.1)
        assert cancelled["run_id"] == run_id
        await take(events, ends(run_id))
        with pytest.raises(Refused) as refused:
            await client.ask("steer", run_id=run_id, input={"text": "late"})
        assert refused.value.problem["code"] == "conflict"
        with pytest.raises(Refused) as refused:
            await client.ask("decide", pause_id="none", revision=1, actions=[])
        assert refused.value.problem["status"] == 404


@pytest.mark.shows("websocket", "wrong-key")
async def test_commands_need_the_rights_of_their_routes(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        reader = await served.key("default", "runs:read")
        async with live(served.url, reader) as client:
            for command, fields in (
                ("send", {"event": message("say 1")}),
                ("steer", {"run_id": "r", "input": {"text": "x"}}),
                ("decide", {"pause_id": "p", "revision": 1, "actions": []}),
                ("resolve", {"pause_id": "p", "call_id": "c", "outcome": "happened"}),
                ("cancel", {"run_id": "r"}),
            ):
                with pytest.raises(Refused) as refused:
                    await client.ask(command, **fields)
                assert refused.value.problem["status"] == 403, command
            elsewhere = (await served.say("say 1"))["run_id"]
        async with live(served.url, await served.key("other")) as client:
            with pytest.raises(Refused) as refused:
                await client.follow("r", run_id=elsewhere)
            assert refused.value.problem["status"] == 404
            with pytest.raises(Refused) as refused:
                await client.ask("cancel", run_id=elsewhere)
            assert refused.value.problem["status"] == 404
        address = served.url.replace("http:", "ws:") + "/v1/ws"
        for headers, status in (
            ({}, 401),
            ({"authorization": "Bearer wrong"}, 401),
            ({"authorization": f"Bearer {await served.key('default', 'events:write')}"}, 403),
        ):
            with pytest.raises(InvalidStatus) as denied:
                async with connect(address, additional_headers=headers):
                    pass
            assert denied.value.response.status_code == status
            assert json.loads(denied.value.response.body or b"")["code"] == "unauthorized"
        assert (await served.client.get("/v1/ws")).status_code == 426


@pytest.mark.gate("front-end-tokens")
async def test_a_page_reaches_its_own_agent_and_conversation_only(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.agent("second")
        other = (await served.say("say 1", agent="puppet", conversation_id="theirs"))["run_id"]
        aside = (await served.say("say 1", agent="second", conversation_id="c1"))["run_id"]
        made = await make_token(served, agent="puppet", conversation_id="c1")
        address = served.url.replace("http:", "ws:") + "/v1/ws"
        offered: Any = ["hostler", f"hostler.token.{made['token']}"]
        async with connect(address, subprotocols=offered) as socket:
            assert socket.subprotocol == "hostler"
            client = LiveClient(socket)
            reading = asyncio.create_task(client.read())
            events = await client.follow("w", **{"from": "start"})
            sent = await client.ask("send", event=message("say 1"))
            run_id = sent["run"]["run_id"]
            seen = await take(events, ends(run_id))
            assert {one.data.get("run_id", run_id) for one in seen} == {run_id}
            for command, fields in (
                ("subscribe", {"subscription": "x", "conversation_id": "theirs"}),
                ("subscribe", {"subscription": "x", "agent": "second"}),
                ("subscribe", {"subscription": "x", "run_id": other}),
                ("subscribe", {"subscription": "x", "run_id": aside}),
                ("steer", {"run_id": other, "input": {"text": "x"}}),
                ("cancel", {"run_id": other}),
                ("resolve", {"pause_id": "p", "call_id": "c", "outcome": "happened"}),
            ):
                with pytest.raises(Refused) as refused:
                    await client.ask(command, **fields)
                assert refused.value.problem["status"] in (403, 404), command
            reading.cancel()
        query = {"access_token": made["token"], "from": "start"}
        async with served.as_key(None) as page, opened(page, "/v1/stream", **query) as stream:
            assert await take(stream, ends(run_id)) == seen
        async with served.as_key(made["token"]) as page:
            assert (await page.get("/v1/conversations/theirs/stream")).status_code == 404
            assert (await page.get("/v1/stream?everywhere=run.status")).status_code == 403
        wrongs: list[Any] = [offered[1:], [*offered, "hostler.token.x"], ["hostler", "hostler.token.x"]]
        for wrong in wrongs:
            with pytest.raises(InvalidStatus):
                async with connect(address, subprotocols=wrong):
                    pass


async def test_a_connection_is_closed_when_its_key_is_revoked(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        made = (await served.client.post("/v1/keys", json={"name": "k", "rights": ["admin"]})).json()
        async with live(served.url, made["key"]) as client:
            await client.follow("w")
            await served.client.delete(f"/v1/keys/{made['record']['key_id']}")
            await client.socket.wait_closed()
            assert client.socket.close_code == 1008
            assert "no longer valid" in (client.socket.close_reason or "")
        assert not served.server.app.state.sockets
        assert served.host.runs.timelines.watchers == 0


@pytest.mark.shows("websocket", "long-run")
async def test_the_server_closes_and_a_client_resumes_at_the_next(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, live(served.url, ADMIN_KEY) as client:
        events = await client.follow("w")
        run_id = (await served.say("say 2"))["run_id"]
        seen = await take(events, ends(run_id))
        cut = seen[2].cursor
        closing = asyncio.create_task(served.server.close())
        await client.socket.wait_closed()
        assert client.socket.close_code == 1012
        await closing
    async with serving(tmp_path) as served, live(served.url, ADMIN_KEY) as client:
        assert await take(await client.follow("w", cursor=cut), ends(run_id)) == seen[3:]


async def test_limits_of_a_connection(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, live(served.url, ADMIN_KEY) as client:
        for number in range(MAX_SUBSCRIPTIONS):
            await client.follow(f"s{number}", conversation_id=f"c{number % 7}")
        with pytest.raises(Refused) as refused:
            await client.follow("one more")
        assert refused.value.problem["code"] == "rate_limited"
        with pytest.raises(Refused) as refused:
            await client.ask("subscribe", subscription="s1")
        assert refused.value.problem["code"] == "conflict"
        await client.ask("unsubscribe", subscription="s1")
        await client.follow("one more")
        await client.socket.send(json.dumps({"type": "send", "id": "x", "pad": "x" * MAX_BODY_BYTES}))
        await client.ask("ping")
        assert client.unasked[-1]["code"] == "payload_too_large"


HOSTILE: list[str | bytes] = [
    "",
    "null",
    "[]",
    "{}",
    "{",
    "1",
    '"x"',
    "[" * 100_000,
    '{"type":"ping"}',
    '{"type":"ping","id":7}',
    '{"type":"ping","id":""}',
    '{"type":"nothing","id":"a"}',
    '{"type":"ping","id":"a","more":1}',
    '{"type":"subscribe","id":"a","subscription":"s","cursor":"x"}',
    '{"type":"subscribe","id":"a","subscription":"s","cursor":"\\u0000"}',
    '{"type":"subscribe","id":"a","subscription":"s","conversation_id":"\\u0000"}',
    '{"type":"subscribe","id":"a","subscription":"s","run_id":"\\u0000"}',
    '{"type":"subscribe","id":"a","subscription":"s","run_id":"r","agent":"a"}',
    '{"type":"subscribe","id":"a","subscription":"s","types":["no"]}',
    '{"type":"unsubscribe","id":"a","subscription":"none"}',
    '{"type":"cancel","id":"a","run_id":"\\u0000"}',
    '{"type":"cancel","id":"a","run_id":"r","grace":1e99}',
    '{"type":"decide","id":"a","pause_id":"\\u0000","revision":1,"actions":[]}',
    '{"type":"resolve","id":"a","pause_id":"p","call_id":"\\u0000","outcome":"happened"}',
    '{"type":"resolve","id":"a","pause_id":"p","call_id":"c","outcome":"happened"}',
    '{"type":"resolve","id":"a","pause_id":"p","call_id":"c","outcome":"perhaps"}',
    '{"type":"send","id":"a","event":{}}',
    '{"type":"send","id":"a","event":7}',
    '{"type":"send","id":"a","event":{"event_type":"X","input":{}}}',
    '{"type":"steer","id":"a","run_id":"r"}',
    '{"type":"ping","id":"\\ud800"}',
    b"\xff\xfe",
    b"\x00",
]


@pytest.mark.shows("websocket", "hostile")
async def test_no_frame_breaks_the_connection(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(5)
    valid = [
        json.dumps({"type": "subscribe", "id": "a", "subscription": "s", "conversation_id": "c"}),
        json.dumps({"type": "send", "id": "a", "event": message("say 1")}),
        json.dumps({"type": "cancel", "id": "a", "run_id": "r"}),
        json.dumps(
            {"type": "resolve", "id": "a", "pause_id": "p", "call_id": "c", "outcome": "not_happened"}
        ),
    ]
    with caplog.at_level(logging.WARNING):
        async with serving(tmp_path) as served, live(served.url, ADMIN_KEY) as client:
            for frame in HOSTILE:
                await client.socket.send(frame)
            for _ in range(300):
                text = list(chance.choice(valid))
                for _ in range(chance.randint(1, 4)):
                    text[chance.randrange(len(text))] = chance.choice('{}[]",:x\\0é')
                await client.socket.send("".join(text))
            assert await client.ask("ping") is None
            assert len(client.unasked) >= len(HOSTILE)
            assert {problem["status"] for problem in client.unasked} <= {400, 404, 409, 413, 429}
    assert not [record for record in caplog.records if record.exc_info]


async def test_messages_fit_the_schema(tmp_path: Path) -> None:
    document = schema()
    async with serving(tmp_path) as served:
        address = served.url.replace("http:", "ws:") + "/v1/ws"
        headers = {"authorization": f"Bearer {ADMIN_KEY}"}
        async with connect(address, additional_headers=headers) as socket:
            commands = [
                {"type": "subscribe", "id": "1", "subscription": "w", "from": "start"},
                {"type": "subscribe", "id": "2", "subscription": "w"},
                {"type": "send", "id": "3", "event": message("say 1")},
            ]
            for command in commands:
                assert not faults(command, {"$ref": "#/$defs/Command"}, document)
                await socket.send(json.dumps(command))
            kinds = set()
            async with asyncio.timeout(60):
                while True:
                    received = json.loads(await socket.recv())
                    assert not faults(received, {"$ref": "#/$defs/ServerMessage"}, document)
                    kinds.add(received["type"])
                    for event in received.get("events", ()):
                        kinds.add(event["type"])
                    if "run.completed" in kinds:
                        break
    assert {"hello", "answer", "error", "events", "run.status", "event.received"} <= kinds
