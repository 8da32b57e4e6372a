"""`hostler secrets`: from the shell, without a server and with one; no value in any argument or output."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.keepers import keeper_plugin, mark_of

pytestmark = pytest.mark.gate("stored-secrets")

VALUE, LATER = "hunter2-of-the-shell", "correct-horse-battery"


@pytest.fixture(params=["with a server", "without one"])
def hostler(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CommandLine]:
    key = tmp_path / "master"
    key.write_text(os.urandom(32).hex())
    command = CommandLine(tmp_path / "data", tmp_path)
    assert command("config", "set", "master_key", f'keys=["file:{key}"]').status == 0
    if request.param == "without one":
        yield command
    else:
        with command.serving():
            yield command


def test_the_whole_life_of_a_secret(hostler: CommandLine, tmp_path: Path) -> None:
    said: list[str] = []

    def run(*arguments: str | Path, stdin: str = "", status: int = 0) -> str:
        ran = hostler("secrets", *arguments, stdin=stdin)
        assert ran.status == status, ran.err
        said.append(ran.out + ran.err)
        return ran.out + ran.err

    assert "no secrets yet" in run("list")
    assert "there is no secret 'token'" in run("rotate", "token", stdin=VALUE, status=1)
    assert "write secret://token where" in run("set", "token", stdin=f"{VALUE}\n")
    assert "the value is empty" in run("set", "other", status=2)
    assert "no text in UTF-8" in hostler("secrets", "set", "other", stdin=b"\xff\xfe").err
    keeper_plugin(tmp_path / "keeper")
    assert hostler("plugins", "add", tmp_path / "keeper", "level=trusted").status == 0
    made = hostler("agents", "add", "k", "runner=plugin:test/keeper/default", "config.key=secret://token")
    assert made.status == 0, made.err
    assert mark_of(VALUE) in hostler("run", "k", "hi").out
    assert "version 2; used by agent k: config.key" in run("rotate", "token", stdin=LATER)
    assert mark_of(LATER) in hostler("run", "k", "hi").out
    assert "agent k: config.key" in run("list")
    assert "agent k: config.key" in run("remove", "token", status=1)
    assert "is removed" in run("remove", "token", "--force")
    assert hostler("models", "add", "m", f"api_key={VALUE}").status == 0
    assert "api_key is secret://model-key now" in run("move", "models", "m", "api_key", "model-key")
    assert "model-key" in run("list", "--installation")
    assert "no secrets yet" in run("list")
    assert "1 secrets" in run("keys")
    for text in said:
        assert VALUE not in text
        assert LATER not in text


def test_without_a_master_key_the_command_says_how_to_get_one(tmp_path: Path) -> None:
    command = CommandLine(tmp_path / "data", tmp_path)
    refused = command("secrets", "set", "token", stdin=VALUE)
    assert refused.status == 2
    assert "openssl rand -base64 32" in refused.error
    assert "no master key is configured" in command("secrets", "keys").err


def test_keys_of_workspaces_are_rotated_from_the_shell(hostler: CommandLine) -> None:
    assert hostler("secrets", "rotate-keys", "--workspace", "nowhere").status == 1
    with_content = "w" * 30
    assert hostler("secrets", "set", "token", stdin=with_content).status == 0
    rotated = hostler("secrets", "rotate-keys")
    assert rotated.status == 0, rotated.err
    assert "keys are replaced" in rotated.err
    (fact,) = [
        one for one in hostler("audit", "list", "--json").json if one["action"] == "workspace_keys.rotated"
    ]
    assert fact["target"] == "*"
    assert hostler("audit", "verify").status == 0


def test_without_a_master_key_there_is_nothing_to_rotate(tmp_path: Path) -> None:
    ran = CommandLine(tmp_path / "data", tmp_path)("secrets", "rotate-keys")
    assert ran.status == 1
    assert "no master key is configured" in ran.err
