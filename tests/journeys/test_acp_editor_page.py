"""The page for editors: its settings start the command as they say, and acpx talks to it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from journeys.test_docs import BLOCK
from support.command_line import EXAMPLES, HOSTLER, CommandLine, environment
from support.editors import editing
from support.node_clients import node_clients

pytestmark = pytest.mark.timeout(600)
PAGE = Path(__file__).parents[2] / "docs" / "clients" / "zed.md"
ACPX = "acpx@0.19.1"
CONFIG = """
plugins: [{path: PLUGIN, level: trusted}]
agents:
  - {name: guide, runner: "plugin:hostler/guide/default"}
"""
COMMAND = ["hostler", "acp", "guide"]


def blocks(language: str) -> list[str]:
    found = BLOCK.findall(PAGE.read_text("utf-8"))
    return [text for kind, mark, text in found if kind == language and not mark.strip()]


def served(hostler: CommandLine) -> str:
    config = hostler.cwd / "hostler.yaml"
    config.write_text(CONFIG.replace("PLUGIN", str(EXAMPLES / "guide")))
    return str(config)


async def test_the_settings_of_editors_start_it(hostler: CommandLine, tmp_path: Path) -> None:
    settings = [json.loads(text)["agent_servers"]["Hostler"] for text in blocks("json")]
    assert len(settings) == 2
    with hostler.serving("--config", served(hostler)) as server:
        for one in settings:
            assert [one["command"], *one["args"]] == COMMAND
            known: dict[str, Any] = {"HOSTLER_URL": server.url, "HOSTLER_KEY": server.key}
            assert one["env"].keys() == known.keys()
            async with editing(*one["args"][1:], folder=tmp_path, **known) as editor:
                session = await editor.new(tmp_path)
                await editor.say(session, "my name is Ada")
                await editor.say(session, "who am I?")
                assert "Ada" in editor.person.text().rpartition("\n")[2]


def test_the_settings_of_neovim_name_the_same_command() -> None:
    avante, companion = blocks("lua")
    command = re.search(r'command = "(\w+)",\s+args = \{ (.*?) \}', avante)
    assert command is not None
    assert [command[1], *re.findall(r'"(\w+)"', command[2])] == COMMAND
    default = re.search(r"default = \{ (.*?) \}", companion)
    assert default is not None
    assert re.findall(r'"(\w+)"', default[1]) == COMMAND


async def test_the_key_of_the_page_is_enough(hostler: CommandLine, tmp_path: Path) -> None:
    """The rights that the page gives a key are those that a session needs."""
    (made,) = [text for _, mark, text in BLOCK.findall(PAGE.read_text("utf-8")) if mark.strip() == "no-run"]
    (create,) = re.findall(r"hostler (keys create .*)", made.replace("\\\n", " "))
    with hostler.serving("--config", served(hostler)) as server:
        key = (await asyncio.to_thread(hostler, *shlex.split(create))).out.strip()
        where: dict[str, Any] = {"HOSTLER_URL": server.url, "HOSTLER_KEY": key}
        async with editing("guide", folder=tmp_path, **where) as editor:
            session = await editor.new(tmp_path)
            await editor.say(session, "note: buy bread")
            assert editor.person.of("agent_message_chunk")[0]["content"]["type"] == "resource"
            assert [one.session_id for one in (await editor.connection.list_sessions()).sessions] == [session]
            await editor.connection.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])


async def test_acpx_talks_to_it(hostler: CommandLine, tmp_path: Path) -> None:
    node = await asyncio.to_thread(node_clients, ACPX)
    programs = tmp_path / "programs"
    programs.mkdir()
    script = node.module("acpx") / "dist" / "cli.js"
    for name, command in (("hostler", HOSTLER), ("acpx", [str(node.program), str(script)])):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (programs / name).chmod(0o755)
    (lines,) = blocks("sh")
    first, second = lines.splitlines()
    with hostler.serving("--config", served(hostler)) as server:
        variables = environment(None, HOSTLER_URL=server.url, HOSTLER_KEY=server.key, HOME=str(tmp_path))
        variables["PATH"] = os.pathsep.join(
            [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        )

        def run(line: str) -> str:
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=tmp_path,
                env=variables,
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        assert "Ada" in await asyncio.to_thread(run, first)
        messages = [json.loads(line) for line in (await asyncio.to_thread(run, second)).splitlines()]
        assert "1 2 3" in "".join(
            one["params"]["update"]["content"]["text"]
            for one in messages
            if one.get("method") == "session/update"
            and one["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
        )
