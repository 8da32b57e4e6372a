"""What authors of runners do from the shell: make one, test it, serve it while it changes, talk with it."""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hostler_sdk.conformance import CHECKS
from support.command_line import BOUND_SECONDS, ECHO, GUIDE, HOSTLER, WIRE, CommandLine, environment

pytestmark = pytest.mark.timeout(600)  # many processes, one after the other
PIGEON = Path(__file__).parents[1] / "support" / "plugins" / "pigeon"
SHOUT = Path(__file__).parents[2] / "examples" / "shout"
BROKEN = Path(__file__).parents[1] / "support" / "broken_plugin.py"
ANSI = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07]*\x07|[\x01\x02]")


def test_a_new_runner_runs_at_once_and_passes_its_test_and_the_suite(hostler: CommandLine) -> None:
    made = hostler("new", "runner", "my-first_agent", "--author", "ada")
    assert made.status == 0
    folder = hostler.cwd / "my-first_agent"
    ran = hostler("run", "./my-first_agent", "hi", "--json", "--set", "greeting=Hey")
    assert ran.results[-2]["data"]["message"]["content"] == "Hey! You said 'hi' in turn 1 of our talk."
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_SECONDS,
    )
    assert tested.returncode == 0, tested.stdout
    assert "1 passed" in tested.stdout
    checks = (
        "--only",
        "run_ends",
        "--only",
        "cancel",
        "--only",
        "tools_list",
    )  # it passes all in the README's blocks
    suite = hostler("test", "./my-first_agent", *checks)
    assert (suite.status, suite.out.splitlines()[-1]) == (0, "2 checks passed, 1 left out")
    again = hostler("new", "runner", "my-first_agent")
    assert (again.status, again.error) == (2, "my-first_agent already exists: choose another name")
    assert hostler("new", "runner", "1; rm").status == 2


@pytest.mark.parametrize("name", ["class", "a", "Import-x"])
def test_any_name_it_takes_makes_a_runner_that_loads(hostler: CommandLine, name: str) -> None:
    assert hostler("new", "runner", name, "--author", "ada").status == 0
    assert hostler("run", f"./{name}", "hi").out.startswith("Hello!")


def test_the_suite_names_the_broken_rule(hostler: CommandLine) -> None:
    folder = hostler.cwd / "broken"
    folder.mkdir()
    shutil.copy(BROKEN, folder)
    (folder / "hostler.yaml").write_text(
        "plugin: {author: acme, name: broken, version: 1.0.0}\n"
        f'command: ["python", "{BROKEN.name}", "sequence_gap"]\n'
    )
    found = hostler("test", "./broken", "--only", "result_sequence", "--only", "initialize", "--json")
    verdicts = {check["check"]: check["ok"] for check in found.json}
    assert found.status == 1
    assert verdicts == {"initialize": True, "result_sequence": False}
    unknown = hostler("test", ECHO, "--only", "nothing")
    assert (unknown.status, "unknown check" in unknown.error) == (2, True)


@pytest.mark.parametrize("folder", [PIGEON, SHOUT], ids=["pigeon", "shout"])
def test_the_suite_takes_channels(hostler: CommandLine, folder: Path) -> None:
    checks = [name for name in CHECKS if name.startswith(("initialize", "channel"))]
    found = hostler("test", str(folder), *[word for name in checks for word in ("--only", name)], "--json")
    assert (found.status, {check["check"]: check["ok"] for check in found.json}) == (
        0,
        dict.fromkeys(checks, True),
    )


