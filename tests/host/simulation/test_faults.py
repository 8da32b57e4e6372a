"""`hostler test FOLDER --faults`: what crashes and late answers do to a runner."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from hostler.cli.fault_page import plain_page
from hostler.simulation.faults import trial
from hostler.simulation.faults.fault import KINDS, Calls, Fault, Outcome, ToolRun, read_fault, when
from hostler.simulation.faults.model import sample_of
from hostler.simulation.faults.report import ADVICE, Finding, Report, differences, merged
from hostler.testing import check_faults
from hostler_protocol.errors import InvalidArgumentError
from support.command_line import environment

ROOT = Path(__file__).parents[3]
CARELESS = ROOT / "tests" / "support" / "plugins" / "careless"
SHOP = ROOT / "examples" / "shop"
ERRANDS = """\
shop.prices {}
shop.book {"kind": "double"}
shop.pay {"booking": "B1", "amount": 120}
shop.send {"to": "Ada", "text": "hello"}"""
MISTAKES = {
    "impatient": "twice",
    "silent": "lost",
    "counting": "differs",
    "forgetful": "waits",
    "gambling": "replay",
}
pytestmark = pytest.mark.timeout(600)


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "hostler", "test", *map(str, words)]


# -- runners --------------------------------------------------------------------------------------


def test_local_agent_passes() -> None:
    (report,) = check_faults(ROOT / "runners" / "local-agent", "Hello")
    assert report.calls == ["model.stream scripted", "steering.pull"]
    assert report.lives == 12


def test_the_shop_passes_with_a_tool_of_each_effect() -> None:
    (report,) = check_faults(SHOP, ERRANDS)
    asked = [call.removeprefix("tool.call ") for call in report.calls]
    assert asked == ["shop.prices", "shop.book", "shop.pay", "shop.send"]
    assert report.lives == 26


def test_local_agent_with_the_tools_of_the_shop_passes(tmp_path: Path) -> None:
    """The model asks for each tool once; calls wait for a person, and crashes leave some in doubt."""
    faults = ["host-at-answer:16", "plugin-in-tool:3", "late-answer:22", "plugin-after-answer:13"]
    named = [word for fault in faults for word in ("--fault", fault)]
    done = subprocess.run(
        command(ROOT / "runners" / "local-agent", "--with", SHOP, *named, "--json", "--data", tmp_path),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = msgspec.json.decode(done.stdout, type=list[Report])
    assert sum(call.startswith("tool.call shop.") for call in report.calls) == 6
    assert sorted(report.stories) == sorted(faults)
    for story in report.stories.values():
        assert any("✗" in line for line in story)


def test_a_runner_that_is_not_resumable_may_fail() -> None:
    (report,) = check_faults(ROOT / "examples" / "echo", "Hello")
    assert not report.resumable
    assert report.failed == 1


def test_a_careless_plugin_has_one_finding_for_each_of_its_five_runners() -> None:
    done = subprocess.run(command(CARELESS, "--faults", "--json"), capture_output=True, check=False)
    assert done.returncode == 1, done.stderr
    reports = msgspec.json.decode(done.stdout, type=list[Report])
    found = {report.runner: [finding.kind for finding in report.findings] for report in reports}
    assert found == {runner: [kind] for runner, kind in MISTAKES.items()}


def test_the_page_says_when_what_to_change_and_how_to_see_it_again() -> None:
    done = subprocess.run(
        command(f"{CARELESS}:silent", "--faults"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:5] == [
        "✗ silent  “Hello”, 1 host call, 7 lives",
        "  lost something",
        "    what  “there you are” is missing",
        "    when  the answer to call 1 (state.get name) comes 5 s late",
        f"  change  {ADVICE['lost'].removesuffix(' not in memory.')}",
    ]
    (again,) = [line.split("again  ")[1] for line in lines if line.lstrip().startswith("again")]
    assert again == f"hostler test {CARELESS}:silent --fault late-answer:1"
    assert lines[-2] == "1 finding in 7 lives"


def test_one_fault_shows_its_story() -> None:
    with pytest.raises(AssertionError) as failed:
        check_faults(f"{CARELESS}:silent", faults=["late-answer:1"])
    story = [line.split(" s  ")[1] for line in str(failed.value).splitlines() if " s  " in line]
    assert story == [
        "the host starts an attempt",
        "the runner says one moment",
        "the runner calls state.get name",
        "✗ the answer to state.get name is held back for 5 s",
        "the runner is at its end",
    ]


# -- what cannot be tried -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        ("no-such-agent", "no-such-agent: name a plugin folder, like ./my-agent"),
        (f"{CARELESS}:other", "no runner 'other'; it has: impatient, silent, counting"),
        (str(ROOT / "examples" / "wire"), "faults are tried with runners in Python"),
    ],
)
def test_what_cannot_be_tried_is_named(plugin: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        check_faults(plugin)
    assert message in " ".join(str(refused.value).split())


def test_a_fault_at_a_call_that_does_not_come_is_named() -> None:
    with pytest.raises(AssertionError, match="late-answer:4: this run has 1 such calls"):
        check_faults(f"{CARELESS}:silent", faults=["late-answer:4"])
    with pytest.raises(
        InvalidArgumentError, match="write a fault as KIND:CALL, like late-answer:1; kinds: host-at"
    ):
        check_faults(CARELESS, faults=["later:1"])


BLOCKING = """\
from hostler_sdk import Runner, message


