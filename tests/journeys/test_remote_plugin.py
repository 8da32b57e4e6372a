"""A plugin process elsewhere, over a WebSocket with a token of its own: its runs, its loss, its return."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from hostler.domain.agents import AgentSpec, Recovery
from hostler.storage.stores import agents
from support.dialling import dialled
from support.http_host import Served, serving
from support.stepping import STEPPER, WAIT_SECONDS, Stage, Steps

PLUGIN = "far/stepper"


def dialling(
    served: Served, token: str, identity: str = PLUGIN
) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
    """The stepper as a process that dials the host."""
    stepper = str(STEPPER / "stepper.py")
    return dialled(served, stepper, STEPPER_TOKEN=token, STEPPER_IDENTITY=identity)


async def token_of(served: Served, plugin: str) -> str:
    made = await served.client.post("/v1/keys", json={"name": plugin, "plugin": plugin})
    return str(made.json()["key"])


async def connected(served: Served, wanted: bool = True, plugin: str = PLUGIN) -> None:
    """Wait until the host has, or has no more, a connection of the plugin."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            found = {status.key: status.state for status in served.host.supervisor.status()}
            if (found.get(plugin) == "ready") is wanted:
                return
            await asyncio.sleep(0.01)


async def agent(served: Served, name: str, recovery: Recovery, plugin: str = PLUGIN) -> None:
    spec = AgentSpec(name=name, runner=f"plugin:{plugin}/default", recovery=recovery)
    await served.host.db.write(lambda tx: agents.apply(tx, "default", spec))
    served.host.event_router.changed("default")


async def started(served: Served, steps: Steps, agent: str) -> str:
    accepted: dict[str, Any] = await served.say(
        json.dumps(steps), wait=None, agent=agent, conversation_id=None
    )
    return str(accepted["run"]["run_id"])


async def test_runs_of_a_remote_plugin_its_loss_and_its_return(tmp_path: Path) -> None:
    async with asyncio.timeout(120), serving(tmp_path, agent=False) as served:
        host = Stage(served.host)
        token = await token_of(served, PLUGIN)
        await agent(served, "fails", Recovery(on_crash="fail"))
        await agent(served, "again", Recovery(on_crash="restart"))
        async with dialling(served, token) as process:
            await connected(served)
            steps: Steps = [
                ["call", "state.set", {"scope": "actor", "key": "k", "value": 1}],
                ["call", "state.get", {"scope": "actor", "key": "k"}],
                ["deltas", 300],
                ["tell"],
            ]
            whole = await served.say(json.dumps(steps), agent="fails", actor={"actor_id": "u"})
            assert json.loads(whole["output"]["text"])[1] == {"value": 1, "version": 1}
            # a second one is refused, and harms nobody
            async with dialling(served, token) as second:
                assert await second.wait() != 0
            assert (await served.say('[["say", "still"]]', agent="fails"))["output"]["text"] == "still"
            fails = await started(served, [["deltas", 1], ["hold"]], "fails")
            again = await started(served, {"1": [["deltas", 1], ["hold"]], "2": [["say", "back"]]}, "again")
            for run_id in (fails, again):
                await host.seen(run_id, "message.delta")
            process.kill()
            lost = await host.ended(fails)
            assert (lost.record.status, lost.record.status_code) == ("failed", "runner.crashed")
        async with dialling(served, token):
            await connected(served)
            assert (await served.say('[["say", "here"]]', agent="fails"))["output"]["text"] == "here"
            returned = await host.ended(again)
            assert (returned.record.status, returned.record.attempt) == ("completed", 2)
            assert returned.said == ["back"]


async def test_a_host_that_starts_again_waits_for_its_remote_plugins(tmp_path: Path) -> None:
    async with asyncio.timeout(120):
        async with serving(tmp_path, agent=False, shutdown_grace_seconds=0.1) as served:
            host = Stage(served.host)
            token = await token_of(served, PLUGIN)
            await agent(served, "again", Recovery(on_crash="restart"))
            async with dialling(served, token):
                await connected(served)
                run_id = await started(served, {"1": [["deltas", 1], ["hold"]], "2": [["say", "x"]]}, "again")
                await host.seen(run_id, "message.delta")
                await served.host.dispatcher.stop(0)
        async with serving(tmp_path, agent=False) as served, dialling(served, token):
            ended = await Stage(served.host).ended(run_id)
            assert (ended.record.status, ended.said) == ("completed", ["x"])


async def test_a_token_is_good_for_its_own_plugin_alone(tmp_path: Path) -> None:
    async with asyncio.timeout(120), serving(tmp_path, agent=False) as served:
        host = Stage(served.host)
        mine, theirs = await token_of(served, PLUGIN), await token_of(served, "far/other")
        await agent(served, "mine", Recovery())
        await agent(served, "theirs", Recovery(), "far/other")
        # an identity that is not the token's
        async with dialling(served, theirs, identity=PLUGIN) as liar:
            await liar.wait()
        assert PLUGIN not in {s.key for s in served.host.supervisor.status() if s.state == "ready"}
        # the token opens nothing else
        async with served.as_key(mine) as client:
            for path in ("/v1/runs", "/v1/agents", "/v1/events"):
                assert (await client.get(path)).status_code == 403
        async with dialling(served, mine), dialling(served, theirs, identity="far/other"):
            await connected(served)
            await connected(served, plugin="far/other")
            victim = await started(served, [["deltas", 1], ["until_cancelled"], ["say", "mine"]], "mine")
            await host.seen(victim, "message.delta")
            forged: Steps = [
                [
                    "result",
                    "message.completed",
                    {"message": {"role": "assistant", "content": "forged"}},
                    {"run_id": victim},
                ],
                ["result", "run.completed", {}, {"run_id": victim}],
                ["call", "state.set", {"run_id": victim, "scope": "actor", "key": "k", "value": 1}],
                ["tell"],
            ]
            thief = await host.ended(await started(served, forged, "theirs"))
            assert thief.told[0]["error"]["code"] == "not_found"
            await host.cancel(victim)
            assert (await host.ended(victim)).said == ["mine"]
        # a token that was revoked opens nothing
        listed = (await served.client.get("/v1/keys")).json()["items"]
        key_id = next(key["key_id"] for key in listed if key["plugin"] == PLUGIN)
        assert (await served.client.delete(f"/v1/keys/{key_id}")).status_code == 204
        async with dialling(served, mine) as late:
            assert await late.wait() != 0
