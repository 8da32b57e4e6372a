"""What TARGET means to `run` and `chat`: an agent goes before a folder of its name; paths by their form."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import ECHO, CommandLine

pytestmark = pytest.mark.timeout(600)  # many processes, one after the other

BESIDE = "'helper' is the agent; for the plugin folder with this name, write ./helper"
BESIDE_RUNNER = "'helper:default' is the agent; for the plugin folder with this name, write ./helper:default"


@pytest.fixture
def conf(hostler: CommandLine) -> Path:
    """Agents that answer with `?`, beside folders of the same names, which answer with `!`."""
    for name in ("helper", "lonely", "team/helper"):
        folder = hostler.cwd / name
        shutil.copytree(ECHO, folder)
        own = (folder / "hostler.yaml").read_text().replace("name: echo", f"name: {name.replace('/', '-')}")
        (folder / "hostler.yaml").write_text(own)
    agents: list[dict[str, object]] = [
        {"name": name, "runner": "plugin:acme/echo/default", "config": {"suffix": "?"}, "event_types": []}
        for name in ("helper", "team/helper", "helper:default")
    ]
    path = hostler.cwd / "hostler.yaml"
    path.write_text(json.dumps({"plugins": [{"path": str(ECHO), "level": "trusted"}], "agents": agents}))
    assert hostler("apply", path).status == 0
    return path


@contextlib.contextmanager
def maybe_serving(hostler: CommandLine, through_server: bool) -> Iterator[None]:
    if not through_server:
        yield
        return
    with hostler.serving():
        yield


@pytest.mark.parametrize("through_server", [False, True])
def test_an_agent_is_not_shadowed_by_a_folder(hostler: CommandLine, conf: Path, through_server: bool) -> None:
    with maybe_serving(hostler, through_server):
        for name in ("helper", "team/helper"):
            ran = hostler("run", name, "hello")
            assert (ran.status, ran.out.strip()) == (0, "hello?"), ran.err
            assert ran.err.strip() == BESIDE.replace("helper", name)
        shown = hostler("run", "helper", "hello", "--json")
        assert [r["type"] for r in shown.results][-1] == "run.completed"
        alone = hostler("run", "helper:default", "hello")
        assert (alone.out.strip(), alone.err.strip()) == ("hello?", BESIDE_RUNNER)


@pytest.mark.parametrize("through_server", [False, True])
def test_a_chat_is_with_the_agent(hostler: CommandLine, conf: Path, through_server: bool) -> None:
    with maybe_serving(hostler, through_server):
        said = hostler("chat", "helper", stdin="hello\n")
        assert "hello?" in said.out, said.err
        assert BESIDE in said.err


def test_a_path_is_a_path(hostler: CommandLine, conf: Path) -> None:
    for path in ("./helper", "helper/", hostler.cwd / "helper", "./team/helper", "./helper:default"):
        ran = hostler("run", path, "hello")
        assert (ran.status, ran.out.strip(), ran.err) == (0, "hello!", ""), path


def test_a_folder_that_no_agent_is_named_after_needs_no_more_than_its_name(
    hostler: CommandLine, conf: Path
) -> None:
    ran = hostler("run", "lonely", "hello")
    assert (ran.status, ran.out.strip(), ran.err) == (0, "hello!", "")


def test_settings_for_the_folder_are_not_lost_on_the_agent(hostler: CommandLine, conf: Path) -> None:
    ran = hostler("run", "helper", "hello", "--set", "suffix=;")
    assert ran.status == 2
    assert "write ./helper" in ran.error
    assert hostler("run", "./helper", "hello", "--set", "suffix=;").out.strip() == "hello;"


def test_a_name_that_is_nothing_is_told_with_the_nearest_agent(hostler: CommandLine, conf: Path) -> None:
    ran = hostler("run", "helpr", "hello")
    assert ran.status == 2
    assert "there is no agent 'helpr': did you mean 'helper'?" in ran.error
