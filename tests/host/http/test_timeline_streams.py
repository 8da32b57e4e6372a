"""Streams of conversations and of the workspace: one cursor over all runs, exact from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.followed import Seen, ends, opened, take
from support.http_host import OTHER, Served, serving

pytestmark = pytest.mark.gate("streams-over-runs")


async def journal_of(served: Served, run_id: str) -> list[dict[str, Any]]:
    """All results of a run, as its own stream shows them."""
    page = (await served.client.get(f"/v1/runs/{run_id}/journal?limit=200")).json()
    return [
        {"type": item["type"], "sequence": item["sequence"], "data": item["data"]}
        for item in page["items"]
        if item["kind"] == "result"
    ]


def results_of(seen: list[Seen], run_id: str) -> list[dict[str, Any]]:
    return [
        {"type": one.type, "sequence": one.data["sequence"], "data": one.data["data"]}
        for one in seen
        if one.data.get("run_id") == run_id and "sequence" in one.data
    ]


async def test_a_conversation_is_one_stream_that_can_be_cut_anywhere(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        path = "/v1/conversations/c1/stream"
        async with opened(served.client, path) as events:
            runs = [(await served.say("say 3", conversation_id="c1"))["run_id"] for _ in range(2)]
            await served.say("say 2", conversation_id="other")
            whole = await take(events, ends(*runs))
        assert [one.type for one in whole[:3]] == ["event.received", "run.status", "run.status"]
        arrived = whole[0].data
        assert (arrived["conversation_id"], arrived["agent"]) == ("c1", "puppet")
        assert arrived["envelope"]["input"]["text"] == "say 3"
        assert whole[1].data["event_id"] == arrived["event_id"]
        for run_id in runs:
            assert results_of(whole, run_id) == await journal_of(served, run_id)
        assert len({one.cursor for one in whole}) == len(whole)
        async with opened(served.client, path, from_="start") as events:
            assert await take(events, ends(*runs)) == whole
        for cut in range(len(whole) - 1):
            async with opened(served.client, path, whole[cut].cursor) as events:
                assert await take(events, ends(runs[1])) == whole[cut + 1 :]


async def test_the_workspace_is_one_stream_and_its_cursors_are_good_for_each_filter(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.agent("second")
        async with opened(served.client, "/v1/stream") as events:
            first = (await served.say("say 2", agent="puppet", conversation_id="a", bot_id="b1"))["run_id"]
            second = (await served.say("say 2", agent="second", conversation_id="b"))["run_id"]
            whole = await take(events, ends(first, second))
        of_first = [one for one in whole if first in str(one.data) or one.data.get("bot_id") == "b1"]
        start = {"from": "start"}
        for query in ({"agent": "puppet"}, {"bot_id": "b1"}, {"conversation_id": "a"}):
            async with opened(served.client, "/v1/stream", **start, **query) as events:
                assert await take(events, ends(first)) == of_first
        types = {"type": ["message.completed", "run.status"]}
        async with opened(served.client, "/v1/stream", whole[0].cursor, **types) as events:
            chosen = await take(events, ends(second))
        assert chosen == [one for one in whole[1:] if one.type in types["type"]]


async def test_beside_a_conversation_some_types_are_followed_everywhere(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        query: dict[str, Any] = {"conversation_id": "a", "everywhere": ["run.status", "pause.status"]}
        async with opened(served.client, "/v1/stream") as all_of_it:
            async with opened(served.client, "/v1/stream", **query) as events:
                first = (await served.say("say 2", conversation_id="a"))["run_id"]
                second = (await served.say("say 2", conversation_id="b"))["run_id"]
                third = (await served.say("say 1"))["run_id"]
                await served.client.delete("/v1/conversations/b")
                fourth = (await served.say("say 1", conversation_id="a"))["run_id"]
                live = await take(events, ends(first, fourth))
            whole = await take(all_of_it, ends(fourth))
        wanted = [
            one
            for one in whole
            if one.type == "run.status"
            or one.data.get("conversation_id") == "a"
            or one.data.get("run_id") in (first, fourth)
        ]
        assert {second, third} < {one.data.get("run_id") for one in wanted}
        assert live == wanted
        # read from the database it is the same, but for what was deleted since
        begins: dict[str, Any] = {"from": "start", **query}
        async with opened(served.client, "/v1/stream", **begins) as events:
            stored = await take(events, ends(first, fourth))
        assert stored == [one for one in wanted if one.data.get("run_id") != second]
        async with opened(served.client, "/v1/stream", wanted[3].cursor, **query) as events:
            later = await take(events, ends(fourth))
        assert later == [one for one in wanted[4:] if one.data.get("run_id") != second]


async def test_a_workspace_sees_nothing_of_another_whatever_it_names(tmp_path: Path) -> None:
    """Also under the same id of a conversation, and by a cursor of the other's stream."""
    async with serving(tmp_path) as served:
        await served.agent("puppet", OTHER)
        body = {"event_type": "message.received", "agent": "puppet", "conversation_id": "c"}
        async with served.as_key(await served.key(OTHER, "admin")) as other:
            sent = {**body, "input": {"text": "say 1"}}
            theirs = (await other.post("/v1/events", json=sent, params={"wait": 30})).json()["run_id"]
            own = (await served.say("say 2", conversation_id="c"))["run_id"]
            for path in ("/v1/stream", "/v1/conversations/c/stream"):
                async with opened(other, path, **{"from": "start"}) as events:
                    seen = await take(events, ends(theirs))
                async with opened(served.client, path, **{"from": "start"}) as events:
                    mine = await take(events, ends(own))
                assert theirs not in str(mine), path
                foreign = await served.client.get(path, headers={"last-event-id": seen[0].cursor})
                assert (foreign.status_code, "another scope" in foreign.text) == (400, True)
                assert own not in str(seen), path


async def test_what_a_stream_refuses(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.say("say 1", conversation_id="c")
        get = served.client.get
        answer = await get("/v1/stream?type=message.complete")
        assert answer.status_code == 400
        assert "did you mean 'message.completed'" in answer.json()["detail"]
        for cursor in ("7", "x" * 50, "A" * 2_000):
            answer = await get("/v1/stream", headers={"last-event-id": cursor})
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument"), cursor
        answer = await get("/v1/stream?from=yesterday")
        assert answer.status_code == 400
        answer = await get("/v1/stream?everywhere=message.delta")
        assert (answer.status_code, "everywhere" in answer.text) == (400, True)
        async with served.as_key(await served.key("default", "events:read")) as client:
            assert (await client.get("/v1/stream")).status_code == 403
            assert (await client.get("/v1/conversations/c/stream")).status_code == 403
        async with served.as_key(await served.key("elsewhere", "runs:read")) as client:
            async with opened(client, "/v1/stream", from_="start"):
                pass
            marks: list[str] = []
            async with served.client.stream("GET", "/v1/stream?from=start") as own:
                async for line in own.aiter_lines():
                    if line.startswith("id: "):
                        marks.append(line[4:])
                        break
            answer = await client.get("/v1/stream", headers={"last-event-id": marks[0]})
            assert answer.status_code == 400
