"""A host's own document as tools of another: a large one of version 3.1, and the service behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.domain.openapi_entry import OpenApiEntry
from hostler.domain.tool_entries import ToolEntry
from hostler.tools.errors import ToolFailedError
from hostler.tools.openapi.source import OpenApiTools
from hostler.tools.schema import ToolSchema
from hostler_protocol.errors import InvalidArgumentError, to_fault
from support.http_host import ADMIN_KEY, serving
from support.invocations import Calling


async def test_a_host_is_worked_by_its_own_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_KEY", ADMIN_KEY)
    async with serving(tmp_path) as served:
        entry = OpenApiEntry(
            name="host",
            document=f"{served.url}/v1/openapi.json",
            auth={"key": "env:HOST_KEY"},
            network=["127.0.0.1"],
        )
        source = OpenApiTools("main", tmp_path / "kept")
        await source.configure([ToolEntry(openapi=entry)])
        digest = (source.documents("main")[0].problem or "").rpartition(" ")[2]
        fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
        await source.configure([ToolEntry(openapi=OpenApiEntry(**{**fields, "digest": digest}))])
        [status] = source.documents("main")
        assert status.problem is None
        # what only people who signed in may do takes their session, which is no secret of an entry
        assert set(status.left_out.values()) == {"it needs session, and auth names no secret for it"}
        sessions = {name for name in status.left_out if "session" in name or "personal_key" in name}
        assert set(status.left_out) - sessions == {"enter_workspace", "sign_out"}
        calling = Calling([source])
        tools = calling.tools.offered("main")
        assert len(tools) > 50
        for tool in tools.values():
            ToolSchema(tool.parameters)

        agents = await calling.call("host.list_agents")
        assert [agent["spec"]["name"] for agent in agents["body"]["items"]] == ["puppet"]
        event = {"event_type": "message.received", "agent": "puppet", "input": {"text": "hello"}}
        sent = await calling.call("host.post_event", body=event, wait=30)
        run_id = sent["body"]["run_id"]
        assert (await calling.call("host.get_run", run_id=run_id))["body"]["run_id"] == run_id
        calling.files.give("a", b"\x00\xff" * 2_000, "raw.bin", "application/x-raw")
        kept = await calling.call("host.upload_artifact", body={"artifact_id": "a"}, name="raw.bin")
        read = await calling.call("host.get_artifact", artifact_id=kept["body"]["artifact_id"])
        assert (read["body"]["size_bytes"], read["body"]["name"]) == (4_000, "raw.bin")
        with pytest.raises(InvalidArgumentError, match="event_type"):
            await calling.call("host.post_event", body={"event_type": 5})
        with pytest.raises(ToolFailedError, match="404 Not Found") as missing:
            await calling.call("host.get_run", run_id="none/such")
        assert to_fault(missing.value).code == "not_found"
        await source.close()
