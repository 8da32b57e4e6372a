"""Settings of an agent of Google's ADK reach the model, or end the run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile, PluginEntry
from hostler_protocol.events import EventEnvelope
from support.adapter_agents import agent_of, answer_by_what_is_said, as_event, model_entry, prepared
from support.model_server import ModelServer
from support.stepping import CALLER, Ended, stage, within

pytestmark = [
    pytest.mark.timeout(600),  # the framework is installed
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux"),
]
AGENT = """
from google.adk.agents import LlmAgent
from google.genai import types
from hostler_adapters.google_adk import host_tools, model, runner
from pydantic import BaseModel

class Price(BaseModel):
    euros: int

agent = LlmAgent(name="suite", model=model(), tools=[host_tools()], {settings})
Suite = runner(agent, name="suite")
"""


async def asked(settings: str, tmp_path: Path) -> tuple[Ended, list[dict[str, Any]]]:
    """The end of a run of an agent with these settings, and what the model was asked."""
    plugin = await prepared("google_adk", tmp_path, tmp_path / "data")
    (plugin / "agent.py").write_text(AGENT.replace("{settings}", settings))
    async with within(500), ModelServer(api_key="k") as server, stage(tmp_path / "data", agent=False) as host:
        answer_by_what_is_said(server)
        entries: list[Any] = [PluginEntry(path=str(plugin))]
        agents = [convert(agent_of(), AgentSpec, "suite")]
        config = ConfigFile(plugins=entries, models=[model_entry(server)], agents=agents)
        await host.host.apply(config, actor="test")
        envelope = msgspec.convert(as_event("hello"), EventEnvelope)
        accepted = await host.host.orchestrator.accept(envelope, CALLER)
        assert accepted.run is not None, accepted
        return await host.ended(accepted.run.run_id), [request.json for request in server.requests]


async def test_settings_reach_the_model(tmp_path: Path) -> None:
    ended, requests = await asked(
        "generate_content_config=types.GenerateContentConfig(temperature=0.25, top_p=0.5, seed=7,"
        " max_output_tokens=77, stop_sequences=['END'], response_mime_type='application/json',"
        " response_json_schema=Price.model_json_schema(), tool_config=types.ToolConfig("
        "function_calling_config=types.FunctionCallingConfig(mode='ANY', "
        "allowed_function_names=['suite_price'])))",
        tmp_path,
    )
    assert ended.record.status == "completed", ended.last
    (request,) = requests
    assert {name: request[name] for name in ("temperature", "top_p", "seed", "stop")} == {
        "temperature": 0.25,
        "top_p": 0.5,
        "seed": 7,
        "stop": ["END"],
    }
    assert request["max_completion_tokens"] == 77
    assert request["response_format"]["json_schema"]["schema"]["properties"]["euros"]["type"] == "integer"
    assert request["tool_choice"] == {"type": "function", "function": {"name": "suite_price"}}


async def test_a_setting_without_a_form_ends_the_run_and_is_named(tmp_path: Path) -> None:
    ended, requests = await asked(
        "generate_content_config=types.GenerateContentConfig(temperature=0.25, top_k=3)", tmp_path
    )
    assert ended.record.status == "failed"
    assert "the model door has no form for these settings of the agent: top_k" in ended.last["error"]
    assert requests == []
