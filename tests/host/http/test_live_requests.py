"""`/v1/ws` as the only interface of a client: what a run asks, files both ways, usage, what goes wrong."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.dialects.players import POLICY, player, playing, script
from support.followed import Seen, ends, take
from support.http_host import ADMIN_KEY, Served
from support.live_socket import LiveClient, Refused, live

WEATHER = {"name": "weather", "description": "The weather", "parameters": {"type": "object"}}
ORDER = ["tool", "player.order", {"thing": "灯 🙂"}, "o"]


class Talk:
    """A conversation over one connection, which it follows."""

    def __init__(self, client: LiveClient, events: AsyncIterator[Seen]) -> None:
        self.client = client
        self.events = events
        self.run_id = ""

    async def say(self, *steps: Any, agent: str = "player", **more: Any) -> Any:
        event = {
            "event_type": "message.received",
            "agent": agent,
            "conversation_id": "c",
            "input": {"text": script(*steps), **more},
        }
        sent = await self.client.ask("send", event=event)
        self.run_id = sent["run"]["run_id"]
        return sent

    async def asked(self, status: str = "open") -> dict[str, Any]:
        """The pause of the run, in the words of its events alone."""
        found: dict[str, dict[str, Any]] = {}

        def both(one: Seen) -> bool:
            found[one.type] = one.data
            return {"pause.status", "interaction.requested"} <= found.keys()

        await take(self.events, both)
        assert found["pause.status"]["status"] == status
        return {**found["pause.status"], **found["interaction.requested"]["data"]}

    async def decide(self, type_: str, **fields: Any) -> Any:
        asked = await self.asked()
        action = {"call_id": asked["call_id"], "type": type_, "args_hash": asked["args_hash"], **fields}
        decision = {"pause_id": asked["pause_id"], "revision": asked["revision"], "actions": [action]}
        answer = await self.client.ask("decide", **decision)
        again = await self.client.ask("decide", **decision)
        assert answer["remaining"] == again["remaining"] == 0
        return asked

    async def texts(self) -> list[str]:
        """What the agent said, up to the end of the run."""
        seen = await take(self.events, ends(self.run_id))
        return [one.data["data"]["message"]["content"] for one in seen if one.type == "message.completed"]


@contextlib.asynccontextmanager
async def talking(served: Served) -> AsyncIterator[Talk]:
    async with live(served.url, ADMIN_KEY) as client:
        yield Talk(client, await client.follow("c", conversation_id="c"))


@pytest.mark.shows(
    "websocket", "approval", "edited", "question", "client-tools", "budget", "tools", "unicode"
)
async def test_what_a_run_asks_is_decided(tmp_path: Path) -> None:
    editable = {"player.order": {"approval": "required", "editable": True}}
    budget = {"max_tool_calls_per_run": 1, "on_exceeded": "ask"}
    async with playing(tmp_path / "data") as served:
        await player(served, "lenient", resource_policy={**POLICY, "tool_approval": editable})
        await player(served, "thrifty", resource_policy={**POLICY, "budget": budget})
        async with talking(served) as talk:
            await talk.say(ORDER)
            approval = await talk.decide("approve", comment="好")
            assert (approval["kind"], approval["arguments"]) == ("approval", {"thing": "灯 🙂"})
            assert await talk.texts() == ['player.order: "ordered 1 灯 🙂"']
            await talk.say(ORDER)
            await talk.decide("deny")
            (denied,) = await talk.texts()
            assert denied.startswith("player.order failed")
            await talk.say(ORDER, agent="lenient")
            await talk.decide("approve", edited_args={"thing": "沙发", "count": 2})
            assert await talk.texts() == ['player.order: "ordered 2 沙发"']
            await talk.say(["ask", "多大?"])
            question = await talk.decide("answer", values={"size": "xl"})
            assert question["title"] == "多大?"
            assert await talk.texts() == ['answered: {"size": "xl"}']
            await talk.say(["tool", "weather", {"city": "北京"}, "w"], tools=[WEATHER])
            tool = await talk.decide("result", result={"sky": "晴 ☀"})
            assert (tool["kind"], tool["tool_name"]) == ("client_tool", "weather")
            assert await talk.texts() == ['weather: {"sky": "晴 ☀"}']
            prices = [["tool", "player.price", {"thing": thing}, thing] for thing in ("灯", "桌子")]
            await talk.say(*prices, agent="thrifty")
            assert (await talk.decide("approve"))["arguments"]["top_up"] == {"tool_calls": 1}
            (last,) = await talk.texts()
            assert last.startswith("player.price: ")


@pytest.mark.shows("websocket", "in-doubt", "unicode")
async def test_what_became_of_a_call_in_doubt_is_said(tmp_path: Path) -> None:
    vanish = ["tool", "player.vanish", {"path": str(tmp_path / "vanished")}, "v"]
    async with playing(tmp_path / "data") as served, talking(served) as talk:
        await talk.say(vanish)
        asked = await talk.asked("needs_review")
        assert (asked["kind"], asked["tool_name"]) == ("in_doubt", "player.vanish")
        said = {"pause_id": asked["pause_id"], "call_id": asked["call_id"], "comment": "我看了"}
        with pytest.raises(Refused) as refused:
            await talk.client.ask("resolve", **said, outcome="not_happened", result="x")
        assert refused.value.problem["status"] == 422
        said |= {"outcome": "happened", "result": "as 你 said"}
        first = await talk.client.ask("resolve", **said)
        (call,) = first["calls"]
        assert (call["result"], call["review"]) == ("as 你 said", None)
        assert await talk.texts() == ['player.vanish: "as 你 said"']
        assert (await talk.client.ask("resolve", **said))["calls"][0]["result"] == "as 你 said"
        audit = (await served.client.get("/v1/audit", params={"target": asked["pause_id"]})).json()["items"]
        own = {one["action"] for one in audit if one["actor"] == "admin"}
        assert {"pause.vote", "pause.call.answered", "pause.execution.succeeded"} <= own


@pytest.mark.shows("websocket", "files-in", "files-out", "usage", "error", "unknown-agent", "unicode")
async def test_files_usage_and_errors(tmp_path: Path) -> None:
    async with playing(tmp_path / "data") as served, talking(served) as talk:
        made = await served.client.post(
            "/v1/artifacts?name=in.txt&conversation_id=c", content="嗨 🙂".encode()
        )
        given = {"artifact_id": made.json()["artifact_id"], "name": "in.txt"}
        await talk.say(["seen"], attachments=[given])
        assert given["artifact_id"] in (await talk.texts())[0]
        await talk.say(["file", "再见 🙂", "out.txt"])
        seen = await take(talk.events, ends(talk.run_id))
        (message,) = [one.data["data"]["message"] for one in seen if one.type == "message.completed"]
        file = message["artifact_refs"][0]["artifact_id"]
        assert (await served.client.get(f"/v1/artifacts/{file}/content")).text == "再见 🙂"
        await talk.say(["usage", 7, 3, "counted"])
        seen = await take(talk.events, ends(talk.run_id))
        (result,) = [one.data for one in seen if one.type == "message.completed"]
        assert (result["usage"]["input_tokens"], result["usage"]["output_tokens"]) == (7, 3)
        await talk.say(["fail", "no more tea 茶"])
        (failed,) = [
            one.data["data"] for one in await take(talk.events, ends(talk.run_id)) if one.type == "run.failed"
        ]
        assert "no more tea 茶" in str(failed)
        unknown = {"event_type": "message.received", "agent": "nobody", "input": {"text": "hi"}}
        with pytest.raises(Refused, match="nobody"):
            await talk.client.ask("send", event=unknown)
