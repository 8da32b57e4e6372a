"""`hostler replay`, and what else is made of recorded runs, from the command line and in tests."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hostler.cli.commands import app
from support.command_line import BOUND_SECONDS, ECHO, WIRE, CommandLine, Ran, environment

pytestmark = pytest.mark.timeout(600)  # many processes, one after the other
CONFIG = f"""
plugins:
  - {{path: {ECHO}, level: trusted}}
  - {{path: {WIRE}, level: trusted}}
  - {{path: ./greeter, level: trusted}}
agents:
  - {{name: greets, runner: plugin:acme/greeter/default, config: {{greeting: Hello}}}}
"""
MANIFEST = """
plugin: {author: acme, name: greeter, version: 1.0.0}
runners: [{name: default, entry: "greeter:Greeter"}]
"""
GREETER = '''
from hostler_sdk import Runner, message

class Greeter(Runner):
    """Greets, and counts."""
    config = [{"name": "greeting", "type": "string", "default": "Hi"}]

    async def run(self, ctx):
        n = (await ctx.states.get("conversation", "n", 0)) + 1
        await ctx.states.set("conversation", "n", n)
        yield message(f"{ctx.config['greeting']} {ctx.input.text}, number {n}")
'''


def here(hostler: CommandLine, *arguments: str) -> Ran:
    """Run a command in this process: what a process of its own adds is a second to each."""
    status: Any = 0
    with (
        contextlib.chdir(hostler.cwd),
        mock.patch.dict(os.environ, environment(hostler.data), clear=True),
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                app(arguments)
            except SystemExit as end:
                status = end.code
        out.seek(0)
        err.seek(0)
        return Ran(status, out.read(), err.read())


@pytest.fixture(scope="module")
def greets(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """A data directory with three recorded runs of one agent, which the tests share."""
    home = tmp_path_factory.mktemp("greets")
    hostler = CommandLine(home / "data", home / "work")
    folder = hostler.cwd / "greeter"
    folder.mkdir(parents=True)
    (folder / "hostler.yaml").write_text(MANIFEST)
    (folder / "greeter.py").write_text(GREETER)
    (hostler.cwd / "hostler.yaml").write_text(CONFIG)
    assert here(hostler, "apply", "hostler.yaml").status == 0
    (hostler.cwd / "recordings").mkdir()
    for number, name in enumerate(("Ada", "Bea", "Cy")):
        ran = here(hostler, "run", "greets", name, "--conversation", "c", "--json")
        assert ran.status == 0, ran.err
        run_id = ran.results[0]["run_id"]
        exported = here(hostler, "runs", "export", run_id, "-o", f"recordings/{number}.json")
        assert exported.status == 0, exported.err
    return hostler


@pytest.fixture
def hostler(greets: CommandLine) -> Iterator[CommandLine]:
    """The same, whose runner a test may change."""
    yield greets
    (greets.cwd / "greeter" / "greeter.py").write_text(GREETER)


@pytest.fixture
def recorded(hostler: CommandLine) -> list[str]:
    """Those runs, oldest first."""
    texts = [(hostler.cwd / "recordings" / f"{number}.json").read_text() for number in range(3)]
    return [json.loads(text)["run"]["run_id"] for text in texts]


def test_a_run_is_replayed_and_a_difference_is_named(hostler: CommandLine, recorded: list[str]) -> None:
    same = hostler("replay", recorded[0])
    assert same.status == 0
    assert same.out.startswith(f"✓ identical  {recorded[0]}  4 steps")
    other = here(hostler, "replay", recorded[0], "--config", "greeting=Goodbye")
    assert other.status == 1
    assert other.out.splitlines() == [
        f"✗ {recorded[0]}  step 3: message.completed with other message.content",
        '    message.content: "Hello Ada, number 1" -> "Goodbye Ada, number 1"',
        'output: "Hello Ada, number 1" -> "Goodbye Ada, number 1"',
    ]
    (hostler.cwd / "other.yaml").write_text("greeting: Hello\n")
    assert here(hostler, "replay", recorded[0], "--config", "other.yaml").status == 0
    code = (hostler.cwd / "greeter" / "greeter.py").read_text()
    (hostler.cwd / "greeter" / "greeter.py").write_text(code.replace('"n", 0)', '"visits", 0)'))
    changed = here(hostler, "replay", recorded[0], "--json")
    (found,) = changed.results
    assert (changed.status, found["status"]) == (1, "diverged")
    assert found["divergence"]["title"] == "step 1: state.get was called with other key"
    assert found["divergence"]["diff"] == ['key: "n" -> "visits"']
    assert found["network"] == "blocked"


def test_a_set_of_runs_is_a_report_for_ci(hostler: CommandLine, recorded: list[str]) -> None:
    passed = here(hostler, "replay", "--agent", "greets", "--limit", "3", "--junit", "out.xml")
    assert (passed.status, passed.out.splitlines()[-1]) == (0, "3 of 3 identical")
    suite = ET.parse(hostler.cwd / "out.xml").getroot()[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": "0",
        "errors": "0",
    }
    failed = here(hostler, "replay", *recorded[:2], "--config", "greeting=\x07Bye", "--junit", "out.xml")
    assert (failed.status, failed.out.splitlines()[-1]) == (1, "0 of 2 identical, 2 diverged")
    suite = ET.parse(hostler.cwd / "out.xml").getroot()[0]
    assert suite.get("failures") == "2"
    case = suite[0]
    assert (case.get("classname"), case.get("name")) == ("greets", recorded[0])
    assert case[0].get("message") == "step 3: message.completed with other message.content"
    since = here(hostler, "replay", "--agent", "greets", "--since", "1d", "--limit", "1")
    assert since.out.splitlines()[-1] == "1 of 1 identical"


def test_an_exported_run_is_replayed_where_there_is_no_host(
    hostler: CommandLine, recorded: list[str], tmp_path: Path
) -> None:
    piped = hostler("runs", "export", recorded[0])
    assert json.loads(piped.out)["run"]["run_id"] == recorded[0]
    elsewhere = CommandLine(tmp_path / "nothing", hostler.cwd)
    unknown = here(elsewhere, "replay", "recordings/0.json")
    assert unknown.status == 2
    assert "name it with --runner" in unknown.error
    one = here(elsewhere, "replay", "recordings/0.json", "--runner", "./greeter")
    assert one.status == 0, one.err
    all_of_them = here(elsewhere, "replay", "recordings", "--runner", "./greeter")
    assert all_of_them.out.splitlines()[-1] == "3 of 3 identical"
    assert not elsewhere.data.exists()


def test_recorded_runs_are_a_suite_of_tests(hostler: CommandLine, recorded: list[str]) -> None:
    (hostler.cwd / "test_greeter.py").write_text(
        "import pytest\n"
        "from hostler.testing import recordings\n"
        '@pytest.mark.parametrize("recording", recordings("recordings"), ids=lambda path: path.stem)\n'
        "def test_same(hostler_replay, recording):\n"
        '    hostler_replay(recording, runner="./greeter")\n'
        "def test_other(hostler_replay):\n"
        '    config = {"greeting": "Bye"}\n'
        '    found = hostler_replay.run("recordings/0.json", runner="./greeter", config=config)\n'
        '    assert found.text == "Bye Ada, number 1"\n'
        "def test_fails(hostler_replay):\n"
        '    hostler_replay("recordings/0.json", runner="./greeter", config={"greeting": "Bye"})\n'
    )
    known = {entry.value for entry in importlib.metadata.entry_points(group="pytest11")}
    plugin = [] if "hostler.pytest_plugin" in known else ["-p", "hostler.pytest_plugin"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            *plugin,
            "test_greeter.py",
        ],
        cwd=hostler.cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_SECONDS,
    )
    assert "1 failed, 4 passed" in done.stdout, done.stdout + done.stderr
    assert "step 3: message.completed with other message.content" in done.stdout


def test_what_is_wrong_is_said_in_one_line(hostler: CommandLine, recorded: list[str]) -> None:
    (hostler.cwd / "broken.json").write_text("{}")
    cases: list[tuple[list[str], int, str]] = [
        (["replay"], 2, "there is nothing to replay"),
        (["replay", "nobody"], 2, "there is no run"),
        (["replay", "broken.json"], 2, "no exported run"),
        (["replay", "missing.json"], 2, "cannot be read"),
        (["replay", recorded[0], "--runner", "nobody"], 2, "name a plugin folder"),
        (["replay", recorded[0], "--agent-version", "9"], 2, "its versions are: 1"),
        (["replay", recorded[0], "--config", "nothing=1"], 2, "config.nothing: unknown option"),
        (["replay", recorded[0], "--since", "soon"], 2, "not a time span"),
        (["replay", recorded[0], "--effects"], 2, "--live-after"),
        (["replay", "--agent", "greets", "--live-after"], 2, "one run"),
        (["runs", "retry"], 2, "--dead"),
        (["runs", "retry", recorded[0], "--since", "1d"], 2, "--dead"),
        (["runs", "fork", recorded[0]], 2, "no server runs"),
        (["runs", "fork", recorded[0], "--config", "prompt"], 2, "--config prompt: expected KEY=VALUE"),
        (["runs", "export", "nobody"], 1, "there is no run"),
    ]
    for arguments, status, words in cases:
        ran = here(hostler, *arguments)
        assert (ran.status, words in ran.err) == (status, True), (arguments, ran.err)


def test_through_a_server_runs_are_done_again_and_gone_on_from(
    hostler: CommandLine, recorded: list[str]
) -> None:
    with hostler.serving():
        assert here(hostler, "replay", *recorded).out.splitlines()[-1] == "3 of 3 identical"
        steps = here(hostler, "runs", "steps", recorded[0], "--json").json
        assert [(step["step"], step["type"]) for step in steps] == [
            (1, "state.get"),
            (2, "state.set"),
            (3, "message.completed"),
            (4, "run.completed"),
        ]
        forked = here(hostler, "runs", "fork", recorded[0], "--input", "Dee", "--wait")
        assert (forked.status, forked.out.strip()) == (0, "Hello Dee, number 1")
        refused = here(hostler, "runs", "fork", recorded[0], "--at", "1", "--wait")
        assert refused.status == 1
        assert "forked without effects" in refused.err
        told = here(hostler, "runs", "fork", recorded[0], "--at", "1", "--effects", "--wait")
        assert (told.status, told.out.strip()) == (0, "Hello Ada, number 1")
        again = here(hostler, "runs", "retry", recorded[2], "--wait")
        assert (again.status, again.out.strip()) == (0, "Hello Cy, number 2")
        assert here(hostler, "runs", "list", "--dead").err.strip() == "no matching runs"
        assert here(hostler, "runs", "retry", "--dead").err.strip() == "nothing to retry"

        code = (hostler.cwd / "greeter" / "greeter.py").read_text()
        (hostler.cwd / "greeter" / "greeter.py").write_text(code.replace('"n", 0)', '"visits", 0)'))
        live = here(hostler, "replay", recorded[0], "--live-after")
        assert live.status == 1
        assert "step 1: state.get was called with other key" in live.out
        assert "continues with real calls after step 0" in live.err
