"""The page of the coding agents' runner: its terminal is that of a real host on the scripted agent."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from journeys.test_service_pages import block, terminal
from support.acp import AGENT
from support.acp.sandboxed import prepared
from support.command_line import CommandLine

pytestmark = pytest.mark.timeout(600)
PAGE = Path(__file__).parents[2] / "docs" / "runners" / "acp.md"
REMOVE = ["ask", "t1", "rm -r build", "execute", {"command": "rm -r build"}]
TALK = {
    "Which files are here?": [["say", "There is a README.md and a folder build."]],
    "Remove the build folder.": [["say", "I will remove it."], REMOVE],
}
SHOWN = ["01a221a7-15e7-7135-aeff-d138e60fb48f", "01a221a7-0688-7d30-bbee-2cd2b61318bc"]
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


async def test_its_terminal_is_true(hostler: CommandLine) -> None:
    """A page whose terminal is out of date is written anew by `HOSTLER_WRITE_PAGES=1`."""
    text = PAGE.read_text("utf-8")
    workspace = await prepared(hostler.data)
    talk = workspace.root / "talk.json"
    talk.write_text(json.dumps(TALK))
    command = f"python {workspace.agent} --auth key --talk {talk}"
    given = block(text, "yaml")
    assert "provider: claude-code\n" in given
    played = f"provider: claude-code\n      api-key-variable: MODEL_KEY\n      command: '{command}'\n"
    (hostler.cwd / "hostler.yaml").write_text(given.replace("provider: claude-code\n", played))
    console = block(text, "console")
    lines = [line.removeprefix("$ ") for line in console.splitlines() if line.startswith("$ ")]
    found = await asyncio.to_thread(terminal, hostler, lines, {"ANTHROPIC_API_KEY": "right"})
    for real, shown in zip(dict.fromkeys(ID.findall(found)), SHOWN, strict=True):
        found = found.replace(real, shown)
    if console != found and os.environ.get("HOSTLER_WRITE_PAGES") == "1":
        PAGE.write_text(text.replace(console, found))
    assert console == found


def test_the_agent_is_a_program_of_its_own(tmp_path: Path) -> None:
    """It uses the official SDK and nothing of this project, so that both sides are not wrong together."""
    copied = shutil.copy(AGENT, tmp_path)
    assert "hostler_" not in Path(copied).read_text("utf-8")
