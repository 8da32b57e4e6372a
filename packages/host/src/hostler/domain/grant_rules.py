"""Why a run's grant permits a call or does not, and where each part of that came from. Pure.

Everything is read from the frozen grant and from the version of the agent that it was built for, which never
change: what manifest, form and workspaces say today does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from hostler.domain.accounts import person_of
from hostler.domain.agents import AgentSpec
from hostler.domain.child_runs import FIELD as ALLOWED_AGENTS
from hostler.domain.config_form import ResourceKind
from hostler.domain.grants import (
    OPEN_CALLS,
    REMOTE_WORKER_CALLS,
    STATE_CALLS,
    STORAGE_CALLS,
    Grant,
)
from hostler.domain.name_patterns import best_match
from hostler.domain.platform_actions import ACTION_OF_TOOL
from hostler.domain.reminders import NO_CONVERSATION, POLICY
from hostler.domain.skills import skill_of
from hostler_protocol.calls import CALLS

RuleSource = Literal["host", "manifest", "policy", "config", "event", "workspace", "parent", "people"]
"""`policy`: of the agent; `workspace`: the operator's bound for the workspace; `parent`: the runs above."""


class Rule(msgspec.Struct, frozen=True):
    """One rule. `field`: where its source says it, as it is written there; null if nothing is written."""

    source: RuleSource
    text: str
    field: str | None = None


_POLICY_LISTS = {
    "models": "allowed_model_ids",
    "tools": "allowed_tool_names",
    "knowledge_bases": "allowed_kb_ids",
}
HISTORY_CALLS = frozenset({"history.page", "history.search"})
MAX_NAMED = 20
"""Subjects of one rule that are named; a list of people may be long."""
_WORDS = {"models": "model", "tools": "tool", "knowledge_bases": "knowledge base", "files": "file"}


def grant_rules(grant: Grant, spec: AgentSpec | None, method: str, named: str | None) -> list[Rule]:
    """Return the rules of the grant about one call. `spec`: the agent's version, None if it is not kept.

    `named`: what the call named, a model for example.
    """
    rules = [_of_method(grant, method)]
    call = CALLS.get(method)
    if call is None or method not in grant.calls:
        return rules
    if method in HISTORY_CALLS and named in {None, grant.conversation_id}:
        rules += _of_other_chats(grant)
    if named is None:
        return rules
    if call.resource is not None:
        kind = "files" if call.permission is None else call.permission[0]
        return rules + _of_resource(grant, spec, kind, named)
    if method in STATE_CALLS:
        rules += _of_scope(grant, named)
    elif method in STORAGE_CALLS:
        rules.append(_of_area(grant, named))
    elif method == "history.page":
        rules.append(_of_conversation(grant, named))
    elif method == "run.create":
        rules += _of_child(grant, named)
    elif method == "action.request":
        rules += _of_action(grant, spec, named)
    return rules


# -- the method -------------------------------------------------------------------------------------------


def _of_method(grant: Grant, method: str) -> Rule:
    held, call = method in grant.calls, CALLS.get(method)
    if call is None:
        return Rule("host", f"there is no host call {method[:100]!r}")
    if method in REMOTE_WORKER_CALLS:
        return Rule("host", f"{method} is for remote workers, and part of no grant")
    if method in OPEN_CALLS:
        return Rule("host", f"{method} concerns only the run itself, and needs no permission")
    if call.permission is not None:
        return _permission_rule(grant, call.permission, held)
    for methods, rule in _BY_FAMILY:
        if method in methods:
            return rule(held)
    does = "can" if held else "cannot"
    return Rule("host", f"this host {does} put questions to people")


def _permission_rule(grant: Grant, permission: tuple[str, str], held: bool) -> Rule:
    kind, operation = permission
    if kind == "schedules" and grant.schedules_refused is not None:
        return _no_schedules(grant.schedules_refused)
    does = "asks" if held else "does not ask"
    return Rule("manifest", f"the runner {does} for {kind}: {operation}", f"permissions.{kind}")


def _no_schedules(why: str) -> Rule:
    source: RuleSource = {POLICY: "policy", NO_CONVERSATION: "event"}.get(why, "parent")  # type: ignore[assignment]
    field = {"policy": "resource_policy.allow_schedules", "event": "conversation_id"}.get(source)
    return Rule(source, why, field)


def _state_rule(held: bool) -> Rule:
    return Rule(
        "policy", f"the agent {'uses' if held else 'does not use'} state", "state_policy.enable_state"
    )


def _storage_rule(held: bool) -> Rule:
    text = "the runner asks for storage that the agent's policy allows"
    return Rule("manifest", text if held else f"not: {text}", "permissions.storage")


