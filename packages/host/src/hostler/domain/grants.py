"""The grant: what one run may reach. Built once, frozen, stored with the run, and all that is ever checked.

effective = manifest permissions ∩ resource policy ∩ runner configuration ∩ the event's scope
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from hostler.domain.agents import Agent, ApprovalRule, Budget, ResourcePolicy, ToolApprovalPolicy
from hostler.domain.config_form import Configuration
from hostler.domain.events import Event
from hostler.domain.patterns import best_match, matches
from hostler.domain.skills import skill_of
from hostler.domain.tools import ToolPin
from hostler_protocol.calls import CALLS
from hostler_protocol.events import AvailableApis
from hostler_protocol.grants import (
    STATE_SCOPES,
    FileResource,
    KnowledgeBaseResource,
    ModelResource,
    Resources,
    SkillResource,
    StateScope,
    StorageResource,
    ToolApproval,
    ToolResource,
)
from hostler_protocol.ids import split_runner_id
from hostler_protocol.manifest import AgentRunnerManifest, Permissions

REMOTE_WORKER_CALLS = frozenset({"run.append", "run.finalize"})
"""Only a remote worker's grant holds these, never a runner's."""
STATE_CALLS = frozenset({"state.get", "state.set", "state.delete", "state.list"})
STORAGE_CALLS = frozenset({"storage.get", "storage.set", "storage.delete", "storage.keys"})
OPEN_CALLS = frozenset({"artifact.upload", "prompt.get", "host.info"})
"""Calls that concern the run alone and need no permission."""

_R = TypeVar("_R", ModelResource, ToolResource, KnowledgeBaseResource, FileResource)


@dataclass(frozen=True, slots=True)
class Catalog:
    """What the workspace has at the moment a grant is built; `operations` say what each thing can do."""

    models: Mapping[str, ModelResource] = field(default_factory=dict)
    tools: Mapping[str, ToolResource] = field(default_factory=dict)
    """`approval` of each is what the tool itself asks for."""
    knowledge_bases: Mapping[str, KnowledgeBaseResource] = field(default_factory=dict)
    skills: Mapping[str, SkillResource] = field(default_factory=dict)
    files: Mapping[str, FileResource] = field(default_factory=dict)
    platform_actions: frozenset[str] = frozenset()
    interactions: bool = False
    """Whether this host can put a question to a person."""
    tool_pins: Mapping[str, ToolPin] = field(default_factory=dict)


class Grant(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Stored as JSON. Resources are keyed by the id the runner names them with."""

    workspace_id: str
    agent_id: str
    agent_version: int
    runner_id: str
    owner: str
    """The plugin's `author/name`: whose connection may use this grant."""
    bot_id: str | None = None
    conversation_id: str | None = None
    thread_id: str | None = None
    calls: frozenset[str] = frozenset()
    """Host API methods that are open, each within what the rest says."""
    models: dict[str, ModelResource] = {}
    tools: dict[str, ToolResource] = {}
    knowledge_bases: dict[str, KnowledgeBaseResource] = {}
    skills: dict[str, SkillResource] = {}
    files: dict[str, FileResource] = {}
    tool_approvals: dict[str, ToolApprovalPolicy] = {}
    """Who must approve; tools that need nobody are left out."""
    tool_pins: dict[str, ToolPin] = {}
    """Each tool as it stood when the grant was built."""
    storage_areas: frozenset[str] = frozenset()
    actions: frozenset[str] = frozenset()
    cross_conversation_history: bool = False
    state_keys: dict[str, str] = {}
    """State scope -> storage key."""
    state_closed: dict[str, str] = {}
    """State scope that may not be used -> the reason."""
    budget: Budget = Budget()
    calls_per_second: float | None = None
    timeout_seconds: float | None = None
    platform_capabilities: dict[str, Any] = {}
    continuation: bool = False
    """Whether the runner may end an attempt with `run.paused`."""
    notes: list[str] = []
    """What was asked for and not granted, for the journal."""

    @cached_property
    def encoded(self) -> str:
        """The canonical JSON that is stored."""
        return msgspec.json.encode(self, order="deterministic").decode()


def decode_grant(text: str | bytes) -> Grant:
    """Read a stored grant."""
    return msgspec.json.decode(text, type=Grant)


