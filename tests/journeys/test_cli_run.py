"""`hostler run`: one run from the shell, in-process and through a server, and how each mistake is told."""

from __future__ import annotations

import json
import select
import signal
from pathlib import Path

import pytest

from support.command_line import BOUND_SECONDS, ECHO, GUIDE, WIRE, CommandLine, until
from support.model_server import ModelServer

pytestmark = pytest.mark.timeout(600)  # many processes, one after the other
LOCAL_AGENT = Path(__file__).parents[2] / "runners" / "local-agent"
RUNNERS = '''
import asyncio
from pathlib import Path
from hostler_sdk import Runner, delta, message

class Boom(Runner):
    """Boom"""
    async def run(self, ctx):
        raise ValueError("it broke\\nbadly")

class Waits(Runner):
    """Waits"""
    async def run(self, ctx):
        yield delta("waiting")
        await asyncio.Event().wait()

class Slow(Runner):
    """Slow"""
    config = [{"name": "timeout", "type": "float", "default": 300}]
    async def run(self, ctx):
        yield delta("waiting")
        await asyncio.Event().wait()

class Counts(Runner):
    """Counts"""
    async def run(self, ctx):
        n = (await ctx.states.get("conversation", "n") or 0) + 1
        await ctx.states.set("conversation", "n", n)
        yield message(str(n))

class Holds(Runner):
    """Holds"""
    async def run(self, ctx):
        yield delta("a")
        while not Path(ctx.input.text).exists():
            await asyncio.sleep(0.01)
        yield message("a whole")
'''


@pytest.fixture(autouse=True)
def runners(hostler: CommandLine) -> None:
    (hostler.cwd / "own.py").write_text(RUNNERS)


def test_a_run_streams_and_ends_with_0(hostler: CommandLine) -> None:
    ran = hostler("run", f"{ECHO}/echo.py:Echo", "hello there")
    assert (ran.status, ran.out.strip(), ran.err) == (0, "hello there!", "")


def test_json_is_one_result_a_line_and_nothing_else(hostler: CommandLine) -> None:
    ran = hostler("run", ECHO, "hello there", "--json", "--set", "suffix=?")
    assert ran.status == 0
    assert [(r["sequence"], r["type"]) for r in ran.results] == [
        (1, "message.delta"),
        (2, "message.delta"),
        (3, "message.completed"),
        (4, "run.completed"),
    ]
    assert ran.results[2]["data"]["message"]["content"] == "hello there?"
    assert len({r["run_id"] for r in ran.results}) == 1


def test_the_message_may_come_from_standard_input(hostler: CommandLine) -> None:
    assert hostler("run", ECHO, stdin="from a pipe").out.strip() == "from a pipe!"
    refused = hostler("run", ECHO, stdin=b"\xff\xfe")
    assert (refused.status, refused.error) == (2, "standard input is not UTF-8 text")


def test_a_plugin_without_an_sdk_runs_as_well(hostler: CommandLine) -> None:
    ran = hostler("run", WIRE, "hello")
    assert ran.status == 0
    assert ran.out == "HELLO (visit 1)\n"


def test_a_conversation_goes_on_where_it_is_named(hostler: CommandLine) -> None:
    counts = [hostler("run", "own.py:Counts", "x", "--conversation", "c1").out.strip() for _ in range(2)]
    assert counts == ["1", "2"]
    assert hostler("run", "own.py:Counts", "x").out.strip() == "1"


@pytest.mark.parametrize("through_server", [False, True])
def test_a_raising_runner_ends_with_1_and_one_line(hostler: CommandLine, through_server: bool) -> None:
    def check() -> None:
        ran = hostler("run", "own.py:Boom", "x")
        assert (ran.status, ran.out, ran.error) == (1, "", "ValueError: it broke badly")

    if through_server:
        with hostler.serving():
            check()
    else:
        check()


BAD_TARGETS = [
    ("gone.py:Echo", 2, "there is no file gone.py: name an existing one, like echo.py:Echo"),
    ("own.py", 2, "own.py: add the class, like own.py:MyRunner"),
    ("./gone", 2, "there is no plugin folder ./gone"),
    ("./unquotd", 2, "there is no plugin folder ./unquotd; did you mean 'unquoted'?"),
    ("nobody", 2, "there is no agent 'nobody': there are none yet"),
    ("own.py:Gone", 2, "own.py has no class 'Gone'; its classes are: Boom, Counts, Holds, Slow, Waits"),
    ("./empty", 1, "is not a plugin folder: it has no hostler.yaml"),
    ("./unquoted", 1, "is not YAML: line 2"),
    ("./mistyped", 1, "unknown key 'runers': did you mean 'runners'?"),
    ("./nothing", 1, "does not name its plugin"),
    ("./entryless", 1, "there is no module 'nowhere'"),
]


