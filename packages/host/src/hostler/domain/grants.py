"""The grant: what one run may use. Built once, stored with the run, and the only thing that calls check.

effective = manifest permissions ∩ resource policy ∩ runner configuration ∩ the event's scope
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from hostler.domain.accounts import AcrossAccounts
from hostler.domain.action_actors import Causer
from hostler.domain.action_decisions import (
    ActionRules,
    action_rules_of,
    approvals_of_actions,
    granted_actions,
)
from hostler.domain.agents import Agent, ResourcePolicy
from hostler.domain.approvers import ToolApprovalPolicy
from hostler.domain.budget_limits import FrozenBudget, frozen
from hostler.domain.caller_tools import pin_of, refusal, resource_of, within_bounds
from hostler.domain.child_runs import ParentBounds, bounds_below
from hostler.domain.config_form import Configuration, configure
from hostler.domain.events import Event
from hostler.domain.granted_resources import (
    ResourceCatalog,
    approvals_of,
    files_of,
    knowledge_bases_of,
    models_of,
    own_approvals_of,
    skills_of,
    tools_of,
)
from hostler.domain.place import Place
from hostler.domain.platform_actions import ACTION_OF_TOOL
from hostler.domain.quotas import AgentQuota
from hostler.domain.reminders import refused_reason
from hostler.domain.tool_pins import ToolPin
from hostler_protocol.calls import CALLS
from hostler_protocol.events import AvailableApis, CallerTool
from hostler_protocol.grants import (
    STATE_SCOPES,
    FileResource,
    KnowledgeBaseResource,
    ModelResource,
    Resources,
    SkillResource,
    StateScope,
    StorageResource,
    ToolResource,
)
from hostler_protocol.ids import split_runner_id
from hostler_protocol.manifest import AgentRunnerManifest, Permissions

REMOTE_WORKER_CALLS = frozenset({"run.append", "run.finalize"})
"""Calls of remote workers; no runner's grant has them."""
STATE_CALLS = frozenset({"state.get", "state.set", "state.delete", "state.list"})
SCHEDULE_CALLS = frozenset({"schedule.create", "schedule.list", "schedule.delete"})
"""They are tools of the same names, too."""
STORAGE_CALLS = frozenset({"storage.get", "storage.set", "storage.delete", "storage.keys"})
_BY_PERMISSION = tuple(
    (method, *call.permission)
    for method, call in CALLS.items()
    if call.permission is not None and method not in REMOTE_WORKER_CALLS
)
"""Calls with the kind of resources and the operation that a manifest must ask for."""
OPEN_CALLS = frozenset({"artifact.upload", "prompt.get", "host.info"})
"""Calls that affect only the run itself and need no permission."""


