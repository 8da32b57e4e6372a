"""A plugin's entry is changed, moved and removed while its runs go on, by whatever way it came."""

from __future__ import annotations

import json
import shutil
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.command_line import ECHO, CommandLine, until

pytestmark = pytest.mark.timeout(600)  # several processes, one after the other
AGENT = {"name": "echo", "runner": "plugin:acme/echo/default"}


def folder(cwd: Path, name: str = "echo", suffix: str = "!") -> Path:
    """The echo example under another place, with another default suffix."""
    shutil.copytree(ECHO, cwd / name)
    for file in (cwd / name).rglob("*"):
        if file.is_file() and file.suffix in (".py", ".yaml"):
            file.write_text(file.read_text().replace('"default": "!"', f'"default": "{suffix}"'))
    return cwd / name


def write(conf: Path, *plugins: Any) -> Path:
    conf.write_text(json.dumps({"plugins": [*plugins], "agents": [AGENT]}))
    return conf


def levels(hostler: CommandLine) -> dict[str, Any]:
    plugins = hostler("export", "--json").json["plugins"]
    return {p if isinstance(p, str) else p["path"]: p.get("level") for p in plugins}


@pytest.mark.parametrize("running", [False, True])
def test_an_entry_with_another_level_is_a_change_and_survives_a_restart(
    hostler: CommandLine, running: bool
) -> None:
    place = folder(hostler.cwd)
    conf = hostler.cwd / "conf.yaml"

    def journey() -> None:
        assert hostler("apply", write(conf, "./echo")).status == 0
        changed = hostler("apply", write(conf, {"path": "./echo", "level": "trusted"}))
        assert changed.status == 0, changed.err
        assert changed.out.splitlines() == [f"~ plugin {place}", '    level: (default) → "trusted"']
        assert levels(hostler) == {str(place): "trusted"}

    if running:
        with hostler.serving():
            journey()
    else:
        journey()
    write(conf, {"path": "./echo", "level": "trusted", "limits": {"memory_mib": 512}})
    with hostler.serving("--config", conf) as server:
        assert hostler("run", "echo", "hi").status == 0
        write(conf, {"path": "./echo", "level": "sandboxed"})
        server.process.send_signal(signal.SIGHUP)
        server.wait_log("configuration applied: 1 changes")
        shown = hostler("plugins", "show", "acme/echo", "--json").json
        assert (shown["state"], shown["containment"].startswith("sandboxed")) == ("ready", True)
        assert hostler("run", "echo", "hi").status == 0


def test_a_folder_in_a_new_place_is_a_change_and_two_of_one_identity_are_named(hostler: CommandLine) -> None:
    one, two = folder(hostler.cwd, "one"), folder(hostler.cwd, "two", "?")
    conf = hostler.cwd / "conf.yaml"
    with hostler.serving("--config", write(conf, "./one")) as server:
        assert "hi!" in hostler("run", "echo", "hi").out
        both = hostler("apply", write(conf, "./one", "./two"))
        assert both.status == 2
        assert both.error == (
            f'{conf}: plugins[1] "./two": {one} and {two} both say that they are acme/echo: '
            "name one of them, or give one another name in its hostler.yaml"
        )
        moved = hostler("apply", write(conf, "./two"))
        assert moved.out.splitlines() == [f"~ plugin {two}", f'    path: "{one}" → "{two}"']
        assert "hi?" in hostler("run", "echo", "hi").out
        assert list(levels(hostler)) == [str(two)]
        assert server.stop() == 0
    shutil.rmtree(one)
    two.rename(one)
    with hostler.serving("--config", write(conf, "./one")):
        assert "hi?" in hostler("run", "echo", "hi").out
        assert list(levels(hostler)) == [str(one)]


def test_a_folder_tried_beside_a_server_can_be_served_afterwards(hostler: CommandLine) -> None:
    folder(hostler.cwd)
    conf = write(hostler.cwd / "conf.yaml", "./echo")
    with hostler.serving():
        assert "hi!" in hostler("run", "./echo", "hi").out
        listed = partial(hostler, "plugins", "list", "--json")
        until(lambda: listed().json == [], "something is left of the trial")
        assert hostler("apply", conf).status == 0
        assert "hi!" in hostler("run", "echo", "hi").out
        assert "hi!" in hostler("run", "./echo", "hi").out
    assert "hi!" in hostler("run", "./echo", "hi").out  # by itself, as the entry says
    hostler("apply", write(conf, {"path": "./echo", "level": "trusted"}))
    assert "hi!" in hostler("run", "./echo", "hi").out


def test_what_a_file_no_longer_names_is_removed_where_that_is_asked_for(hostler: CommandLine) -> None:
    place = folder(hostler.cwd)
    conf = hostler.cwd / "conf.yaml"
    with hostler.serving("--config", write(conf, "./echo")):
        conf.write_text(json.dumps({"agents": [AGENT]}))
        kept = hostler("apply", conf)
        assert "is already like this" in kept.err
        dry = hostler("apply", conf, "--prune", "--dry-run")
        assert dry.out.splitlines() == [f"- plugin {place}"]
        pruned = hostler("apply", conf, "--prune")
        assert pruned.out.splitlines() == [f"- plugin {place}"]
        assert pruned.error.startswith("agent echo: runner: there is no plugin 'acme/echo'; add it (")
        assert hostler("plugins", "list", "--json").json == []
        ended = hostler("run", "echo", "hi")
        assert ended.status == 1
        assert "there is no plugin acme/echo" in ended.err
        assert hostler("apply", write(conf, "./echo")).status == 0
        assert "hi!" in hostler("run", "echo", "hi").out
    conf.write_text("agents: []")
    with hostler.serving("--config", conf, "--prune") as server:
        assert hostler("export", "--json").json == {}
        write(conf, "./echo")
        server.process.send_signal(signal.SIGHUP)
        server.wait_log("configuration applied: 2 changes")
        conf.write_text(json.dumps({"plugins": ["./echo"]}))
        server.process.send_signal(signal.SIGHUP)
        server.wait_log("configuration applied: 1 changes")
        assert hostler("export", "--json").json == {"plugins": [{"path": str(place)}]}
