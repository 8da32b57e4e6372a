"""A conversation's working folder lasts as long as the conversation, and no longer."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.tool_entries import FilesEntry, ToolEntry
from hostler.domain.working_folders import FolderOwner, WorkingFolderSettings
from hostler.host.config import ConfigFile
from hostler.host.host import Host
from hostler.host.maintenance import sweep_folders
from hostler.storage.stores import deletion, deletion_steps
from support.command_line import CommandLine
from support.http_host import serving
from support.stepping import WORKSPACE, Stage, stage, within

POLICY = {"allowed_tool_names": ["files.*"]}


def writing(text: str) -> list[Any]:
    parameters = {"path": "a.txt", "text": text}
    return ["call", "tool.call", {"tool_name": "files.write", "parameters": parameters}]


READ = ["call", "tool.call", {"tool_name": "files.read", "parameters": {"path": "a.txt"}}]


async def prepared(made: Stage, **folders: Any) -> None:
    settings = WorkingFolderSettings(**folders)
    config = ConfigFile(tools=[ToolEntry(files=FilesEntry())], working_folders=settings)
    await made.host.apply(config, actor="test")
    await made.agent(resource_policy=POLICY)


async def owners(host: Host) -> list[str]:
    found = [held.owner for held in await host.folders.found()]
    return sorted(str(owner and (owner.conversation_id or "a run")) for owner in found)


async def test_a_folder_lasts_over_restarts_and_goes_with_its_conversation(tmp_path: Path) -> None:
    async with within(), stage(tmp_path, agent=False) as made:
        await prepared(made)
        await made.run([writing("kept")], conversation_id="c")
        await made.run([writing("other")], conversation_id="../c")
        await made.run([writing("alone")])
    async with within(), stage(tmp_path, agent=False) as made:
        swept = await sweep_folders(made.host.db, made.host.folders)
        assert swept.folders == 1  # of the run, which is over
        ended = await made.run([READ, ["tell"]], conversation_id="c")
        assert ended.told[0]["result"]["text"] == "kept"
        ended = await made.run([READ, ["tell"]], conversation_id="d")
        assert ended.told[0]["error"]["code"] == "not_found"
        assert await owners(made.host) == ["../c", "c", "d"]
        await deletion.delete_conversation(made.host.db, made.host.blobs, WORKSPACE, "c", by="test")
        await sweep_folders(made.host.db, made.host.folders)
        assert await owners(made.host) == ["../c", "d"]
        ended = await made.run([READ, ["tell"]], conversation_id="c")
        assert ended.told[0]["error"]["code"] == "not_found"


async def test_the_folder_of_a_run_stays_while_it_is_under_way(tmp_path: Path) -> None:
    async with within(), stage(tmp_path, agent=False) as made:
        await prepared(made, per="run")
        steps = [writing("x"), ["deltas", 1], ["until_cancelled"], READ, ["tell"]]
        run_id = await made.start(steps, conversation_id="c")
        await made.seen(run_id, "message.delta")
        assert (await sweep_folders(made.host.db, made.host.folders)).folders == 0
        assert await owners(made.host) == ["a run"]
        await made.cancel(run_id)
        await made.ended(run_id)
        assert (await sweep_folders(made.host.db, made.host.folders)).folders == 1


@pytest.mark.parametrize("what", ["conversations/c", "actors/ada"])
async def test_deleted_on_request_it_is_gone_at_once(tmp_path: Path, what: str) -> None:
    async with within(), serving(tmp_path) as served:
        folders = served.host.folders
        for name, actor in (("c", "ada"), ("d", "eve")):
            person = {"actor_type": "user", "actor_id": actor}
            await served.say("hi", conversation_id=name, actor=person)
            owner = FolderOwner(kind="conversation", workspace_id=WORKSPACE, conversation_id=name)
            async with folders.use(owner) as folder:
                (folder.path / "said").write_text("hi")
        answer = await served.client.delete(f"/v1/{what}")
        assert answer.status_code == 200, answer.text
        assert await owners(served.host) == ["d"]


@pytest.mark.parametrize("what", ["conversation", "actor"])
async def test_a_deletion_is_refused_while_somebody_uses_the_folder(tmp_path: Path, what: str) -> None:
    async with within(), serving(tmp_path) as served:
        ada = {"actor_type": "user", "actor_id": "ada"}
        await served.say("hi", conversation_id="c", actor=ada)
        owner = FolderOwner(kind="conversation", workspace_id=WORKSPACE, conversation_id="c")
        path = "/v1/conversations/c" if what == "conversation" else "/v1/actors/ada"
        async with served.host.folders.use(owner):
            refused = await served.client.delete(path)
        assert refused.status_code == 409, refused.text
        assert (await served.client.delete(path)).status_code == 200
        assert await owners(served.host) == []


async def test_the_folder_goes_though_a_message_came_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = deletion_steps.begin
    async with within(), serving(tmp_path) as served:

        async def begin_then_a_message(*given: Any) -> Any:
            erasure = await begin(*given)
            await served.say("hello", conversation_id="c")
            return erasure

        await served.say("hi", conversation_id="c")
        owner = FolderOwner(kind="conversation", workspace_id=WORKSPACE, conversation_id="c")
        async with served.host.folders.use(owner) as folder:
            (folder.path / "said").write_text("hi")
        monkeypatch.setattr(deletion, "begin", begin_then_a_message)
        assert (await served.client.delete("/v1/conversations/c")).status_code == 200
        assert await owners(served.host) == []


async def test_gc_removes_what_was_not_used_for_long_and_says_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    hostler = CommandLine(data, tmp_path)
    async with within(), stage(data, agent=False) as made:
        await prepared(made, keep_days=3)
        for name in ("old", "new"):
            await made.run([writing(name)], conversation_id=name)
        for held in await made.host.folders.found():
            if held.owner is not None and held.owner.conversation_id == "old":
                then = time.time() - 4 * 86_400
                os.utime(data / "workspaces" / held.key[:2] / held.key / "lock", (then, then))
    found = hostler("gc", "--json").json
    assert found["working_folders"] == 1
    assert hostler("gc", "--json").json["working_folders"] == 0


async def test_a_running_host_sweeps_by_itself(tmp_path: Path) -> None:
    async with within(), stage(tmp_path, agent=False, collect_seconds=0.05) as made:
        await prepared(made)
        await made.run([writing("alone")])
        while await made.host.folders.found():
            await asyncio.sleep(0.02)
