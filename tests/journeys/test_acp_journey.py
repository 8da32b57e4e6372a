"""A coding agent in the plugin's sandbox, under a whole host: sessions, tools, people, cancelling, kills."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.model_entries import ModelEntry
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from hostler.storage.port import Query
from support.acp import seen, steps, until_seen
from support.acp.sandboxed import ENTRY, FOLDER, RUNNER, Workspace, prepared
from support.http_host import Served, serving
from support.model_server import ModelServer
from support.server_process import HostProcess, config_file
from support.shop import SHOP
from support.trust import trusted

BOUND_SECONDS = 200.0
RUN = ["ask", "t1", "make clean", "execute", {"command": "make clean"}]
TOOLS = {"allowed_tool_names": ["shop.prices"]}


@dataclass
class Coding:
    """A host with the agent `coder`, or a client of one."""

    client: httpx.AsyncClient
    workspace: Workspace
    served: Served | None = None

    async def start(self, *listed: Any, conversation: str = "c") -> str:
        """Send steps; the id of the run."""
        body = {
            "event_type": "message.received",
            "agent": "coder",
            "input": {"text": steps(*listed)},
            "conversation_id": conversation,
        }
        answer = await self.client.post("/v1/events", json=body)
        assert answer.status_code in (200, 202), answer.text
        return str(answer.json()["run"]["run_id"])

    async def record(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.client.get(f"/v1/runs/{run_id}")).json()
        return found

    async def until(self, run_id: str, *statuses: str) -> dict[str, Any]:
        """Wait until the run has one of the statuses."""
        async with asyncio.timeout(BOUND_SECONDS):
            while (found := await self.record(run_id))["status"] not in statuses:
                assert found["status"] not in ("failed", "timeout"), found
                await asyncio.sleep(0.05)
        return found

    async def said(self, run_id: str) -> str:
        """The messages of a run that is over."""
        await self.until(run_id, "completed")
        return "".join(
            entry["data"]["message"]["content"]
            for entry in await self.journal(run_id)
            if entry["type"] == "message.completed"
        )

    async def journal(self, run_id: str) -> list[dict[str, Any]]:
        found = (await self.client.get(f"/v1/runs/{run_id}/journal", params={"limit": 100})).json()
        return list(found["items"])

    async def pause(self, run_id: str) -> dict[str, Any]:
        """The pause of a run that has no process any more."""
        await self.until(run_id, "paused")
        (found,) = await self.pauses(run_id)
        return found

    async def pauses(self, run_id: str) -> list[dict[str, Any]]:
        """The open pauses of a run."""
        listed = (await self.client.get("/v1/pauses", params={"run_id": run_id, "status": "open"})).json()
        return list(listed["items"])

    async def decide(self, pause: dict[str, Any], kind: str, comment: str = "as you like") -> None:
        (call,) = pause["calls"]
        action = {
            "call_id": call["call_id"],
            "type": kind,
            "args_hash": call["args_hash"],
            "comment": comment,
        }
        body = {"revision": pause["revision"], "actions": [action]}
        answer = await self.client.post(f"/v1/pauses/{pause['id']}/actions", json=body)
        assert answer.status_code == 202, answer.text


@contextlib.asynccontextmanager
async def coding(
    data: Path, *flags: str, policy: dict[str, Any] = TOOLS, models: Sequence[ModelEntry] = (), **fields: Any
) -> AsyncIterator[Coding]:
    """A host with the shipped plugin, sandboxed, and a shop whose tools it may offer."""
    workspace = await prepared(data)
    shop = shutil.copytree(SHOP, data.with_name("shop"), ignore=shutil.ignore_patterns("*.sqlite3*"))
    spec = {
        "name": "coder",
        "runner": RUNNER,
        "config": workspace.config(*flags, **({"model": {"primary": "main"}} if models else {})),
        "resource_policy": policy,
        **fields,
    }
    async with asyncio.timeout(BOUND_SECONDS), serving(data, agent=False) as served:
        agents = [convert(spec, AgentSpec, "coder")]
        config = ConfigFile(plugins=[ENTRY, trusted(shop)], models=list(models), agents=agents)
        await served.host.apply(config, actor="test")
        yield Coding(served.client, workspace, served)


async def test_messages_of_a_conversation_go_to_one_session_in_the_sandbox(tmp_path: Path) -> None:
    async with coding(tmp_path / "data") as host:
        first = await host.start(["count"], ["place"])
        assert await host.said(first) == f"prompts: 1{host.workspace.folder}"
        assert await host.said(await host.start(["count"])) == "prompts: 2"
        assert await host.said(await host.start(["count"], conversation="other")) == "prompts: 1"
        shown = (await host.client.get("/v1/plugins/hostler%2Facp")).json()
        assert shown["containment"].startswith("sandboxed")
        await host.workspace.until_empty()


@pytest.mark.parametrize("flags", [(), ("--http",)], ids=["stdio", "http"])
async def test_a_tool_of_the_run_is_called_through_the_gate(tmp_path: Path, flags: tuple[str, ...]) -> None:
    async with coding(tmp_path / "data", *flags) as host:
        run_id = await host.start(
            ["mcp_list"], ["mcp", "shop_prices", {}], ["mcp", "shop.book", {"kind": "double"}]
        )
        text = await host.said(run_id)
        assert text == (
            'tools: shop_prices{"single":80,"double":120,"suite":300}'
            "not_found: tool_name 'shop.book' is not among the resources of this run"
        )
        found = [entry for entry in await host.journal(run_id) if entry["type"] == "tool.call"]
        assert [entry["kind"] for entry in found] == ["call", "refusal"]
        assert found[0]["data"]["params"]["tool_name"] == "shop.prices"
        assert found[0]["data"]["reply"]["result"]["double"] == 120
        assert (found[1]["data"]["check"], found[1]["data"]["resource"]) == ("grant", "shop.book")


async def test_a_tool_that_needs_an_approval_waits_for_a_person(tmp_path: Path) -> None:
    policy = {"allowed_tool_names": ["shop.book"], "tool_approval": {"shop.book": "required"}}
    async with coding(tmp_path / "data", "--http", policy=policy) as host:
        run_id = await host.start(["mcp", "shop.book", {"kind": "double"}])
        async with asyncio.timeout(BOUND_SECONDS):
            while not (listed := await host.pauses(run_id)):
                await asyncio.sleep(0.05)
        (call,) = listed[0]["calls"]
        assert (call["tool"], call["executor"]) == ("shop.book", "host")
        assert host.workspace.processes()  # the agent waits for its tool
        await host.decide(listed[0], "approve")
        assert '"kind":"double"' in await host.said(run_id)


@pytest.mark.parametrize(("kind", "chosen"), [("approve", "allow_once!"), ("deny", "reject_once!")])
async def test_a_person_decides_what_the_agent_may_do(tmp_path: Path, kind: str, chosen: str) -> None:
    async with coding(tmp_path / "data") as host:
        run_id = await host.start(["say", "I clean up. "], RUN, ["count"])
        pause = await host.pause(run_id)
        await host.workspace.until_empty()  # nothing is held while people think
        (call,) = pause["calls"]
        assert (call["tool"], call["kind"], call["executor"]) == ("acp.execute", "approval", "runner")
        assert call["args"] == {"title": "make clean", "input": {"command": "make clean"}}
        await host.decide(pause, kind)
        text = await host.said(run_id)
        assert text == f"I clean up. make clean: {chosen}. prompts: 2"
        assert len({one["session"] for one in seen(host.workspace.folder, "prompt")}) == 1
        assert "as you like" in seen(host.workspace.folder, "prompt")[1]["text"]


async def test_what_nobody_decides_in_time_is_not_done(tmp_path: Path) -> None:
    async with coding(tmp_path / "data") as host:
        run_id = await host.start(RUN)
        await host.pause(run_id)
        assert host.served is not None

        def expire(tx: Any) -> None:
            for text in ("UPDATE pause_calls SET expires_at = 1", "UPDATE pauses SET expires_at = 1"):
                tx.run(Query("test.sql", text, text))

        await host.served.host.db.write(expire)
        await host.served.host.pauses.sweep()
        assert await host.said(run_id) == "make clean: reject_once!. "
        assert "Nobody decided in time" in seen(host.workspace.folder, "prompt")[1]["text"]


async def test_an_agent_that_asks_nobody_and_keeps_no_sessions_is_refused_at_once(tmp_path: Path) -> None:
    async with coding(tmp_path / "data", "--no-load", allow_questions=False) as host:
        run_id = await host.start(RUN, ["count"])
        assert await host.said(run_id) == "make clean: reject_once!. prompts: 1"
        assert await host.pauses(run_id) == []


async def test_the_agent_uses_a_model_of_the_host_and_sees_no_key_of_it(tmp_path: Path) -> None:
    async with ModelServer(api_key="sk-provider") as server:
        server.say("Good day.")
        model = ModelEntry(id="main", base_url=server.base_url, model="m", api_key="sk-provider")
        async with coding(tmp_path / "data", models=[model]) as host:
            run_id = await host.start(["model", "OPENAI"], ["variable", "OPENAI_API_KEY"])
            text = await host.said(run_id)
            assert text.startswith("Good day.OPENAI_API_KEY=")
            assert "sk-provider" not in text
            calls = [entry["type"] for entry in await host.journal(run_id) if entry["kind"] == "call"]
            assert "model.invoke" in calls


async def test_a_cancelled_run_ends_the_turn_and_its_processes(tmp_path: Path) -> None:
    async with coding(tmp_path / "data") as host:
        run_id = await host.start(["child"], ["say", "So"], ["wait"])
        await until_seen(host.workspace.folder, "child")
        await host.client.post(f"/v1/runs/{run_id}/cancel", json={"reason": "enough"})
        assert (await host.until(run_id, "cancelled"))["status"] == "cancelled"
        await until_seen(host.workspace.folder, "turn_cancelled")
        await host.workspace.until_empty()


async def test_a_cancelled_pause_goes_on_with_nothing(tmp_path: Path) -> None:
    async with coding(tmp_path / "data") as host:
        run_id = await host.start(RUN)
        await host.pause(run_id)
        await host.client.post(f"/v1/runs/{run_id}/cancel", json={"reason": "enough"})
        await host.until(run_id, "cancelled")
        assert len(seen(host.workspace.folder, "prompt")) == 1
        assert await host.said(await host.start(["count"])) == "prompts: 2"


async def test_a_killed_plugin_takes_its_agent_along(tmp_path: Path) -> None:
    async with coding(tmp_path / "data") as host:
        run_id = await host.start(["say", "So"], ["wait"])
        await until_seen(host.workspace.folder, "prompt")
        shown = (await host.client.get("/v1/plugins/hostler%2Facp")).json()
        os.kill(shown["pid"], signal.SIGKILL)
        async with asyncio.timeout(BOUND_SECONDS):
            while (record := await host.record(run_id))["status"] == "running":
                await asyncio.sleep(0.05)
        assert (record["status"], record["status_code"]) == ("failed", "runner.crashed")
        await host.workspace.until_empty()
        assert await host.said(await host.start(["count"])) == "prompts: 2"


async def test_a_host_that_is_killed_while_people_decide_goes_on_with_the_decision(tmp_path: Path) -> None:
    workspace = await prepared(tmp_path / "data")
    agent = {"name": "coder", "runner": RUNNER, "config": workspace.config()}
    config = config_file(tmp_path / "hostler.json", plugins=[], agents=[agent])
    content = json.loads(config.read_text())
    config.write_text(json.dumps({**content, "plugins": [msgspec.to_builtins(ENTRY)]}))
    process = HostProcess(tmp_path / "data", config)
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            await process.start()
            async with process.client() as client:
                host = Coding(client, workspace)
                run_id = await host.start(RUN, ["count"])
                pause = await host.pause(run_id)
            process.kill()
            await process.start()
            async with process.client() as client:
                host = Coding(client, workspace)
                await host.decide(pause, "approve")
                assert await host.said(run_id) == "make clean: allow_once!. prompts: 2"
                assert len({one["session"] for one in seen(workspace.folder, "prompt")}) == 1
            await process.stop()
    finally:
        process.end()


def test_the_plugin_is_the_shipped_one() -> None:
    assert ENTRY.path == str(FOLDER)