def _steering_rule(held: bool) -> Rule:
    return Rule("manifest", f"the runner {'can' if held else 'cannot'} be steered", "capabilities.steering")


def _file_rule(held: bool) -> Rule:
    text = f"the runner {'asks' if held else 'does not ask'} for files"
    return Rule("manifest", text, "permissions.files")


def _action_rule(held: bool) -> Rule:
    text = f"the runner {'asks' if held else 'does not ask'} for platform actions"
    return Rule("manifest", text, "permissions.actions")


_BY_FAMILY: Sequence[tuple[frozenset[str], Callable[[bool], Rule]]] = (
    (STATE_CALLS, _state_rule),
    (STORAGE_CALLS, _storage_rule),
    (frozenset({"steering.pull"}), _steering_rule),
    (frozenset({"file.get"}), _file_rule),
    (frozenset({"action.request"}), _action_rule),
)

# -- models, tools, knowledge bases, files ----------------------------------------------------------------


def _of_resource(grant: Grant, spec: AgentSpec | None, kind: str, name: str) -> list[Rule]:
    word = _WORDS[kind]
    held = getattr(grant, kind).get(name)
    if kind == "tools" and name in grant.caller_tools:
        rules = [
            Rule("event", f"the sender of the event brought tool {name!r}", "input.tools"),
            Rule("policy", "the agent takes tools of its callers", "resource_policy.allow_client_tools"),
        ]
    elif kind == "tools" and held is not None and (skill := skill_of(held)):
        rules = [_of_skill(spec, skill)]
    else:
        rules = [_of_configuration(grant, spec, kind, name)]
        if (policy := _of_policy(spec, kind, name, word)) is not None:
            rules.append(policy)
    if kind == "tools" and name in ACTION_OF_TOOL:
        rules += _of_action(grant, spec, ACTION_OF_TOOL[name])
    if held is None:
        rules += [Rule("host", note) for note in grant.notes if repr(name) in note]
        rules.append(
            Rule("host", f"{word} {name!r} is not in the grant, as it was frozen at the first attempt")
        )
        return rules + _of_workspace(grant, kind, word, held=False)
    if operations := getattr(held, "operations", None):
        text = f"{word} {name!r} is granted for {', '.join(operations)}"
        rules.append(Rule("manifest", text, f"permissions.{kind}"))
    if kind == "tools" and name in grant.caller_tools:  # the operator's lists are about tools of the host
        return rules
    return rules + _of_workspace(grant, kind, word, held=True)


def _of_configuration(grant: Grant, spec: AgentSpec | None, kind: str, name: str) -> Rule:
    if grant.chosen_by is None:
        return Rule("config", "not recorded: the grant is of an older host, which did not note what chose it")
    kinds: tuple[ResourceKind, ...] = {
        "models": ("models", "rerank_models"),
        "tools": ("tools",),
        "knowledge_bases": ("knowledge_bases",),
    }.get(kind, ("files",))  # type: ignore[assignment]
    items = [item for one in kinds for item in grant.chosen_by.get(one, ())]
    if not items:
        return Rule("config", f"the configuration makes no choice of a {_WORDS[kind]}: the policy decides")
    written = [item for item in items if spec is not None and _names(spec.config.get(item), name)]
    if written:
        return Rule("config", f"the configuration selects {name!r}", f"config.{written[0]}")
    if getattr(grant, kind).get(name) is not None:
        text = f"the configuration, or the default of its form, selects {name!r}"
        return Rule("config", text, f"config.{items[0]}")
    places = ", ".join(f"config.{item}" for item in items)
    return Rule("config", f"the configuration selects others, and not {name!r}", places)


def _names(value: object, name: str) -> bool:
    """Whether a value of a selector names this resource, itself or by a pattern."""
    if isinstance(value, str):
        return best_match([value], name) is not None
    if isinstance(value, dict):
        return any(_names(one, name) for one in value.values())
    return isinstance(value, list) and any(_names(one, name) for one in value)


def _of_policy(spec: AgentSpec | None, kind: str, name: str, word: str) -> Rule | None:
    field = _POLICY_LISTS.get(kind)
    if field is None:
        return None
    place = f"resource_policy.{field}"
    if spec is None:
        return Rule("policy", "not recorded: this version of the agent is not kept", place)
    allowed: list[str] | None = getattr(spec.resource_policy, field)
    if allowed is None:
        return Rule("policy", f"the policy has no list of {word}s", place)
    pattern = best_match(allowed, name) if kind == "tools" else (name if name in allowed else None)
    if pattern is None:
        return Rule("policy", f"the policy does not list {name!r}", place)
    by = "" if pattern == name else f", as {pattern!r}"
    return Rule("policy", f"the policy lists {name!r}{by}", place)


