"""MCP servers and their tools over HTTP: how they stand, and who approves what changed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hostler.domain.tool_entries import ToolEntry
from hostler.host.config import ConfigFile
from support.http_host import WORKSPACE, serving
from support.mcp_bench import BOUND_SECONDS, over_stdio


async def test_a_change_is_approved_by_the_operator_and_as_it_was_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    async with asyncio.timeout(2 * BOUND_SECONDS), serving(tmp_path / "data", agent=False) as served:
        client = served.client
        entry = over_stdio(folder, allow=["say", "change"])
        await served.host.apply(ConfigFile(tools=[ToolEntry(mcp=entry)]), actor="test")
        await served.host.mcp.wait_for_lists(BOUND_SECONDS)
        found = (await client.get("/v1/tools")).json()["items"]
        listed = [one for one in found if not one["name"].startswith("schedule.")]  # those of the host
        assert [(one["name"], one["state"], one["waiting"]) for one in listed] == [
            ("s.change", "ok", None),
            ("s.say", "ok", None),
        ]
        (server,) = (await client.get("/v1/mcp-servers")).json()["items"]
        assert (server["name"], server["state"], server["server"]) == ("s", "ready", "bench 1")
        (folder / "description").write_text("Something else.")
        await served.host.apply(
            ConfigFile(tools=[ToolEntry(mcp=over_stdio(folder, allow=["say"]))]), actor="test"
        )
        while (tool := (await client.get("/v1/tools/s.say")).json())["state"] != "waiting":
            await asyncio.sleep(0.02)
        assert tool["waiting"]["approved"]["description"] == tool["description"] == "Says it."
        assert tool["waiting"]["now"]["description"] == "Something else."
        told = {"digest": tool["waiting"]["digest"]}
        async with served.as_key(await served.key(WORKSPACE, "plugins:read", "admin")) as other:
            assert (await other.post("/v1/tools/s.say/approve", json=told)).status_code == 403
        stale = await client.post("/v1/tools/s.say/approve", json={"digest": tool["schema_digest"]})
        assert (stale.status_code, stale.json()["code"]) == (409, "conflict")
        assert (await client.post("/v1/tools/s.nothing/approve", json=told)).status_code == 404
        approved = await client.post("/v1/tools/s.say/approve", json=told)
        assert (approved.status_code, approved.json()["state"]) == (200, "ok")
        assert approved.json()["description"] == "Something else."
        assert (await client.post("/v1/tools/s.say/approve", json=told)).status_code == 409
        facts = (await client.get("/v1/audit")).json()["items"]
        assert [(fact["actor"], fact["target"]) for fact in facts if fact["action"] == "tool.approved"] == [
            ("admin", "mcp:s#say")
        ]
