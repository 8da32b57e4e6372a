"""What reaches people, by the agent's delivery policy: without streaming, only completed messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from hostler.domain.tapes import decode_tape, read_tape
from hostler.journal.export import tape_of
from hostler.journal.replayer import Cast, Replayer
from hostler.plugins.source import Folder
from support.stepping import STEPPER, WORKSPACE, Ended, Steps, stage, within

PLACE: dict[str, Any] = {"conversation_id": "c", "actor": {"actor_id": "u"}}
QUIET: dict[str, Any] = {"delivery_policy": {"enable_streaming": False}}
SET = ["call", "state.set", {"scope": "conversation", "key": "n", "value": 1}]


def in_order(ended: Ended) -> bool:
    return [result["sequence"] for result in ended.results] == list(range(1, len(ended.results) + 1))


async def test_without_streaming_deltas_are_neither_stored_nor_shown(tmp_path: Path) -> None:
    """More deltas than all credit there is: each is taken, and the runner never waits for it."""
    async with within(), stage(tmp_path) as host:
        await host.agent(**QUIET)
        steps: Steps = [["deltas", 3000], ["say", "a"], ["deltas", 70], ["say", "b"], ["show_context"]]
        ended = await host.run(steps, **PLACE)
        assert ended.types == ["message.completed"] * 3 + ["run.completed"]
        assert ended.said[:2] == ["a", "b"]
        assert in_order(ended)
        assert ended.entries("result", "message.delta") == []
        assert ended.warnings == []
        assert ended.told["delivery"]["supports_streaming"] is False


async def test_deltas_alone_are_no_output_without_streaming_either(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**QUIET)
        ended = await host.run([["deltas", 5]], **PLACE)
        assert (ended.types, ended.record.status_code) == (["run.failed"], "runner.no_output")


async def test_a_delta_that_is_wrong_is_warned_of_and_its_usage_counts(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**QUIET)
        chunk = {"chunk": {"role": "assistant", "content": "x"}}
        steps: Steps = [
            ["result", "message.delta", {"chunk": 5}],
            ["result", "message.delta", chunk, {"usage": {"input_tokens": 2}}],
            ["result", "message.delta", {"chunk": {"role": "assistant", "content": [{"type": "x"}]}}],
            ["say", "a"],
        ]
        ended = await host.run(steps, **PLACE)
        assert ended.types == ["message.completed", "run.completed"]
        assert len(ended.warnings) == 2
        assert ended.record.usage is not None
        assert ended.record.usage.input_tokens == 2


async def test_a_run_without_streaming_goes_on_from_its_journal(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(runner="resumable", **QUIET)
        used = {"usage": {"input_tokens": 1}}
        chunk = {"chunk": {"role": "assistant", "content": "x"}}
        steps: Steps = [
            ["deltas", 100],
            SET,
            ["say", "a"],
            ["result", "message.delta", chunk, used],
            ["deltas", 100],
            ["crash", 1],
            ["deltas", 100],
            SET,
            ["say", "b"],
        ]
        ended = await host.run(steps, **PLACE)
        assert (ended.record.status, ended.record.attempt) == ("completed", 2)
        assert ended.types == [
            "message.completed",
            "attempt.started",
            "message.completed",
            "run.completed",
        ]
        assert ended.said == ["a", "b"]
        assert ended.results[1]["data"]["discard_after"] == 1
        assert in_order(ended)
        assert len(ended.entries("call", "state.set")) == 2


async def test_a_recording_without_deltas_is_replayed_by_a_runner_that_makes_them(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**QUIET)
        ended = await host.run([["deltas", 3], SET, ["deltas", 3], ["say", "a"]], **PLACE)
        db, blobs = host.host.db, host.host.blobs
        recorded = await tape_of(db, blobs, WORKSPACE, ended.record.run_id, host_version="1")
    tape = read_tape(decode_tape(msgspec.json.encode(recorded)))
    async with Replayer.open() as replayer:
        replayed = await replayer.replay(tape, Cast(Folder(STEPPER), "default"))
    assert replayed.divergence is None, replayed.divergence


async def test_a_change_of_the_policy_concerns_later_runs(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        assert "message.delta" in (await host.run([["deltas", 1], ["say", "a"]], **PLACE)).types
        await host.agent(**QUIET)
        assert "message.delta" not in (await host.run([["deltas", 1], ["say", "a"]], **PLACE)).types
        await host.agent()
        assert "message.delta" in (await host.run([["deltas", 1], ["say", "a"]], **PLACE)).types
