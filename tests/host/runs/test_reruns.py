"""Runs made from runs: forks that change nothing unless told, retries, dead letters."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.tapes import Tape, decode_tape, read_tape
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile, PluginEntry
from hostler.journal import export
from hostler.journal.export import tape_of
from hostler.journal.replayer import Cast, Replayer
from hostler.plugins.source import Folder
from hostler.storage.stores import transcripts
from support.http_host import OTHER, Served, serving

pytestmark = pytest.mark.timeout(120)
MANIFEST = """
plugin: {author: test, name: counting, version: 1.0.0}
runners:
  - {name: default, entry: "counting:Counts"}
  - {name: crashes, entry: "counting:Crashes"}
tools: ["counting:count"]
"""
PLUGIN = '''
import asyncio
import os

from hostler_sdk import Denied, Runner, message, state_updated, tool


@tool
async def count(what: str, port: int) -> str:
    """Leaves its mark outside."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(what.encode() + b"\\n")
    writer.close()
    await writer.wait_closed()
    return "counted " + what


class Counts(Runner):
    """Counts"""

    permissions = {"tools": ["call"], "history": ["page"]}
    config = [{"name": "port", "type": "integer"}, {"name": "end", "type": "string", "default": "."}]

    async def run(self, ctx):
        visits = await ctx.states.get("conversation", "visits", 0)
        before = len((await ctx.history.page()).items)
        try:
            for n in range(3):
                mark = {"what": f"{ctx.input.text} {n}", "port": ctx.config["port"]}
                said = await ctx.tools.call("counting.count", mark)
            await ctx.states.set("conversation", "visits", visits + 1)
        except Denied as error:
            said = f"denied after {n}"
        yield state_updated("conversation", "last", said)
        yield message(f"{said}, visit {visits}, {before} before{ctx.config['end']}")


class Crashes(Runner):
    """Crashes"""

    async def run(self, ctx):
        yield message("going")
        await ctx.states.get("conversation", "k")
        os._exit(1)