def grant_for(
    *,
    manifest: AgentRunnerManifest,
    agent: Agent,
    event: Event,
    configuration: Configuration,
    catalog: Catalog,
    state_keys: Mapping[StateScope, str],
    state_closed: Mapping[StateScope, str],
) -> Grant:
    """Build the grant of one run.

    `state_keys` and `state_closed` come from the event's identities; scopes that the agent's state policy
    leaves out are closed here, whatever they say.
    """
    policy, permissions = agent.spec.resource_policy, manifest.permissions
    notes: list[str] = []
    models = _models(policy, permissions, configuration, catalog, notes)
    tools = _tools(policy, permissions, configuration, catalog, notes)
    knowledge_bases = _knowledge_bases(policy, permissions, configuration, catalog, notes)
    files = _files(permissions, configuration, catalog)
    storage_areas = _storage_areas(policy, permissions)
    opened, closed = _states(agent, state_keys, state_closed)
    envelope = event.envelope
    approvals = _approvals(policy, catalog, tools)
    return Grant(
        workspace_id=event.workspace_id,
        agent_id=agent.agent_id,
        agent_version=agent.version,
        runner_id=manifest.id,
        owner=split_runner_id(manifest.id)[0],
        bot_id=envelope.bot_id,
        conversation_id=envelope.conversation_id,
        thread_id=envelope.thread_id,
        calls=_calls(manifest, catalog, bool(agent.spec.state_policy.enable_state), storage_areas),
        models=models,
        tools=tools,
        knowledge_bases=knowledge_bases,
        skills=_skills(policy, catalog),
        files=files,
        tool_approvals=approvals,
        tool_pins={name: catalog.tool_pins[name] for name in tools if name in catalog.tool_pins},
        storage_areas=storage_areas,
        actions=frozenset(permissions.actions) & catalog.platform_actions,
        cross_conversation_history=policy.allow_cross_conversation_history,
        state_keys=opened,
        state_closed=closed,
        budget=policy.budget,
        calls_per_second=policy.rate.calls_per_second,
        timeout_seconds=configuration.timeout_seconds,
        platform_capabilities=envelope.delivery.platform_capabilities if envelope.delivery else {},
        continuation=manifest.capabilities.continuation and catalog.interactions,
        notes=notes,
    )


# -- one kind of resource each --------------------------------------------------------------------


def _allowed(
    kind: str, selected: Iterable[str], allowed: list[str] | None, known: Mapping[str, _R], notes: list[str]
) -> dict[str, _R]:
    """Ids within the policy: its list where it has one, else what the configuration selects.

    The list is the bound: a selection outside it is not granted. What the catalog does not know is left out.
    """
    wanted = dict.fromkeys(selected)
    if allowed is not None:
        notes += [_not_allowed(kind, name) for name in wanted if name not in allowed]
        wanted = dict.fromkeys(allowed)
    notes += [_not_known(kind, name) for name in wanted if name not in known]
    return {name: known[name] for name in wanted if name in known}


def _not_allowed(kind: str, name: str) -> str:
    return f"{kind} {name!r} is selected by the configuration, but the policy does not allow it"


def _not_known(kind: str, name: str) -> str:
    return f"{kind} {name!r} is not known to this host"


def _with_operations(granted: dict[str, _R], held: Iterable[str]) -> dict[str, _R]:
    """Narrow each resource to the operations that the manifest may ask for; drop what keeps none."""
    held = frozenset(held)
    narrowed = {
        name: msgspec.structs.replace(one, operations=[op for op in one.operations if op in held])
        for name, one in granted.items()
    }
    return {name: one for name, one in narrowed.items() if one.operations}


def _models(
    policy: ResourcePolicy,
    permissions: Permissions,
    configuration: Configuration,
    catalog: Catalog,
    notes: list[str],
) -> dict[str, ModelResource]:
    selected = configuration.selected.models
    granted = _allowed("model", selected, policy.allowed_model_ids, catalog.models, notes)
    return _with_operations(granted, permissions.models)


def _knowledge_bases(
    policy: ResourcePolicy,
    permissions: Permissions,
    configuration: Configuration,
    catalog: Catalog,
    notes: list[str],
) -> dict[str, KnowledgeBaseResource]:
    selected = configuration.selected.knowledge_bases
    granted = _allowed("knowledge base", selected, policy.allowed_kb_ids, catalog.knowledge_bases, notes)
    return _with_operations(granted, permissions.knowledge_bases)