class Blocking(Runner):
    async def run(self, ctx):
        print("a plugin may print")
        {work}
        yield message("done")
"""
IMPATIENT = [
    sys.executable,
    "-c",
    "from hostler.simulation.faults import __main__ as trier; trier.CPU_SECONDS = 1; trier.main()",
]
"""A life has one second of a processor, instead of ten."""
MANIFEST = "plugin: {author: test, name: blocking}\nrunners: [{name: default, entry: 'blocking:Blocking'}]\n"


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ("while True: pass", "a runner may wait for timers and for the host, and must not block"),
        ("import time; time.sleep(5)", "a simulated process blocks its thread for 5 s"),
        (
            "raise ValueError('no')",
            "failed (runner.error: ValueError: no): give it an input that it completes",
        ),
        ("import os; os._exit(3)", "its process ended with status 3"),
    ],
)
def test_a_runner_that_cannot_live_in_the_world_is_named(
    tmp_path: Path, work: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "COMMAND", IMPATIENT)
    (tmp_path / "hostler.yaml").write_text(MANIFEST)
    (tmp_path / "blocking.py").write_text(BLOCKING.format(work=work))
    with pytest.raises(AssertionError) as failed:
        check_faults(tmp_path)
    assert message in " ".join(str(failed.value).split())
    assert sorted(file.name for file in tmp_path.iterdir()) == ["blocking.py", "hostler.yaml"]


def work_folders(processes: list[psutil.Process]) -> Iterator[Path]:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # a life may end meanwhile
            yield Path(process.cwd())


@pytest.mark.parametrize("words", [(), ("--trusted",)], ids=["sandboxed", "trusted"])
def test_ctrl_c_ends_all_lives_and_leaves_no_files(tmp_path: Path, words: tuple[str, ...]) -> None:
    running = subprocess.Popen(
        command(CARELESS, "--faults", *words, "--data", tmp_path / "data"),
        env={**os.environ, "TMPDIR": str(tmp_path), "FORCE_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stderr is not None
    with running:
        seen = b""
        while b"life 2 of" not in seen:
            piece = os.read(running.stderr.fileno(), 1000)
            assert piece, seen
            seen += piece
        below = psutil.Process(running.pid).children(recursive=True)
        made = {*tmp_path.iterdir(), *work_folders(below)}
        (folder,) = [path for path in made if path.name.startswith(".hostler-faults-")]
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
    assert not folder.exists()
    assert psutil.wait_procs(below, timeout=60)[1] == []


# -- the fixture ----------------------------------------------------------------------------------

TESTS = """\
def test_passes(hostler_faults):
    (report,) = hostler_faults({shop!r}, {text!r})
    assert report.lives > 1


def test_fails(hostler_faults):
    hostler_faults({careless!r})