'''


@dataclass
class Outside:
    """What happened outside of the host."""

    marks: list[str] = field(default_factory=list)
    port: int = 0


@contextlib.asynccontextmanager
async def outside() -> AsyncIterator[Outside]:
    """A service that counts; every call of it is an effect that cannot be taken back."""
    here = Outside()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        here.marks.append((await reader.readline()).decode().strip())
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        here.port = server.sockets[0].getsockname()[1]
        yield here


@contextlib.asynccontextmanager
async def host(tmp_path: Path, port: int) -> AsyncIterator[Served]:
    folder = tmp_path / "counting"
    folder.mkdir()
    (folder / "hostler.yaml").write_text(MANIFEST)
    (folder / "counting.py").write_text(PLUGIN)
    async with serving(tmp_path / "data", agent=False) as served:
        await apply(served, folder, {"port": port})
        yield served


async def apply(served: Served, folder: Path, config: dict[str, Any]) -> None:
    specs: list[dict[str, Any]] = [
        {
            "name": "counts",
            "runner": "plugin:test/counting/default",
            "config": config,
            "resource_policy": {"allowed_tool_names": ["counting.count"]},
        },
        {"name": "crashes", "runner": "plugin:test/counting/crashes", "recovery": {"on_crash": "fail"}},
    ]
    agents = [convert({**spec, "event_types": []}, AgentSpec, str(spec["name"])) for spec in specs]
    await served.host.apply(
        ConfigFile(plugins=[PluginEntry(path=str(folder), level="trusted")], agents=agents), actor="test"
    )


async def fork(served: Served, run_id: str, **body: Any) -> dict[str, Any]:
    """Fork a run and wait for its end."""
    answer = await served.client.post(f"/v1/runs/{run_id}/fork", json=body)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert made["forked_from"] == run_id
    await served.host.runs.wait("default", made["run_id"], 30)
    ended: dict[str, Any] = (await served.client.get(f"/v1/runs/{made['run_id']}")).json()
    return ended


async def tape(served: Served, run_id: str) -> Tape:
    host = served.host
    return read_tape(await tape_of(host.db, host.blobs, "default", run_id, host_version="1"))


async def test_a_fork_changes_nothing_outside_unless_told(tmp_path: Path) -> None:
    async with outside() as there, host(tmp_path, there.port) as served:
        first = await served.say("a", agent="counts", conversation_id="c")
        said = first["output"]["text"]
        assert there.marks == ["a 0", "a 1", "a 2"]
        recorded = await tape(served, first["run_id"])
        tools = [call.step for call in recorded.calls if call.method == "tool.call"]
        there.marks.clear()

        whole = await fork(served, first["run_id"])
        assert (whole["status"], whole["output"]["text"]) == ("completed", said)
        part = await fork(served, first["run_id"], at=tools[0])
        assert part["output"]["text"] == "denied after 1, visit 0, 0 before."
        assert part["forked_at"] == tools[0]
        edited = await fork(served, first["run_id"], input="b")
        assert edited["output"]["text"] == "denied after 0, visit 0, 0 before."
        nothing = await fork(served, first["run_id"], at=0)
        assert nothing["output"]["text"] == "denied after 0, visit 1, 0 before."  # it reads what is there now
        assert there.marks == []
        items = await served.host.db.read(
            lambda tx: transcripts.page(tx, "default", conversation_id="c", limit=50)
        )
        assert len(items.items) == 2
        state = (await served.client.get("/v1/conversations/c/state")).text
        assert "denied" not in state

        told = await fork(served, first["run_id"], at=tools[0], effects=True)
        assert told["output"]["text"] == "counted a 2, visit 0, 0 before."
        assert there.marks == ["a 1", "a 2"]


async def test_a_fork_is_a_recording_of_its_own(tmp_path: Path) -> None:
    async with outside() as there, host(tmp_path, there.port) as served:
        first = await served.say("a", agent="counts", conversation_id="c")
        whole = await fork(served, first["run_id"])
        again = await fork(served, whole["run_id"], at=3)
        tapes = [await tape(served, made["run_id"]) for made in (first, whole, again)]
        assert there.marks == ["a 0", "a 1", "a 2"]
    assert [call.name for call in tapes[0].calls] == [call.name for call in tapes[1].calls]
    assert tapes[0].results == tapes[1].results
    async with Replayer.open() as replayer:
        for one in tapes:
            replayed = await replayer.replay(one, Cast(Folder(tmp_path / "counting"), "default"))
            assert replayed.divergence is None, replayed.divergence


async def test_a_fork_may_have_another_version_of_its_agent(tmp_path: Path) -> None:
    async with outside() as there, host(tmp_path, there.port) as served:
        first = await served.say("a", agent="counts", conversation_id="c")
        await apply(served, tmp_path / "counting", {"port": there.port, "end": "!"})
        own = await fork(served, first["run_id"])
        other = await fork(served, first["run_id"], agent_version=2)
        assert (own["agent_version"], own["output"]["text"][-1]) == (1, ".")
        assert (other["agent_version"], other["output"]["text"][-1]) == (2, "!")
        assert len(there.marks) == 3
        missing = await served.client.post(f"/v1/runs/{first['run_id']}/fork", json={"agent_version": 9})
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
        beyond = await served.client.post(f"/v1/runs/{first['run_id']}/fork", json={"at": 99})
        assert beyond.status_code == 400
        assert "steps 1 to" in beyond.json()["detail"]


async def test_a_retry_does_an_ended_run_again_in_its_place(tmp_path: Path) -> None:
    async with outside() as there, host(tmp_path, there.port) as served:
        first = await served.say("a", agent="counts", conversation_id="c")
        await apply(served, tmp_path / "counting", {"port": there.port, "end": "!"})
        path = f"/v1/runs/{first['run_id']}/retry"
        headers = {"idempotency-key": "once"}
        twice = [(await served.client.post(path, json={}, headers=headers)).json() for _ in range(2)]
        assert twice[0] == twice[1]
        assert twice[0]["retry_of"] == first["run_id"]
        ended = await served.host.runs.wait("default", twice[0]["run_id"], 30)
        assert ended.agent_version == 2
        assert ended.event_id == first["event_id"]
        assert ended.output is not None
        assert ended.output.text == "counted a 2, visit 1, 0 before!"  # history ends before its own message
        assert len(there.marks) == 6
        old = await served.client.post(path, json={"agent_version": 1})
        ended = await served.host.runs.wait("default", old.json()["run_id"], 30)
        assert ended.agent_version == 1


async def test_only_what_is_over_can_be_done_again_and_only_by_whom_it_belongs_to(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        begun = await served.say("hold", wait=None, conversation_id="c")
        run_id = begun["run"]["run_id"]
        running = await served.client.post(f"/v1/runs/{run_id}/retry", json={})
        assert (running.status_code, running.json()["code"]) == (409, "conflict")
        async with served.as_key(await served.key(OTHER)) as other:
            for what in ("retry", "fork"):
                assert (await other.post(f"/v1/runs/{run_id}/{what}", json={})).status_code == 404
            assert (await other.get(f"/v1/runs/{run_id}/export")).status_code == 404
        async with served.as_key(await served.key("default", "runs:read")) as reader:
            assert (await reader.post(f"/v1/runs/{run_id}/retry", json={})).status_code == 403
            assert (await reader.get(f"/v1/runs/{run_id}/export")).status_code == 200
        await served.client.post(f"/v1/runs/{run_id}/cancel", json={})


async def test_dead_letters_are_listed_until_they_are_done_again(tmp_path: Path) -> None:
    async def dead(served: Served, **query: Any) -> list[str]:
        answer = await served.client.get("/v1/runs", params={"dead": "true", **query})
        assert answer.status_code == 200, answer.text
        return [one["run_id"] for one in answer.json()["items"]]

    async with outside() as there, host(tmp_path, there.port) as served:
        await served.say("a", agent="counts")
        crashed = [(await served.say("x", agent="crashes", conversation_id="c"))["run_id"] for _ in range(2)]
        assert await dead(served) == crashed[::-1]
        assert await dead(served, agent="counts") == []
        page = await served.client.get("/v1/runs", params={"dead": "true", "limit": "1"})
        cursor = page.json()["next_cursor"]
        assert await dead(served, limit="1", cursor=cursor) == [crashed[0]]
        made = (await served.client.post(f"/v1/runs/{crashed[0]}/retry", json={})).json()
        assert await dead(served) == [crashed[1]]
        await served.host.runs.wait("default", made["run_id"], 30)
        assert await dead(served) == [made["run_id"], crashed[1]]
        mixed = await served.client.get("/v1/runs", params={"dead": "true", "status": "failed"})
        assert mixed.status_code == 400


async def test_an_export_leaves_out_what_is_too_large_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "MAX_BLOB_BYTES", 1000)
    async with outside() as there, host(tmp_path, there.port) as served:
        await served.say("y" * 200_000, agent="counts", conversation_id="c")
        second = await served.say("a", agent="counts", conversation_id="c")
        answer = await served.client.get(f"/v1/runs/{second['run_id']}/export")
    document = msgspec.json.decode(answer.content)
    left_out = [entry for entry in document["entries"] if entry["left_out"]]
    assert [entry["type"] for entry in left_out] == ["history.page"]
    assert left_out[0]["left_out"] > 200_000
    one = read_tape(decode_tape(answer.content))
    async with Replayer.open() as replayer:
        replayed = await replayer.replay(one, Cast(Folder(tmp_path / "counting"), "default"))
    assert replayed.divergence is not None
    assert replayed.divergence.kind == "left_out"
