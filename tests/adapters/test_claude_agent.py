"""What agents of the Claude Agent SDK have of their own: built-in tools, permissions, options."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile, PluginEntry
from hostler_protocol.events import EventEnvelope
from support.adapter_agents import agent_of, as_event, model_entry, prepared, text_of
from support.model_answers import Answer, Recorded, wishes
from support.model_server import ModelServer
from support.stepping import CALLER, Ended, stage, within

pytestmark = [
    pytest.mark.timeout(600),  # the framework is installed
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux"),
]
AGENT = """
from claude_agent_sdk import ClaudeAgentOptions, PermissionResultAllow, PermissionResultDeny
from hostler_adapters.claude_agent import runner

async def decide(name, given, context):
    may = "allowed" in given["command"]
    return PermissionResultAllow() if may else PermissionResultDeny(message="not that")

async def listen(*_):
    return {}

Suite = runner(ClaudeAgentOptions(tools=["Bash"], {options}), name="suite")
"""


def run_in_shell(command: str) -> Any:
    """Script the service: one wish for the shell, then the result repeated."""

    def answer(request: Recorded) -> Answer:
        results = [text_of(one) for one in request.json["messages"] if one["role"] == "tool"]
        if results:
            return Answer(pieces=[f"Result: {results[-1]}"])
        return wishes(("call_shell", "Bash", {"command": command, "description": "Works"}))

    return answer


@contextlib.asynccontextmanager
async def running(options: str, command: str, tmp_path: Path) -> AsyncIterator[tuple[Any, ModelServer]]:
    plugin = await prepared("claude_agent", tmp_path, tmp_path / "data")
    (plugin / "agent.py").write_text(AGENT.replace("{options}", options))
    async with within(500), ModelServer(api_key="k") as server, stage(tmp_path / "data", agent=False) as host:
        server.always(run_in_shell(command))
        entries: list[Any] = [PluginEntry(path=str(plugin))]
        config = ConfigFile(
            plugins=entries, models=[model_entry(server)], agents=[convert(agent_of(), AgentSpec, "suite")]
        )
        await host.host.apply(config, actor="test")
        yield host, server


async def ended(host: Any) -> Ended:
    envelope = msgspec.convert(as_event("work"), EventEnvelope)
    accepted = await host.host.orchestrator.accept(envelope, CALLER)
    assert accepted.run is not None, accepted
    found: Ended = await host.ended(accepted.run.run_id)
    return found


@pytest.mark.parametrize(
    ("word", "said"), [("allowed", "Result: allowed"), ("other", "Result: error: not that")]
)
async def test_the_author_s_own_permissions_hold_and_calls_are_reported(
    tmp_path: Path, word: str, said: str
) -> None:
    async with running("can_use_tool=decide", f"touch made && echo {word}", tmp_path) as (host, server):
        run = await ended(host)
        assert run.record.status == "completed", run.last
        assert run.said == [said]
        assert len(server.requests) == 2
        reported = [r["data"] for r in run.results if r["type"].startswith("tool.call.")]
        assert [(one["tool_call_id"], one["tool_name"]) for one in reported] == [("call_shell", "Bash")] * 2
        assert (reported[1].get("error") is None) == (word == "allowed")


async def test_the_program_asks_the_door_alone_and_says_nothing_of_the_machine(tmp_path: Path) -> None:
    async with running("model='main', effort='low', can_use_tool=decide", "echo allowed", tmp_path) as (
        host,
        server,
    ):
        run = await ended(host)
        assert run.record.status == "completed", run.last
        for request in server.requests:
            assert request.json["model"] == "main"
            assert request.json["reasoning_effort"] == "low"
            said = request.body.decode()
            assert "cc_version" not in said
            assert "Today's date" not in said
            assert "OS Version" not in said


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("hooks={'Stop': [listen]}", "the options have hooks, which is not possible here"),
        ("resume='x'", "the options have resume, which is not possible here: the host keeps the session"),
        (
            "mcp_servers={'host': {'type': 'http', 'url': 'http://e'}}",
            "the options have an MCP server 'host', which is the host's",
        ),
    ],
)
async def test_options_that_cannot_be_kept_are_refused_where_the_runner_is_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: str, reason: str
) -> None:
    async with running(options, "echo x", tmp_path):
        assert f"agent fails while it is imported: ValueError: {reason}" in caplog.text
