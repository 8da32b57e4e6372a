"""local-agent waits for a person: decided at once, decided after a restart of the host, refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.agent_host import hosting, shop
from support.gates import BOUND_SECONDS
from support.http_host import Served
from support.model_answers import wishes
from support.model_server import ModelServer

POLICY = {"allowed_tool_names": ["shop.*"], "tool_approval": {"shop.book": "required"}}
LOOK_SECONDS = 0.02


async def say(served: Served, text: str) -> str:
    body = {"event_type": "message.received", "input": {"text": text}, "conversation_id": "c"}
    answer = await served.client.post("/v1/events", json=body)
    assert answer.status_code == 202, answer.text
    return answer.headers["location"].rpartition("/")[2]


async def until(served: Served, path: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Look until something is so."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            found: dict[str, Any] = (await served.client.get(path)).json()
            if reached(found):
                return found
            await asyncio.sleep(LOOK_SECONDS)


async def paused(served: Served, run_id: str) -> dict[str, Any]:
    """The pause of a run, once it is open."""
    listed = await until(served, f"/v1/pauses?run_id={run_id}&status=open", lambda page: bool(page["items"]))
    found: dict[str, Any] = listed["items"][0]
    return found


async def decide(served: Served, pause: dict[str, Any], kind: str, **more: Any) -> None:
    actions = [
        {"call_id": call["call_id"], "type": kind, "args_hash": call["args_hash"], **more}
        for call in pause["calls"]
    ]
    body = {"revision": pause["revision"], "actions": actions}
    answer = await served.client.post(f"/v1/pauses/{pause['id']}/actions", json=body)
    assert answer.status_code == 202, answer.text


async def ended(served: Served, run_id: str) -> dict[str, Any]:
    over = ("completed", "failed", "cancelled", "timeout")
    return await until(served, f"/v1/runs/{run_id}", lambda one: one["status"] in over)


def results(server: ModelServer) -> dict[str, str]:
    """The tool messages that the model was last sent."""
    messages = server.requests[-1].json["messages"]
    return {m["tool_call_id"]: m["content"] for m in messages if m["role"] == "tool"}


TWO = wishes(("p", "shop_prices", {"kind": "suite"}), ("b", "shop_book", {"kind": "suite"}))


@pytest.mark.parametrize("restart", [False, True], ids=["held", "restarted"])
async def test_an_approval_in_the_middle(tmp_path: Path, restart: bool) -> None:
    """The model is asked twice, whatever happens to the host between the wish and the decision."""
    options: dict[str, Any] = {"plugins": [shop(tmp_path)], "policy": POLICY}
    if restart:
        options["hold_seconds"] = 0.2
    async with ModelServer(api_key="k") as server:
        server.add(TWO)
        server.say("The suite is yours.")
        async with hosting(tmp_path / "data", server, **options) as served:
            run_id = await say(served, "the suite")
            pause = await paused(served, run_id)
            (call,) = pause["calls"]
            assert (call["tool"], call["args"]) == ("shop.book", {"kind": "suite"})
            if restart:
                await until(served, f"/v1/runs/{run_id}", lambda one: one["status"] == "paused")
            else:
                await decide(served, pause, "approve")
                found = await ended(served, run_id)
        if restart:
            async with hosting(tmp_path / "data", server, **options) as served:
                await decide(served, await paused(served, run_id), "approve")
                found = await ended(served, run_id)
        assert (found["status"], found["output"]["text"]) == ("completed", "The suite is yours.")
        assert len(server.requests) == 2
        told = results(server)
        assert list(told) == ["p", "b"]
        assert json.loads(told["p"]) == {"suite": 300}
        assert json.loads(told["b"])["booking"] == "B1"


async def test_a_refusal_is_told_to_the_model(tmp_path: Path) -> None:
    async with ModelServer(api_key="k") as server:
        server.add(TWO)
        server.say("I may not book it.")
        async with hosting(tmp_path / "data", server, plugins=[shop(tmp_path)], policy=POLICY) as served:
            run_id = await say(served, "the suite")
            await decide(served, await paused(served, run_id), "deny", comment="too dear")
            found = await ended(served, run_id)
        assert (found["status"], found["output"]["text"]) == ("completed", "I may not book it.")
        told = results(server)
        assert told["b"].startswith("Error (denied): a person refused this call")
        assert "too dear" in told["b"]


FOUR = wishes(
    ("first", "shop_send", {"to": "ada", "text": "one"}),
    ("second", "shop_send", {"to": "bob", "text": "two"}),
    ("third", "shop_send", {"to": "eve", "text": "three"}),
    ("fourth", "shop_choose_seat", {"rows": 12}),
)
SEND_POLICY = {
    "approval": "required",
    "subjects": ["user:lin", "user:max"],
    "editable": True,
    "locked": ["to"],
}
FOUR_POLICY = {"allowed_tool_names": ["shop.*"], "tool_approval": {"shop.send": SEND_POLICY}}


async def key_of(served: Served, subject: str) -> dict[str, str]:
    """Headers of somebody with a key of their own."""
    made = await served.client.post(
        "/v1/keys", json={"name": subject, "subject": subject, "rights": ["pauses:read", "pauses:write"]}
    )
    assert made.status_code == 201, made.text
    return {"authorization": f"Bearer {made.json()['key']}"}


async def act(served: Served, pause: dict[str, Any], who: dict[str, str], action: dict[str, Any]) -> str:
    """One decision of one person; how the pause stands then."""
    body = {"revision": pause["revision"], "actions": [action]}
    answer = await served.client.post(f"/v1/pauses/{pause['id']}/actions", json=body, headers=who)
    assert answer.status_code == 202, answer.text
    status: str = answer.json()["status"]
    return status


async def test_four_calls_are_decided_one_by_one_by_two_people_and_a_client(tmp_path: Path) -> None:
    """One is approved, one edited, one denied, one answered by the client: four tool messages, in order."""
    async with ModelServer(api_key="k") as server:
        server.add(FOUR)
        server.say("Done.")
        options: dict[str, Any] = {"plugins": [shop(tmp_path)], "policy": FOUR_POLICY}
        async with hosting(tmp_path / "data", server, hold_seconds=0.2, **options) as served:
            run_id = await say(served, "four things")
            listed = f"/v1/pauses?run_id={run_id}&status=open"
            await until(
                served, listed, lambda page: bool(page["items"]) and len(page["items"][0]["calls"]) == 4
            )
            pause = await paused(served, run_id)
            calls = {call["tool_call_id"]: call for call in pause["calls"]}
            lin, max_ = await key_of(served, "lin"), await key_of(served, "max")

            def on(name: str, kind: str, **more: Any) -> dict[str, Any]:
                found = calls[name]
                shown = {"args_hash": found["args_hash"]} if kind in {"approve", "deny"} else {}
                return {"call_id": found["call_id"], "type": kind, **shown, **more}

            edited = {"to": "bob", "text": "two, as max likes it"}
            assert await act(served, pause, max_, on("second", "approve", edited_args=edited)) == "open"
            assert await act(served, pause, lin, on("third", "deny", comment="not to eve")) == "open"
            admin = dict(served.client.headers)
            seat = on("fourth", "result", result="12C")
            assert await act(served, pause, {"authorization": admin["authorization"]}, seat) == "open"
            assert await act(served, pause, lin, on("first", "approve")) in {"ready", "resuming"}
            found = await ended(served, run_id)
        assert (found["status"], found["output"]["text"]) == ("completed", "Done."), found
        assert len(server.requests) == 2
        told = results(server)
        assert list(told) == ["first", "second", "third", "fourth"]
        assert told["first"].endswith("one")
        assert told["second"].endswith("two, as max likes it")
        assert told["third"].startswith("Error (denied)")
        assert told["fourth"] == "12C"
