"""Tests of one model or one tool: an agent that may use it and nothing else, and the event that it serves.

Such an agent is a stored version without a name that events could reach: its id is the digest of what it may
use, so that a test made again is one of the same agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hostler.domain.agents import Agent, AgentSpec, Concurrency, ResourcePolicy, StatePolicy
from hostler.domain.bindings import Binding
from hostler.domain.skills import SKILL_TOOLS, skill_of
from hostler_protocol.events import EventEnvelope, Input
from hostler_protocol.grants import ToolResource
from hostler_protocol.ids import digest, new_id

TRIAL_PLUGIN = "hostler/trial"
MODEL_RUNNER = f"plugin:{TRIAL_PLUGIN}/model"
TOOL_RUNNER = f"plugin:{TRIAL_PLUGIN}/tool"
_ID_PREFIX = "trial-"
_EVENT_TYPE = "api.invoked"


class Trial(NamedTuple):
    """A test. `action` and `target` are for the audit log."""

    action: str
    target: str
    agent: Agent
    envelope: EventEnvelope

    @property
    def binding(self) -> Binding:
        """The agent of the test receives the event, whatever other agents there are."""
        return Binding(self.agent, "agent")


def is_trial_agent(agent_id: str) -> bool:
    """Whether this is the id of the agent of a test."""
    return agent_id.startswith(_ID_PREFIX)


def model_trial(
    workspace_id: str, model_id: str, model_type: str, text: str, documents: Sequence[str] = ()
) -> Trial:
    """Return the test of a model: a question, a text to embed, or a query with documents to order."""
    policy = _nothing(allowed_model_ids=[model_id])
    data: dict[str, Any] = {"model_id": model_id, "model_type": model_type}
    if documents:
        data["documents"] = list(documents)
    agent = _agent(workspace_id, model_id, MODEL_RUNNER, policy)
    return Trial("model.tested", model_id, agent, _event(Input(text=text), data))


def tool_trial(workspace_id: str, tool: ToolResource, arguments: dict[str, Any]) -> Trial:
    """Return the test of a tool: one call with these arguments."""
    name = tool.tool_name
    if tool.tool_type == SKILL_TOOLS:
        policy = _nothing(allowed_skill_names=[skill_of(tool) or name])
    else:
        policy = _nothing(allowed_tool_names=[name])
    agent = _agent(workspace_id, name, TOOL_RUNNER, policy)
    return Trial("tool.tested", name, agent, _event(Input(text=name), {"tool": name, "arguments": arguments}))


def _nothing(**allowed: list[str]) -> ResourcePolicy:
    lists: dict[str, Any] = {
        "allowed_model_ids": [],
        "allowed_tool_names": [],
        "allowed_kb_ids": [],
        "allowed_skill_names": [],
        **allowed,
    }
    return ResourcePolicy(**lists, allow_plugin_storage=False, allow_client_tools=False)


def _agent(workspace_id: str, name: str, runner: str, policy: ResourcePolicy) -> Agent:
    spec = AgentSpec(
        name=f"test: {name}",
        runner=runner,
        resource_policy=policy,
        state_policy=StatePolicy(enable_state=False),
        concurrency=Concurrency(on_busy="parallel"),
        event_types=[],
    )
    return Agent(workspace_id, f"{_ID_PREFIX}{digest(spec)[:32]}", 1, spec)


def _event(given: Input, data: dict[str, Any]) -> EventEnvelope:
    # an id of its own: the same test, made again, is another event
    return EventEnvelope(event_type=_EVENT_TYPE, event_id=new_id(), input=given, data=data)
