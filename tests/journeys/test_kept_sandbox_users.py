"""A host that runs as root gives each plugin a user, the same one after a restart."""

from __future__ import annotations

import json
import os
import sys

import pytest

from support.command_line import ECHO, CommandLine

pytestmark = [
    pytest.mark.gate("sandbox-users"),
    pytest.mark.timeout(600),  # two servers, one after the other
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root gives users"),
]


def test_a_plugin_has_its_own_user_across_restarts(hostler: CommandLine) -> None:
    conf = hostler.cwd / "conf.yaml"
    agent = {"name": "echo", "runner": "plugin:acme/echo/default"}
    conf.write_text(json.dumps({"plugins": [str(ECHO)], "agents": [agent]}))
    workspace = hostler.data / "plugins" / "workspaces" / "acme" / "echo"
    owners = []
    for _ in range(2):
        with hostler.serving("--config", conf):
            assert hostler("run", "echo", "hi").status == 0
            owners.append(workspace.stat().st_uid)
    kept = json.loads((hostler.data / "sandbox-users.json").read_bytes())
    assert owners == [kept["plugin acme/echo"][0]] * 2
    assert owners[0] != 0
