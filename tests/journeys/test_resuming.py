"""Going on from the journal after a crash: nothing is done twice, told twice, or paid twice."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.model_entries import ModelEntry
from hostler.storage.stores import runs
from support.gates import Gate
from support.model_server import ModelServer
from support.stepping import Ended, Steps, stage

PLACE = {"conversation_id": "c1", "actor": {"actor_type": "user", "actor_id": "ada"}}
SET = ["call", "state.set", {"scope": "conversation", "key": "n", "value": 1}]
READ = ["call", "state.get", {"scope": "conversation", "key": "n"}]


def calls(ended: Ended, method: str, kind: str = "call") -> list[dict[str, Any]]:
    return [entry["data"] for entry in ended.entries(kind, method)]


def resumed(ended: Ended) -> list[dict[str, Any]]:
    """What is told of new attempts."""
    return [r["data"] for r in ended.results if r["type"] == "attempt.started"]


def shown(ended: Ended) -> list[str]:
    """What a client has at the end that drops what was superseded: texts of deltas and messages."""
    kept: list[tuple[int, str]] = []
    for result in ended.results:
        data = result["data"]
        match result["type"]:
            case "attempt.started":
                kept = [(n, text) for n, text in kept if n <= data["discard_after"]]
            case "message.delta":
                kept.append((result["sequence"], data["chunk"]["content"]))
            case "message.completed":
                kept.append((result["sequence"], "=" + data["message"]["content"]))
    return [text for _, text in kept]


async def on_stage(tmp_path: Path, steps: Steps, stall_seconds: float = 60, **agent: Any) -> Ended:
    async with stage(tmp_path, stall_seconds=stall_seconds) as host:
        await host.agent(runner="resumable", **agent)
        return await host.run(steps, **PLACE)


async def test_an_effect_is_done_once_and_its_answer_is_the_same(tmp_path: Path) -> None:
    steps: Steps = [SET, ["deltas", 2, "a"], READ, ["crash", 1], SET, ["tell"]]
    ended = await on_stage(tmp_path, steps)
    assert (ended.record.status, ended.record.attempt) == ("completed", 2)
    assert [answer.get("version") for answer in ended.told] == [1, 1, 2]
    assert [call["nth"] for call in calls(ended, "state.set")] == [1, 2]
    assert len(calls(ended, "state.get")) == 1
    assert resumed(ended) == [{"attempt": 2, "cause": resumed(ended)[0]["cause"], "discard_after": 2}]
    assert "resumes from its journal" in resumed(ended)[0]["cause"]
    assert ended.types[:3] == ["message.delta", "message.delta", "attempt.started"]
    assert [entry["data"]["frontier"] for entry in ended.entries("attempt", "resumed")] == [2]
    assert [r["sequence"] for r in ended.results] == list(range(1, len(ended.results) + 1))


async def test_deltas_that_are_made_again_are_not_told_again(tmp_path: Path) -> None:
    steps: Steps = [
        ["deltas", 3, "a"],
        SET,
        ["deltas", 3, "b"],
        ["crash", 1],
        ["deltas", 2, "c"],
        ["say", "x"],
    ]
    ended = await on_stage(tmp_path, steps)
    assert shown(ended) == ["a"] * 3 + ["b"] * 3 + ["c"] * 2 + ["=x"]
    assert len(ended.results) == 3 + 3 + 1 + 2 + 1 + 1


async def test_what_came_after_a_call_without_an_outcome_is_superseded(tmp_path: Path) -> None:
    # a call that the first attempt never made stands for one whose answer it did not live to see
    steps: Steps = {
        "1": [["deltas", 2, "a"], ["say", "kept"], ["deltas", 4, "old"], ["crash"]],
        "2": [["deltas", 2, "a"], ["say", "kept"], READ, ["deltas", 1, "new"], ["say", "end"]],
    }
    ended = await on_stage(tmp_path, steps)
    assert ended.record.status == "completed"
    assert shown(ended) == ["a", "a", "=kept", "new", "=end"]
    assert resumed(ended)[0]["discard_after"] == 3
    assert ended.said == ["kept", "end"]


@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_crash_after_crash_it_comes_to_its_end(tmp_path: Path, lost: int) -> None:
    steps: list[Any] = []
    for attempt in range(1, lost + 1):
        steps += [SET, ["deltas", 1, str(attempt)], ["say", f"m{attempt}"], ["crash", attempt]]
    ended = await on_stage(tmp_path, [*steps, ["tell"]], recovery={"max_attempts": 5})
    assert (ended.record.status, ended.record.attempt) == ("completed", lost + 1)
    assert [answer["version"] for answer in ended.told] == list(range(1, lost + 1))
    assert ended.said[:-1] == [f"m{n}" for n in range(1, lost + 1)]
    assert [start["attempt"] for start in resumed(ended)] == list(range(2, lost + 2))


async def test_calls_made_at_once_are_answered_as_they_were(tmp_path: Path) -> None:
    key = {"scope": "conversation"}
    branches = [
        [["call", "state.set", {**key, "key": f"k{n}", "value": n}], ["deltas", 1, str(n)]] for n in range(8)
    ]
    ended = await on_stage(tmp_path, [["together", *branches], ["crash", 1], READ, ["say", "end"]])
    assert ended.record.status == "completed", ended.last
    assert len(calls(ended, "state.set")) == 8
    assert sorted(shown(ended)[:8]) == [str(n) for n in range(8)]


async def test_calls_at_once_go_on_although_one_of_them_had_not_been_begun(tmp_path: Path) -> None:
    # the first attempt never came to the call that the second one makes first
    one = ["call", "state.set", {"scope": "conversation", "key": "one", "value": 1}]
    steps: Steps = {
        "1": [SET, ["deltas", 1, "a"], ["crash"]],
        "2": [["together", [one, ["deltas", 1, "b"]], [SET, ["deltas", 1, "a"]]], ["say", "end"]],
    }
    ended = await on_stage(tmp_path, steps)
    assert ended.record.status == "completed", ended.last
    assert len(calls(ended, "state.set")) == 2
    assert sorted(shown(ended)) == ["=end", "a", "b"]


async def test_results_of_branches_may_come_in_another_order(tmp_path: Path) -> None:
    steps: Steps = {
        "1": [["deltas", 1, "a"], ["deltas", 1, "b"], ["say", "c"], ["say", "d"], ["crash"]],
        "2": [["deltas", 1, "b"], ["deltas", 1, "a"], ["say", "d"], ["say", "c"], ["say", "end"]],
    }
    ended = await on_stage(tmp_path, steps)
    assert ended.record.status == "completed", ended.last
    assert sorted(shown(ended)) == ["=c", "=d", "=end", "a", "b"]
    assert ended.said == ["c", "d", "end"]


async def test_a_model_is_not_paid_twice(tmp_path: Path) -> None:
    async with ModelServer() as server, stage(tmp_path) as host:
        await host.models(ModelEntry(id="m", base_url=server.base_url, model="x"))
        server.always("ok")
        await host.agent(runner="resumable", config={"model": "m"})
        ask = {"model_id": "m", "messages": [{"role": "user", "content": "hi"}]}
        steps: Steps = [
            ["call", "model.invoke", ask],
            ["call", "model.stream", ask],
            ["crash", 1],
            ["call", "model.invoke", ask],
            ["tell"],
        ]
        ended = await host.run(steps, **PLACE)
        assert ended.record.status == "completed", ended.last
        assert len(server.requests) == 3
        assert [call["nth"] for call in calls(ended, "model.invoke")] == [1, 2]
        replies = [entry["data"]["reply"] for entry in ended.entries("call")]
        used = [reply["usage"]["total_tokens"] for reply in replies]
        assert ended.record.usage is not None
        assert ended.record.usage.total_tokens == sum(used)


DIVERGING: list[tuple[str, list[Any], list[Any], str]] = [
    ("another text", [["say", "a"]], [["say", "b"]], "not what the runner sent before as result 1"),
    ("another delta", [["deltas", 2, "a"]], [["deltas", 1, "a"], ["deltas", 1, "b"]], "result 2"),
    ("an effect left out", [SET], [["say", "b"]], "state.set"),
    (
        "another effect",
        [SET],
        [["call", "state.set", {"scope": "actor", "key": "n", "value": 1}]],
        "state.set",
    ),
    ("an early end", [["deltas", 1, "a"], ["say", "a"]], [["deltas", 1, "a"]], "went on to result 2"),
]


@pytest.mark.parametrize("case", DIVERGING, ids=[case[0] for case in DIVERGING])
async def test_a_runner_that_does_something_else_is_told_apart(tmp_path: Path, case: Any) -> None:
    _, first, second, named = case
    steps: Steps = {"1": [*first, ["crash"]], "2": second}
    ended = await on_stage(tmp_path, steps, stall_seconds=0.5)
    assert (ended.record.status, ended.record.status_code) == ("failed", "replay.diverged")
    assert named in ended.last["error"]
    assert len(calls(ended, "state.set")) == sum(step is SET for step in first)


async def test_a_run_whose_policy_is_restart_begins_again_where_it_diverges_after_a_stop(
    tmp_path: Path,
) -> None:
    steps: Steps = {"1": [["say", "a"], ["hold"]], "2": [["say", "b"]]}
    async with stage(tmp_path) as host:
        await host.agent(runner="resumable")
        run_id = await host.start(steps, **PLACE)
        await host.seen(run_id, "message.completed")
    async with stage(tmp_path, agent=False) as host:
        ended = await host.ended(run_id)
    assert ended.record.status_code == "replay.diverged"


async def test_a_host_that_stops_hands_the_run_over_and_the_next_one_goes_on(tmp_path: Path) -> None:
    steps: Steps = [SET, ["deltas", 2, "a"], ["at", 1, [["hold"]]], ["say", "done"], ["tell"]]
    async with stage(tmp_path) as host:
        await host.agent(runner="resumable")
        run_id = await host.start(steps, **PLACE)
        await host.seen(run_id, "message.delta", 2)
    async with stage(tmp_path, agent=False) as host:
        ended = await host.ended(run_id)
    assert (ended.record.status, ended.record.attempt) == ("completed", 2)
    assert shown(ended)[:3] == ["a", "a", "=done"]
    assert [answer["version"] for answer in ended.told] == [1]


async def test_the_context_is_the_recorded_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setenv("RESUME_TOKEN", "s3cret")
    steps: Steps = [
        ["call", "state.set", {"scope": "actor", "key": "k", "value": "later"}],
        ["at", 1, [["hold"]]],
        ["at", 2, [["show_context"]]],
    ]
    async with stage(tmp_path) as host:
        await host.agent(runner="resumable", config={"token": "env:RESUME_TOKEN"})
        run_id = await host.start(steps, **PLACE)
        while (await host.entries(run_id))[-1]["type"] != "state.set":
            await asyncio.sleep(0.01)
    async with stage(tmp_path, agent=False) as host:
        ended = await host.ended(run_id)
    first = next(e["data"] for e in ended.entries("context"))
    context = ended.told
    assert context["attempt"] == 2
    assert context["state"]["actor"] == {}, "the snapshot is that of the run's beginning"
    assert context["config"]["token"] == "s3cret"
    assert "s3cret" not in json.dumps(ended.entries("context"))
    for name in ("input", "event", "resources", "context"):
        assert context[name] == first[name]
    assert len(ended.entries("context")) == 1


async def test_large_answers_are_read_again_from_where_they_lie(tmp_path: Path) -> None:
    large = "x" * 200_000
    steps: Steps = [
        ["call", "state.set", {"scope": "conversation", "key": "l", "value": large}],
        ["call", "state.get", {"scope": "conversation", "key": "l"}],
        ["crash", 1],
        ["call", "state.get", {"scope": "conversation", "key": "n"}],
        ["say", "$1.value"],
    ]
    ended = await on_stage(tmp_path, steps)
    assert ended.record.status == "completed", ended.last
    assert ended.said == [large]


async def test_artifacts_made_again_are_the_same(tmp_path: Path) -> None:
    made = {"artifact_type": "file", "name": "a.txt", "content_base64": "aGk="}
    part = {"part": 0, "content_base64": "aG8=", "last": True, "name": "b.txt"}
    steps: Steps = [
        ["result", "artifact.created", made],
        ["call", "artifact.upload", part],
        ["result", "artifact.created", {"artifact_type": "file", "artifact_id": "$0.artifact_id"}],
        ["crash", 1],
        ["result", "artifact.created", made],
        ["say", "end"],
    ]
    ended = await on_stage(tmp_path, steps)
    assert ended.record.status == "completed", ended.last
    ids = [r["data"]["artifact_id"] for r in ended.results if r["type"] == "artifact.created"]
    assert len(ids) == len(set(ids)) == 3
    assert len(calls(ended, "artifact.upload")) == 1


async def test_a_child_run_is_opened_once_and_waited_for_again(tmp_path: Path) -> None:
    async with stage(tmp_path) as host:
        await host.agent(runner="resumable", resource_policy={"allowed_agents": ["child"]})
        await host.agent("child", runner="resumable", event_types=["api.invoked"])
        inner = json.dumps([["crash", 1], ["say", "from the child"]])  # both are of one process
        create = {"agent": "child", "input": {"text": inner}, "wait": 60}
        ended = await host.run([["call", "run.create", create], ["tell"]], **PLACE)
        assert (ended.record.status, ended.record.attempt) == ("completed", 2), ended.last
        assert ended.told[0]["output"]["text"] == "from the child"
        assert len(calls(ended, "run.create", "intent")) == len(calls(ended, "run.create")) == 1
        runs_of = await host.host.db.read(lambda tx: runs.page(tx, "default"))
        assert len(runs_of) == 2


async def test_a_call_that_the_runner_gave_up_is_given_up_again(tmp_path: Path) -> None:
    async with ModelServer() as server, stage(tmp_path) as host:
        server.say(["one ", "two ", Gate()])
        await host.models(ModelEntry(id="m", base_url=server.base_url, model="x"))
        await host.agent(runner="resumable", config={"model": "m"})
        ask = {"model_id": "m", "messages": [{"role": "user", "content": "hi"}]}
        steps: Steps = [["give_up", "model.stream", ask, 2], SET, ["crash", 1], ["tell"]]
        ended = await host.run(steps, **PLACE)
        assert (ended.record.status, ended.record.attempt) == ("completed", 2), ended.last
        assert ended.said[0] == "2 pieces"
        assert len(server.requests) == 1
        (given_up,) = calls(ended, "model.stream")
        assert given_up["given_up"]
        assert given_up["chunks"] == ["one ", "two "]