@pytest.mark.parametrize(("target", "status", "said"), BAD_TARGETS, ids=[t for t, _, _ in BAD_TARGETS])
def test_a_target_that_cannot_run_is_told_in_one_line(
    hostler: CommandLine, target: str, status: int, said: str
) -> None:
    manifests = {
        "empty": None,
        "unquoted": "plugin: {author: me, name: [\n",
        "mistyped": "plugin: {author: me, name: x}\nruners: []\n",
        "nothing": "runners: []\n",
        "entryless": 'plugin: {author: me, name: x}\nrunners: [{name: default, entry: "nowhere:X"}]\n',
    }
    for name, text in manifests.items():
        (hostler.cwd / name).mkdir()
        if text is not None:
            (hostler.cwd / name / "hostler.yaml").write_text(text)
    ran = hostler("run", target, "x")
    assert (ran.status, ran.out) == (status, "")
    assert said.lower() in ran.error.lower()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", ECHO, "x", "--set", "suffix"], "--set suffix: expected KEY=VALUE"),
        (["run", ECHO, "x", "--set", "sufix=1"], "config.sufix: unknown option; did you mean 'suffix'?"),
        (["run", ECHO, "x", "--model", "main"], "--model: this runner has no setting for a model"),
        (["run", "guide", "x", "--url", "http://127.0.0.1:9"], "needs a key: give it with --key"),
        (
            ["run", "guide", "x", "--url", "http://127.0.0.1:9", "--key", "k"],
            "start one with `hostler serve`",
        ),
        (["run", "guide", "x", "--url", "nonsense", "--key", "k"], "is not the address of a server"),
        (["run", "guide", "x", "--url", "http://h:99999", "--key", "k"], "is not the address of a server"),
        (["run", "guide", "x", "--url", "http://127.0.0.1:9", "--key", "kä"], "the key has characters"),
        (["run", ECHO, "x", "--config", "gone.yaml"], "gone.yaml: no such file"),
    ],
)
def test_a_wrong_option_is_told_in_one_line(
    hostler: CommandLine, arguments: list[str | Path], said: str
) -> None:
    ran = hostler(*arguments)
    assert ran.status in (1, 2)
    assert said in ran.error
    assert ran.out == ""


def test_a_wrong_key_of_the_server_is_told_in_one_line(hostler: CommandLine) -> None:
    with hostler.serving() as server:
        ran = hostler("run", "guide", "x", "--url", server.url, "--key", "wrong")
        assert ran.status == 2
        assert "refused the key" in ran.error
        assert "--key" in ran.error


def models(path: Path, base_url: str, key: str = "right") -> Path:
    path.write_text(
        json.dumps({"models": [{"id": "main", "base_url": base_url, "api_key": key, "max_retries": 0}]})
    )
    return path


def test_local_agent_speaks_with_a_model(hostler: CommandLine) -> None:
    with ModelServer(api_key="right") as service:
        service.say("a model's words")
        config = models(hostler.cwd / "models.yaml", service.base_url)
        ran = hostler("run", LOCAL_AGENT, "x", "--model", "main", "--config", config)
        assert (ran.status, ran.out.strip()) == (0, "a model's words")
        service.say("again")
        assert hostler("run", LOCAL_AGENT, "x", "--model", "main").out.strip() == "again"  # it is kept
        wrong = models(hostler.cwd / "wrong.yaml", service.base_url, key="wrong")
        refused = hostler("run", LOCAL_AGENT, "x", "--model", "main", "--config", wrong)
        assert refused.status == 1
        assert "key" in refused.error
        assert "wrong" not in refused.error.replace("is wrong", "")
    gone = models(hostler.cwd / "gone.yaml", "http://127.0.0.1:9/v1")
    unreachable = hostler("run", LOCAL_AGENT, "x", "--model", "main", "--config", gone)
    assert unreachable.status == 1
    assert "127.0.0.1:9" in unreachable.error
    unknown = hostler("run", LOCAL_AGENT, "x", "--model", "other")
    assert unknown.status == 2
    assert "there is no model 'other'; known are main" in unknown.error


@pytest.mark.parametrize("through_server", [False, True])
def test_ctrl_c_cancels_the_run_and_ends_with_130(hostler: CommandLine, through_server: bool) -> None:
    def check() -> str:
        with hostler.start("run", "own.py:Waits", "x", "--json") as process:
            assert process.stdout is not None
            first = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
            assert process.wait(BOUND_SECONDS) == 130
        assert json.loads(rest.splitlines()[-1])["data"]["code"] == "cancelled"
        run_id: str = first["run_id"]
        return run_id

    if through_server:
        with hostler.serving():
            run_id = check()
    else:
        run_id = check()
    assert hostler("runs", "show", run_id, "--json").json["status"] == "cancelled"


