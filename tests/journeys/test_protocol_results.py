"""What becomes of a runner's results: order, projections, warnings and endings, through a whole host."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hostler.storage.stores import audit
from hostler_protocol.content import Usage
from hostler_protocol.limits import MAX_RESULT_BYTES
from support.stepping import WORKSPACE, Stage, Steps, stage, within

PLACE: dict[str, Any] = {"conversation_id": "c", "actor": {"actor_id": "u"}}


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text, **more}}


async def history(host: Stage, **place: Any) -> list[dict[str, Any]]:
    """The conversation as the next run reads it, oldest first."""
    ended = await host.run([["call", "history.page", {"direction": "forward"}], ["tell"]], **(PLACE | place))
    items: list[dict[str, Any]] = ended.told[0]["items"]
    return items


ENDINGS: list[tuple[str, Steps, str, str | None, list[str]]] = [
    ("a message and an end", [["say", "hi"]], "completed", None, ["message.completed", "run.completed"]),
    ("nothing at all", [], "failed", "runner.no_output", ["run.failed"]),
    ("deltas alone", [["deltas", 2]], "failed", "runner.no_output", ["message.delta"] * 2 + ["run.failed"]),
    (
        "logs and telemetry alone",
        [
            ["result", "log", {"level": "info", "text": "x"}],
            ["result", "tool.call.started", {"tool_call_id": "1", "tool_name": "t", "parameters": {}}],
            ["result", "tool.call.completed", {"tool_call_id": "1", "tool_name": "t", "result": 1, "odd": 2}],
        ],
        "failed",
        "runner.no_output",
        ["log", "tool.call.started", "tool.call.completed", "run.failed"],
    ),
    (
        "state alone is output",
        [["result", "state.updated", {"scope": "actor", "key": "k", "value": 1}]],
        "completed",
        None,
        ["state.updated", "run.completed"],
    ),
    (
        "its own end",
        [
            [
                "result",
                "run.completed",
                {"finish_reason": "length", "message": {"role": "assistant", "content": "m"}},
            ]
        ],
        "completed",
        None,
        ["run.completed"],
    ),
    (
        "its own failure",
        [["result", "run.failed", {"code": "acme.broken", "error": "no", "retryable": True}]],
        "failed",
        "acme.broken",
        ["run.failed"],
    ),
    (
        "after the end nothing counts",
        [
            ["say", "a"],
            ["result", "run.completed", {}],
            ["say", "b"],
            ["result", "run.failed", {"code": "x", "error": "y"}],
        ],
        "completed",
        None,
        ["message.completed", "run.completed"],
    ),
    (
        "what only the host says",
        [["result", "attempt.started", {"attempt": 9, "cause": "x", "discard_after": 0}], ["say", "hi"]],
        "completed",
        None,
        ["message.completed", "run.completed"],
    ),
    (
        "a pause without the capability",
        [["result", "run.paused", {"pending": [], "state": {}}]],
        "failed",
        "runner.protocol",
        ["run.failed"],
    ),
    (
        "a result of the largest size",
        [["long", MAX_RESULT_BYTES - 500]],
        "completed",
        None,
        ["message.completed", "run.completed"],
    ),
]


@pytest.mark.parametrize(
    ("steps", "status", "code", "types"), [case[1:] for case in ENDINGS], ids=[c[0] for c in ENDINGS]
)
async def test_every_run_has_one_ending(
    tmp_path: Path, steps: Steps, status: str, code: str | None, types: list[str]
) -> None:
    async with within(), stage(tmp_path) as host:
        ended = await host.run(steps, **PLACE)
        assert (ended.record.status, ended.record.status_code) == (status, code)
        assert ended.types == types
        assert [result["sequence"] for result in ended.results] == list(range(1, len(types) + 1))
        assert {result["run_id"] for result in ended.results} == {ended.record.run_id}
        moves = [(e["data"]["from"], e["data"]["to"]) for e in ended.entries("lifecycle")]
        assert moves == [(None, "claimed"), ("claimed", "running"), ("running", status)]


async def test_a_result_too_large_fails_that_run_alone_and_is_never_cut(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        held = await host.start([["deltas", 1], ["until_cancelled"], ["say", "still here"]])
        await host.seen(held, "message.delta")
        large = await host.run([["say", "before"], ["long", MAX_RESULT_BYTES]])
        assert (large.record.status, large.record.status_code) == ("failed", "payload_too_large")
        assert large.said == ["before"]
        await host.cancel(held)
        assert (await host.ended(held)).said == ["still here"]


async def test_results_count_on_and_duplicates_are_dropped(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        ended = await host.run(
            [
                ["result", "message.completed", message("one"), {"sequence": 1}],
                ["result", "message.completed", message("again"), {"sequence": 1}],
                ["result", "message.completed", message("four"), {"sequence": 4}],
                ["result", "message.completed", message("late"), {"sequence": 3}],
            ]
        )
        assert ended.said[:2] == ["one", "four"]
        assert "again" not in ended.said
        assert [result["sequence"] for result in ended.results] == [*range(1, len(ended.results) + 1)]
        assert len(ended.warnings) >= 2


DROPPED: list[tuple[str, Any, str]] = [
    ("message.completed", {"message": {"role": "assistant"}}, "content"),
    ("message.completed", {"message": {"role": "robot", "content": "x"}}, "role"),
    ("message.completed", message("x", message_id="a\0b"), "NUL"),
    ("message.delta", {"chunk": 5}, "chunk"),
    ("state.updated", {"scope": "galaxy", "key": "k", "value": 1}, "scope"),
    ("state.updated", {"scope": "runner", "key": "k", "value": 1}, "runner"),
    ("state.updated", {"scope": "actor", "key": "", "value": 1}, "key"),
    ("state.updated", {"scope": "actor", "key": "a\0b", "value": 1}, "NUL"),
    ("state.updated", {"scope": "actor", "key": "k" * 256, "value": 1}, "key"),
    ("state.updated", {"scope": "actor", "key": "k", "value": "v" * 262_144}, "value"),
    ("state.updated", {"scope": "actor", "key": "k"}, "value"),
    ("log", {"level": "loud", "text": "x"}, "level"),
    ("log", {"level": "info", "text": "x" * 65_537}, "text"),
    ("artifact.created", {"artifact_type": "file"}, "content_base64"),
    ("artifact.created", {"artifact_type": "file", "artifact_id": "made-up"}, "artifact_id"),
    ("artifact.created", {"artifact_type": "file", "content_base64": "????"}, "content_base64"),
    ("artifact.created", {"artifact_type": "file", "content_base64": "eA==", "size_bytes": 7}, "size_bytes"),
    ("artifact.created", {"artifact_type": "file", "content_base64": "eA==", "sha256": "0" * 64}, "sha256"),
    ("run.completed", {"finish_reason": 5}, "finish_reason"),
    ("run.failed", {"code": "x"}, "error"),
    ("attempt.started", {"attempt": 2, "cause": "x", "discard_after": 0}, "host"),
    ("message.completed", {**message("x"), "extra": 1}, "extra"),
]


async def test_an_invalid_payload_is_dropped_with_field_and_reason(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        for kind, data, named in DROPPED:
            # a valid end follows, so that the run is judged by it
            ended = await host.run(
                [["result", kind, data], ["say", "fine"], ["result", "run.completed", {}]], **PLACE
            )
            assert ended.types == ["message.completed", "run.completed"], (kind, ended.types)
            assert len(ended.warnings) == 1, (kind, ended.warnings)
            assert kind in ended.warnings[0]
            assert named in ended.warnings[0], (kind, ended.warnings)


TELEMETRY: list[Any] = [
    {"tool_name": "t", "parameters": {"a": 1}},
    {"tool_call_id": 7, "tool_name": ["t"], "result": 1},
    {},
]


async def test_tool_telemetry_is_kept_whatever_it_leaves_out(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        kinds = ["tool.call.started", "tool.call.completed"]
        steps = [["result", kind, data] for kind in kinds for data in TELEMETRY]
        ended = await host.run([*steps, ["say", "done"]], **PLACE)
        assert ended.types[:-2] == [kind for kind in kinds for _ in TELEMETRY]
        assert [result["data"] for result in ended.results[:-2]] == TELEMETRY * 2
        assert ended.warnings == []


async def test_what_is_wrong_with_usage_is_warned_of_and_the_result_kept(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        usage = {"input_tokens": 3, "output_tokens": -4, "dollars": 2}
        largest = {"total_tokens": 2**53 - 1}
        ended = await host.run(
            [
                ["result", "message.completed", message("a"), {"usage": usage}],
                ["result", "message.completed", message("b"), {"usage": largest}],
                ["result", "run.completed", {}, {"usage": largest | {"input_tokens": 1}}],
            ],
            **PLACE,
        )
        assert ended.types == ["message.completed", "message.completed", "run.completed"]
        assert ended.results[0]["usage"] == {"input_tokens": 3}
        (warning,) = ended.warnings
        assert "usage.output_tokens" in warning
        assert "usage.dollars" in warning
        assert ended.record.usage == Usage(input_tokens=4, total_tokens=2**53 - 1)


async def test_an_unknown_type_is_kept_live_and_in_the_journal(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        data = {"mood": "good", "scale": [1, 2]}
        ended = await host.run([["result", "acme.mood", data], ["result", "acme.mood", data]])
        assert ended.types == ["acme.mood", "acme.mood", "run.completed"]
        assert ended.results[0]["data"] == data
        assert ended.entries("result", "acme.mood")[0]["data"]["data"] == data
        assert ["acme.mood" in warning for warning in ended.warnings] == [True]


async def test_results_for_a_run_of_nobody_or_of_another_touch_nothing(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        victim = await host.start([["deltas", 1], ["until_cancelled"], ["say", "mine"]])
        await host.seen(victim, "message.delta")
        over = await host.run([["say", "over"]])
        thief = await host.run(
            [
                ["result", "message.completed", message("forged"), {"run_id": over.record.run_id}],
                ["result", "message.completed", message("forged"), {"run_id": "nowhere"}],
                ["say", "own"],
            ]
        )
        assert thief.said[-1] == "own"
        await host.cancel(victim)
        assert (await host.ended(victim)).said == ["mine"]
        assert (await host.ended(over.record.run_id)).said == ["over"]


async def test_half_a_character_costs_nobody_the_connection(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        other = await host.start([["deltas", 1], ["until_cancelled"], ["say", "still here"]])
        await host.seen(other, "message.delta")
        assert (await host.run([["half"], ["say", "after"]], **PLACE)).said == ["half \ufffd", "after"]
        await host.cancel(other)
        assert (await host.ended(other)).said == ["still here"]


@pytest.mark.parametrize(("number", "word"), [("nan", "NaN"), ("inf", "Infinity")])
async def test_a_number_that_json_does_not_have_ends_the_run_and_is_named(
    tmp_path: Path, number: str, word: str
) -> None:
    """A plugin without our SDK may write it: many JSON libraries do."""
    async with within(), stage(tmp_path) as host:
        ended = await host.run([["number", number], ["say", "never"]], **PLACE)
        assert ended.record.status == "failed"
        assert f"JSON has no {word}; write null" in ended.last["error"], ended.last
        assert (await host.run([["say", "again"]], **PLACE)).said == ["again"]


async def test_every_completed_message_is_in_the_transcript_and_the_one_of_the_end_once(
    tmp_path: Path,
) -> None:
    async with within(), stage(tmp_path) as host:
        first = await host.run(
            [
                ["result", "message.completed", message("a")],
                ["deltas", 2],
                ["result", "message.completed", message("b", message_id="own")],
                ["result", "run.completed", {"message": {"role": "assistant", "content": "c"}}],
            ],
            **PLACE,
        )
        ids = [r["data"].get("message", {}).get("message_id") for r in first.results]
        assert ids == ["m1", None, None, "own", "m2"]
        await host.run(
            [
                ["result", "message.completed", message("d", message_id="x")],
                [
                    "result",
                    "run.completed",
                    {"message": {"role": "assistant", "content": "d", "message_id": "x"}},
                ],
            ],
            **PLACE,
        )
        items = await history(host)
        assert [item["content"] for item in items if item["role"] == "assistant"] == ["a", "b", "c", "d"]
        assert [item["role"] for item in items].count("user") == 2
        assert first.record.output is not None
        assert [m.content for m in first.record.output.messages] == ["a", "b", "c"]


async def test_an_action_without_an_executor_is_recorded_and_refused(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        ended = await host.run(
            [
                ["result", "action.requested", {"action": "message.delete", "target": {"id": 1}}],
                ["say", "x"],
            ]
        )
        assert ended.types == ["action.requested", "message.completed", "run.completed"]
        assert ["message.delete" in warning for warning in ended.warnings] == [True]
        facts = await host.host.db.read(lambda tx: audit.page(tx, WORKSPACE, limit=100))
        found = [fact for fact in facts if fact.target == ended.record.run_id]
        assert [fact.action for fact in found] == ["action.refused"]


async def test_usage_of_results_is_added_up_and_what_nobody_said_stays_unknown(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        known = {"usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}}
        ended = await host.run(
            [
                ["result", "message.completed", message("a"), known],
                [
                    "result",
                    "run.completed",
                    {},
                    {
                        "usage": {
                            "input_tokens": 1,
                            "output_tokens": 1,
                            "total_tokens": 2,
                            "cached_tokens": 1,
                        }
                    },
                ],
            ]
        )
        usage = ended.record.usage
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (4, 5, 9)
        assert (usage.cached_tokens, usage.reasoning_tokens) == (1, None)
        assert ended.results[0]["usage"] == known["usage"]
        assert (await host.run([["say", "x"]])).record.usage is None


async def test_large_results_are_kept_whole(tmp_path: Path) -> None:
    """Over 64 KiB, live and from the journal after a restart."""
    text = "words and 言葉 " * 20_000
    async with within():
        async with stage(tmp_path) as host:
            first = await host.run([["say", text]], **PLACE)
            assert first.said == [text]
        async with stage(tmp_path) as host:
            again = await host.ended(first.record.run_id)
            assert again.results == first.results
            items = await history(host)
            assert items[1]["content"] == text[:4000]
            assert items[1]["content_json"]["content"] == text


async def test_deltas_reach_watchers_while_the_run_goes_on(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        run_id = await host.start([["deltas", 200], ["until_cancelled"], ["say", "end"]])
        await host.seen(run_id, "message.delta", 200)
        assert (await host.host.runs.record(WORKSPACE, run_id)).status == "running"
        late = asyncio.create_task(host.ended(run_id))
        await host.cancel(run_id)
        ended = await late
        assert ended.types == ["message.delta"] * 200 + ["message.completed", "run.failed"]