def test_dev_serves_a_plugin_and_starts_it_anew_when_it_changes(hostler: CommandLine) -> None:
    assert hostler("new", "runner", "mine", "--author", "ada").status == 0
    source = hostler.cwd / "mine" / "mine.py"
    agent = "dev.ada.mine.default"
    with hostler.serving(), hostler.start("dev", "./mine") as process:
        assert process.stdout is not None
        try:
            assert agent in process.stdout.readline()
            assert hostler("run", agent, "hi").out.startswith("Hello!")
            whole = source.read_text()
            source.write_text("broken(")
            source.write_text(whole.replace('"default": "Hello"', '"default": "Bonjour"'))
            assert agent in process.stdout.readline()
            assert hostler("run", agent, "hi").out.startswith("Bonjour!")
            process.terminate()
            assert process.wait(BOUND_SECONDS) == 0
            assert hostler("agents", "list", "--json").json == []
        finally:
            process.kill()
    refused = hostler("dev", "./mine")
    assert refused.status == 2
    assert "start one with `hostler serve" in refused.error
    with hostler.serving():
        assert "has a command of its own" in hostler("dev", WIRE).error


def test_a_piped_chat_says_each_line_in_turn(hostler: CommandLine) -> None:
    said = "my name is Ada\nwho am I?\n/state\n/history\n/nonsense\n"
    ran = hostler("chat", GUIDE, "--set", "pace=0", "--conversation", "c1", stdin=said)
    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[0].startswith("Nice to meet you, Ada.")
    assert lines[1].startswith("You are Ada.")
    assert lines[2] == 'name = "Ada"'
    assert [line.split()[0] for line in lines[3:]] == ["user", "assistant", "user", "assistant"]
    assert "unknown command /nonsense" in ran.err
    again = hostler("chat", GUIDE, "--set", "pace=0", "--conversation", "c1", stdin="who am I?")
    assert again.out.startswith("You are Ada.")
    unknown = hostler("chat", "nobody", stdin="x")
    assert (unknown.status, "there is no agent 'nobody'" in unknown.error) == (2, True)


class Terminal:
    """A command in a pseudo terminal."""

    def __init__(self, *arguments: str | Path, data: Path, cwd: Path) -> None:
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            [*HOSTLER, *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=environment(data, TERM="xterm-256color"),
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - Ctrl-C must reach it as from a keyboard
        )
        os.close(slave)
        self.seen = ""
        self._raw = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode  # a read may cut a character

    def _shown(self, data: bytes) -> None:
        """Take what the terminal was sent, without its control sequences; a read may cut those, too."""
        self._raw += self._decode(data)
        whole = self._raw
        cut = whole.rfind("\x1b")
        if 0 <= len(whole) - cut < 32 and cut >= 0 and ANSI.match(whole, cut) is None:
            whole = whole[:cut]
        self._raw = self._raw[len(whole) :]
        self.seen += ANSI.sub("", whole)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> None:
        """Wait until it shows something that was not seen before."""
        end = time.monotonic() + BOUND_SECONDS
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            ready, _, _ = select.select([self._master], [], [], 1.0)
            if ready:
                self._shown(os.read(self._master, 65536))
        self.seen = self.seen.partition(text)[2]

    def wait(self) -> int:
        return self._process.wait(BOUND_SECONDS)

    def end(self) -> None:
        self._process.kill()
        self._process.wait(BOUND_SECONDS)
        os.close(self._master)


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_chat_in_a_terminal_streams_and_can_be_cancelled(hostler: CommandLine) -> None:
    terminal = Terminal("chat", GUIDE, "--set", "pace=0.05", data=hostler.data, cwd=hostler.cwd)
    try:
        terminal.wait_for("›")
        terminal.type("hello\r")
        terminal.wait_for("• ")  # a bullet, not a dash
        terminal.wait_for("›")
        for stop in ("/cancel\r", "\x03"):  # typed while it answers, or Ctrl-C
            terminal.type("count to 1000\r")
            terminal.wait_for("1 2 3")
            terminal.type(stop)
            terminal.wait_for("cancelled")
            terminal.wait_for("›")
        terminal.type("/quit\r")
        terminal.wait_for("--conversation")
        assert terminal.wait() == 0
    finally:
        terminal.end()
