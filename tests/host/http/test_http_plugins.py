"""Plugins over HTTP: how they stand, and processes that dial in."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from hostler.domain.agents import AgentSpec
from hostler.storage.stores import agents
from support.dialling import dialled
from support.http_host import PUPPET, Served, serving

ECHO = Path(__file__).resolve().parents[3] / "examples" / "echo"


def dialling_in(served: Served, token: str) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
    """The echo example as a process that dials the host."""
    command = ("-m", "hostler_sdk.serve", "--folder", str(ECHO))
    return dialled(served, *command, HOSTLER_PLUGIN_TOKEN=token)


async def refused(served: Served, token: str | None, path: str = "/v1/plugins/connect") -> tuple[int, str]:
    """How a WebSocket is refused: status and body."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    url = served.url.replace("http://", "ws://") + path
    with pytest.raises(InvalidStatus) as refusal:
        async with connect(url, additional_headers=headers):
            pass
    answer = refusal.value.response
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, (answer.body or b"").decode()


async def test_a_process_elsewhere_serves_runs(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        made = await served.client.post("/v1/keys", json={"name": "echo elsewhere", "plugin": "acme/echo"})
        assert made.json()["record"]["rights"] == ["plugins:connect"]
        token = made.json()["key"]
        spec = AgentSpec(name="far", runner="plugin:acme/echo/default", event_types=["none"])
        await served.host.db.write(lambda tx: agents.apply(tx, "default", spec))
        served.host.event_router.changed("default")
        async with dialling_in(served, token):
            while await state_of(served, "acme/echo") != "ready":
                await asyncio.sleep(0.02)
            said = await served.say("hello", agent="far")
            assert (said["status"], said["output"]["text"]) == ("completed", "hello!")
            status, body = await refused(served, token)
            assert status == 409
            assert "already connected" in body
        async with served.as_key(token) as client:
            assert (await client.get("/v1/agents")).status_code == 403

    async def state_of(served: Served, plugin: str) -> str | None:
        items = (await served.client.get("/v1/plugins")).json()["items"]
        return next((item["state"] for item in items if item["plugin"] == plugin), None)

    await _with(tmp_path, scenario)


async def test_only_the_token_of_a_plugin_opens_the_socket(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(served: Served) -> None:
        assert (await refused(served, None))[0] == 401
        assert (await refused(served, "wrong"))[0] == 401
        assert (await refused(served, await served.key("default", "runs:read")))[0] == 403
        assert (await refused(served, await served.key("default", "admin")))[0] == 403
        local = await served.key("default", "plugins:connect", plugin="test/puppet")
        assert (await refused(served, local))[0] == 409  # that plugin runs on this host
        assert (await refused(served, local, "/v1/runs"))[0] == 404
        token = await served.key("default", "plugins:connect", plugin="acme/other")
        async with dialling_in(served, token) as process:  # says it is acme/echo
            assert process.stderr is not None
            assert b"the host closed the connection" in await process.stderr.readline()
        assert [record for record in caplog.records if record.levelname == "ERROR"] == []
        plugins = (await served.client.get("/v1/plugins")).json()["items"]
        assert "acme/echo" not in [plugin["plugin"] for plugin in plugins]

    await _with(tmp_path, scenario)


async def test_plugins_can_be_looked_at_and_restarted(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        before = (await served.client.get("/v1/plugins/test%2Fpuppet")).json()
        assert (before["state"], before["source"], before["runners"]) == ("ready", "folder", ["default"])
        assert str(PUPPET) not in str(before)
        after = await served.client.post("/v1/plugins/test%2Fpuppet/restart")
        assert after.status_code == 200, after.text
        assert after.json()["pid"] != before["pid"]
        logs = (await served.client.get("/v1/plugins/test%2Fpuppet/logs?lines=1")).json()
        assert (logs["plugin"], len(logs["lines"])) == ("test/puppet", 1)
        for path in (
            "/v1/plugins/no%2Fsuch",
            "/v1/plugins/no%2Fsuch/logs",
            "/v1/runners/plugin%3Ano%2Fsuch%2Fx",
        ):
            answer = await served.client.get(path)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), path
        assert (await served.say("say 0"))["status"] == "completed"

    await _with(tmp_path, scenario)


async def _with(tmp_path: Path, scenario: Any, **settings: Any) -> None:
    async with serving(tmp_path, **settings) as served:
        await scenario(served)