"""


def test_the_fixture_fails_with_the_page(tmp_path: Path) -> None:
    text = TESTS.format(shop=str(SHOP), text="shop.prices {}", careless=f"{CARELESS}:silent")
    (tmp_path / "test_mine.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "“there you are” is missing" in done.stdout
    assert "--fault late-answer:1" in done.stdout


# -- parts ----------------------------------------------------------------------------------------


def outcome(**changes: object) -> Outcome:
    usual = Outcome(
        status="completed",
        code=None,
        error=None,
        messages=["a", "b"],
        states={"user name": '"Ada"'},
        tools=[],
        calls=Calls([], [], []),
        story=[],
        happened=True,
    )
    return msgspec.structs.replace(usual, **changes)


def ran(call: str, arguments: str = "{}", effect: str = "default") -> ToolRun:
    return ToolRun("send", arguments, f"key of {call}", call, effect)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (outcome(), outcome(), []),
        (outcome(), outcome(messages=["a", "a", "b"]), [("said_twice", "“a”: 2 times instead of 1")]),
        (outcome(), outcome(messages=["b", "a"]), [("differs", "the same messages in another order")]),
        (outcome(), outcome(messages=["a"]), [("lost", "“b” is missing")]),
        (outcome(), outcome(messages=["a", "c"]), [("differs", "“c” instead of “b”")]),
        (outcome(), outcome(status="waiting", messages=[]), [("waits", "the run has not ended")]),
        (outcome(), outcome(status="timeout"), [("waits", "the run was ended at its deadline")]),
        (
            outcome(),
            outcome(status="failed", code="runner.error", error="RuntimeError: no"),
            [("ends", "failed (runner.error: RuntimeError: no) instead of completed")],
        ),
        (
            outcome(),
            outcome(status="failed", code="replay.diverged", error="x was not called before"),
            [("replay", "x was not called before")],
        ),
        (outcome(), outcome(states={}), [("lost", "the state user name was not written")]),
        (
            outcome(),
            outcome(states={"user name": "1"}),
            [("differs", 'the state user name is 1 instead of "Ada"')],
        ),
        (
            outcome(tools=[ran("1")]),
            outcome(tools=[ran("1"), ran("2")]),
            [("twice", "send {}: 2 calls instead of 1")],
        ),
        (outcome(tools=[ran("1")]), outcome(tools=[ran("1"), ran("1")]), []),
        (outcome(tools=[ran("1", effect="pure")]), outcome(tools=[ran(n, effect="pure") for n in "12"]), []),
        (outcome(tools=[ran("1")]), outcome(), [("lost", "send {} is missing")]),
        (outcome(), outcome(tools=[ran("1", "[]")]), [("differs", "send [] is new")]),
    ],
)
def test_differences(before: Outcome, after: Outcome, expected: list[tuple[str, str]]) -> None:
    assert list(differences(before, after)) == expected


def test_what_follows_from_another_way_is_no_finding_of_its_own() -> None:
    replay = Finding("replay", "another way", "a crash", "host-at-answer:1")
    crashed = Finding("differs", "“2” instead of “1”", "a crash", "host-at-call:1")
    late = Finding("lost", "“1” is missing", "a late answer", "late-answer:1")
    assert merged([crashed, replay, replay, late]) == [msgspec.structs.replace(replay, lives=2), late]


def test_faults_are_read_as_they_are_written() -> None:
    for kind in KINDS:
        assert read_fault(str(Fault(kind, 3))) == Fault(kind, 3)
    assert read_fault("plugin-at-end") == Fault("plugin-at-end", 1)
    calls = Calls(["state.get a"], ["state.get a"], ["send"])
    assert when(Fault("plugin-in-tool", 1), calls) == (
        "the plugin is killed when the tool of call 1 (send) is done, before it says so"
    )
    assert when(Fault("plugin-at-end", 1), calls) == "the plugin is killed when the run is at its end"


def test_a_long_page_counts_what_it_leaves_out() -> None:
    findings = [Finding("lost", f"“{n}” is missing", "late", f"late-answer:{n}") for n in range(1, 6)]
    story = {"late-answer:1": [f"line {n}" for n in range(60)]}
    report = Report("default", "one\ntwo", False, ["x"], 9, findings, failed=2, left_out=7, stories=story)
    text = plain_page("./mine", [report, Report("other", "Hello", True, problem="it does not load")])
    for part in (
        "✗ default  “one …”, 1 host call, 9 lives",
        "2 more of this kind: --json shows them",
        "hostler test ./mine:default --fault late-answer:1 --input 'one\ntwo'",
        "20 more lines: --json shows them",
        "failed in 2 lives after a crash: it is not `resumable`",
        "7 faults left out",
        "could not be tried: it does not load",
        "5 findings in 9 lives; 1 run could not be tried",
    ):
        assert part in text


def test_sample_of_a_schema_is_what_it_requires() -> None:
    properties = {
        "a": {"type": "string", "minLength": 2},
        "b": {"enum": ["x", "y"]},
        "c": {"anyOf": [{"type": "integer", "minimum": 3}, {"type": "null"}]},
        "d": {"type": ["array", "null"]},
        "e": {"type": "number"},
    }
    assert sample_of({"type": "object", "properties": properties, "required": ["a", "b", "c", "d"]}) == {
        "a": "xx",
        "b": "x",
        "c": 3,
        "d": [],
    }