def test_a_run_that_is_cancelled_elsewhere_ends_with_4_and_a_late_one_with_5(hostler: CommandLine) -> None:
    with hostler.serving():
        with hostler.start("run", "own.py:Waits", "x", "--json") as process:
            assert process.stdout is not None
            run_id = json.loads(process.stdout.readline())["run_id"]
            cancelled = hostler("runs", "cancel", run_id, "--reason", "enough", "--json")
            assert cancelled.json["status"] == "cancelled"
            assert process.wait(BOUND_SECONDS) == 4
        assert hostler("run", "own.py:Slow", "x", "--set", "timeout=0.5").status == 5


def test_a_server_runs_files_and_folders_of_this_machine(hostler: CommandLine) -> None:
    with hostler.serving() as server:
        ran = hostler("run", "own.py:Counts", "x", "--conversation", "c1", "--json")
        assert [r["type"] for r in ran.results] == ["message.completed", "run.completed"]
        again = hostler("run", "own.py:Counts", "x", "--conversation", "c1")
        assert again.out.strip() == "2"
        assert hostler("run", GUIDE, "my name is Ada", "--set", "pace=0").out.startswith(
            "Nice to meet you, Ada"
        )
        with server.client() as client:
            left = [agent["name"] for agent in client.get("/v1/agents").json()["items"]]
            assert [name for name in left if "guide" in name] == []  # one that no conversation needs is gone
            keys = client.get("/v1/keys").json()["items"]
            assert all(key["revoked_at"] for key in keys)
            run = client.get(f"/v1/runs/{ran.results[0]['run_id']}").json()
        assert run["runner_id"].startswith("plugin:local/own-")
        assert run["runner_id"].endswith("/Counts")
        missing = hostler("run", "own.py:Gone", "x")
        assert missing.status == 2
        assert "its classes are: Boom, Counts, Holds, Slow, Waits" in missing.error
        wire = hostler("run", WIRE, "x")
        assert wire.status == 2
        assert f"plugins: [{WIRE}]" in wire.error


def test_two_runs_of_one_file_through_a_server_take_turns(hostler: CommandLine) -> None:
    with hostler.serving():
        both = [hostler.start("run", "own.py:Counts", "x", "--conversation", "c") for _ in range(2)]
        outs = [process.communicate(timeout=BOUND_SECONDS)[0].strip() for process in both]
        assert sorted(outs) == ["1", "2"]


def test_a_run_is_not_begun_on_a_plugin_that_leaves_with_another_command(hostler: CommandLine) -> None:
    """The second command comes when the plugin of the first is connected, and goes on when that is over."""
    gates = [hostler.cwd / name for name in ("first", "second")]
    with hostler.serving(), hostler.start("run", "own.py:Holds", gates[0]) as first:
        assert first.stdout is not None
        assert first.stdout.read(1) == "a"  # its plugin is connected, and at work
        with hostler.start("run", "own.py:Holds", gates[1]) as second:
            assert second.stdout is not None
            assert second.stderr is not None
            says = select.select([second.stdout, second.stderr], [], [], BOUND_SECONDS)[0]
            assert says, "it neither waits nor begins"
            gates[0].touch()
            assert first.communicate(timeout=BOUND_SECONDS)[0] == " whole\n"
            gates[1].touch()
            out, err = second.communicate(timeout=BOUND_SECONDS)
    assert (first.returncode, second.returncode, out.strip()) == (0, 0, "a whole"), err
    assert "waiting for another run" in err


def test_a_plugin_that_is_served_by_dev_takes_runs_side_by_side(hostler: CommandLine) -> None:
    gates = [hostler.cwd / name for name in ("first", "second")]
    with hostler.serving() as server, server.client() as client, hostler.start("dev", "own.py:Holds") as dev:
        until(
            lambda: [p["state"] for p in client.get("/v1/plugins").json()["items"]] == ["ready"],
            "the plugin is not served",
        )
        runs = [hostler.start("run", "own.py:Holds", gate) for gate in gates]
        for run in runs:
            assert run.stdout is not None
            assert run.stdout.read(1) == "a"
        for run, gate in zip(runs, gates, strict=True):
            gate.touch()
            assert run.communicate(timeout=BOUND_SECONDS)[0] == " whole\n"
        dev.send_signal(signal.SIGINT)
        dev.communicate(timeout=BOUND_SECONDS)


def test_a_killed_command_leaves_no_plugin_behind(hostler: CommandLine) -> None:
    with hostler.serving() as server, server.client() as client:
        with hostler.start("run", "own.py:Waits", "x", "--json") as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.kill()
        until(
            lambda: [p["state"] for p in client.get("/v1/plugins").json()["items"]] == ["disconnected"],
            "the plugin of the killed command is still connected",
        )