class Grant(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Frozen permissions of a run, stored as JSON. Resources are keyed by the id that runners use."""

    workspace_id: str
    agent_id: str
    agent_version: int
    runner_id: str
    owner: str
    """The plugin, `author/name`, whose connection may use this grant."""
    bot_id: str | None = None
    conversation_id: str | None = None
    thread_id: str | None = None
    calls: frozenset[str] = frozenset()
    """Permitted Host API methods, each limited by the other fields."""
    models: dict[str, ModelResource] = {}
    primary_model: str | None = None
    """The first granted model that the configuration selects."""
    tools: dict[str, ToolResource] = {}
    knowledge_bases: dict[str, KnowledgeBaseResource] = {}
    skills: dict[str, SkillResource] = {}
    files: dict[str, FileResource] = {}
    tool_approvals: dict[str, ToolApprovalPolicy] = {}
    """Approval policies by tool; tools that need no approval are left out."""
    own_tool_approvals: dict[str, ToolApprovalPolicy] = {}
    """Approval policies of tools that the runner executes itself, by name pattern; the best match applies."""
    tool_pins: dict[str, ToolPin] = {}
    """Each tool's identity when the grant was built."""
    caller_tools: dict[str, CallerTool] = {}
    """The tools among them that the sender of the event carries out itself, as it brought them."""
    storage_areas: frozenset[str] = frozenset()
    actions: frozenset[str] = frozenset()
    """The platform actions that runner, agent and actor allow."""
    action_rules: ActionRules = ActionRules()
    """What else decides on them."""
    schedules_refused: str | None = None
    """Why the run makes no schedules; None: as far as manifest and tools allow."""
    allowed_agents: list[str] = []
    """Names and patterns of the agents that it may create runs of."""
    above: ParentBounds | None = None
    """What the runs above it permit; None: no run created it."""
    cross_conversation_history: bool = False
    across: AcrossAccounts | None = None
    """What it has of its person's other accounts; None: nothing."""
    state_keys: dict[str, str] = {}
    """State scope -> storage key."""
    state_closed: dict[str, str] = {}
    """State scope that may not be used -> the reason."""
    budget: FrozenBudget = FrozenBudget()
    quota: AgentQuota = AgentQuota()
    calls_per_second: float | None = None
    timeout_seconds: float | None = None
    streaming: bool = True
    """Whether deltas are stored and shown."""
    questions: bool = True
    """Whether questions are shown to people; otherwise they are denied."""
    idle_seconds: float | None = None
    """Seconds the run may go without a result or a call; None: until its deadline."""
    platform_capabilities: dict[str, Any] = {}
    continuation: bool = False
    """Whether the runner may end an attempt with `run.paused`."""
    notes: list[str] = []
    """Requested but not granted, with the reasons, for the journal."""
    chosen_by: dict[str, list[str]] | None = None
    """Kind of resource -> the items of the runner's form that choose it; None in grants of older hosts."""
    workspace_entry: str | None = None
    """The entry of `workspaces` that bounded the workspace when the grant was built."""
    workspace_lists: list[str] = []
    """The lists of that entry."""

    @cached_property
    def encoded(self) -> str:
        """The canonical JSON for storage."""
        return msgspec.json.encode(self, order="deterministic").decode()

    @property
    def bounds_below(self) -> ParentBounds:
        """The bounds of the runs that it creates."""
        return bounds_below(
            self.allowed_agents,
            self.above,
            cross_conversation_history=self.cross_conversation_history,
            calls_per_second=self.calls_per_second,
            cross_account_state=self.across is not None and self.across.state,
            cross_account_history=self.across is not None and self.across.history,
        )


def decode_grant(text: str | bytes) -> Grant:
    """Read a stored grant."""
    return msgspec.json.decode(text, type=Grant)


def grant_for(
    *,
    manifest: AgentRunnerManifest,
    agent: Agent,
    event: Event,
    configuration: Configuration,
    catalog: ResourceCatalog,
    state_keys: Mapping[StateScope, str],
    state_closed: Mapping[StateScope, str],
    above: ParentBounds | None = None,
    causer: Causer | None = None,
    across: AcrossAccounts | None = None,
) -> Grant:
    """Build the grant of one run. `above`: the bounds from the runs above it; None: no run created it.

    `causer`: who caused the event, where more is known of it than the event says. `across`: as in the grant.

    `state_keys` and `state_closed` come from the event's identities; scopes not in the agent's state policy
    are closed here in any case. DeniedError or InvalidArgumentError if the agent does not take the tools that
    the event brings.
    """
    policy, permissions = agent.spec.resource_policy, manifest.permissions
    notes: list[str] = []
    models = models_of(policy, permissions, configuration, catalog, notes)
    tools = tools_of(policy, permissions, configuration, catalog, notes)
    knowledge_bases = knowledge_bases_of(policy, permissions, configuration, catalog, notes)
    files = files_of(permissions, configuration, catalog)
    storage_areas = _storage_areas(policy, permissions)
    opened, closed = _states(agent, state_keys, state_closed)
    envelope = event.envelope
    action_rules = action_rules_of(policy, permissions.actions, event, causer)
    actions = granted_actions(action_rules)
    tools = _without_ungranted_actions(tools, actions, notes)
    no_schedules = refused_reason(
        allowed=policy.allow_schedules, place=Place.of(envelope), is_child=above is not None
    )
    if no_schedules is not None:
        named = {*(policy.allowed_tool_names or ()), *configuration.selected.tools}
        tools = _without_schedules(tools, named, no_schedules, notes)
    approvals = approvals_of(policy, catalog, tools) | approvals_of_actions(policy, actions)
    tools = {
        name: msgspec.structs.replace(tool, approval="required")
        if name in ACTION_OF_TOOL and name in approvals and tool.approval == "never"
        else tool
        for name, tool in tools.items()
    }
    pins = {name: catalog.tool_pins[name] for name in tools if name in catalog.tool_pins}
    of_caller = _caller_tools(agent, envelope.input.tools, tools, permissions, notes)
    return Grant(
        workspace_id=event.workspace_id,
        agent_id=agent.agent_id,
        agent_version=agent.version,
        runner_id=manifest.id,
        owner=split_runner_id(manifest.id)[0],
        bot_id=envelope.bot_id,
        conversation_id=envelope.conversation_id,
        thread_id=envelope.thread_id,
        calls=_calls(manifest, catalog, bool(agent.spec.state_policy.enable_state), storage_areas)
        - (frozenset() if no_schedules is None else SCHEDULE_CALLS),
        models=models,
        primary_model=next((name for name in configuration.selected.llm_models if name in models), None),
        tools=tools | {name: resource_of(tool, permissions.tools) for name, tool in of_caller.items()},
        knowledge_bases=knowledge_bases,
        skills=skills_of(policy, catalog),
        files=files,
        tool_approvals=approvals,
        own_tool_approvals=own_approvals_of(policy) if manifest.capabilities.continuation else {},
        tool_pins=pins | {name: pin_of(tool) for name, tool in of_caller.items()},
        caller_tools=of_caller,
        storage_areas=storage_areas,
        actions=actions,
        action_rules=action_rules,
        schedules_refused=no_schedules,
        allowed_agents=policy.allowed_agents or [],
        above=above,
        cross_conversation_history=_cross_conversation_history(policy, above, notes),
        across=across,
        state_keys=opened,
        state_closed=closed,
        budget=frozen(policy.budget),
        quota=policy.quota,
        calls_per_second=_calls_per_second(policy, above),
        timeout_seconds=configuration.timeout_seconds,
        streaming=agent.spec.delivery_policy.enable_streaming,
        questions=agent.spec.allow_questions,
        idle_seconds=agent.spec.idle_timeout,
        platform_capabilities=envelope.delivery.platform_capabilities if envelope.delivery else {},
        continuation=manifest.capabilities.continuation and catalog.interactions,
        notes=notes,
        chosen_by={kind: list(items) for kind, items in configuration.selected.chosen_by.items()},
        workspace_entry=None if catalog.bounded_by is None else catalog.bounded_by[0],
        workspace_lists=[] if catalog.bounded_by is None else list(catalog.bounded_by[1]),
    )


def _without_ungranted_actions(
    tools: dict[str, ToolResource], actions: Collection[str], notes: list[str]
) -> dict[str, ToolResource]:
    """Leave out the tools of platform actions that runner, agent or actor do not allow."""
    withheld = [name for name in tools if name in ACTION_OF_TOOL and ACTION_OF_TOOL[name] not in actions]
    notes += [f"tool {name!r} is not granted: its action is not allowed" for name in withheld]
    return {name: tool for name, tool in tools.items() if name not in withheld}


def _without_schedules(
    tools: dict[str, ToolResource], named: Collection[str], reason: str, notes: list[str]
) -> dict[str, ToolResource]:
    """Leave out the tools `schedule.*`. A pattern that matches them, too, did not ask for them."""
    withheld = [name for name in tools if name in SCHEDULE_CALLS]
    notes += [f"tool {name!r} is not granted: {reason}" for name in withheld if name in named]
    return {name: tool for name, tool in tools.items() if name not in withheld}


def own_tools(agent: Agent, manifest: AgentRunnerManifest, catalog: ResourceCatalog) -> Collection[str]:
    """Return the names of the tools that a run of the agent gets now, without those of its caller."""
    configuration = configure(manifest.config_schema, agent.spec.config)
    return tools_of(agent.spec.resource_policy, manifest.permissions, configuration, catalog, [])


def _caller_tools(
    agent: Agent,
    brought: Sequence[CallerTool],
    own: Mapping[str, ToolResource],
    permissions: Permissions,
    notes: list[str],
) -> dict[str, CallerTool]:
    """Grant the tools that the event brings; none to a runner that makes no calls of tools."""
    refused = refusal(agent, brought, own)
    if refused is not None:
        raise refused
    if brought and "call" not in permissions.tools:
        notes.append("the tools of the caller are not granted: the runner does not ask to call tools")
        return {}
    return within_bounds(brought, notes)


# -- history, storage, state and calls --------------------------------------------------------------


def _cross_conversation_history(policy: ResourcePolicy, above: ParentBounds | None, notes: list[str]) -> bool:
    if policy.allow_cross_conversation_history and above is not None and not above.cross_conversation_history:
        notes.append(
            "history of other conversations is not granted: the policy allows it, but the run that created "
            "this one may not read it"
        )
        return False
    return policy.allow_cross_conversation_history


def _calls_per_second(policy: ResourcePolicy, above: ParentBounds | None) -> float | None:
    rates = [policy.rate.calls_per_second, None if above is None else above.calls_per_second]
    return min((rate for rate in rates if rate is not None), default=None)


def _storage_areas(policy: ResourcePolicy, permissions: Permissions) -> frozenset[str]:
    opened = {"plugin": policy.allow_plugin_storage, "workspace": policy.allow_workspace_storage}
    return frozenset(area for area in permissions.storage if opened[area])


def _states(
    agent: Agent, keys: Mapping[StateScope, str], closed: Mapping[StateScope, str]
) -> tuple[dict[str, str], dict[str, str]]:
    policy = agent.spec.state_policy
    opened: dict[str, str] = {}
    refused: dict[str, str] = {}
    for scope in STATE_SCOPES:
        if not policy.enable_state:
            refused[scope] = "the agent's state policy has state switched off"
        elif scope not in policy.state_scopes:
            refused[scope] = "the agent's state policy does not open it"
        elif scope in keys:
            opened[scope] = keys[scope]
        else:
            refused[scope] = closed.get(scope, "the event has no identity for it")
    return opened, refused


def _calls(
    manifest: AgentRunnerManifest, catalog: ResourceCatalog, state: bool, storage_areas: frozenset[str]
) -> frozenset[str]:
    permissions = manifest.permissions
    opened = {*OPEN_CALLS, *(call for call, kind, may in _BY_PERMISSION if may in getattr(permissions, kind))}
    if state:
        opened |= STATE_CALLS
    if storage_areas:
        opened |= STORAGE_CALLS
    if manifest.permissions.files:
        opened.add("file.get")
    if manifest.permissions.actions:
        opened.add("action.request")
    if manifest.capabilities.steering:
        opened.add("steering.pull")
    if catalog.interactions:
        opened.add("interaction.request")
    return frozenset(opened)


# -- projections ----------------------------------------------------------------------------------


def resources_of(grant: Grant) -> Resources:
    """Return `ctx.resources`: exactly the granted resources."""
    return Resources(
        models=list(grant.models.values()),
        tools=list(grant.tools.values()),
        knowledge_bases=list(grant.knowledge_bases.values()),
        skills=list(grant.skills.values()),
        files=list(grant.files.values()),
        storage=StorageResource(
            plugin_storage="plugin" in grant.storage_areas,
            workspace_storage="workspace" in grant.storage_areas,
        ),
        platform_capabilities=grant.platform_capabilities,
    )


def apis_of(grant: Grant) -> AvailableApis:
    """Return `ctx.context.available_apis`: which of the optional calls the grant permits."""
    calls = grant.calls
    return AvailableApis(
        history_page="history.page" in calls,
        history_search="history.search" in calls,
        event_get="event.get" in calls,
        event_page="event.page" in calls,
        artifact_metadata="artifact.metadata" in calls,
        artifact_read="artifact.read" in calls,
        state=bool(grant.state_keys),
        storage=bool(grant.storage_areas),
        steering_pull="steering.pull" in calls,
        run_get="run.get" in calls,
        run_list="run.list" in calls,
        run_events_page="run.events" in calls,
        run_cancel="run.cancel" in calls,
    )
