"""The resources granted to a run, by kind: models, tools, knowledge bases, skills, files.

If the configuration makes a choice for a kind of resource, with a selector of the runner's form, that choice
limits the grant and the policy limits it further: a policy never adds to a choice, not even to an empty one.
Without a choice (the form has no selector for the kind, or it was left unset) the policy alone decides.
docs/agents.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from hostler.domain.agents import ResourcePolicy
from hostler.domain.approvers import ApprovalRule, ToolApprovalPolicy
from hostler.domain.config_form import Configuration, ResourceKind, Selection
from hostler.domain.name_patterns import best_match, matches
from hostler.domain.record import Record
from hostler.domain.skills import skill_of
from hostler.domain.tool_pins import ToolPin
from hostler_protocol.grants import (
    FileResource,
    KnowledgeBaseResource,
    ModelResource,
    SkillResource,
    ToolApproval,
    ToolResource,
)
from hostler_protocol.manifest import Permissions

_R = TypeVar("_R", ModelResource, ToolResource, KnowledgeBaseResource, FileResource)


class ResourceCatalog(Record):
    """The resources of the workspace when a grant is built; `operations` are those that each supports."""

    models: Mapping[str, ModelResource] = msgspec.field(default_factory=dict)
    tools: Mapping[str, ToolResource] = msgspec.field(default_factory=dict)
    """`approval` is what the tool itself requires."""
    knowledge_bases: Mapping[str, KnowledgeBaseResource] = msgspec.field(default_factory=dict)
    skills: Mapping[str, SkillResource] = msgspec.field(default_factory=dict)
    files: Mapping[str, FileResource] = msgspec.field(default_factory=dict)
    interactions: bool = False
    """Whether this host can put a question to a person."""
    tool_pins: Mapping[str, ToolPin] = msgspec.field(default_factory=dict)
    bounded_by: tuple[str, Sequence[str]] | None = None
    """The entry of `workspaces` that bounds the workspace, with the names of its lists."""


class _Bounds(NamedTuple):
    """Limits for one kind of resource with ids. `what` is the kind's name in notes.

    `allowed` is the policy's list, or None without one. `by_policy`: the ids of that list for which the
    configuration makes no choice, so the policy alone decides.
    """

    what: str
    selected: Sequence[str]
    allowed: list[str] | None
    by_policy: Sequence[str]


def _within(bounds: _Bounds, known: Mapping[str, _R], notes: list[str]) -> dict[str, _R]:
    """Return the resources that are selected and allowed, then those that the policy alone grants."""
    what, selected, allowed, by_policy = bounds
    notes += [_not_allowed(what, name) for name in selected if allowed is not None and name not in allowed]
    wanted = [name for name in selected if allowed is None or name in allowed]
    wanted += [name for name in by_policy if name not in selected]
    notes += [_not_known(what, name) for name in wanted if name not in known]
    if allowed and not selected and not by_policy:
        notes.append(_none_selected(what))
    return {name: known[name] for name in wanted if name in known}


def _not_allowed(kind: str, name: str) -> str:
    return f"{kind} {name!r} is selected by the configuration, but the policy does not allow it"


def _not_known(kind: str, name: str) -> str:
    return f"{kind} {name!r} is not known to this host"


def _none_selected(kind: str) -> str:
    return f"no {kind} is granted: the policy allows some, but the configuration selects none"


def _with_operations(granted: dict[str, _R], permitted: Iterable[str]) -> dict[str, _R]:
    """Limit each resource to the operations that the manifest permits; drop those left with none."""
    permitted = frozenset(permitted)
    narrowed = {
        name: msgspec.structs.replace(one, operations=[op for op in one.operations if op in permitted])
        for name, one in granted.items()
    }
    return {name: one for name, one in narrowed.items() if one.operations}


def models_of(
    policy: ResourcePolicy,
    permissions: Permissions,
    configuration: Configuration,
    catalog: ResourceCatalog,
    notes: list[str],
) -> dict[str, ModelResource]:
    """Grant models. The policy has one list for all; a form may have a selector for each type of model."""
    selected, allowed = configuration.selected, policy.allowed_model_ids
    by_policy = [name for name in allowed or [] if not _is_decided(selected, catalog.models.get(name))]
    bounds = _Bounds("model", selected.models, allowed, by_policy)
    return _with_operations(_within(bounds, catalog.models, notes), permissions.models)


def _is_decided(selected: Selection, model: ModelResource | None) -> bool:
    """Whether the configuration makes a choice for this model's type; for None: for both types.

    No form has a selector of embedding models: the policy alone decides.
    """
    kinds: set[ResourceKind] = {"models", "rerank_models"}
    if model is not None:
        if model.model_type == "embedding":
            return False
        kinds = {"rerank_models"} if model.model_type == "rerank" else {"models"}
    return kinds <= selected.decided


def knowledge_bases_of(
    policy: ResourcePolicy,
    permissions: Permissions,
    configuration: Configuration,
    catalog: ResourceCatalog,
    notes: list[str],
) -> dict[str, KnowledgeBaseResource]:
    """Grant knowledge bases, by id."""
    selected, allowed = configuration.selected, policy.allowed_kb_ids
    by_policy = [] if "knowledge_bases" in selected.decided else allowed or []
    bounds = _Bounds("knowledge base", selected.knowledge_bases, allowed, by_policy)
    return _with_operations(_within(bounds, catalog.knowledge_bases, notes), permissions.knowledge_bases)


def tools_of(
    policy: ResourcePolicy,
    permissions: Permissions,
    configuration: Configuration,
    catalog: ResourceCatalog,
    notes: list[str],
) -> dict[str, ToolResource]:
    """Grant tools; the policy's list and the selection may have names and patterns.

    The tool of a skill is granted with the skill, and never without it.
    """
    selected, allowed = configuration.selected, policy.allowed_tool_names
    skills = skills_of(policy, catalog)
    if "tools" in selected.decided:
        patterns: Sequence[str] = selected.tools
        if allowed and not patterns:
            notes.append(_none_selected("tool"))
    else:
        patterns = allowed or []
    for pattern in patterns:
        matched = [name for name in catalog.tools if matches(pattern, name)]
        if allowed is not None and matched and not any(_matches_any(allowed, name) for name in matched):
            notes.append(_not_allowed("tool", pattern))
        elif not matched:
            notes.append(_not_known("tool", pattern))
    granted = {
        name: msgspec.structs.replace(tool, approval=_approval_word(policy, name, tool.approval))
        for name, tool in catalog.tools.items()
        if (skill in skills if (skill := skill_of(tool)) else _is_granted(name, patterns, allowed))
    }
    return _with_operations(granted, permissions.tools)


def _is_granted(name: str, patterns: Iterable[str], allowed: list[str] | None) -> bool:
    return _matches_any(patterns, name) and (allowed is None or _matches_any(allowed, name))


def _matches_any(patterns: Iterable[str], name: str) -> bool:
    return any(matches(pattern, name) for pattern in patterns)


def _approval_word(policy: ResourcePolicy, name: str, own: ToolApproval) -> ToolApproval:
    rule = _approval(policy, name, own)
    if rule is None:
        return "never"
    pattern = best_match(policy.tool_approval, name)
    stated = None if pattern is None else policy.tool_approval[pattern]
    in_full = isinstance(stated, ToolApprovalPolicy) and stated.approval != "never"
    return "policy" if in_full else "required"


def _approval(policy: ResourcePolicy, name: str, own: ToolApproval) -> ToolApprovalPolicy | None:
    """Return the stricter of the policy's rule and the tool's own; the policy names the approvers."""
    pattern = best_match(policy.tool_approval, name)
    rule: ApprovalRule | ToolApprovalPolicy = "never" if pattern is None else policy.tool_approval[pattern]
    if isinstance(rule, str):
        rule = ToolApprovalPolicy(approval=rule)
    if rule.approval == "never":
        return None if own == "never" else msgspec.structs.replace(rule, approval="required")
    return rule


def approvals_of(
    policy: ResourcePolicy, catalog: ResourceCatalog, granted: Iterable[str]
) -> dict[str, ToolApprovalPolicy]:
    """Return the approval policy of each granted tool that needs approval."""
    rules = {name: _approval(policy, name, catalog.tools[name].approval) for name in granted}
    return {name: rule for name, rule in rules.items() if rule is not None}


def own_approvals_of(policy: ResourcePolicy) -> dict[str, ToolApprovalPolicy]:
    """Return the approval policies, by pattern, of tools that the runner executes itself.

    The runner decides whether to ask; `never` only means that the default policy applies.
    """
    return {
        pattern: ToolApprovalPolicy(approval=rule) if isinstance(rule, str) else rule
        for pattern, rule in policy.tool_approval.items()
    }


def skills_of(policy: ResourcePolicy, catalog: ResourceCatalog) -> dict[str, SkillResource]:
    """Grant skills. The policy alone decides; no form selects skills."""
    allowed = policy.allowed_skill_names
    return {name: skill for name, skill in catalog.skills.items() if allowed is None or name in allowed}


def files_of(
    permissions: Permissions, configuration: Configuration, catalog: ResourceCatalog
) -> dict[str, FileResource]:
    """Grant the files that the configuration selects, if the manifest may read their source."""
    return {
        name: catalog.files[name]
        for name in configuration.selected.files
        if name in catalog.files and catalog.files[name].source in permissions.files
    }
