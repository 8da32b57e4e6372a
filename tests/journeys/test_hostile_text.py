"""What runners and people say commands no terminal: it is escaped wherever a command shows it."""

from __future__ import annotations

import re

import pytest

from support.command_line import HOSTLER, CommandLine, environment
from support.terminal import Terminal

pytestmark = [pytest.mark.gate("terminal-text"), pytest.mark.timeout(600)]
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\x08\u202eevil"
RUNNER = f"""
from hostler_sdk import Runner, delta, log, message

EVIL = {EVIL!r}

class Loud(Runner):
    "Says what commands a terminal."
    async def run(self, ctx):
        yield log(f"looking {{EVIL}}")
        yield delta(f"first {{EVIL}}")
        yield message(f"first {{EVIL}} last")
        raise ValueError(f"it broke {{EVIL}}")
"""
OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[hl]|\r?\n|\t")
"""Colours, the cursor shown and hidden, ends of lines."""


def at_a_terminal(hostler: CommandLine, *arguments: str) -> str:
    """Run a command at a terminal; what it wrote, which has nothing that commands a terminal but colours."""
    with Terminal([*HOSTLER, *arguments], hostler.cwd, environment(hostler.data)) as terminal:
        terminal.ends()
        text = terminal.raw
    left = OURS.sub("", text)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", left), ascii(text)
    return text


def test_text_of_a_runner_commands_no_terminal(hostler: CommandLine) -> None:
    (hostler.cwd / "own.py").write_text(RUNNER)
    for options in ((), ("--json",)):
        shown = at_a_terminal(hostler, "run", "own.py:Loud", f"hi {EVIL}", *options)
        assert shown.count("\\u001b]0;owned\\u0007\\u001b[2J") >= 3, shown
        assert "\\u202eevil" in shown
    (run, *_) = [one["run_id"] for one in hostler("runs", "list", "--json").json]
    for command in (("list",), ("show", run), ("tail", run), ("tail", run, "--json")):
        at_a_terminal(hostler, "runs", *command)
    assert "\\u001b]0;owned" in at_a_terminal(hostler, "runs", "show", run)
    assert "\\u001b]0;owned" in at_a_terminal(hostler, "runs", "tail", run)


def test_what_is_piped_is_as_it_was_said(hostler: CommandLine) -> None:
    (hostler.cwd / "own.py").write_text(RUNNER)
    assert hostler("run", "own.py:Loud", "hi").out.rstrip("\n") == f"first {EVIL} last"
