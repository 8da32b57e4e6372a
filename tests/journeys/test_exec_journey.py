"""Commands of a whole host: artifacts in and out, runs that are cancelled, a host that is killed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from hostler.domain.tool_entries import ExecEntry, FilesEntry, ToolEntry
from hostler.domain.working_folders import WorkingFolderSettings
from hostler.host.config import ConfigFile
from support.http_runs import ended, pause_of
from support.server_process import PLUGINS, HostProcess, config_file
from support.stepping import RUNNER, Stage, stage, within

pytestmark = [pytest.mark.gate("exec-limits"), pytest.mark.timeout(240)]
POLICY = {"allowed_tool_names": ["exec", "files.*"]}
LOOK_SECONDS = 0.02
LONG = f"9870.{os.getpid()}"
"""Seconds that nobody else sleeps."""


def executing(command: str, **more: Any) -> list[Any]:
    return ["call", "tool.call", {"tool_name": "exec", "parameters": {"command": command, **more}}]


def processes(*command: str) -> list[int]:
    """Those that have exactly this command line."""
    found = psutil.process_iter(["cmdline"])
    return [process.pid for process in found if process.info["cmdline"] == list(command)]


async def until(count: int, *command: str) -> None:
    """Wait until there are so many."""
    while len(processes(*command)) != count:
        await asyncio.sleep(LOOK_SECONDS)


@contextlib.asynccontextmanager
async def host(data: Path, runner: str = "default", **entry: Any) -> AsyncIterator[Stage]:
    async with within(200), stage(data, agent=False) as made:
        tools = [ToolEntry(exec=ExecEntry(**entry)), ToolEntry(files=FilesEntry())]
        folders = WorkingFolderSettings(disk_mib=4)
        await made.host.apply(ConfigFile(tools=tools, working_folders=folders), actor="test")
        await made.agent(runner=runner, resource_policy=POLICY)
        yield made


async def test_an_artifact_goes_through_a_command_and_comes_out_as_another(tmp_path: Path) -> None:
    content = base64.b64encode(b"b\na\nc\n").decode()
    parts = {"part": 0, "content_base64": content, "last": True, "artifact_type": "file", "name": "in.txt"}
    async with host(tmp_path) as made:
        ended = await made.run(
            [
                ["call", "artifact.upload", parts],
                executing(
                    "sort in.txt > out.txt; seq 1 9999",
                    files=[{"artifact_id": "$0.artifact_id", "path": "in.txt"}],
                    keep=["out.txt", "none.txt"],
                ),
                ["call", "artifact.read", {"artifact_id": "$1.result.files.0.artifact_id"}],
                ["call", "artifact.read", {"artifact_id": "$1.result.stdout_artifact.artifact_id"}],
                ["call", "tool.call", {"tool_name": "files.read", "parameters": {"path": "out.txt"}}],
                ["tell"],
            ],
            conversation_id="c",
        )
        told = ended.told
        assert told[1]["result"]["exit_code"] == 0, told[1]
        assert "none.txt" in told[1]["result"]["files"][1]["error"]
        assert base64.b64decode(told[2]["content_base64"]) == b"a\nb\nc\n"
        assert base64.b64decode(told[3]["content_base64"]).endswith(b"\n9999\n")
        assert told[4]["result"]["text"] == "a\nb\nc\n"
        intent, outcome = ended.entries("intent", "tool.call")[0], ended.entries("call", "tool.call")[0]
        assert intent["position"] < outcome["position"]
        # another run of the conversation finds the folder as it was; another conversation does not
        for conversation, seen in (("c", "in.txt\nout.txt\n"), ("d", "")):
            ended = await made.run([executing("ls"), ["tell"]], conversation_id=conversation)
            assert ended.told[0]["result"]["stdout"] == seen


async def test_what_is_wrong_with_a_call_is_told_before_anything_is_run(tmp_path: Path) -> None:
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("touch ran", {"seconds": 61}, "invalid_argument"),
        ("touch ran", {"colour": "red"}, "invalid_argument"),
        ("touch ran", {"files": [{"artifact_id": "none", "path": "x"}]}, "not_found"),
        ("touch ran", {"folder": "../.."}, "invalid_argument"),
        ("x" * 70_000, {}, "payload_too_large"),
    ]
    async with host(tmp_path) as made:
        steps = [executing(command, **more) for command, more, _ in wrong]
        ended = await made.run([*steps, executing("ls"), ["tell"]], conversation_id="c")
        assert [one["error"]["code"] for one in ended.told[:-1]] == [code for _, _, code in wrong]
        assert ended.told[-1]["result"]["stdout"] == ""


async def test_a_run_that_is_cancelled_takes_its_command_with_it(tmp_path: Path) -> None:
    async with host(tmp_path) as made:
        script = f"(setsid sleep {LONG} &) ; sleep {LONG} & sleep {LONG}"
        run_id = await made.start([executing(script)], conversation_id="c")
        await until(3, "sleep", LONG)
        await made.cancel(run_id)
        ended = await made.ended(run_id)
        assert ended.record.status == "cancelled"
        await until(0, "sleep", LONG)
        ended = await made.run([executing("echo free"), ["tell"]], conversation_id="c")
        assert ended.told[0]["result"]["stdout"] == "free\n"


async def test_a_command_that_needs_a_person_waits_for_one(tmp_path: Path) -> None:
    async with host(tmp_path, approval="required") as made:
        run_id = await made.start([executing("echo yes"), ["tell"]])
        await made.seen(run_id, "interaction.requested")
        assert await made.host.folders.found() == []  # nothing of it was begun
        await made.cancel(run_id)
        await made.ended(run_id)


async def test_a_host_killed_in_the_middle_of_a_command_leaves_nothing_of_it_and_the_call_in_doubt(
    tmp_path: Path,
) -> None:
    agent = {
        "name": "main",
        "runner": f"{RUNNER}resumable",
        "resource_policy": {"allowed_tool_names": ["exec"]},
    }
    config = config_file(
        tmp_path / "config.yaml",
        plugins=[PLUGINS / "stepper"],
        agents=[agent],
        tools=[{"exec": {"seconds": 300}}],
    )
    process = HostProcess(tmp_path / "data", config)
    script = f"(setsid sleep {LONG} &) ; echo begun > file; sleep {LONG}"
    steps = json.dumps([executing(script), executing("cat file"), ["tell"]])
    event = {"event_type": "message.received", "input": {"text": steps}, "conversation_id": "c"}

    async def body() -> None:
        await process.start()
        async with process.client() as client:
            accepted = (await client.post("/v1/events", json=event)).json()
            run_id = accepted["run"]["run_id"]
            await until(2, "sleep", LONG)
        process.kill()
        await until(0, "sleep", LONG)
        await process.start()
        async with process.client() as client:
            pause = await pause_of(client, run_id)
            assert pause["status"] == "needs_review"
            (call,) = pause["calls"]
            assert (call["kind"], call["tool"]) == ("in_doubt", "exec")
            said = {"outcome": "happened", "result": {"exit_code": 0}}
            where = f"/v1/pauses/{pause['id']}/calls/{call['call_id']}/resolve"
            answer = await client.post(where, json=said)
            assert answer.status_code in (200, 202), answer.text
            record = await ended(client, run_id)
            assert record["status"] == "completed", record
            told = json.loads(record["output"]["text"])
            assert told[0]["result"] == {"exit_code": 0}
            assert told[1]["result"]["stdout"] == "begun\n"
        assert processes("sleep", LONG) == []

    try:
        async with asyncio.timeout(200):
            await body()
    finally:
        process.end()
