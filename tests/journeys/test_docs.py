"""The blocks of the README and the guides do what they say."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.command_line import CommandLine, environment
from support.shell import run_line, shell_functions

pytestmark = pytest.mark.timeout(600)  # many processes, one after the other
ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\S*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"^# (\S+\.(?:py|yaml))\n")
Shell = Callable[[str], subprocess.CompletedProcess[str]]
COMMANDS = {"docs/adapters.md": 1, "docs/bring-your-own-agent.md": 1}
"""Commands of pages that have fewer than three."""
ENDLESS = ("hostler serve", "uv run", "pip install")


@dataclass(frozen=True)
class Block:
    language: str
    mark: str
    text: str


def blocks(page: str) -> list[Block]:
    found = BLOCK.findall((ROOT / page).read_text("utf-8"))
    return [Block(language, mark.strip(), text) for language, mark, text in found]


@pytest.fixture
def shell(hostler: CommandLine) -> Iterator[Shell]:
    """Runs a line of a page in a shell that knows `hostler` and `python`."""
    variables = environment(hostler.data, PYTHONDONTWRITEBYTECODE="1")
    with shell_functions(hostler.cwd.parent) as functions:
        yield lambda line: run_line(functions, line, hostler.cwd, variables)


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("README.md", {"python": "echo.py", "yaml": "hostler.yaml"}),
        ("docs/operate.md", {}),
        ("docs/runners.md", {}),
        ("docs/steering.md", {}),
        ("docs/model-door.md", {}),
        ("docs/adapters.md", {}),
        ("docs/bring-your-own-agent.md", {}),
    ],
)
def test_every_block_works_in_its_order(
    hostler: CommandLine, shell: Shell, page: str, names: dict[str, str]
) -> None:
    (hostler.cwd / "examples").symlink_to(ROOT / "examples")
    ran = 0
    for block in blocks(page):
        named = FILE_NAME.match(block.text)
        name = named[1] if named else names.get(block.language)
        if block.language in ("python", "yaml") and name:
            (hostler.cwd / name).write_text(block.text)
        elif block.language == "sh" and block.mark != "no-run":
            for line in block.text.splitlines():
                if not line.startswith(ENDLESS):
                    done = shell(line)
                    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
                    ran += 1
    assert ran >= COMMANDS.get(page, 3)


def test_the_readme_s_configuration_serves_an_agent(hostler: CommandLine) -> None:
    (hostler.cwd / "examples").symlink_to(ROOT / "examples")
    (config,) = [block.text for block in blocks("README.md") if block.language == "yaml"]
    (hostler.cwd / "hostler.yaml").write_text(config)
    with hostler.serving("--config", "hostler.yaml"):
        assert (
            hostler("chat", "guide", stdin="my name is Ada\nwho am I?\n")
            .out.splitlines()[-1]
            .startswith("You")
        )


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/operate.md",
        "docs/agents.md",
        "docs/runners.md",
        "docs/http.md",
        "docs/console.md",
        "docs/front-ends.md",
        "docs/streams.md",
        "docs/replay.md",
        "docs/local-agent.md",
        "docs/knowledge.md",
        "docs/steering.md",
        "docs/pauses.md",
        "docs/webhooks.md",
        "docs/model-door.md",
        "docs/services.md",
        "docs/runners/dify.md",
        "docs/runners/n8n.md",
        "docs/runners/coze.md",
        "docs/runners/dashscope.md",
        "docs/runners/langflow.md",
        "docs/runners/tbox.md",
        "docs/runners/weknora.md",
        "docs/runners/deerflow.md",
        "docs/runners/openai-responses.md",
        "docs/runners/langgraph.md",
        "docs/runners/a2a.md",
        "docs/runners/acp.md",
        "docs/channels/dingtalk.md",
        "docs/channels/discord.md",
        "docs/channels/email.md",
        "docs/channels/line.md",
        "docs/channels/slack.md",
        "docs/channels/telegram.md",
        "docs/channels/matrix.md",
        "docs/channels/wecom.md",
        "docs/channels/lark.md",
        "docs/write-a-channel.md",
        "docs/clients/a2a.md",
        "docs/clients/ag-ui.md",
        "docs/clients/ai-sdk.md",
        "docs/clients/langgraph.md",
        "docs/clients/mcp.md",
        "docs/clients/openai-chat.md",
        "docs/clients/openai-responses.md",
        "docs/clients/zed.md",
        "docs/adapters.md",
        "docs/bring-your-own-agent.md",
        "docs/langbot.md",
    ],
)
def test_every_link_leads_somewhere(page: str) -> None:
    text = BLOCK.sub("", (ROOT / page).read_text("utf-8"))
    links = re.findall(r"\]\(([^)#\s]+)\)", text)
    missing = [
        link for link in links if "://" not in link and not (ROOT / page).parent.joinpath(link).exists()
    ]
    assert missing == []


def test_the_readme_s_runner_is_a_dozen_lines() -> None:
    (runner,) = [block.text for block in blocks("README.md") if block.language == "python"]
    assert len(runner.strip().splitlines()) <= 12


def test_the_guide_to_replay_replays(hostler: CommandLine, shell: Shell) -> None:
    (hostler.cwd / "examples").symlink_to(ROOT / "examples")
    (begun, replayed) = [b.text for b in blocks("docs/replay.md") if b.language == "sh" and not b.mark]
    assert shell(begun).returncode == 0
    done = shell(replayed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "identical" in done.stdout
