"""`exec`: what a command gets, what it does not get, and what is told of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from hostler.domain.place import Place
from hostler.domain.tool_entries import ExecEntry, ToolEntry
from hostler.domain.working_folders import WorkingFolderSettings
from hostler.sandbox.machine import MachineSandbox
from hostler.sandbox.port import Mechanism
from hostler.sandbox.probe import find_capabilities, find_sandbox
from hostler.tools.builtin.command_results import SHOWN_BYTES
from hostler.tools.builtin.exec import ExecTools
from hostler.tools.errors import ToolChangedError
from hostler.tools.port import OfferedTool
from hostler.tools.schema import ToolSchema
from hostler.tools.workspaces.folders import WorkingFolders
from hostler_protocol.errors import (
    ConflictError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    PayloadTooLargeError,
)
from support.working import MemoryArtifacts, invocation

pytestmark = [pytest.mark.gate("sandboxed-files", "exec-limits"), pytest.mark.timeout(120)]
LONG = f"4321.{os.getpid()}"
"""Seconds that nobody else sleeps."""


@dataclass
class Bench:
    """The tool of one entry, in folders of its own."""

    tools: ExecTools
    folders: WorkingFolders

    @property
    def tool(self) -> OfferedTool:
        (tool,) = self.tools.offered("w").values()
        return tool

    async def run(
        self, command: str, *, call: dict[str, Any] | None = None, **parameters: Any
    ) -> dict[str, Any]:
        """Run a command; `call`: what else its invocation says."""
        wanted = {"command": command, **parameters}
        ToolSchema(self.tool.parameters).check_arguments("exec", wanted)
        told = await self.tools.call(invocation(self.tool, wanted, **(call or {})))
        assert isinstance(told, dict)
        return told


@contextlib.asynccontextmanager
async def bench(
    data: Path, mechanism: Mechanism | None = None, folders: WorkingFolderSettings | None = None, **entry: Any
) -> AsyncIterator[Bench]:
    async def sandbox() -> MachineSandbox:
        return await find_sandbox(mechanism)

    working = WorkingFolders(data / "workspaces", folders)
    tools = ExecTools(working, sandbox)
    await tools.configure([ToolEntry(exec=ExecEntry(**entry))])
    try:
        yield Bench(tools, working)
    finally:
        working.close()


def mechanisms() -> list[Mechanism]:
    return list(asyncio.run(find_capabilities()).mechanisms)


every_mechanism = pytest.mark.parametrize("mechanism", mechanisms())


@every_mechanism
async def test_a_command_gets_its_folder_and_its_input_and_tells_how_it_ended(
    tmp_path: Path, mechanism: Mechanism
) -> None:
    async with bench(tmp_path, mechanism, environment={"COLOUR": "red"}) as made:
        told = await made.run("cat; echo $COLOUR; echo wrong >&2; echo kept > file; exit 3", stdin="in ")
        assert told["exit_code"] == 3
        assert (told["stdout"], told["stderr"]) == ("in red\n", "wrong\n")
        assert "limit" not in told
        told = await made.run("import os; print(os.getcwd(), open('../file').read())", language="python")
        assert told["exit_code"] == 1  # there is no such file above
        (made_folder,) = await made.folders.found()
        told = await made.run("mkdir -p sub; pwd; cat file; ls -A")
        assert told["stdout"].split() == [str(_files(made, made_folder.key)), "kept", *_seen(told)]
        told = await made.run("pwd; cat ../file", folder="sub")
        assert told["stdout"].split()[-1] == "kept"
        told = await made.run("kill -TERM $$")
        assert (told["exit_code"], told["note"]) == (-15, "the process was killed by SIGTERM")


def _seen(told: dict[str, Any]) -> list[str]:
    return [name for name in (".tmp", "file", "sub") if name in told["stdout"].split()[2:]]


def _files(made: Bench, key: str) -> Path:
    return made.folders._container(key) / "files"


LIMITS: dict[str, tuple[dict[str, Any], str]] = {
    "time": ({"seconds": 0.5}, "sleep 100"),
    "output": ({"output_kib": 64}, "yes"),
    "memory": ({"memory_mib": 64}, "import time; x = b'x' * (96 << 20); time.sleep(60)"),
    "processes": ({"processes": 10}, "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do sleep 60 & done; wait"),
    "disk": ({}, "for i in 1 2 3 4 5 6 7 8; do head -c 500000 /dev/zero > f$i; done; sleep 60"),
    "disk by one file": ({}, "head -c 20000000 /dev/zero > big || true"),
    "files": ({}, "i=0; while [ $i -lt 60 ]; do echo x > f$i; i=$((i+1)); done; sleep 60"),
}
SMALL = WorkingFolderSettings(disk_mib=2, max_files=40)


@every_mechanism
@pytest.mark.parametrize("limit", LIMITS)
async def test_every_limit_is_reached_and_told(tmp_path: Path, mechanism: Mechanism, limit: str) -> None:
    entry, command = LIMITS[limit]
    async with bench(tmp_path, mechanism, SMALL, **entry) as made:
        language = "python" if "import" in command else "sh"
        told = await made.run(command, language=language)
        assert told["limit"] == limit.split(maxsplit=1)[0], told
        assert "may" in told["note"], told
        if limit == "output":
            assert len(told["stdout"]) <= SHOWN_BYTES + 100
            assert told["stdout_artifact"]["size_bytes"] == 64 * 1024
        # the folder can be tidied up, and used again
        told = await made.run("rm -rf ./* && echo tidy")
        assert (told["exit_code"], told["stdout"]) == (0, "tidy\n"), told


@pytest.mark.gate("many-commands")
@every_mechanism
async def test_commands_do_not_add_up_to_more_than_their_folder_may_hold(
    tmp_path: Path, mechanism: Mechanism
) -> None:
    async with bench(tmp_path, mechanism, SMALL) as made:
        told = await made.run("head -c 3000000 /dev/zero > first; head -c 3000000 /dev/zero > second")
        assert told["limit"] == "disk"
        (stored,) = await made.folders.found()
        files = _files(made, stored.key)
        held = sum(path.stat().st_blocks for path in files.iterdir())
        for number in range(3):
            told = await made.run(f"head -c 900000 /dev/zero > more{number}; mkdir -p a/b")
            assert told["limit"] == "disk", told
            assert "remove some" in told["note"]
        assert sum(path.stat().st_blocks for path in files.iterdir()) <= held + 64
        assert (await made.run("rm -rf first second more*"))["exit_code"] == 0
        told = await made.run("echo new > new && cat new")
        assert (told["exit_code"], told["stdout"]) == (0, "new\n"), told


@pytest.mark.gate("many-commands")
@every_mechanism
async def test_a_folder_far_over_its_limit_gets_no_command_until_files_are_removed(
    tmp_path: Path, mechanism: Mechanism
) -> None:
    async with bench(tmp_path, mechanism, SMALL) as made:
        await made.run("true")
        (stored,) = await made.folders.found()
        (_files(made, stored.key) / "large").write_bytes(b"x" * (80 << 20))
        with pytest.raises(PayloadTooLargeError, match="remove what is no longer needed"):
            await made.run("true")
        (_files(made, stored.key) / "large").unlink()
        assert (await made.run("true"))["exit_code"] == 0


async def test_a_folder_that_holds_too_much_in_the_end_says_so(tmp_path: Path) -> None:
    async with bench(tmp_path, None, SMALL) as made:
        told = await made.run("truncate -s 1500000 a b && ls")  # holes: nothing is on the disk yet
        assert (told["exit_code"], told["limit"]) == (0, "disk")
        assert "ended, but" in told["note"]
        with pytest.raises(PayloadTooLargeError, match="2,097,152"):
            await made.run(
                "true",
                files=[{"artifact_id": "a", "path": "c"}],
                call={"artifacts": MemoryArtifacts(given={"a": b"x"})},
            )


async def test_files_come_in_and_go_out_as_artifacts_by_name(tmp_path: Path) -> None:
    artifacts = MemoryArtifacts(given={"a1": b"one\n" * 1000, "a2": b"\x00\xff"})
    async with bench(tmp_path) as made:
        told = await made.run(
            "wc -l < data/in.txt > out.txt; mkfifo pipe; ln -s /etc/hostname link; mkdir d",
            files=[
                {"artifact_id": "a1", "path": "data/in.txt"},
                {"artifact_id": "a2", "path": "data/raw.bin"},
            ],
            keep=["out.txt", "data/raw.bin", "none", "pipe", "link", "d", "../../x"],
            call={"artifacts": artifacts},
        )
        assert told["exit_code"] == 0, told
        out, raw, *wrong = told["files"]
        assert out["mime_type"] == "text/plain"
        assert artifacts.made[out["artifact_id"]].strip() == b"1000"
        assert artifacts.made[raw["artifact_id"]] == b"\x00\xff"
        assert [sorted(one) for one in wrong] == [["error", "path"]] * 5
        for one, words in zip(wrong, ["no 'none'", "FIFO", "link", "folder", "upwards"], strict=True):
            assert words in one["error"]
        for artifact_id, path, kind in (
            ("none", "x", NotFoundError),
            ("a1", "../x", InvalidArgumentError),
            ("a1", "link", InvalidArgumentError),
        ):
            with pytest.raises(kind):
                await made.run(
                    "touch ran",
                    files=[{"artifact_id": artifact_id, "path": path}],
                    call={"artifacts": artifacts},
                )
        told = await made.run("ls ran")
        assert told["exit_code"] != 0  # none of them was started


async def test_a_long_output_is_shown_in_part_and_kept_whole(tmp_path: Path) -> None:
    artifacts = MemoryArtifacts()
    async with bench(tmp_path) as made:
        told = await made.run("seq 1 20000; echo ä >&2", call={"artifacts": artifacts})
        assert told["stdout"].startswith("1\n2\n")
        assert told["stdout"].endswith("\n20000\n")
        assert "left out" in told["stdout"]
        whole = artifacts.made[told["stdout_artifact"]["artifact_id"]]
        assert whole == "".join(f"{n}\n" for n in range(1, 20001)).encode()
        assert told["stderr"] == "ä\n"
        assert "stderr_artifact" not in told


async def test_conversations_runs_and_workspaces_see_nothing_of_each_other(tmp_path: Path) -> None:
    places: list[dict[str, Any]] = [
        {},
        {"place": Place(conversation_id="d")},
        {"place": Place(conversation_id="c", thread_id="t")},
        {"place": Place(conversation_id="c", bot_id="b")},
        {"agent_id": "other"},
        {"workspace_id": "w2"},
        {"place": Place()},
        {"place": Place(), "run_id": "run2"},
    ]
    async with bench(tmp_path) as made:
        for number, place in enumerate(places):
            told = await made.run(f"ls; echo {number} > mine; chmod 777 . mine", call=place)
            assert (told["exit_code"], told["stdout"]) == (0, ""), place
        folders = [_files(made, held.key) for held in await made.folders.found()]
        assert len(folders) == len(places)
        for number, place in enumerate(places):
            others = "; ".join(f"cat {path}/mine" for path in folders)
            told = await made.run(f"cat mine; {others}; touch ../x ../../x; true", call=place)
            assert told["stdout"].split() == [str(number)] * 2, told
        assert list((tmp_path / "workspaces").rglob("x")) == []


async def test_a_folder_for_each_run_where_it_is_configured(tmp_path: Path) -> None:
    async with bench(tmp_path, None, WorkingFolderSettings(per="run")) as made:
        await made.run("touch here", call={"run_id": "r1"})
        assert (await made.run("ls", call={"run_id": "r1"}))["stdout"] == "here\n"
        assert (await made.run("ls", call={"run_id": "r2"}))["stdout"] == ""


@every_mechanism
async def test_a_command_that_nobody_waits_for_is_ended_with_all_it_started(
    tmp_path: Path, mechanism: Mechanism
) -> None:
    async with bench(tmp_path, mechanism) as made:
        script = f"(setsid sleep {LONG} &) ; sleep {LONG} & touch begun; wait"
        waiting = asyncio.create_task(made.run(script))
        await _until_there(made, "begun")
        while len(_sleepers()) < 2:
            await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert _sleepers() == []
        assert (await made.run("echo again"))["stdout"] == "again\n"


def _sleepers() -> list[int]:
    processes = psutil.process_iter(["cmdline"])
    return [process.pid for process in processes if process.info["cmdline"] == ["sleep", LONG]]


async def _until_there(made: Bench, name: str) -> Path:
    """Wait for a file in the only folder; the folder."""
    while True:
        for held in await made.folders.found():
            if (_files(made, held.key) / name).exists():
                return _files(made, held.key)
        await asyncio.sleep(0.01)


async def test_commands_of_one_folder_take_turns_within_their_deadline(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        first = asyncio.create_task(made.run("touch begun; while [ ! -e go ]; do sleep 0.02; done; ls"))
        files = await _until_there(made, "begun")
        with pytest.raises(DeadlineExceededError, match="another command"):
            await made.run("true", call={"deadline": time.time() + 1.2})
        second = asyncio.create_task(made.run("ls; rm begun"))
        other = await made.run("echo free", call={"place": Place(conversation_id="d")})
        assert other["stdout"] == "free\n"
        assert not second.done()
        (files / "go").touch()
        assert (await first)["stdout"].split() == ["begun", "go"]
        assert (await second)["exit_code"] == 0
        with pytest.raises(DeadlineExceededError):
            await made.run("true", call={"deadline": time.time()})
        for seconds in (2, 10, 50):  # until there was time to start it
            with contextlib.suppress(DeadlineExceededError):
                told = await made.run("sleep 60", call={"deadline": time.time() + seconds})
                assert told["limit"] == "time"
                break
        else:
            pytest.fail("it was never started")


async def test_what_may_not_be_called_any_more_is_not_started(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        tool = made.tool

        async def no() -> None:
            raise ConflictError("the run is another host's")

        with pytest.raises(ConflictError):
            await made.run("touch ran", call={"confirm": no})
        await made.tools.configure([ToolEntry(exec=ExecEntry(network=["example.com:443"]))])
        with pytest.raises(ToolChangedError):
            await made.tools.call(invocation(tool, {"command": "touch ran"}))
        await made.tools.configure([ToolEntry(exec=ExecEntry())])
        assert (await made.tools.call(invocation(tool, {"command": "ls"})))["stdout"] == ""


async def test_there_is_no_network_and_it_is_told(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        code = "import socket; socket.create_connection(('127.0.0.1', 1), 2)"
        told = await made.run(code, language="python")
        assert told["exit_code"] == 1
        assert any("TCP" in refused for refused in told["refused"]), told


async def test_without_a_sandbox_nobody_is_given_the_tool(tmp_path: Path) -> None:
    async with bench(tmp_path, "none") as made:
        assert "hostler doctor" in (made.tool.problem or "")
    if "landlock" in (await find_capabilities()).mechanisms:
        async with bench(tmp_path, "landlock", network=["example.com:443"]) as made:
            assert "leave network empty, or install bubblewrap" in (made.tool.problem or "")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"network": ["example.com"]}, "name:port"),
        ({"network": ["example.com:99999"]}, "name:port"),
        ({"environment": {"PATH": "/x"}}, "PATH"),
        ({"environment": {"A=B": "x"}}, "'A=B'"),
        ({"environment": {"A": "x\x00"}}, "NUL"),
    ],
)
def test_an_entry_that_cannot_be_used_is_refused(tmp_path: Path, entry: dict[str, Any], words: str) -> None:
    tools = ExecTools(WorkingFolders(tmp_path), find_sandbox)
    with pytest.raises(InvalidArgumentError, match="exec 'exec'") as refused:
        tools.check([ToolEntry(exec=ExecEntry(**entry))])
    assert words in refused.value.message
