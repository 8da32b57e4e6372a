"""All commands: those that speak with a server are alike, and what is wrong is one line with a status."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hostler.cli import agents, keys, models, pauses, plugins, runs, skills, tools
from hostler.cli.commands import app

GROUPS = {
    "agents": agents.app,
    "keys": keys.app,
    "models": models.app,
    "pauses": pauses.app,
    "plugins": plugins.app,
    "runs": runs.app,
    "skills": skills.app,
    "tools": tools.app,
}
COMMANDS = [
    (f"{group} {command.name}", command.callback)
    for group, found in GROUPS.items()
    for command in found.registered_commands
]


@pytest.mark.parametrize(("name", "callback"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_commands_of_a_server_take_the_same_options(name: str, callback: Callable[..., object]) -> None:
    parameters = list(inspect.signature(callback).parameters)
    assert parameters[-3:] == ["data", "url", "key"]
    assert ("as_json" in parameters) != (name == "runs export")  # which is JSON in any case


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["runs", "list", "--url", "nonsense", "--key", "k"], 2, "write http://HOST:PORT"),
        (["runs", "list", "--url", "http://h:99999", "--key", "k"], 2, "write http://HOST:PORT"),
        (["runs", "list", "--url", "http://h:1", "--key", "ä"], 2, "check --key or HOSTLER_KEY"),
        (["runs", "list", "--url", "http://h:1"], 1, "give it with --key or HOSTLER_KEY"),
        (["tools", "list"], 2, "start one with `hostler serve --data"),
        (["serve", "--public-url", "example.com"], 2, "write it like https://hostler.example.com"),
        (["pauses", "resolve", "p", "perhaps"], 2, "write happened or not-happened"),
        (["apply", "."], 2, ". cannot be read: Is a directory"),
        (["dev", "gone"], 2, "there is no plugin folder gone"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_that_says_what_to_do(
    arguments: list[str], status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOSTLER_URL", "HOSTLER_KEY", "HOSTLER_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOSTLER_DATA", str(tmp_path / "data"))
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == status
    assert ran.stdout == ""
    (line,) = ran.stderr.splitlines()
    assert line.startswith("error: ")
    assert said in line
    assert not (tmp_path / "data" / "admin.key").exists()
