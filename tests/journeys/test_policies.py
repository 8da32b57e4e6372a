"""Recovery: what becomes of a run whose plugin process or host is lost, by its agent's policy."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.host.config import ConfigFile
from hostler.plugins.source import Folder
from hostler.storage.port import Query
from hostler_protocol.errors import PluginStartError
from support.server_process import HostProcess, config_file
from support.server_process import serving as serving_process
from support.stepping import RUNNER, STEPPER, Ended, Latch, Steps, stage, within
from support.wire_client import ask, stream

PLACE: dict[str, Any] = {"conversation_id": "c", "actor": {"actor_id": "u"}}
EFFECT: list[Any] = ["call", "state.set", {"scope": "actor", "key": "k", "value": 1}]
READ: list[Any] = ["call", "state.get", {"scope": "actor", "key": "k"}]


def moves(ended: Ended) -> list[str]:
    return [entry["data"]["to"] for entry in ended.entries("lifecycle")]


CRASHES: list[tuple[str, dict[str, Any], str, Steps, str, str | None, int]] = [
    # what, recovery, runner, steps, status, code, attempt
    ("fail", {"on_crash": "fail"}, "default", {"1": [["crash"]]}, "failed", "runner.crashed", 1),
    ("the default fails", {}, "default", {"1": [["crash"]]}, "failed", "runner.crashed", 1),
    (
        "restart",
        {"on_crash": "restart"},
        "default",
        {"1": [["deltas", 2], ["crash"]], "2": [["say", "done"]]},
        "completed",
        None,
        2,
    ),
    (
        "restart, also after an effect",
        {"on_crash": "restart"},
        "default",
        {"1": [EFFECT, ["crash"]], "2": [["say", "done"]]},
        "completed",
        None,
        2,
    ),
    (
        "no attempt left",
        {"on_crash": "restart", "max_attempts": 2},
        "default",
        {"else": [["crash"]]},
        "failed",
        "runner.crashed",
        2,
    ),
    (
        "one attempt only",
        {"on_crash": "restart", "max_attempts": 1},
        "default",
        {"1": [["crash"]]},
        "failed",
        "runner.crashed",
        1,
    ),
    (
        "resume begins again where that repeats nothing",
        {"on_crash": "resume"},
        "default",
        {"1": [READ, ["deltas", 1], ["crash"]], "2": [["say", "done"]]},
        "completed",
        None,
        2,
    ),
    (
        "resume never does an effect twice",
        {"on_crash": "resume"},
        "default",
        {"1": [EFFECT, ["crash"]], "2": [["say", "done"]]},
        "failed",
        "runner.crashed",
        1,
    ),
    (
        "a resumable runner goes on by default",
        {},
        "resumable",
        {"else": [EFFECT, ["deltas", 2], ["crash", 1], ["say", "done"]]},
        "completed",
        None,
        2,
    ),
]


@pytest.mark.parametrize("case", CRASHES, ids=[case[0] for case in CRASHES])
async def test_a_plugin_that_dies(tmp_path: Path, case: Any) -> None:
    _, recovery, runner, steps, status, code, attempt = case
    async with within(), stage(tmp_path) as host:
        await host.agent(runner=runner, recovery=recovery)
        ended = await host.run(steps, **PLACE)
        record = ended.record
        assert (record.status, record.status_code, record.attempt) == (status, code, attempt)
        assert [r["sequence"] for r in ended.results] == list(range(1, len(ended.results) + 1))
        assert moves(ended).count("queued") == attempt - 1
        starts = [r["data"] for r in ended.results if r["type"] == "attempt.started"]
        assert [start["attempt"] for start in starts] == list(range(2, attempt + 1))
        # and the plugin is there again
        assert (await host.run([["say", "next"]], **PLACE)).record.status == "completed"


async def test_completed_messages_stay_and_are_not_doubled(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(recovery={"on_crash": "restart"})
        again = {"message": {"role": "assistant", "content": "kept", "message_id": "k"}}
        steps: Steps = {
            "1": [
                ["deltas", 1],
                ["result", "message.completed", again],
                ["deltas", 3, "lost"],
                ["crash"],
            ],
            "2": [["result", "message.completed", again], ["deltas", 1], ["say", "new"]],
        }
        ended = await host.run(steps, **PLACE)
        start = ended.results[ended.types.index("attempt.started")]
        assert start["data"]["attempt"] == 2
        assert start["data"]["discard_after"] == 2
        assert ended.results[1]["type"] == "message.completed"
        ids = [r["data"]["message"]["message_id"] for r in ended.results if r["type"] == "message.completed"]
        assert ids == ["k", "k", "m1"]
        page = await host.run([["call", "history.page", {"direction": "forward"}], ["tell"]], **PLACE)
        said = [item["content"] for item in page.told[0]["items"] if item["role"] == "assistant"]
        assert said == ["kept", "new"]
        assert ended.record.output is not None
        assert ended.record.output.text == "kept\nnew"


async def test_message_ids_that_the_host_fills_in_go_on_across_attempts(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(recovery={"on_crash": "restart"})
        ended = await host.run({"1": [["say", "a"], ["say", "b"], ["crash"]], "2": [["say", "c"]]})
        messages = [r["data"]["message"] for r in ended.results if r["type"] == "message.completed"]
        assert [(m["content"], m["message_id"]) for m in messages] == [
            ("a", "m1"),
            ("b", "m2"),
            ("c", "m3"),
        ]


async def test_usage_of_an_attempt_that_was_lost_counts(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(recovery={"on_crash": "restart"})

        def said(tokens: int) -> list[Any]:
            usage = {"input_tokens": tokens, "output_tokens": tokens, "total_tokens": 2 * tokens}
            message = {"message": {"role": "assistant", "content": "x"}}
            return ["result", "message.completed", message, {"usage": usage}]

        ended = await host.run({"1": [said(5), ["crash"]], "2": [said(1)]})
        assert ended.record.usage is not None
        assert ended.record.usage.total_tokens == 12


async def test_a_run_that_was_being_cancelled_ends_as_cancelled_when_its_plugin_dies(tmp_path: Path) -> None:
    async with within(), stage(tmp_path, cancel_grace_seconds=60) as host:
        await host.agent(recovery={"on_crash": "restart"})
        run_id = await host.start([["deltas", 1], ["until_cancelled"], ["crash"]])
        await host.seen(run_id, "message.delta")
        await host.cancel(run_id, "changed my mind")
        ended = await host.ended(run_id)
        assert (ended.record.status, ended.record.status_code) == ("cancelled", "cancelled")
        assert ended.last["error"] == "changed my mind"
        assert ended.record.attempt == 1


async def test_cancelling_is_cooperative_first_and_final_after_its_grace(tmp_path: Path) -> None:

    async def deaf() -> None:
        async with within(), stage(tmp_path / "deaf") as host, Latch(tmp_path) as latch:
            run_id = await host.start(
                [["deltas", 1], ["gate", latch.path], EFFECT, ["say", "too late"]], **PLACE
            )
            await host.seen(run_id, "message.delta")
            await latch.reached()
            await host.cancel(run_id)
            ended = await host.ended(run_id)
            assert (ended.record.status, ended.last["code"]) == ("cancelled", "cancelled")
            latch.open()
            again = await host.run([READ, ["tell"]], **PLACE)  # what it still does changes nothing
            assert again.told[0] == {"value": None, "version": 0}
            assert (await host.ended(run_id)).results == ended.results

    async with within(), stage(tmp_path, cancel_grace_seconds=60) as host:
        polite = await host.start([["deltas", 1], ["until_cancelled"], ["say", "bye"]])
        await host.seen(polite, "message.delta")
        await host.cancel(polite)
        ended = await host.ended(polite)
        assert ended.said == ["bye"]
        assert ended.last["code"] == "cancelled"
        done = await host.start(
            [["deltas", 1], ["until_cancelled"], ["say", "done"], ["result", "run.completed", {}]]
        )
        await host.seen(done, "message.delta")
        await host.cancel(done)
        assert (await host.ended(done)).record.status == "completed"
    await deaf()


@pytest.mark.parametrize("timeout", [0.2, 1])
async def test_a_deadline_ends_a_run_whatever_it_does(tmp_path: Path, timeout: float) -> None:
    async with within(), stage(tmp_path) as host:
        await host.agent(config={"timeout": timeout})
        ended = await host.run([["deltas", 1], ["hold"]])
        assert (ended.record.status, ended.record.status_code) == ("timeout", "runner.timeout")
        assert ended.last["code"] == "runner.timeout"
        assert ended.record.deadline_at is not None
        await host.agent(config={"timeout": 0})
        free = await host.run([["show_context"]])
        assert free.told["runtime"]["deadline_at"] is None


async def test_a_call_that_comes_with_the_end_does_not_undo_it(tmp_path: Path) -> None:
    async with within(), stage(tmp_path) as host:
        for _ in range(20):
            ended = await host.run(
                [["say", "x"], ["result", "run.completed", {}], READ, EFFECT, READ], **PLACE
            )
            assert ended.record.status == "completed"
        got = await host.run([READ, ["tell"]], **PLACE)
        assert got.told[0]["version"] == 0


async def test_a_run_can_be_cancelled_while_its_plugin_starts(tmp_path: Path) -> None:
    plugin = tmp_path / "slow"
    shutil.copytree(STEPPER, plugin)
    (plugin / "hostler.yaml").write_text(
        'plugin: {author: test, name: slow, version: "1", label: {en: Slow}}\n'
        'command: ["python", "-c", "import time; time.sleep(600)"]\n'
    )
    async with within(), stage(tmp_path / "data") as host:
        host.host.supervisor.add(Folder(plugin))  # not started with the others
        spec = AgentSpec(name="slow", runner="plugin:test/slow/default")
        await host.host.configurator.apply(ConfigFile(agents=[spec]), actor="test")
        run_id = await host.start([["say", "x"]], agent="slow")
        await host.cancel(run_id)
        ended = await host.ended(run_id)
        assert (ended.record.status, ended.types) == ("cancelled", ["run.failed"])


async def test_a_run_whose_journal_refuses_it_still_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostler.host.run_reader.OWN_POLL_SECONDS", 3600)  # watchers are woken
    refuse = """CREATE TRIGGER refuse BEFORE INSERT ON journal WHEN NEW.type = 'acme.poison'
                BEGIN SELECT RAISE(ABORT, 'refused'); END"""
    async with within(), stage(tmp_path) as host:
        await host.host.db.write(lambda tx: tx.run(Query("test.refuse", refuse, refuse)))
        poison = await host.run([["say", "a"], ["result", "acme.poison", {}], ["hold"]], **PLACE)
        assert (poison.record.status, poison.record.status_code) == ("failed", "host.error")
        assert poison.types[-1] == "run.failed"
        assert (await host.run([["say", "next"]], **PLACE)).said == ["next"]


# -- the host ends --------------------------------------------------------------------------------


async def test_a_host_that_stops_hands_over_what_is_left(tmp_path: Path) -> None:
    async with within():
        async with stage(tmp_path) as host:
            await host.agent("again", recovery={"on_crash": "restart"})
            await host.agent("fails", recovery={"on_crash": "fail"})
            steps: Steps = {"1": [["deltas", 1], ["hold"]], "2": [["say", "second"]]}
            again = await host.start(steps, agent="again")
            fails = await host.start(steps, agent="fails")
            queued = await host.start([["say", "waited"]], agent="fails", conversation_id="q")
            for run_id in (again, fails):
                await host.seen(run_id, "message.delta")
            await host.ended(queued)
        async with stage(tmp_path, agent=False) as host:
            restarted = await host.ended(again)
            assert restarted.record.attempt == 2
            assert restarted.said == ["second"]
            failed = await host.ended(fails)
            assert (failed.record.status, failed.record.status_code) == ("failed", "host.restarted")


async def test_a_host_that_is_killed_settles_its_runs_at_the_next_start(tmp_path: Path) -> None:
    policies: dict[str, tuple[dict[str, Any], str, Steps]] = {
        "again": ({"on_crash": "restart"}, "default", {"1": [["deltas", 1], ["hold"]], "2": [["say", "ok"]]}),
        "fails": ({"on_crash": "fail"}, "default", {"1": [["deltas", 1], ["hold"]], "2": [["say", "ok"]]}),
        "resumes": ({}, "resumable", [EFFECT, ["deltas", 1], ["at", 1, [["hold"]]], ["say", "ok"]]),
        "had-effects": (
            {"on_crash": "resume"},
            "default",
            {"1": [EFFECT, ["deltas", 1], ["hold"]], "2": [["say", "ok"]]},
        ),
    }
    agents = [
        {"name": name, "runner": RUNNER + runner, "recovery": recovery}
        for name, (recovery, runner, _) in policies.items()
    ]
    config = config_file(tmp_path / "hostler.json", plugins=[STEPPER], agents=agents)
    host = HostProcess(tmp_path / "data", config)

    async def send(agent: str, steps: Steps) -> Any:
        given = {
            "event_type": "message.received",
            "agent": agent,
            "input": {"text": json.dumps(steps)},
            **PLACE,
        }
        return (await ask(host.url, "POST", "/v1/events", given)).json()

    async def get(path: str) -> Any:
        return (await ask(host.url, "GET", path)).json()

    async with within(), serving_process(host):
        ids: dict[str, str] = {}
        for name, (_, _, steps) in policies.items():
            ids[name] = (await send(name, steps))["run"]["run_id"]
            waiting = await send(name, [["say", "later"]])
            assert waiting["outcome"] == "queued"
            ids[name + " queued"] = waiting["run"]["run_id"]
        for name in policies:
            async for seen in stream(host.url, ids[name]):
                if any(result.type == "message.delta" for result in seen):
                    break
        host.kill(signal.SIGKILL)
        await host.start()
        found: dict[str, Any] = {}
        for name, run_id in ids.items():
            async for _ in stream(host.url, run_id):
                pass
            record = await get(f"/v1/runs/{run_id}")
            found[name] = (record["status"], record["status_code"], record["attempt"])
        assert found == {
            "again": ("completed", None, 2),
            "fails": ("failed", "host.restarted", 1),
            "resumes": ("completed", None, 2),
            "had-effects": ("failed", "host.restarted", 1),
            **{name + " queued": ("completed", None, 1) for name in policies},
        }


async def test_a_broken_plugin_ends_its_runs_with_the_reason(tmp_path: Path) -> None:
    plugin = tmp_path / "stepper"
    shutil.copytree(STEPPER, plugin)
    async with within():
        async with stage(tmp_path / "data", plugin=plugin) as host:
            assert (await host.run([["say", "fine"]])).said == ["fine"]
        source = plugin / "stepper.py"
        source.write_text("import nowhere_to_be_found\n")
        async with stage(tmp_path / "data", plugin=plugin, agent=False) as host:
            for _ in range(3):
                ended = await host.run([["say", "x"]])
                assert ended.record.status == "failed"
                assert "nowhere_to_be_found" in ended.last["error"]
            assert "nowhere_to_be_found" in str(await host.host.problems())
            # once it is mended the next event finds it at work
            source.write_text((STEPPER / "stepper.py").read_text())
            assert (await host.run([["say", "mended"]])).said == ["mended"]


async def test_a_plugin_is_replaced_while_its_runs_go_on(tmp_path: Path) -> None:
    plugin = tmp_path / "stepper"
    shutil.copytree(STEPPER, plugin)
    source = plugin / "stepper.py"
    async with within(), stage(tmp_path / "data", plugin=plugin) as host, Latch(tmp_path) as latch:
        old = await host.start([["pid"], ["gate", latch.path], ["pid"]])
        await latch.reached()
        text = source.read_text()
        source.write_text(text.replace("str(os.getpid())", "'new ' + str(os.getpid())"))
        await host.host.supervisor.restart("test/stepper")
        new = await host.run([["pid"]])
        assert new.said[0].startswith("new ")
        latch.open()
        ended = await host.ended(old)
        assert ended.record.status == "completed"
        assert ended.said[0] == ended.said[1]
        # a broken file leaves the one at work in its place
        source.write_text("this is no Python\n")
        with pytest.raises(PluginStartError):
            await host.host.supervisor.restart("test/stepper")
        assert (await host.run([["pid"]])).said == new.said
