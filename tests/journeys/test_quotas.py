"""Quotas on a whole host: what runs, people and events may keep stored, per workspace, agent and run."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from hostler.storage.port import Query
from hostler.storage.sql.connect import open_database
from hostler.storage.stores import quotas
from support.command_line import CommandLine
from support.http_host import OTHER, WORKSPACE, Served, serving
from support.trust import trusted

pytestmark = pytest.mark.gate("quotas")

BOUND_SECONDS = 110.0
RUNNER = "plugin:test/hoarder/default"
MANIFEST = """
plugin: {author: test, name: hoarder, version: 1.0.0}
runners: [{name: default, entry: "hoarder:Hoarder"}]
tools: ["hoarder:tell"]
"""
HOARDER = '''
"""Stores what it is told to: a list of [what, ...], and says what came of each."""

import json

from hostler_sdk import HostError, Runner, artifact, message, state_updated, tool


@tool
async def tell(size: int) -> str:
    """Tell much."""
    return "x" * size


class Hoarder(Runner):
    """Stores."""

    permissions = {"storage": ["plugin", "workspace"], "tools": ["call"]}

    async def run(self, ctx):
        outcomes = []
        for what, *given in json.loads(ctx.input.text):
            try:
                match what:
                    case "emit":
                        yield artifact("file", given[0] * given[1])
                    case "update":
                        yield state_updated("conversation", given[0], given[1])
                    case _:
                        outcomes.append(await self.do(ctx, what, given))
            except HostError as error:
                outcomes.append([error.code, error.details.get("quota"), error.message])
        yield message(json.dumps(outcomes))

    async def do(self, ctx, what, given):
        match what:
            case "upload":
                return ["ok", await ctx.artifacts.upload((given[0] * given[1]).encode())]
            case "state":
                await ctx.states.set("conversation", given[0], given[1])
            case "forget":
                await ctx.states.delete("conversation", given[0])
            case "store":
                await ctx.storage.plugin.set(given[0], given[1])
            case "drop":
                await ctx.storage.plugin.delete(given[0])
            case "tool":
                await ctx.tools.call(given[0], given[1])
        return ["ok"]
'''
KIB = 1024


class Host:
    """A host with one agent that stores what it is told to."""

    def __init__(self, served: Served, data: Path) -> None:
        self.served, self.data = served, data

    async def agent(self, workspace: str = WORKSPACE, name: str = "hoarder", **quota: Any) -> None:
        spec: dict[str, Any] = {
            "name": name,
            "runner": RUNNER,
            "resource_policy": {"quota": quota, "allowed_tool_names": ["hoarder.*"]},
        }
        async with self.served.as_key(await self.served.key(workspace)) as client:
            answer = await client.put(f"/v1/agents/{name}", json=spec)
            assert answer.status_code == 200, answer.text

    async def allow(self, workspace: str = WORKSPACE, **quota: Any) -> None:
        """Bound a workspace; what is not named has no bound of its own."""
        body = {"name": workspace, "quota": quota, "tools": ["*"]}
        answer = await self.served.client.put(f"/v1/config/workspaces/{workspace}", json=body)
        assert answer.status_code == 200, answer.text

    async def run(
        self, *does: Sequence[Any], workspace: str = WORKSPACE, agent: str = "hoarder"
    ) -> dict[str, Any]:
        body = {
            "event_type": "message.received",
            "input": {"text": json.dumps(does)},
            "agent": agent,
            "conversation_id": "c",
        }
        async with self.served.as_key(await self.served.key(workspace)) as client:
            answer = await client.post("/v1/events", json=body, params={"wait": 60})
        assert answer.status_code == 200, answer.text
        run = dict(answer.json())
        assert run["status"] == "completed", run
        return run

    async def outcomes(self, *does: Sequence[Any], **where: Any) -> list[Any]:
        run = await self.run(*does, **where)
        return list(json.loads(run["output"]["text"]))

    async def codes(self, *does: Sequence[Any], **where: Any) -> list[str]:
        return [outcome[0] for outcome in await self.outcomes(*does, **where)]

    def files(self) -> int:
        """The number of files in the blob folder."""
        folder = self.data / "blobs"
        return sum(
            path.is_file()
            for two in folder.glob("[0-9a-f][0-9a-f]/[0-9a-f][0-9a-f]")
            for path in two.iterdir()
        )

    async def orphans(self) -> int:
        """The number of files that nothing names, once what was refused is removed."""
        await self.served.host.blobs.settle()
        text = "SELECT sha256 FROM blobs WHERE refs > 0"
        rows = await self.served.host.db.read(lambda tx: tx.all(Query("t.q", text, text)))
        return self.files() - len(rows)

    async def used(self, workspace: str = WORKSPACE, **query: str) -> dict[str, int]:
        """What is used of each quantity of the workspace, or of what the query names."""
        async with self.served.as_key(await self.served.key(workspace)) as client:
            items = (await client.get("/v1/quotas", params=query)).json()["items"]
        level = next(iter(query), "workspace")
        return {one["quantity"]: one["used"] for one in items if one["level"] == level}

    async def is_right(self) -> bool:
        return not await quotas.recount_all(self.served.host.db)


@contextlib.asynccontextmanager
async def hosting(tmp_path: Path, **quota: Any) -> AsyncIterator[Host]:
    folder = tmp_path / "hoarder"
    folder.mkdir()
    (folder / "hoarder.py").write_text(HOARDER)
    (folder / "hostler.yaml").write_text(MANIFEST)
    config = ConfigFile(plugins=[trusted(folder)])
    data = tmp_path / "data"
    async with asyncio.timeout(BOUND_SECONDS), serving(data, agent=False) as served:
        await served.host.apply(config, actor="test")
        host = Host(served, data)
        await host.agent(**quota)
        yield host


async def test_a_run_is_told_which_quota_has_no_room_and_goes_on_without(tmp_path: Path) -> None:
    async with hosting(tmp_path, max_artifact_bytes_per_run=10, max_artifacts=2) as host:
        outcomes = await host.outcomes(["upload", "a", 6], ["upload", "b", 6], ["upload", "c", 4])
        assert [one[0] for one in outcomes] == ["ok", "payload_too_large", "ok"]
        _, quota, text = outcomes[1]
        assert quota == "max_artifact_bytes_per_run"
        for part in ("this run", "10 bytes of artifacts", "6 are stored", "6 more", "resource_policy"):
            assert part in text
        assert (await host.outcomes(["upload", "d", 1]))[0][1] == "max_artifacts", (
            "another run, the same agent"
        )
        assert host.files() == 2, "nothing is left of what was refused"
        used = await host.used()
        assert (used["artifacts"], used["artifact_bytes"]) == (2, 10)
        assert await host.is_right()


async def test_an_upload_in_parts_is_refused_early_or_at_the_limit_and_leaves_nothing(tmp_path: Path) -> None:
    """The SDK sends 4 MiB at a time, and says at once how much comes."""
    mib = KIB * KIB
    async with hosting(tmp_path, max_artifact_bytes_per_run=9 * mib) as host:
        assert await host.codes(["upload", "x", 10 * mib]) == ["payload_too_large"]
        assert await host.orphans() == 0
        assert (await host.used())["artifact_bytes"] == 0
        assert await host.codes(["upload", "x", 9 * mib]) == ["ok"]
        assert (await host.used())["artifact_bytes"] == 9 * mib
        assert await host.is_right()


async def test_room_that_is_given_back_can_be_used_again(tmp_path: Path) -> None:
    quota = {"max_artifacts": 1, "max_storage_values": 1, "max_state_bytes": 103}
    async with hosting(tmp_path, **quota) as host:
        outcomes = await host.outcomes(
            *(["upload", "a", 1], ["upload", "b", 1], ["store", "k", "1"], ["store", "l", "1"]),
            *(["state", "s", 10], ["state", "s", 100], ["state", "t", 1]),
        )
        assert [one[0] for one in outcomes] == ["ok", "payload_too_large"] * 3 + ["payload_too_large"]
        assert await host.codes(["drop", "k"], ["store", "l", "1"]) == ["ok", "ok"]
        artifact_id = outcomes[0][1]
        assert (await host.served.client.delete(f"/v1/artifacts/{artifact_id}")).status_code == 204
        assert host.files() == 0
        assert await host.codes(["upload", "c", 1]) == ["ok"]
        gone = await host.served.client.delete("/v1/conversations/c")
        assert gone.status_code == 200, gone.text
        assert (await host.used())["state_bytes"] == 0
        assert await host.codes(["state", "t", 1], ["upload", "d", 1]) == ["ok", "ok"]
        assert await host.is_right()


async def test_a_result_that_does_not_fit_is_left_out_with_a_reason(tmp_path: Path) -> None:
    """A result has no answer: the journal and the audit log say what is not stored, and the run goes on."""
    async with hosting(tmp_path, max_artifact_bytes_per_run=10, max_state_bytes=110) as host:
        run = await host.run(
            *(["emit", "a", 6], ["emit", "b", 6], ["emit", "c", 4]),
            *(["update", "k", 1], ["update", "l", 1]),
        )
        assert await host.orphans() == 0
        assert host.files() == 2
        journal = (await host.served.client.get(f"/v1/runs/{run['run_id']}/journal")).json()["items"]
        made = [entry["data"] for entry in journal if entry["type"] == "artifact.created"]
        found = [await host.served.client.get(f"/v1/artifacts/{one['artifact_id']}") for one in made]
        assert [answer.status_code for answer in found] == [200, 404, 200]
        warned = [entry["data"]["reason"] for entry in journal if entry["kind"] == "warning"]
        assert len(warned) == 2, warned
        assert made[1]["artifact_id"] in warned[0]
        assert "10 bytes of artifacts" in warned[0]
        assert "'l' is not stored" in warned[1]
        facts = (await host.served.client.get("/v1/audit")).json()["items"]
        refused = {fact["action"]: fact["body"] for fact in facts if fact["action"].endswith(".refused")}
        assert refused["artifact.refused"]["quota"] == "max_artifact_bytes_per_run"
        assert refused["state.refused"]["quota"] == "max_state_bytes"
        assert await host.is_right()


async def test_a_result_of_a_tool_that_becomes_a_file_counts_too(tmp_path: Path) -> None:
    mib = KIB * KIB
    async with hosting(tmp_path, max_artifact_bytes_per_run=3 * mib) as host:
        told = await host.outcomes(*[["tool", "hoarder.tell", {"size": 2 * mib}]] * 2)
        assert [one[0] for one in told] == ["ok", "payload_too_large"], told
        assert told[1][1] == "max_artifact_bytes_per_run"
        assert host.files() == 1
        assert (await host.used())["artifacts"] == 1
        assert await host.is_right()


async def test_a_workspace_is_bounded_whoever_stores_and_no_other_one_is_touched(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        await host.agent(OTHER, max_artifact_bytes=None, max_artifact_bytes_per_run=None)
        await host.allow(OTHER, max_artifact_bytes=10 * KIB, max_artifacts=3)
        async with host.served.as_key(await host.served.key(OTHER)) as tenant:
            assert await host.codes(["upload", "a", 6 * KIB], workspace=OTHER) == ["ok"]
            outcomes = await host.outcomes(["upload", "b", 6 * KIB], workspace=OTHER)
            assert (outcomes[0][0], outcomes[0][1]) == ("payload_too_large", "max_artifact_bytes")
            assert "workspaces" in outcomes[0][2]
            refused = await tenant.post("/v1/artifacts", content=b"c" * 5 * KIB)
            assert refused.status_code == 413, refused.text
            assert refused.json()["type"] == "urn:hostler:problem:quota_exceeded"
            assert refused.json()["details"]["used"] == 6 * KIB
            stream = await tenant.post("/v1/artifacts", content=chunks(b"c" * KIB, 6))
            assert stream.status_code == 413, "no length was declared: refused where it is reached"
            assert host.files() == 1
            event = await tenant.post("/v1/events", json=with_file(b"d" * 5 * KIB))
            assert event.status_code == 413
            assert event.json()["details"]["quota"] == "max_artifact_bytes"
            assert host.files() == 1
            fits = with_file(b"d" * 4 * KIB)
            answers = [(await tenant.post("/v1/events", json=fits)).status_code for _ in range(2)]
            assert answers == [202, 202], "a repeated event is answered, although nothing more fits"
            assert (
                await tenant.post("/v1/events", json={**with_file(b"e"), "event_id": "x"})
            ).status_code == 413
        await host.agent(WORKSPACE)
        assert await host.codes(["upload", "a", 6 * KIB]) == ["ok"]
        assert await host.used(OTHER) == {
            "artifacts": 2,
            "artifact_bytes": 10 * KIB,
            "storage_values": 0,
            "storage_bytes": 0,
            "state_bytes": 0,
        }
        assert (await host.used())["artifact_bytes"] == 6 * KIB
        problems = (await host.served.client.get("/v1/problems")).json()["items"]
        (warning,) = [one for one in problems if one["kind"] == "workspace"]
        assert (warning["name"], warning["place"], warning["severity"]) == (
            OTHER,
            "quota.max_artifact_bytes",
            "warning",
        )
        await host.allow(OTHER, max_artifact_bytes=None)
        assert await host.codes(["upload", "b", 6 * KIB], workspace=OTHER) == ["ok"], "raised, at once"
        assert await host.is_right()


async def chunks(piece: bytes, count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield piece


def with_file(content: bytes) -> dict[str, Any]:
    """An event whose file is large enough to be put aside."""
    element = {"type": "file_base64", "file_base64": base64.b64encode(content).decode(), "file_name": "f"}
    return {
        "event_type": "message.received",
        "event_id": f"with {content[:1]!r} {len(content)}",
        "conversation_id": "elsewhere",
        "input": {"text": "[]", "contents": [element]},
        "agent": "hoarder",
    }


async def test_a_repeated_upload_is_answered_although_the_quota_is_full(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        await host.allow(max_artifact_bytes=5)
        key = {"idempotency-key": "once"}
        answers = [
            await host.served.client.post("/v1/artifacts", content=b"12345", headers=key) for _ in range(2)
        ]
        assert [answer.status_code for answer in answers] == [201, 201]
        assert answers[0].json() == answers[1].json()
        other = await host.served.client.post(
            "/v1/artifacts", content=b"6789", headers={"idempotency-key": "another"}
        )
        assert other.status_code == 413
        assert host.files() == 1


async def test_runs_at_once_never_pass_a_quota(tmp_path: Path) -> None:
    async with hosting(tmp_path, max_artifacts=7, max_storage_bytes=50) as host:

        async def one(n: int) -> list[str]:
            body = {
                "event_type": "message.received",
                "input": {"text": json.dumps([["upload", f"{n}", 3], ["store", f"k{n}", "x" * 10]])},
                "agent": "hoarder",
                "conversation_id": f"c{n}",
            }
            answer = await host.served.client.post("/v1/events", json=body, params={"wait": 60})
            return [outcome[0] for outcome in json.loads(answer.json()["output"]["text"])]

        outcomes = await asyncio.gather(*(one(n) for n in range(12)))
        assert [uploaded for uploaded, _ in outcomes].count("ok") == 7
        assert [stored for _, stored in outcomes].count("ok") == 5
        assert host.files() == 7
        assert await host.is_right()


@pytest.mark.parametrize("level", ["agent", "workspace"])
async def test_under_a_quota_that_was_lowered_things_shrink_and_go_and_nothing_is_added(
    tmp_path: Path, level: str
) -> None:
    low: dict[str, Any] = {
        "max_artifact_bytes": 5,
        "max_storage_bytes": 4,
        "max_storage_values": 1,
        "max_state_bytes": 103,
    }
    async with hosting(tmp_path) as host:
        stored = await host.outcomes(
            *(["upload", "a", 6], ["upload", "b", 3], ["store", "k", "12345"], ["store", "l", "12345"]),
            *(["state", "s", 12345], ["state", "t", 1]),
        )
        assert {one[0] for one in stored} == {"ok"}
        await (host.agent(**low) if level == "agent" else host.allow(**low))
        refused = await host.outcomes(
            *(["upload", "c", 1], ["store", "m", "1"], ["store", "k", "123456"], ["state", "u", 1]),
        )
        assert [one[0] for one in refused] == ["payload_too_large"] * 4
        assert "9 are stored" in refused[0][2]
        shrunk = await host.codes(["store", "k", "1"], ["state", "s", 1], ["drop", "l"], ["forget", "t"])
        assert shrunk == ["ok"] * 4
        items = (await host.served.client.get("/v1/quotas", params={"agent": "hoarder"})).json()["items"]
        (shown,) = [one for one in items if (one["level"], one["quantity"]) == (level, "artifact_bytes")]
        assert (shown["used"], shown["limit"]) == (9, 5)
        for artifact_id, code in ((stored[1][1], "payload_too_large"), (stored[0][1], "ok")):
            assert (await host.served.client.delete(f"/v1/artifacts/{artifact_id}")).status_code == 204
            assert await host.codes(["upload", "d", 5]) == [code]
        assert await host.is_right()


async def test_what_is_stored_counts_where_a_backup_is_restored(tmp_path: Path) -> None:
    async with hosting(tmp_path, max_artifact_bytes=5) as host:
        assert await host.codes(["upload", "a", 4], ["store", "k", "1"]) == ["ok", "ok"]
        command = CommandLine(tmp_path / "data", tmp_path)
        assert (await asyncio.to_thread(command, "backup", tmp_path / "copy")).status == 0
        assert await host.codes(["upload", "b", 1]) == ["ok"], "after the backup"
    restored = CommandLine(tmp_path / "restored", tmp_path)
    assert (await asyncio.to_thread(restored, "restore", tmp_path / "copy")).status == 0
    async with (
        asyncio.timeout(BOUND_SECONDS),
        serving(tmp_path / "restored", agent=False) as served,
    ):
        host = Host(served, tmp_path / "restored")
        assert (await host.used())["artifact_bytes"] == 4
        assert await host.is_right()
        assert await host.codes(["upload", "c", 2], ["upload", "d", 1]) == ["payload_too_large", "ok"]


async def test_the_use_of_an_agent_and_of_a_run_is_shown(tmp_path: Path) -> None:
    async with hosting(tmp_path, max_artifacts=50) as host:
        run = await host.run(["upload", "a", 3], ["state", "k", 1])
        assert (await host.used(run=run["run_id"]))["artifact_bytes"] == 3
        assert (await host.used(agent="hoarder"))["state_bytes"] == 102
        await host.agent(OTHER)
        async with host.served.as_key(await host.served.key(OTHER)) as tenant:
            assert (await tenant.get("/v1/quotas", params={"run": run["run_id"]})).status_code == 404
            assert (await tenant.get("/v1/quotas", params={"agent": "nobody"})).status_code == 404
            own = (await tenant.get("/v1/quotas")).json()["items"]
            assert {one["name"] for one in own} == {OTHER}
            assert {one["used"] for one in own} == {0}
        metrics = (await host.served.client.get("/metrics")).text
        assert 'hostler_stored{quantity="artifact_bytes"} 3.0' in metrics


@pytest.mark.parametrize("value", [-1, "many", 1.5])
async def test_a_wrong_quota_is_refused_with_its_place(tmp_path: Path, value: Any) -> None:
    async with hosting(tmp_path) as host:
        entry = {"name": OTHER, "quota": {"max_artifacts": value}}
        answer = await host.served.client.put(f"/v1/config/workspaces/{OTHER}", json=entry)
        assert answer.status_code == 400
        assert "quota.max_artifacts" in answer.text
        policy = {"quota": {"max_artifacts_per_run": value}}
        answer = await host.served.client.put(
            "/v1/agents/hoarder", json={"name": "hoarder", "runner": RUNNER, "resource_policy": policy}
        )
        assert answer.status_code == 400
        assert "resource_policy.quota.max_artifacts_per_run" in answer.text


def test_null_and_left_out_are_two_things() -> None:
    spec = {"name": "a", "runner": RUNNER, "resource_policy": {"quota": {"max_artifacts": None}}}
    quota = convert(spec, AgentSpec, "a").resource_policy.quota
    assert quota.max_artifacts is None
    assert quota.max_artifact_bytes is not None


async def test_commands_show_quotas_find_wrong_counters_and_mend_them(tmp_path: Path) -> None:
    async with hosting(tmp_path) as host:
        await host.run(["upload", "a", 3])
    data = tmp_path / "data"
    command = CommandLine(data, tmp_path)
    shown = await asyncio.to_thread(command, "quotas", "list")
    assert shown.status == 0, shown.err
    lines = [line.split("\t") for line in shown.out.splitlines()]
    assert ["workspace", WORKSPACE, "artifact bytes", "3", f"{64 * KIB**3:,}"] in lines
    assert ["agent", "hoarder", "artifacts", "1", "100,000"] in lines
    listed = await asyncio.to_thread(command, "quotas", "list", "--agent", "hoarder", "--json")
    assert {one["level"] for one in listed.json} == {"workspace", "agent"}
    database = open_database(str(data / "hostler.db"))
    text = "UPDATE quota_use SET artifact_bytes = 99"
    await database.write(lambda tx: tx.run(Query("t.q", text, text)))
    await database.close()
    doctor = await asyncio.to_thread(command, "doctor", "--json")
    (finding,) = [one for one in doctor.json if one["what"] == "quotas"]
    assert finding["verdict"] == "wrong"
    assert "hostler gc" in finding["text"]
    mended = await asyncio.to_thread(command, "gc", "--json")
    assert mended.json["counters_mended"] == 3
    again = await asyncio.to_thread(command, "doctor", "--json")
    assert not [one for one in again.json if one["what"] == "quotas"]
