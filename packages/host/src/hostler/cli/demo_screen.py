"""The output of `hostler demo`: the greeting, and the steps of the scripted conversation."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from hostler.cli.terminal import out
from hostler.cli.terminal_text import harmless

INDENT = "     "
WIDTH = 76
"""Columns of an answer, after which it continues on the next line."""


def greet(
    url: str, folder: Path, agents: Sequence[str], link: str | None = None, *, opened: bool = False
) -> None:
    """Print the server's address, agents, data folder, and requests for another terminal.

    `link` leads to the console, signed in. `opened`: a browser shows it already.
    """
    from hostler.host.demo_agents import WIDGET

    console = out()
    console.print()
    console.print(
        Text.assemble(
            ("  hostler", "bold cyan"), ("  a durable run for every event, even if processes die", "dim")
        )
    )
    console.print()
    rows = (
        ("server", Text(url, "bold")),
        ("", Text(f"{url}/docs", "dim")),
        ("agents", Text(", ".join(agents), "green")),
        ("widget", Text(f"{url}/widget/{WIDGET['name']}", "bold")),
        ("", Text("a page of a site, with a chat in its corner", "dim")),
        ("data", Text(str(folder))),
    )
    for name, value in rows:
        console.print(Text.assemble((f"  {name:8}", "dim"), value))
    if link is not None:
        how = "in your browser now" if opened else "for one browser, within five minutes"
        console.print(Text.assemble(("  console ", "dim"), (link, "bold")), soft_wrap=True)
        console.print(Text.assemble(" " * 10, (how, "dim")))
    console.print()
    console.print(Text("  From another terminal:", "dim"))
    for line in curl_lines(url, folder):
        console.print()
        console.print(Text(line), soft_wrap=True)
    console.print()


def curl_lines(url: str, folder: Path) -> list[str]:
    """Return three requests that can be copied to a shell while the demo runs."""
    has_variable = "HOSTLER_ADMIN_KEY" in os.environ
    key = "$HOSTLER_ADMIN_KEY" if has_variable else f"$(cat {shlex.quote(str(folder / 'admin.key'))})"
    auth = f'-H "Authorization: Bearer {key}"'
    json = "-H 'Content-Type: application/json'"
    hello = '{"event_type": "message.received", "agent": "echo", "input": {"text": "hello there"}}'
    count = '{"event_type": "message.received", "agent": "guide", "input": {"text": "count to 20"}}'
    return [
        f"curl -s '{url}/v1/events?wait=10' {auth} {json} -d '{hello}'",
        f"curl -sN '{url}/v1/events' {auth} {json} -H 'Accept: text/event-stream' -d '{count}'",
        f"curl -s '{url}/v1/runs?limit=5' {auth}",
    ]


class Stage:
    """Prints the steps of the scripted conversation."""

    def __init__(self) -> None:
        self._console = out()
        self._number = 0
        self._column = 0
        self._spaced = False

    def step(self, title: str) -> None:
        """Print the number and title of a step."""
        self._number += 1
        self._console.print(Text.assemble((f"  {self._number}  ", "bold cyan"), (title, "bold")))

    def message(self, who: str, text: str, style: str = "") -> None:
        """Print a message of the conversation."""
        self._console.print(Text.assemble(INDENT, (f"{who:<6} ", "dim"), (text, style)))

    def piece(self, text: str) -> None:
        """Print a piece of an answer as it streams in."""
        for line in text.splitlines(keepends=True):
            rest = line
            if self._column > WIDTH and (self._spaced or line[:1].isspace()):
                self.end_answer()
                rest = line.lstrip(" ")
            if self._column == 0 and rest.strip():
                self._write(f"{INDENT}{'':7}")
            self._write(rest)
            self._column = 0 if rest.endswith("\n") else self._column + len(rest)
            self._spaced = line[-1:].isspace()

    def begin_answer(self, who: str) -> None:
        """Begin the line of an answer."""
        self._console.print(Text.assemble(INDENT, (f"{who:<6} ", "dim")), end="")
        self._column = 1

    def end_answer(self) -> None:
        """End the current line if it has text."""
        if self._column:
            self._write("\n")
        self._column = 0

    def event(self, mark: str, text: str, style: str) -> None:
        """Print something that happened to the server."""
        self.end_answer()
        self._console.print(Text.assemble(INDENT, (f"{mark} {text}", style)))

    def passed(self, text: str) -> None:
        """Print what a step has shown."""
        self.end_answer()
        self._console.print(Text.assemble(INDENT, ("✓ ", "bold green"), (text, "green")))
        self._console.print()

    def failed(self, text: str) -> None:
        """Print what a step expected and did not see."""
        self.end_answer()
        self._console.print(Text.assemble(INDENT, ("✗ ", "bold red"), (text, "red")))

    def _write(self, text: str) -> None:
        self._console.file.write(harmless(text))
        self._console.file.flush()
