"""local-agent against an OpenAI-compatible service, the whole way: HTTP, host, plugin process, model."""

from __future__ import annotations

import json
from pathlib import Path

from support.agent_host import COST, USED, answering, ask, record, streamed, texts
from support.gates import Gate
from support.http_host import Event, read_events


async def test_it_streams_remembers_and_reports_what_it_used(tmp_path: Path) -> None:
    async with answering(tmp_path, prompt="Be kind.") as (served, server):
        held = Gate()
        server.say(["Hello ", held, "Ada!"])
        first: list[Event] = []
        async with streamed(served, "I am Ada") as found:
            async for event in found:
                first.append(event)
                held.open()  # what was streamed is here before the model has finished
        assert texts(first) == ["Hello ", "Ada!"]
        assert [event.id for event in first] == list(range(1, len(first) + 1))
        assert first[-1].type == "run.completed"
        one = await record(served, first)
        assert one["output"]["text"] == "Hello Ada!"
        assert one["usage"] | USED == one["usage"]
        assert one["cost"] == COST
        server.say("You are Ada.")
        second = await ask(served, "Who am I?")
        assert (await record(served, second))["output"]["text"] == "You are Ada."
        sent = [(m["role"], m["content"]) for m in server.requests[-1].json["messages"]]
        assert sent == [
            ("system", "Be kind."),
            ("user", "I am Ada"),
            ("assistant", "Hello Ada!"),
            ("user", "Who am I?"),
        ]
        # the stream of a run that is over is the same again
        run_id = json.loads(first[0].data)["run_id"]
        async with served.client.stream("GET", f"/v1/runs/{run_id}/stream") as answer:
            assert await read_events(answer) == first
        usage = (await served.client.get("/v1/usage")).json()
        assert "36" in json.dumps(usage)
        by_model = (await served.client.get("/v1/usage/series", params={"by": "model"})).json()
        ((name, figures),) = [(one["name"], one["total"]) for one in by_model["groups"]]
        assert (name, figures["runs"], figures["calls"], figures["completed"]) == ("main", 2, 2, 2)
        assert figures["total_tokens"] == usage["total"]["total_tokens"]


async def test_it_falls_back_before_the_first_token_and_not_after_it(tmp_path: Path) -> None:
    async with answering(tmp_path) as (served, server):
        server.fail(503, "overloaded", model="main")
        server.say("from the spare one", model="spare")
        found = await ask(served, "x")
        assert (await record(served, found))["output"]["text"] == "from the spare one"
        assert [request.json["model"] for request in server.requests] == ["main", "spare"]
        # after the first token the answer is not begun again by somebody else
        server.say(["half "] * 50, model="main", cut_after=2000)
        server.say("from the spare one", model="spare")
        broken = await ask(served, "y")
        assert [request.json["model"] for request in server.requests[2:]] == ["main"]
        ended = await record(served, broken)
        assert (ended["status"], ended["status_code"]) == ("failed", "local-agent.model_error")
        assert texts(broken)
        assert "broke off" in json.loads(broken[-1].data)["data"]["error"]


async def test_failures_say_what_to_do_and_the_key_stays_secret(tmp_path: Path) -> None:
    async with answering(tmp_path) as (served, server):
        server.api_key = "another"
        found = await ask(served, "x")
        told = json.loads(found[-1].data)["data"]
        assert found[-1].type == "run.failed"
        assert "key" in told["error"].lower()
        run_id = json.loads(found[0].data)["run_id"]
        journal = (await served.client.get(f"/v1/runs/{run_id}/journal?limit=100")).text
        assert "Bearer" not in journal
        assert "provided: k" not in journal
