"""Runs that wait for days (a simulated clock): hosts restart, plugins and agents change, time runs out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.events import Caller
from hostler.domain.pause_actions import Action, ActRequest, PauseExpiredError
from hostler.domain.pause_views import PauseView
from hostler.host.config import ConfigFile
from support.simulated_clock import simulated_clock
from support.stepping import STEPPER, WORKSPACE, Stage, Steps, stage, within
from support.trust import plugin_entry, trusted

SHOP = Path(__file__).parents[2] / "examples" / "shop"
ADMIN = Caller(WORKSPACE, "admin", "admin", frozenset({"admin"}), frozenset({"installation"}))
PLACE = {"conversation_id": "c1", "actor": {"actor_type": "user", "actor_id": "ada"}}
SEND: list[Any] = ["call", "tool.call", {"tool_name": "shop.send", "parameters": {"to": "ada", "text": "hi"}}]
STEPS: Steps = [SEND, ["tell"], ["show_context"]]


def policy(expires_in: float, **more: Any) -> dict[str, Any]:
    asked = {"approval": "required", "expires_in": expires_in, **more}
    return {"allowed_tool_names": ["shop.*"], "tool_approval": {"shop.*": asked}}


@contextlib.asynccontextmanager
async def shop(tmp_path: Path, database: str) -> AsyncIterator[Stage]:
    """A host with the stepper and a shop, each life on the same data."""
    folder = tmp_path / "shop"
    if not folder.exists():
        shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("*.sqlite3*", "__pycache__"))
    url = database if database.startswith("postgresql:") else None
    opened = stage(tmp_path / "data", database=url, agent=False, hold_seconds=0.05)
    async with within(50), opened as host:
        await host.host.apply(ConfigFile(plugins=[plugin_entry(STEPPER), trusted(folder)]), actor="test")
        yield host


async def waiting(host: Stage, run_id: str, status: str = "open", revision: int = 1) -> PauseView:
    """The run's pause once it has that status."""
    while True:
        page = await host.host.pauses.page(ADMIN, run_id=run_id)
        if page.items and (page.items[0].status, page.items[0].revision) == (status, revision):
            return page.items[0]
        await asyncio.sleep(0.01)


async def parked(host: Stage, run_id: str) -> None:
    while (await host.host.runs.record(WORKSPACE, run_id)).status != "paused":
        await asyncio.sleep(0.01)


async def approve(host: Stage, pause: PauseView) -> None:
    (call,) = pause.calls
    action = Action(call_id=call.call_id, type="approve", args_hash=call.args_hash)
    await host.host.pauses.act(ADMIN, pause.id, ActRequest(revision=pause.revision, actions=[action]))


def change_tool(folder: Path) -> None:
    """Another version of the shop whose `send` takes another argument as well."""
    manifest, code = folder / "hostler.yaml", folder / "tools.py"
    manifest.write_text(manifest.read_text().replace("version: 1.0.0", "version: 2.0.0"))
    code.write_text(
        code.read_text().replace(
            "def send(to: str, text: str)", 'def send(to: str, text: str, by: str = "air")'
        )
    )


@pytest.mark.timeout(110)
@pytest.mark.parametrize("tool_changes", [False, True], ids=["same tool", "another tool"])
async def test_after_days_it_goes_on_once_and_on_its_own_version(
    tmp_path: Path, database_url: str, tool_changes: bool
) -> None:
    with simulated_clock() as clock:
        three_days = 3 * 86_400.0
        async with shop(tmp_path, database_url) as host:
            await host.agent(runner="resumable", resource_policy=policy(three_days), config={"colour": "red"})
            run_id = await host.start(STEPS, **PLACE)
            asked = await waiting(host, run_id)
            await parked(host, run_id)
        clock.advance(days=1)
        if tool_changes:
            change_tool(tmp_path / "shop")
        async with shop(tmp_path, database_url) as host:
            await host.agent(
                runner="resumable", resource_policy=policy(three_days), config={"colour": "blue"}
            )
            clock.advance(days=1)
            found = await waiting(host, run_id)
            assert found.id == asked.id
            await approve(host, found)
            if tool_changes:  # what was approved was another tool: it is asked again
                again = await waiting(host, run_id, revision=2)
                assert "by" in json.dumps(again.calls[0].args_schema) or again.calls[0].review is None
                await approve(host, again)
            ended = await host.ended(run_id)
            other = await host.run([["show_context"]], conversation_id="c2")
        assert ended.record.status == "completed", ended.last
        assert len(ended.entries("intent")) == 1
        assert "ada" in json.loads(ended.said[0])[0]["result"]
        assert json.loads(ended.said[1])["config"]["colour"] == "red"
        assert other.told["config"]["colour"] == "blue"
        assert other.record.agent_version > ended.record.agent_version


@pytest.mark.timeout(110)
async def test_what_nobody_answered_expires_and_is_no_denial(tmp_path: Path, database_url: str) -> None:
    with simulated_clock() as clock:
        async with shop(tmp_path, database_url) as host:
            await host.agent(runner="resumable", resource_policy=policy(1800.0))
            run_id = await host.start(STEPS, **PLACE)
            asked = await waiting(host, run_id)
            await parked(host, run_id)
        clock.advance(days=1)
        async with shop(tmp_path, database_url) as host:
            ended = await host.ended(run_id)
            settled = await waiting(host, run_id, "resumed")
            with pytest.raises(PauseExpiredError):
                await approve(host, asked)
        assert ended.record.status == "completed", ended.last
        assert json.loads(ended.said[0])[0]["error"]["code"] == "expired"
        assert [call.decision for call in settled.calls] == ["expired"]
        assert ended.entries("intent") == []
        told = json.dumps(ended.entries("decision")) + json.dumps(ended.said)
        assert "expired" in told
        assert "denied" not in told


async def test_a_policy_may_end_a_run_that_nobody_answered(tmp_path: Path, database_url: str) -> None:
    with simulated_clock() as clock:
        async with shop(tmp_path, database_url) as host:
            await host.agent(runner="resumable", resource_policy=policy(1800.0, on_expiry="cancel"))
            run_id = await host.start(STEPS, **PLACE)
            await waiting(host, run_id)
            await parked(host, run_id)
            clock.advance(minutes=31)
            ended = await host.ended(run_id)
            assert (ended.record.status, ended.entries("intent")) == ("cancelled", [])
            assert "nobody answered in time" in ended.last["error"]
