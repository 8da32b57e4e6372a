"""`hostler doctor` beside a server names the channels that are not connected, and why."""

from __future__ import annotations

import time
from pathlib import Path

from support.command_line import CommandLine

WIRES = Path(__file__).parents[1] / "support" / "plugins" / "wires"
SECONDS = 60.0
CONFIG = """\
plugins: [{{path: {wires}, level: trusted}}]
agents: [{{name: echo, runner: "plugin:test/wires/echo"}}]
channels: [{{name: lobby, channel: "plugin:test/wires/keyed", config: {{port: 1, token: "file:{token}"}}}}]
"""


def test_a_channel_that_cannot_reach_its_platform_is_named(hostler: CommandLine) -> None:
    token, config = hostler.cwd / "token", hostler.cwd / "hostler.yaml"
    token.write_text("t")
    config.write_text(CONFIG.format(wires=WIRES, token=token))
    with hostler.serving("--config", config) as server:
        until = time.monotonic() + SECONDS
        while hostler("channels", "list", "--json").json[0]["health"] != "failed":
            assert time.monotonic() < until, server.log
        looked = hostler("doctor", "--json")
        (found,) = [one for one in looked.json if one["what"] == "channel"]
        assert (looked.status, found["verdict"]) == (1, "wrong")
        assert found["text"].startswith("lobby is not connected: ")
