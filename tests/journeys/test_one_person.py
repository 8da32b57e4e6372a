"""One person with two accounts on channels, over a whole host: what an agent knows of them, and what not.

What people write are the steps that the agent's runs take.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec, ResourcePolicy, StatePolicy
from hostler.domain.channels import ChannelEntry
from hostler.host.config import ConfigFile
from hostler.storage.stores import chats
from support.channel_host import Chatting, chatting
from support.chat_platform import TOKEN, platform
from support.databases import TEST_SECONDS
from support.every_row import everything
from support.stepping import RUNNER, STEPPER, WORKSPACE, Latch, Stage
from support.trust import plugin_entry

pytestmark = [pytest.mark.timeout(TEST_SECONDS + 10), pytest.mark.gate("across-accounts")]
GET = ["call", "state.get", {"scope": "actor", "key": "name"}]
PAGE = ["call", "history.page", {"direction": "forward", "limit": 100}]
ACCOUNTS = (("ann", "chat"), ("u1", "other"))


def put(value: Any) -> list[Any]:
    return ["call", "state.set", {"scope": "actor", "key": "name", "value": value}]


def agent(name: str = "main", *, state: bool = True, history: bool = True, **policy: Any) -> AgentSpec:
    return AgentSpec(
        name=name,
        runner=f"{RUNNER}default",
        state_policy=StatePolicy(actor_across_accounts=state),
        resource_policy=ResourcePolicy(allow_cross_account_history=history, **policy),
    )


@dataclass
class Town:
    """A host with the channels `chat` and `other`, and what people write to the agent there."""

    host: Chatting
    _count: int = 0

    async def start(self, *steps: Any, by: str, to: str = "chat", **more: Any) -> str:
        """Somebody writes in their private chat, or as `more` says; return the id of the run."""
        self._count += 1
        text = json.dumps(list(steps))
        said = {"id": str(self._count), "text": text, "by": by, "chat": f"with {by}", "kind": "private"}
        async with self.host.served.as_key(None) as outside:
            path, headers = f"/v1/channels/{to}/webhook", {"x-token": TOKEN}
            answer = await outside.post(path, json={**said, **more}, headers=headers)
        assert answer.status_code == 200, answer.text
        runs = (await self.host.served.client.get("/v1/runs")).json()["items"]
        return next(str(run["run_id"]) for run in runs if run["parent_run_id"] is None)

    async def told(self, run_id: str) -> Any:
        """What the calls of a run were answered."""
        return (await Stage(self.host.host).ended(run_id)).told

    async def write(self, *steps: Any, by: str, to: str = "chat", **more: Any) -> Any:
        return await self.told(await self.start(*steps, ["tell"], by=by, to=to, **more))

    async def name(self, by: str, to: str = "chat", **more: Any) -> Any:
        """What the agent has noted about whoever writes."""
        return (await self.write(GET, by=by, to=to, **more))[0]["value"]

    async def history(self, by: str, to: str = "chat", *, asked: Any = PAGE, **more: Any) -> list[str]:
        """What people have said before, as the agent is given it: the mark in what they wrote."""
        ended = await Stage(self.host.host).ended(await self.start(asked, by=by, to=to, **more))
        page = ended.entries("call")[-1]["data"]["reply"]
        said = [json.loads(one["content"]) for one in page["items"] if one["role"] == "user"]
        return [steps[0][1] for steps in said if steps[0][0] == "say"]

    async def link(self, subject: str | None, by: str, to: str) -> None:
        body = {} if subject is None else {"subject": subject}
        answer = await self.host.served.client.put(f"/v1/people/{to}/{by}", json=body)
        assert answer.status_code == 200, answer.text

    async def unlink(self, by: str, to: str) -> None:
        answer = await self.host.served.client.delete(f"/v1/people/{to}/{by}")
        assert answer.status_code == 204, answer.text

    async def apply(self, spec: AgentSpec) -> None:
        await self.host.host.apply(ConfigFile(agents=[spec]), actor="test")


@asynccontextmanager
async def town(folder: Path, *agents: AgentSpec) -> AsyncIterator[Town]:
    async with (
        asyncio.timeout(TEST_SECONDS),
        platform() as chat,
        chatting(folder, chat, "called", agent_events=["message.received"]) as host,
    ):
        (entry,) = host.host.channels._entries.values()
        channels = [
            ChannelEntry(name=name, channel=entry.channel, config=entry.config, agent="main")
            for name in ("chat", "other")
        ]
        config = ConfigFile(
            plugins=[plugin_entry(STEPPER)], agents=list(agents or [agent()]), channels=channels
        )
        await host.host.apply(config, actor="test")
        for name in ("chat", "other"):
            while host.host.channels.find_open(name) is None:
                await asyncio.sleep(0.02)
        yield Town(host)


async def test_an_agent_knows_a_person_by_all_accounts_that_are_bound_to_one_subject(tmp_path: Path) -> None:
    async with town(tmp_path) as here:
        await here.write(["say", "on chat"], put("Ann"), by="ann")
        await here.write(["say", "on other"], put("U1"), by="u1", to="other")
        assert (await here.name("ann"), await here.name("u1", "other")) == ("Ann", "U1")
        assert await here.history("u1", "other") == ["on other"]

        await here.link("person:chat/ann", "u1", "other")
        assert await here.name("u1", "other") == "Ann", "the subject's state counts"
        assert await here.history("u1", "other") == ["on chat", "on other"], "in one order"
        assert await here.history("ann") == ["on chat", "on other"]
        search = ["call", "history.search", {"query": "say on"}]
        assert await here.history("u1", "other", asked=search) == ["on other", "on chat"], "newest first"

        # a group gets nothing of it, and gives nothing
        square = {"chat": "square", "kind": "group"}
        await here.write(["say", "in the square"], by="ann", **square)
        assert await here.history("ann", **square) == ["in the square"]
        assert await here.name("ann", **square) == "Ann", "who writes is who they are, everywhere"
        assert await here.history("u1", "other") == ["on chat", "on other"]

        # somebody else, and whoever says to be somebody
        assert (await here.name("eve"), await here.history("eve")) == (None, [])
        sent = await Stage(here.host.host).run(
            [GET, PAGE, ["tell"]], actor={"actor_id": "ann"}, bot_id="chat", conversation_id="mine"
        )
        assert (sent.told[0]["value"], sent.told[1]["items"]) == (None, [])

        await here.unlink("u1", "other")
        assert await here.name("u1", "other") == "U1", "its own is there again"
        assert await here.history("u1", "other") == ["on other"]
        assert await here.name("ann") == "Ann"

        # by the agent's policy alone
        await here.link("person:chat/ann", "u1", "other")
        await here.apply(agent(state=False, history=False))
        assert (await here.name("u1", "other"), await here.history("u1", "other")) == (None, ["on other"])
        await here.write(["say", "more"], put("by account"), by="u1", to="other")
        await here.apply(agent(history=False))
        assert (await here.name("u1", "other"), await here.history("u1", "other")) == (
            "Ann",
            ["on other", "more"],
        )


async def test_a_run_keeps_what_it_began_with_while_accounts_are_bound(tmp_path: Path) -> None:
    async with town(tmp_path) as here, Latch(tmp_path) as latch:
        await here.write(["say", "on chat"], put("Ann"), by="ann")
        steps = [put("before"), ["gate", latch.path], put("after"), GET, PAGE]
        began = await here.start(*steps, ["tell"], by="u1", to="other")
        await latch.reached()
        await here.link("ann@example.org", "u1", "other")
        await here.link("ann@example.org", "ann", "chat")
        # the run of the other account is in another lane, and writes at the same time
        await here.write(put("both"), by="ann")
        latch.open()
        told = await here.told(began)
        assert (told[2]["value"], told[2]["version"]) == ("after", 2), "it goes on with the account's"
        assert told[3]["items"] == []
        assert (await here.name("ann"), await here.name("u1", "other")) == ("both", "both")
        for by, to, kept in (("ann", "chat", "Ann"), ("u1", "other", "after")):
            await here.unlink(by, to)
            assert await here.name(by, to) == kept


async def test_a_child_run_knows_the_person_as_far_as_its_parent_does(tmp_path: Path) -> None:
    def asks(*steps: Any) -> list[Any]:
        given = {"text": json.dumps([*steps, ["tell"]])}
        return ["call", "run.create", {"agent": "helper", "input": given, "wait": 60}]

    async def below(*steps: Any, by: str, to: str) -> Any:
        (answer,) = await here.write(asks(*steps), by=by, to=to)
        return json.loads(answer["output"]["messages"][-1]["content"])

    async with town(tmp_path, agent(allowed_agents=["helper"]), agent("helper")) as here:
        for by, to in ACCOUNTS:
            await here.link("ann@example.org", by, to)
        assert (await below(put("of the helper"), by="ann", to="chat"))[0] == {"version": 1}
        assert (await below(GET, by="u1", to="other"))[0]["value"] == "of the helper"
        assert await here.name("u1", "other") is None, "each agent has its own"
        await here.apply(agent(state=False, allowed_agents=["helper"]))
        assert (await below(GET, by="u1", to="other"))[0]["value"] is None, "its parent would be told"


async def test_of_two_accounts_that_write_at_once_one_is_first(tmp_path: Path) -> None:
    first = ["call", "state.set", {"scope": "actor", "key": "name", "value": 1, "if_version": 0}]
    async with town(tmp_path) as here, Latch(tmp_path) as latch:
        for by, to in ACCOUNTS:
            await here.link("ann@example.org", by, to)
        runs = [await here.start(["gate", latch.path], first, ["tell"], by=by, to=to) for by, to in ACCOUNTS]
        latch.open()
        told = [(await here.told(run_id))[0] for run_id in runs]
        assert sorted(str(one.get("version") or one["error"]["code"]) for one in told) == ["1", "conflict"]


async def test_a_deletion_finds_what_has_followed(tmp_path: Path) -> None:
    async with town(tmp_path) as here, Latch(tmp_path) as latch:
        client = here.host.served.client
        for by, to in ACCOUNTS:
            await here.link("ann@example.org", by, to)
        await here.write(["say", "the secret of ann"], put("noted from ann"), by="ann")
        read = await here.start(GET, PAGE, ["say", "hm"], by="u1", to="other")
        bystander = await here.start(["say", "nothing of it"], by="eve")
        stage = Stage(here.host.host)
        copies = json.dumps((await stage.ended(read)).journal)
        assert "the secret of ann" in copies
        assert "noted from ann" in copies
        await stage.ended(bystander)
        waits = await here.start(["gate", latch.path], by="u1", to="other")
        await latch.reached()
        await here.unlink("ann", "chat")
        await here.unlink("u1", "other")

        refused = await client.delete("/v1/actors/ann")
        assert refused.status_code == 409, "a run at work has it"
        latch.open()
        await stage.ended(waits)
        answer = await client.delete("/v1/actors/ann")
        assert answer.status_code == 200, answer.text
        left = await here.host.host.db.read(everything)
        assert "the secret of ann" not in left
        assert "noted from ann" not in left
        assert await stage.entries(read) == [], "a copy of it"
        assert await stage.entries(bystander) != []
        kept = (await client.get(f"/v1/runs/{read}")).json()
        assert kept["status"] == "completed"
        await here.link("ann@example.org", "u1", "other")
        assert await here.name("u1", "other") is None
        again = await client.delete("/v1/actors/ann")
        assert again.status_code == 200, again.text

        # a conversation: copies of it, and not what was noted
        await here.link("person:chat/bob", "b2", "other")
        wrote = await here.start(["say", "the secret of bob"], put("Bob"), by="bob")
        conversation = (await stage.ended(wrote)).record.conversation_id or ""
        read = await here.start(PAGE, ["say", "hm"], by="b2", to="other")
        assert "the secret of bob" in json.dumps((await stage.ended(read)).journal)
        await here.unlink("b2", "other")
        answer = await client.delete(f"/v1/conversations/{conversation}")
        assert answer.status_code == 200, answer.text
        assert "the secret of bob" not in await here.host.host.db.read(everything)
        known = await here.host.host.db.read(lambda tx: chats.find(tx, WORKSPACE, conversation))
        assert known is None
        assert await here.name("bob") == "Bob"
