"""`hostler runs show RUN --as DIALECT`: a recorded run as clients of a standard interface read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.command_line import CommandLine

TEXT = "hello, 世界"


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[CommandLine, str]:
    """A command line with one recorded run, and its id."""
    line = CommandLine(tmp_path / "data", tmp_path)
    (tmp_path / "echo.py").write_text(
        "from hostler_sdk import Runner, delta, message\n\n\n"
        "class Echo(Runner):\n    capabilities = {'streaming'}\n\n"
        "    async def run(self, ctx):\n"
        "        yield delta(ctx.input.text[:3])\n"
        "        yield message(ctx.input.text)\n"
    )
    return line, line("run", f"{tmp_path / 'echo.py'}:Echo", TEXT, "--json").results[0]["run_id"]


def chunks(out: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in out.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def test_a_run_is_shown_in_each_interface(recorded: tuple[CommandLine, str]) -> None:
    line, run_id = recorded
    message = chunks(line("runs", "show", run_id, "--as", "ai-sdk").out)
    assert message[0]["messageId"] == f"msg_{run_id}"
    assert "".join(str(one["delta"]) for one in message if one["type"] == "text-delta") == TEXT
    for dialect, kind in (("responses", "response.output_text.delta"), ("ag-ui", "TEXT_MESSAGE_CONTENT")):
        events = chunks(line("runs", "show", run_id, "--as", dialect).out)
        assert "".join(str(one["delta"]) for one in events if one["type"] == kind) == TEXT
    completion = chunks(line("runs", "show", run_id, "--as", "chat-completions").out)
    pieces = [choice["delta"].get("content", "") for one in completion for choice in one["choices"]]
    assert "".join(piece or "" for piece in pieces) == TEXT
    events = chunks(line("runs", "show", run_id, "--as", "responses").out)
    assert events[-1]["type"] == "response.completed"
    said = [one["delta"] for one in events if one["type"] == "response.output_text.delta"]
    assert "".join(map(str, said)) == TEXT
    updates = [
        one["artifactUpdate"]["artifact"]
        for one in chunks(line("runs", "show", run_id, "--as", "a2a").out)
        if "artifactUpdate" in one
    ]
    assert "".join(part["text"] for artifact in updates for part in artifact["parts"]) == TEXT
    lines = line("runs", "show", run_id, "--as", "langgraph").out.splitlines()
    tokens = [lines[place + 1] for place, text in enumerate(lines) if text == "event: messages"]
    pieces = [json.loads(text.removeprefix("data: "))[0]["content"] for text in tokens]
    assert "".join(pieces) == TEXT
    result = line("runs", "show", run_id, "--as", "mcp").out.splitlines()[-2].removeprefix("data: ")
    assert json.loads(result)["result"]["structuredContent"]["status"] == "completed"


def test_an_unknown_interface_is_answered_with_the_nearest(recorded: tuple[CommandLine, str]) -> None:
    line, run_id = recorded
    refused = line("runs", "show", run_id, "--as", "ai-sdk7")
    assert (refused.status, "did you mean 'ai-sdk'?" in refused.error) == (1, True)