def _of_skill(spec: AgentSpec | None, skill: str) -> Rule:
    place = "resource_policy.allowed_skill_names"
    lists = spec is not None and spec.resource_policy.allowed_skill_names is not None
    text = f"the policy lists skill {skill!r}" if lists else f"all skills are granted, {skill!r} among them"
    return Rule("policy", f"{text}, and with it its tool", place)


def _of_workspace(grant: Grant, kind: str, word: str, *, held: bool) -> list[Rule]:
    if grant.workspace_entry is None:
        return []
    place = f"workspaces[{grant.workspace_entry}].{kind}"
    if kind not in grant.workspace_lists:
        return [Rule("workspace", f"the operator bounds this workspace, with no list of {word}s", place)]
    text = "allows it" if held else f"has a list of {word}s, which this one may not be on"
    return [Rule("workspace", f"the operator's entry for this workspace {text}", place)]


# -- scopes, areas, conversations, children ---------------------------------------------------------------


def _of_scope(grant: Grant, scope: str) -> list[Rule]:
    if scope in grant.state_keys:
        rule = Rule("policy", f"state scope {scope!r} is open to this run", "state_policy.state_scopes")
        person = person_of(grant.across) if scope == "actor" else None
        if person is None:
            return [rule]
        text = f"it is that of subject {person.subject!r:.200}, whichever of their accounts writes"
        return [rule, Rule("policy", text, "state_policy.actor_across_accounts")]
    why = grant.state_closed.get(scope, "there is no such scope")
    source: RuleSource = "policy" if "policy" in why else "event"
    return [Rule(source, f"state scope {scope!r} is closed to this run: {why}", "state_policy.state_scopes")]


def _of_other_chats(grant: Grant) -> list[Rule]:
    if grant.across is None or not grant.across.history:
        return []
    count, whose = len(grant.across.chats), grant.across.subject
    text = f"it has that of {count} other private chats of subject {whose!r:.200}, as of its first attempt"
    return [Rule("policy", text, "resource_policy.allow_cross_account_history")]


def _of_area(grant: Grant, area: str) -> Rule:
    held = area in grant.storage_areas
    text = f"{area} storage is {'granted' if held else 'not granted: the runner asks and the policy allows'}"
    if not held:
        text = f"{area} storage is not granted: that takes the runner's permission and the policy's"
    return Rule("policy", text, f"resource_policy.allow_{area}_storage")


def _of_conversation(grant: Grant, conversation_id: str) -> Rule:
    if conversation_id == grant.conversation_id:
        return Rule("event", "it is the conversation of this run", "conversation_id")
    allowed = "may" if grant.cross_conversation_history else "may not"
    field = "resource_policy.allow_cross_conversation_history"
    return Rule("policy", f"this run {allowed} read other conversations", field)


def _of_child(grant: Grant, agent: str) -> list[Rule]:
    pattern = best_match(grant.allowed_agents, agent)
    lists = f"lists {agent!r}" if pattern is not None else f"does not list {agent!r}"
    rules = [Rule("policy", f"the agent's policy {lists}", ALLOWED_AGENTS)]
    above = [] if grant.above is None else grant.above.allowed_agents
    if pattern is not None and above:
        all_list = all(best_match(names, agent) is not None for names in above)
        text = f"{'all' if all_list else 'not all'} runs above this one may create runs of {agent!r}"
        rules.append(Rule("parent", text, ALLOWED_AGENTS))
    return rules


def _of_action(grant: Grant, spec: AgentSpec | None, action: str) -> list[Rule]:
    rules = grant.action_rules
    asks, allows = best_match(rules.permitted, action), best_match(rules.allowed, action)
    found = [
        Rule("manifest", f"the runner {_does(asks, 'ask for')} {action!r:.80}", "permissions.actions"),
        Rule(
            "policy", f"the agent {_does(allows, 'allow')} {action!r:.80}", "resource_policy.allowed_actions"
        ),
    ]
    actors = {} if spec is None else spec.resource_policy.action_actors
    pattern = best_match(actors, action)
    if action in rules.refused_actor or pattern is not None:
        may = "may not" if action in rules.refused_actor else "may"
        text = f"who caused the event {may} have {action!r:.80} done"
        field = "resource_policy.action_actors"
        if pattern is not None:
            text = f"{text}: {', '.join(actors[pattern][:MAX_NAMED]) or 'nobody'} may"
            field = f"{field}[{pattern}]"
        found.append(Rule("policy", text, field))
    reach = "any chat of the bot" if rules.anywhere else "the chat of this run alone"
    return [*found, Rule("policy", f"its target may be {reach}", "resource_policy.actions_anywhere")]


def _does(match: str | None, verb: str) -> str:
    first, _, rest = verb.partition(" ")
    return f"{first}s {rest}".rstrip() if match is not None else f"does not {verb}"