def _tools(
    policy: ResourcePolicy,
    permissions: Permissions,
    configuration: Configuration,
    catalog: Catalog,
    notes: list[str],
) -> dict[str, ToolResource]:
    """Tools by name or pattern: the policy's list and the selection may both hold patterns.

    The tool of a skill comes with the skill, and never without it.
    """
    selected, allowed = configuration.selected.tools, policy.allowed_tool_names
    skills = _skills(policy, catalog)
    if allowed is not None:
        outside = [name for name in selected if not any(matches(pattern, name) for pattern in allowed)]
        notes += [_not_allowed("tool", name) for name in outside]
    patterns = selected if allowed is None else allowed
    unknown = [pattern for pattern in patterns if not any(matches(pattern, name) for name in catalog.tools)]
    notes += [_not_known("tool", pattern) for pattern in unknown]
    granted = {
        name: msgspec.structs.replace(tool, approval=_approval_word(policy, name, tool.approval))
        for name, tool in catalog.tools.items()
        if (skill in skills if (skill := skill_of(tool)) else any(matches(p, name) for p in patterns))
    }
    return _with_operations(granted, permissions.tools)


def _approval_word(policy: ResourcePolicy, name: str, own: ToolApproval) -> ToolApproval:
    rule = _approval(policy, name, own)
    if rule is None:
        return "never"
    pattern = best_match(policy.tool_approval, name)
    stated = None if pattern is None else policy.tool_approval[pattern]
    in_full = isinstance(stated, ToolApprovalPolicy) and stated.approval != "never"
    return "policy" if in_full else "required"


def _approval(policy: ResourcePolicy, name: str, own: ToolApproval) -> ToolApprovalPolicy | None:
    """The stricter of the policy's rule and what the tool itself asks for; who decides is the policy's."""
    pattern = best_match(policy.tool_approval, name)
    rule: ApprovalRule | ToolApprovalPolicy = "never" if pattern is None else policy.tool_approval[pattern]
    if isinstance(rule, str):
        rule = ToolApprovalPolicy(approval=rule)
    if rule.approval == "never":
        return None if own == "never" else msgspec.structs.replace(rule, approval="required")
    return rule


def _approvals(
    policy: ResourcePolicy, catalog: Catalog, granted: Iterable[str]
) -> dict[str, ToolApprovalPolicy]:
    rules = {name: _approval(policy, name, catalog.tools[name].approval) for name in granted}
    return {name: rule for name, rule in rules.items() if rule is not None}


def _skills(policy: ResourcePolicy, catalog: Catalog) -> dict[str, SkillResource]:
    allowed = policy.allowed_skill_names
    return {name: skill for name, skill in catalog.skills.items() if allowed is None or name in allowed}


def _files(
    permissions: Permissions, configuration: Configuration, catalog: Catalog
) -> dict[str, FileResource]:
    """Files the configuration selects, by the source the manifest may read."""
    return {
        name: catalog.files[name]
        for name in configuration.selected.files
        if name in catalog.files and catalog.files[name].source in permissions.files
    }


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
    manifest: AgentRunnerManifest, catalog: Catalog, state: bool, storage_areas: frozenset[str]
) -> frozenset[str]:
    opened = set(OPEN_CALLS)
    for method, call in CALLS.items():
        if call.permission is not None and method not in REMOTE_WORKER_CALLS:
            kind, operation = call.permission
            if operation in getattr(manifest.permissions, kind):
                opened.add(method)
    if state:
        opened |= STATE_CALLS
    if storage_areas:
        opened |= STORAGE_CALLS
    if manifest.permissions.files:
        opened.add("file.get")
    if manifest.capabilities.steering:
        opened.add("steering.pull")
    if catalog.interactions:
        opened.add("interaction.request")
    return frozenset(opened)


# -- projections ----------------------------------------------------------------------------------


def resources_of(grant: Grant) -> Resources:
    """`ctx.resources`: exactly what the grant holds."""
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
    """`ctx.context.available_apis`: which of the optional calls would be let through."""
    held = grant.calls
    return AvailableApis(
        history_page="history.page" in held,
        history_search="history.search" in held,
        event_get="event.get" in held,
        event_page="event.page" in held,
        artifact_metadata="artifact.metadata" in held,
        artifact_read="artifact.read" in held,
        state=bool(grant.state_keys),
        storage=bool(grant.storage_areas),
        steering_pull="steering.pull" in held,
        run_get="run.get" in held,
        run_list="run.list" in held,
        run_events_page="run.events" in held,
        run_cancel="run.cancel" in held,
    )
