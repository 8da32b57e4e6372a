"""Results of tools over the limit: artifacts, the same for everyone who looks later."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

from hostler.calls.tool_artifacts import MAX_ARTIFACTS_PER_CALL, MAX_KEPT_RESULT_BYTES, CallArtifacts
from hostler.host.config import ConfigFile
from hostler.host.host import Host
from hostler.storage.stores import artifacts
from hostler_protocol.errors import PayloadTooLargeError
from hostler_protocol.limits import MAX_RESULT_BYTES
from support.stepping import WORKSPACE, Stage, stage, within
from support.trust import plugin_entry

TOOLBOX = Path(__file__).parents[2] / "support" / "plugins" / "toolbox"
POLICY = {"allowed_tool_names": ["toolbox.*"]}
SIZE = MAX_RESULT_BYTES + 1


def calling(tool: str, **parameters: Any) -> list[Any]:
    return ["call", "tool.call", {"tool_name": f"toolbox.{tool}", "parameters": parameters}]


def announcing(answer: str) -> list[Any]:
    data = {"artifact_type": "t", "artifact_id": f"{answer}.result.artifact_id"}
    return ["result", "artifact.created", data]


async def prepared(made: Stage, runner: str = "default") -> None:
    await made.host.apply(ConfigFile(plugins=[plugin_entry(TOOLBOX)]), actor="test")
    await made.agent(runner=runner, resource_policy=POLICY)


READ = ["call", "artifact.read", {"artifact_id": "$0.result.artifact_id", "offset": SIZE - 10}]


async def test_a_large_result_is_an_artifact_with_its_beginning_and_its_id(tmp_path: Path) -> None:
    async with within(), stage(tmp_path, agent=False) as made:
        await prepared(made)
        ended = await made.run([calling("large", size=SIZE), READ, ["tell"]], conversation_id="c")
        kept, read = ended.told[0]["result"], ended.told[1]
        assert {name: value for name, value in kept.items() if name not in ("artifact_id", "preview")} == {
            "type": "artifact",
            "size_bytes": SIZE,
            "mime_type": "text/plain; charset=utf-8",
            "file_name": "toolbox.large.txt",
        }
        assert kept["preview"] == "x" * len(kept["preview"])
        assert 1_000 < len(kept["preview"]) < 10_000
        assert base64.b64decode(read["content_base64"]) == b"x" * 10
        (entry,) = ended.entries("call", "tool.call")
        assert entry["data"]["reply"]["result"] == kept

        stored = await _artifact(made.host, kept["artifact_id"])
        assert stored is not None
        assert stored.sha256 == hashlib.sha256(b"x" * SIZE).hexdigest()
        assert (stored.source, stored.run_id) == ("tool", ended.record.run_id)
        assert stored.metadata["tool_name"] == "toolbox.large"

        # a later run of the conversation reads it, one of another conversation does not
        ask: list[Any] = [["call", "artifact.metadata", {"artifact_id": kept["artifact_id"]}], ["tell"]]
        assert (await made.run(ask, conversation_id="c")).told[0]["size_bytes"] == SIZE
        assert (await made.run(ask, conversation_id="d")).told[0]["error"]["code"] == "not_found"


async def test_a_large_result_of_any_class_and_shape_is_kept(tmp_path: Path) -> None:
    async with within(), stage(tmp_path, agent=False) as made:
        await prepared(made)
        half = ["ä" * 30_000]  # as much as a call's parameters hold; a pure tool says it again
        ended = await made.run(
            [
                calling("echo", value=half),
                calling("repeated", value=half[0], times=20),
                ["call", "artifact.read", {"artifact_id": "$1.result.artifact_id", "limit": 4}],
                [
                    "result",
                    "artifact.created",
                    {"artifact_type": "big", "artifact_id": "$1.result.artifact_id"},
                ],
                ["tell"],
            ]
        )
        assert ended.told[0]["result"] == half
        kept = ended.told[1]["result"]
        assert kept["mime_type"] == "application/json"
        assert kept["preview"].startswith('["ä')
        assert base64.b64decode(ended.told[2]["content_base64"]) == '["ä'.encode()
        assert "artifact.created" in ended.types
        assert ended.warnings == []


async def test_a_result_at_the_limit_stays_as_it_is(tmp_path: Path) -> None:
    async with within(), stage(tmp_path, agent=False) as made:
        await prepared(made)
        ended = await made.run([calling("large", size=MAX_RESULT_BYTES - 2), ["say", "done"]])
        assert ended.said == ["done"]
        assert (
            await made.host.db.read(lambda tx: artifacts.uploaded_by(tx, WORKSPACE, ended.record.run_id))
            == []
        )


@pytest.mark.parametrize("die", ["crash", "fork"])
async def test_whoever_goes_on_from_the_journal_sees_the_same_artifact(tmp_path: Path, die: str) -> None:
    async with within(), stage(tmp_path, agent=False) as made:
        await prepared(made, "resumable")
        crash = [["crash", 1]] if die == "crash" else []
        steps = [calling("large", size=SIZE), *crash, READ, announcing("$0"), ["tell"]]
        ended = await made.run(steps, conversation_id="c")
        kept = ended.told[0]["result"]
        assert ended.warnings == []
        if die == "crash":
            assert ended.record.attempt == 2
            assert ended.told[1]["length"] == 10
        else:
            again = await made.host.reruns.fork(WORKSPACE, ended.record.run_id, actor="test")
            forked = await made.ended(again)
            assert forked.told[0]["result"] == kept
            assert forked.told[1]["length"] == 10
        made_by_tools = [
            one.artifact_id
            for one in await made.host.db.read(
                lambda tx: artifacts.uploaded_by(tx, WORKSPACE, ended.record.run_id)
            )
        ]
        assert made_by_tools == [kept["artifact_id"]]


async def test_a_call_makes_no_more_than_it_may() -> None:
    nowhere: Any = None  # nothing is stored of either
    made = CallArtifacts(nowhere, "shop.list", "call")
    with pytest.raises(PayloadTooLargeError, match=r"shop\.list.*67,108,864"):
        await made.within_limit("x" * MAX_KEPT_RESULT_BYTES)
    made.made.extend([nowhere] * MAX_ARTIFACTS_PER_CALL)
    with pytest.raises(PayloadTooLargeError, match=f"at most {MAX_ARTIFACTS_PER_CALL}"):
        await made.keep(b"one more")


async def _artifact(host: Host, artifact_id: str) -> Any:
    return await host.db.read(lambda tx: artifacts.find(tx, WORKSPACE, artifact_id))
