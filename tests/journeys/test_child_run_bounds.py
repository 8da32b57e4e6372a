"""What a run reaches through a child run: what it may reach itself, and the agents that its policy names."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.storage.port import Tx
from hostler.storage.stores import events, runs
from hostler_protocol.content import ArtifactElement
from support.stepping import WORKSPACE, Ended, Latch, Stage, Steps, stage, within

pytestmark = pytest.mark.gate("child-runs")

ADA: dict[str, Any] = {"conversation_id": "ada-talk", "actor": {"actor_id": "ada", "actor_name": "Ada"}}
BOB: dict[str, Any] = {"conversation_id": "bob-talk", "actor": {"actor_id": "bob"}}
SECRET = "bob's payslip"


def child(steps: Steps, agent: str = "child", given: dict[str, Any] | None = None, **more: Any) -> list[Any]:
    text = {"text": json.dumps(steps)}
    return ["call", "run.create", {"agent": agent, "input": {**text, **(given or {})}, "wait": 30, **more}]


def may(*agents: str, **more: Any) -> dict[str, Any]:
    return {"resource_policy": {"allowed_agents": list(agents), **more}}


def codes(ended: Ended) -> list[str]:
    return [answer.get("error", {}).get("code", "ok") for answer in ended.told]


def errors(ended: Ended) -> list[str]:
    return [answer["error"]["message"] for answer in ended.told if "error" in answer]


async def family(host: Stage, parent: Ended | str) -> list[dict[str, Any]]:
    """The child runs of a run, in their order."""
    run_id = parent if isinstance(parent, str) else parent.record.run_id

    def read(tx: Tx) -> list[dict[str, Any]]:
        found = runs.page(tx, WORKSPACE, limit=1_000)
        assert len(found) < 1_000
        return [msgspec.structs.asdict(run) for run in reversed(found) if run.parent_run_id == run_id]

    return await host.host.db.read(read)


def below(ended: Ended, number: int = 0) -> Any:
    """What the child of an answer said last, as JSON."""
    return json.loads(ended.told[number]["output"]["messages"][-1]["content"])


# -- which agents ---------------------------------------------------------------------------------


async def test_without_allowed_agents_no_run_is_created(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent("child")
        policies: list[dict[str, Any]] = [{}, {"allowed_agents": None}, {"allowed_agents": []}]
        for policy in policies:
            await host.agent(resource_policy=policy)
            ended = await host.run([child([["say", "x"]]), child([], agent="main"), ["tell"]], **ADA)
            assert codes(ended) == ["unauthorized"] * 2
            assert "resource_policy.allowed_agents" in errors(ended)[0]
            assert [entry["type"] for entry in ended.entries("refusal")] == ["run.create"] * 2
            assert await family(host, ended) == []


async def test_only_named_agents_are_created_and_others_are_as_unknown_ones(
    tmp_path: Path,
) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**may("child", "team.*"))
        for name in ("child", "team.a", "team", "rich"):
            await host.agent(name)
        good = await host.run([child([], agent="child"), child([], agent="team.a"), ["tell"]], **ADA)
        assert codes(good) == ["ok", "ok"]
        bad = await host.run(
            [child([], agent=name) for name in ("rich", "none", "team", "team.none", "*", "")] + [["tell"]],
            **ADA,
        )
        assert codes(bad) == ["not_found"] * 6
        rich, none, *_ = errors(bad)
        assert rich.replace("'rich'", "") == none.replace("'none'", "")
        assert "allowed_agents" in rich
        assert "'child'" in rich
        assert "'team.*'" in rich
        assert await family(host, bad) == []


async def test_what_a_run_began_with_holds_until_its_end(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host, Latch(tmp_path) as latch:
        await host.agent("child")
        await host.agent("late")
        await host.agent(runner="resumable", **may("child"))
        steps: Steps = [child([["say", "x"]]), ["gate", latch.path], ["crash", 1]]
        run = await host.start([*steps, child([], agent="late"), child([["say", "y"]]), ["tell"]], **ADA)
        await latch.reached()
        await host.agent(runner="resumable", **may("late"))
        latch.open()
        ended = await host.ended(run)
        assert ended.record.attempt == 2
        assert codes(ended) == ["ok", "not_found", "ok"]
        assert len(await family(host, ended)) == 2, "the recorded one was not created again"


async def test_a_child_creates_no_run_that_the_run_above_it_may_not_create(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**may("middle"))
        await host.agent("wide", **may("middle", "last"))
        await host.agent("middle", **may("last", "other"))
        await host.agent("last")
        await host.agent("other")
        nested = child([child([], agent="last"), child([], agent="other"), ["tell"]], agent="middle")
        narrow = await host.run([nested, ["tell"]], **ADA)
        assert [one["error"]["code"] for one in below(narrow)] == ["not_found", "not_found"]
        assert "a run above this one" in below(narrow)[0]["error"]["message"]
        wide = await host.run([nested, ["tell"]], agent="wide", **ADA)
        assert [one.get("error", {}).get("code") for one in below(wide)] == [None, "not_found"]
        # a bound of the first holds for the third
        await host.agent("wide", **may("wide", "middle"))
        deep = await host.run([child([nested, ["tell"]], agent="wide"), ["tell"]], agent="wide", **ADA)
        assert json.loads(below(deep)[0]["output"]["text"])[0]["error"]["code"] == "not_found"


# -- who, where -----------------------------------------------------------------------------------


async def test_a_child_acts_for_the_actor_of_its_parent_and_for_no_other(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**may("child"))
        await host.agent("child")
        secret = ["call", "state.set", {"scope": "actor", "key": "secret", "value": SECRET}]
        read = ["call", "state.get", {"scope": "actor", "key": "secret"}]
        await host.run([secret], agent="child", **BOB)
        forged = [
            {"actor_id": "bob"},
            {"actor_type": "user", "actor_id": "bob"},
            {"actor_type": "agent", "actor_id": "ada"},
            {},
        ]
        steps = [child([read, ["tell"]], actor=actor) for actor in forged]
        same = child([["show_context"]], actor={"actor_id": "ada", "actor_name": "root"})
        ended = await host.run([*steps, same, child([["show_context"]]), ["tell"]], **ADA)
        assert codes(ended) == ["unauthorized"] * 4 + ["ok", "ok"]
        assert "leave actor out" in errors(ended)[0]
        assert "bob" not in errors(ended)[0]
        for number in (4, 5):
            assert below(ended, number)["actor"] == {
                "actor_type": "user",
                "actor_id": "ada",
                "actor_name": "Ada",
                "metadata": {},
            }
        # without an actor there is none to act for
        nobody = await host.run([child([], actor={"actor_id": "bob"}), child([["show_context"]]), ["tell"]])
        assert codes(nobody) == ["unauthorized", "ok"]
        assert below(nobody, 1)["actor"] is None


async def test_identities_in_the_call_are_not_read(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**may("child"))
        await host.agent("child")
        claims: dict[str, Any] = {
            "workspace_id": "other",
            "bot_id": "b",
            "thread_id": "t",
            "requester": "user:root",
            "parent_run_id": "00000000-0000-0000-0000-000000000000",
            "sender_id": "bob",
            "event_id": "mine",
            "deadline_at": 9e9,
            "metadata": {"parent_run_id": "x"},
        }
        given = {"actor": {"actor_id": "bob"}, "conversation_id": "bob-talk", "workspace_id": "other"}
        ended = await host.run([child([["show_context"]], given=given, **claims), ["tell"]], **ADA)
        seen = below(ended)
        assert seen["actor"]["actor_id"] == "ada"
        assert seen["conversation"]["workspace_id"] == WORKSPACE
        assert {seen["conversation"][name] for name in ("conversation_id", "thread_id", "bot_id")} == {None}
        assert seen["conversation"]["sender_id"] is None
        assert seen["metadata"] == {"parent_run_id": ended.record.run_id}
        (born,) = await family(host, ended)
        assert born["workspace_id"] == WORKSPACE
        assert born["requester"] == "tester"
        assert born["event_id"] != "mine"


async def test_a_child_reads_no_conversation_that_its_parent_may_not_read(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        rich = {"allow_cross_conversation_history": True}
        await host.agent(**may("child", "middle"))
        await host.agent("trusted", **may("child", **rich))
        await host.agent("middle", **may("child", **rich))
        await host.agent("child", resource_policy=rich)
        await host.run([["say", SECRET]], agent="child", **BOB)
        spy: Steps = [
            ["call", "history.page", {"conversation_id": "bob-talk"}],
            ["call", "history.search", {"query": "payslip", "filters": {"conversation_id": "bob-talk"}}],
            ["tell"],
        ]
        for steps in ([child(spy)], [child([child(spy), ["tell"]], agent="middle")]):
            ended = await host.run([*steps, ["tell"]], **ADA)
            found = below(ended)
            found = json.loads(found[0]["output"]["text"]) if "output" in found[0] else found
            assert [one["error"]["code"] for one in found] == ["not_found", "not_found"]
        # its agent was to have it, so its journal says that it has not
        (born,) = await family(host, await host.run([child(spy), ["tell"]], **ADA))
        assert "other conversations" in (await host.ended(born["run_id"])).warnings[0]
        # both may
        allowed = await host.run([child(spy), ["tell"]], agent="trusted", **ADA)
        assert SECRET in [item["content"] for item in below(allowed)[0]["items"]]
        # and neither opens a run there
        there = await host.run(
            [child([], conversation_id="bob-talk"), child([], conversation_id="nowhere"), ["tell"]],
            agent="trusted",
            **ADA,
        )
        assert codes(there) == ["not_found", "not_found"]
        assert len(set(errors(there))) == 1


async def test_a_child_sees_and_ends_neither_its_parent_nor_the_other_children(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**may("child"))
        await host.agent("child")
        top = await host.start([child([["until_cancelled"]], wait=0), ["tell"], ["until_cancelled"]], **ADA)
        await host.seen(top, "message.completed")
        (sister,) = await family(host, top)
        look: Steps = [
            ["call", method, {"target_run_id": target}]
            for target in (top, sister["run_id"])
            for method in ("run.get", "run.events", "run.cancel")
        ]
        other = await host.run([child([*look, ["tell"]]), *look, ["tell"]], **BOB)
        assert [one["error"]["code"] for one in below(other)] == ["not_found"] * 6
        assert codes(other)[1:] == ["not_found"] * 6
        await host.cancel(top)
        await host.ended(top)


async def test_a_run_reads_what_a_child_of_another_agent_said_and_not_what_it_read(
    tmp_path: Path,
) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**may("child", "main"))
        await host.agent("child", config={"colour": "blue"})
        secret = ["call", "state.set", {"scope": "actor", "key": "k", "value": SECRET}]
        read = ["call", "state.get", {"scope": "actor", "key": "k"}]
        log = ["result", "log", {"level": "info", "text": SECRET}]
        steps: Steps = [secret, read, log, ["deltas", 2, "d"], ["say", "done"]]
        watch = [
            ["call", "run.events", {"target_run_id": "$0.run_id", "limit": 100}],
            ["call", "run.get", {"target_run_id": "$0.run_id"}],
        ]
        ended = await host.run([child(steps), *watch, ["tell"]], **ADA)
        journal = ended.told[1]["items"]
        assert [one["position"] for one in journal] == list(range(1, len(journal) + 1)), "pages have no gaps"
        assert SECRET not in json.dumps(ended.told)
        assert "blue" not in json.dumps(ended.told)
        said = [one for one in journal if one["type"] == "message.completed"]
        assert said[0]["data"]["data"]["message"]["content"] == "done"
        withheld = {one["type"] for one in journal if one["data"] == {"withheld": True}}
        assert withheld >= {"state.set", "state.get", "log"}
        assert ended.told[2]["output"]["text"] == "done"
        # a run of the same agent may read what the agent may read
        own = await host.run([child(steps, agent="main"), *watch, ["tell"]], **ADA)
        assert SECRET in json.dumps(own.told[1])


async def test_a_retried_or_forked_child_keeps_the_bounds_of_the_runs_above_it(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**may("middle"))
        rich = {"allow_cross_conversation_history": True}
        await host.agent("middle", "resumable", **may("last", **rich))
        await host.agent("last")
        await host.run([["say", SECRET]], agent="middle", **BOB)
        spy: Steps = [
            ["call", "history.page", {"conversation_id": "bob-talk"}],
            child([], agent="last"),
            ["tell"],
        ]
        by_person = await host.run(spy, agent="middle", **ADA)
        assert codes(by_person) == ["ok", "ok"], "what the agent may do for a person"
        parent = await host.run([child(spy, agent="middle"), ["tell"]], **ADA)
        (born,) = await family(host, parent)
        reruns, actor = host.host.reruns, "user:operator"
        again = await reruns.retry(WORKSPACE, born["run_id"], actor=actor)
        twice = await reruns.retry(WORKSPACE, (await host.ended(again)).record.run_id, actor=actor)
        fork = await reruns.fork(WORKSPACE, born["run_id"], actor=actor, at=0, effects=True)
        for run_id in (born["run_id"], again, twice, fork):
            ended = await host.ended(run_id)
            assert codes(ended) == ["not_found", "not_found"], run_id
            assert await family(host, ended) == []
        # its parent was under way no more: the bounds are those it had
        await host.agent(**may("middle", "last", **rich))
        later = await reruns.retry(WORKSPACE, born["run_id"], actor=actor)
        assert codes(await host.ended(later)) == ["not_found", "not_found"]


# -- how many, how fast ---------------------------------------------------------------------------


async def test_children_created_at_once_are_counted_one_after_the_other(tmp_path: Path) -> None:
    async with within(), stage(tmp_path, cancel_grace_seconds=60) as host:
        await host.agent(**may("child"))
        await host.agent("child")
        one = child([["until_cancelled"]], wait=0)
        top = await host.start([["together", *[[one]] * 70], ["tell"], ["until_cancelled"]], **ADA)
        await host.seen(top, "message.completed")
        assert len(await family(host, top)) == 64
        await host.cancel(top)
        ended = await host.ended(top)
        assert sorted(code for code in codes(ended) if code != "ok") == ["rate_limited"] * 6


async def test_a_family_of_runs_is_bounded_in_number_and_depth(tmp_path: Path) -> None:
    async with within(), stage(tmp_path, cancel_grace_seconds=60) as host:
        await host.agent(**may("child"))
        await host.agent("child", **may("child"))
        leaf = child([["until_cancelled"]], wait=0)
        # each goes on without those above it, which have ended
        branch = child([*[leaf] * 60, ["tell"]])
        top = await host.start([*[branch] * 5, ["tell"], ["until_cancelled"]], **ADA)
        await host.seen(top, "message.completed")
        branches = await family(host, top)
        leaves = [await family(host, one["run_id"]) for one in branches]
        assert [len(of_one) for of_one in leaves] == [60, 60, 60, 60, 15]
        assert {one["status"] for one in branches} == {"completed"}
        last = await host.ended(branches[-1]["run_id"])
        # the branch itself is one of the 256
        assert codes(last) == ["ok"] * 15 + ["rate_limited"] * 45
        assert f"256 runs below run {top}" in errors(last)[0]
        await host.cancel(top)
        await host.ended(top)
        for run in [one for of_one in leaves for one in of_one]:
            await host.cancel(run["run_id"])

        def deep(levels: int) -> list[Any]:
            return child([deep(levels - 1), ["say", "done"]] if levels else [["say", "bottom"]])

        line = [await host.run([deep(8)], **ADA)]
        while born := await family(host, line[-1]):
            line.append(await host.ended(born[0]["run_id"]))
        assert len(line) == 9, "the first, and eight below it"
        (refused,) = line[-1].entries("call", "run.create")
        assert "child runs may be 8 deep" in refused["data"]["error"]["message"]
        assert line[-1].said == ["done"]


async def test_a_child_makes_its_calls_no_faster_than_its_parent(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**may("child", rate={"calls_per_second": 1.0}))
        await host.agent("child", resource_policy={"rate": {"calls_per_second": 100.0}})
        reads = [["call", "host.info", {}]] * 3
        ended = await host.run([child([*reads, ["tell"]]), ["tell"]], **ADA)
        assert "rate_limited" in [one.get("error", {}).get("code") for one in below(ended)]
        alone = await host.run([*reads, ["tell"]], agent="child", **ADA)
        assert codes(alone) == ["ok"] * 3


# -- what the input refers to ---------------------------------------------------------------------


async def _file_of_bob(host: Stage) -> str:
    """The id of a picture that Bob sent in his own conversation."""
    picture = {"type": "image_base64", "image_base64": base64.b64encode(SECRET.encode()).decode()}
    given = {"text": json.dumps([["say", "thanks"]]), "contents": [picture]}
    bobs = await host.run([], input=given, agent="child", **BOB)
    event_id = bobs.record.event_id
    stored = await host.host.db.read(lambda tx: events.find(tx, WORKSPACE, str(event_id)))
    assert stored is not None
    assert stored.envelope is not None
    (element,) = [one for one in stored.envelope.input.contents if isinstance(one, ArtifactElement)]
    return element.artifact_id


@pytest.mark.parametrize("where", ["contents", "attachments"])
async def test_a_child_gets_no_file_that_its_parent_may_not_read(tmp_path: Path, where: str) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(**may("child"))
        await host.agent("child")
        theirs = await _file_of_bob(host)

        def refer(*ids: str) -> dict[str, Any]:
            kind = {"type": "artifact"} if where == "contents" else {}
            return {where: [{**kind, "artifact_id": one} for one in ids]}

        upload = {"artifact_type": "file", "part": 0, "last": True, "content_base64": "aGk="}
        look: Steps = [["call", "artifact.read", {"artifact_id": theirs}], ["tell"], ["show_context"]]
        nowhere = "00000000-0000-0000-0000-000000000000"
        ended = await host.run(
            [
                ["call", "artifact.upload", upload],
                child(look, given=refer(theirs)),
                child(look, given=refer(nowhere)),
                child(look, given=refer("$0.artifact_id", theirs)),
                child(look, given=refer("a\0b")),
                child([["call", "artifact.read", {"artifact_id": "$0.artifact_id"}]]),
                ["tell"],
            ],
            **ADA,
        )
        assert codes(ended) == ["ok", "not_found", "not_found", "not_found", "invalid_argument", "ok"]
        one, two, three, *_ = errors(ended)
        assert one.replace(theirs, "") == two.replace(nowhere, "")
        assert f"input.{where}[0]" in one
        assert f"input.{where}[1]" in three
        assert base64.b64encode(SECRET.encode()).decode() not in json.dumps(ended.told)
        assert len(await family(host, ended)) == 1
        # what is the parent's goes on to the child, and from there to its child
        await host.agent("child", **may("child"))
        await host.agent(**may("child"))
        fetch: Steps = [["call", "artifact.read", {"artifact_id": "$0.artifact_id"}], ["tell"]]
        made = await host.run([["call", "artifact.upload", upload], ["tell"]], **ADA)
        own = made.told[0]["artifact_id"]
        fetch = [["call", "artifact.read", {"artifact_id": own}], ["tell"]]
        given = refer(own)
        passed = await host.run([child([child(fetch, given=given), ["tell"]], given=given), ["tell"]], **ADA)
        assert json.loads(below(passed)[0]["output"]["text"])[0]["content_base64"] == "aGk="
        # the child has no conversation: what was not given to it is not its own
        kept = await host.run([child(fetch), ["tell"]], **ADA)
        assert below(kept)[0]["error"]["code"] == "not_found"
