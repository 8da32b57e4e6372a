"""The pages of the runners of services: each terminal is that of a real host on a fake."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cached_installs import lend_environments
from support.command_line import CommandLine, environment
from support.services import (
    a2a,
    coze,
    dashscope,
    deerflow,
    dify,
    langflow,
    langgraph,
    n8n,
    openai_responses,
    tbox,
    weknora,
)
from support.services.server import Answer, ServiceServer
from support.shell import run_line, shell_functions

pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).parents[2]
SHOWN = "127.0.0.1:18080"
FAKES: dict[str, tuple[type[Any], dict[str, str]]] = {
    "dify": (dify.FakeDify, {"DIFY_KEY": dify.KEY}),
    "n8n": (n8n.FakeN8n, {"N8N_KEY": n8n.PASSWORD}),
    "coze": (coze.FakeCoze, {"COZE_KEY": coze.KEY}),
    "langflow": (langflow.FakeLangflow, {"LANGFLOW_KEY": langflow.KEY}),
    "tbox": (tbox.FakeTbox, {"TBOX_KEY": tbox.KEY}),
    "weknora": (weknora.FakeWeKnora, {"WEKNORA_KEY": weknora.KEY}),
    "deerflow": (deerflow.FakeDeerFlow, {"DEERFLOW_KEY": deerflow.KEY}),
    "openai-responses": (openai_responses.FakeOpenAI, {"OPENAI_KEY": openai_responses.KEY}),
    "langgraph": (langgraph.FakeLangGraph, {"LANGGRAPH_KEY": langgraph.KEY}),
    "a2a": (a2a.FakeA2A, {"A2A_KEY": a2a.KEY}),
    "dashscope": (dashscope.FakeDashScope, {"DASHSCOPE_KEY": dashscope.KEY}),
}
PAGES = sorted(path.stem for path in (ROOT / "docs" / "runners").glob("*.md"))


def block(text: str, language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found is not None, language
    return found[1]


def script(fake: ServiceServer, good: Any) -> None:
    """Two answers, and one that breaks; a wrong key comes between them."""
    fake.next(good(["Lisbon", " is the capital of Portugal."]))
    fake.next(good(["Oslo."]))
    whole = good(["Ro", "me"])
    part = whole.body[: -2 if isinstance(fake, coze.FakeCoze) else -1]
    fake.next(Answer([*part], content_type=whole.content_type, cut=True))


@pytest.mark.parametrize("name", sorted(FAKES))
async def test_its_terminal_is_true(name: str, hostler: CommandLine, tmp_path: Path) -> None:
    """A page whose terminal is out of date is written anew by `HOSTLER_WRITE_PAGES=1`."""
    page = ROOT / "docs" / "runners" / f"{name}.md"
    text = page.read_text("utf-8")
    kind, keys = FAKES[name]
    folder = ROOT / "runners" / name
    if "requires:" in (folder / "hostler.yaml").read_text("utf-8"):
        await asyncio.to_thread(lend_environments, "services", folder, hostler.data)
    async with kind() as fake:
        script(fake, fake.good)
        here = f"127.0.0.1:{fake.port}"
        (hostler.cwd / "hostler.yaml").write_text(block(text, "yaml").replace(SHOWN, here))
        console = block(text, "console")
        lines = [line.removeprefix("$ ") for line in console.splitlines() if line.startswith("$ ")]
        found = await asyncio.to_thread(terminal, hostler, lines, keys)
    found = found.replace(here, SHOWN)
    if console != found and os.environ.get("HOSTLER_WRITE_PAGES") == "1":
        page.write_text(text.replace(console, found))
    assert console == found
    assert len(fake.messages) == 3


def terminal(hostler: CommandLine, lines: list[str], keys: dict[str, str]) -> str:
    shown = []
    variables = environment(hostler.data, COLUMNS="110", **keys)
    with shell_functions(hostler.cwd.parent) as functions:
        for line in lines:
            done = run_line(functions, line, hostler.cwd, variables)
            shown += [f"$ {line}", *(done.stdout + done.stderr).splitlines()]
    return "".join(f"{line}\n" for line in shown)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_each_setting_of_its_form(name: str) -> None:
    manifest = yaml.safe_load((ROOT / "runners" / name / "hostler.yaml").read_text("utf-8"))
    (runner,) = manifest["runners"]
    rows = re.findall(
        r"^\| `([^`]+)` \|", (ROOT / "docs" / "runners" / f"{name}.md").read_text("utf-8"), re.MULTILINE
    )
    assert rows == [item["name"] for item in runner["config"]]


def test_each_page_is_listed() -> None:
    for place in ("docs/services.md", "README.md"):
        text = (ROOT / place).read_text("utf-8")
        assert [name for name in PAGES if f"runners/{name}" not in text] == [], place


def test_the_runners_that_come_with_the_host_are_listed(hostler: CommandLine) -> None:
    listed = hostler("runners", "--json").json
    folders = sorted(path.parent.name for path in (ROOT / "runners").glob("*/hostler.yaml"))
    folders.remove("trial")  # tests a model or a tool, and is no agent's
    assert [one["runner"] for one in listed] == [f"plugin:hostler/{name}/default" for name in folders]
    assert all(one["description"].startswith("Answers with ") for one in listed)
    plain = hostler("runners")
    assert "plugin:hostler/a2a/default\tAnswers with an agent that speaks A2A.\n" in plain.out
    assert "starts it" in plain.err
