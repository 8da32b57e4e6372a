"""Plans that are a little smaller than a given one: what cutting a life down tries."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from simulation.plan import Action, Plan
from simulation.telling import waits_for_moment

Smaller = Callable[[Plan], Iterator[Plan]]
FIELDS = (
    "settings",
    "people",
    "plugins",
    "models",
    "pause_key",
    "master_key",
    "anchors",
    "webhooks",
    "tools",
    "tenant",
)
"""Fields of a plan that most lives leave as they are."""
SPARE = ("actor", "contents", "data", "delay")
"""What an action may have and need not."""
AGENT_NEEDS = ("name", "runner", "scope")
INNER_STEPS = ("together", "child", "leave", "kin")
"""Steps that hold steps, which could be taken one after the other instead."""
CALL_STEPS = ("tool", "shop", "desk", "model", "stream", "calls", "file", "scopes", "store", "flow")
"""Steps in whose place a run may as well wait."""
WAIT = ["wait", 1.0]
KILL = "kill host at call"
FEW_ACTIONS = 8
LEAST_GAP = 0.1
"""Seconds."""
GAPS = (0.2, 1.0)
"""Seconds. To these all longer gaps between actions are shortened at once."""


def fewer_parts(plan: Plan) -> Iterator[Plan]:
    """Without all actions of a kind; without an agent and its messages; without a message and what refers to
    it."""
    for what in dict.fromkeys(action.what for action in plan.actions):
        yield plan.without({n for n, action in enumerate(plan.actions) if action.what == what})
    for agent in plan.agents:
        ids = {one.data["id"] for one in plan.actions if _is_to(one, agent["name"])}
        less = msgspec.structs.replace(plan, agents=[one for one in plan.agents if one is not agent])
        yield less.without(
            {n for n, one in enumerate(plan.actions) if _is_to(one, agent["name"]) or _about(one) in ids}
        )
    for action in plan.actions:
        if action.what == "message":
            name = action.data["id"]
            yield plan.without(
                {n for n, one in enumerate(plan.actions) if one is action or _about(one) == name}
            )


def _is_to(action: Action, agent: str) -> bool:
    return action.what == "message" and action.data["agent"] == agent


def _about(action: Action) -> Any:
    return action.data.get("event")


def fewer_pairs(plan: Plan) -> Iterator[Plan]:
    """Where few actions are left: without two of them, or without one that a fault has counted, too."""
    if len(plan.actions) > FEW_ACTIONS:
        return
    for first, second in itertools.combinations(range(len(plan.actions)), 2):
        yield plan.without({first, second})
    for number, action in enumerate(plan.actions):
        count = action.data.get("count", 1)
        for other in range(len(plan.actions)):
            for less in dict.fromkeys((1, count - 1)):
                if count > 1 and other != number:
                    yield _with_data(plan, number, {**action.data, "count": less}).without({other})


def armed_first(plan: Plan) -> Iterator[Plan]:
    """Let a fault that waits for its moment begin to wait before anything else happens; without another
    action, which only made that later, and with it."""
    for number, action in enumerate(plan.actions):
        before = next((n for n in range(number) if not waits_for_moment(plan.actions[n].what)), None)
        if before is None or not waits_for_moment(action.what):
            continue
        early = plan.actions[before].at
        late = [Action(round(one.at + LEAST_GAP, 4), one.what, one.data) for one in plan.actions[before:]]
        del late[number - before]
        first = Action(early, action.what, action.data)
        actions = [*plan.actions[:before], first, *late]
        moved = msgspec.structs.replace(plan, actions=actions)
        yield from (moved.without({other}) for other in range(len(actions)) if actions[other] is not first)
        yield moved


def fewer_hosts(plan: Plan) -> Iterator[Plan]:
    """One host, and everything at the first one."""
    if plan.hosts > 1:
        yield msgspec.structs.replace(plan, hosts=1)
    for number, action in enumerate(plan.actions):
        if action.data.get("host"):
            yield _with_data(plan, number, {**action.data, "host": 0})


def less_of_the_rest(plan: Plan) -> Iterator[Plan]:
    """None of a field, or one thing less of it."""
    for name in FIELDS:
        value = getattr(plan, name)
        if value:
            yield msgspec.structs.replace(plan, **{name: type(value)()})
        if len(value) > 1 and isinstance(value, dict):
            for key in value:
                yield msgspec.structs.replace(plan, **{name: {k: v for k, v in value.items() if k != key}})
        elif len(value) > 1:
            for number in range(len(value)):
                yield msgspec.structs.replace(plan, **{name: value[:number] + value[number + 1 :]})


def fewer_agents(plan: Plan) -> Iterator[Plan]:
    """Without an agent that nothing names; with the messages of one sent to another."""
    for number, agent in enumerate(plan.agents):
        if not any(_names(action.data, agent["name"]) for action in plan.actions):
            yield msgspec.structs.replace(plan, agents=plan.agents[:number] + plan.agents[number + 1 :])
    used = list(dict.fromkeys(one.data["agent"] for one in plan.actions if one.what == "message"))
    for number, name in enumerate(used):
        for other in used[:number]:
            yield _sent_to(plan, "agent", name, other)
    talks = list(dict.fromkeys(one.data["conversation"] for one in plan.actions if one.what == "message"))
    for number, name in enumerate(talks):
        for other in talks[:number]:
            yield _sent_to(plan, "conversation", name, other)


def _names(data: Any, name: str) -> bool:
    return f'"{name}"' in json.dumps(data)


def _sent_to(plan: Plan, key: str, name: str, other: str) -> Plan:
    actions = [
        Action(one.at, one.what, {**one.data, key: other})
        if one.what == "message" and one.data[key] == name
        else one
        for one in plan.actions
    ]
    return msgspec.structs.replace(plan, actions=actions)


def simpler_agents(plan: Plan) -> Iterator[Plan]:
    """Without what an agent may have and need not."""
    for number, agent in enumerate(plan.agents):
        for less in _fewer_keys(agent, AGENT_NEEDS):
            yield msgspec.structs.replace(
                plan, agents=[*plan.agents[:number], less, *plan.agents[number + 1 :]]
            )


def _fewer_keys(value: dict[str, Any], kept: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    for key, inner in value.items():
        if key in kept:
            continue
        yield {name: one for name, one in value.items() if name != key}
        if isinstance(inner, dict) and len(inner) > 1:
            for less in _fewer_keys(inner):
                yield {**value, key: less}


def simpler_faults(plan: Plan) -> Iterator[Plan]:
    """A host is killed instead of losing power or being frozen, at a usual moment or that of the action."""
    for number, action in enumerate(plan.actions):
        kinds = []
        if action.what.startswith("power cut"):
            kinds.append(action.what.replace("power cut", "kill host"))
        if action.what.startswith(("kill host ", "power cut ")) and "host" in action.data:
            kinds.append("kill host")
        if "stage" in action.data and (action.what != KILL or action.data["stage"] != "arrived"):
            usual = {**action.data, "stage": "arrived", "count": 1}
            for what in dict.fromkeys((KILL, action.what)):
                actions = list(plan.actions)
                actions[number] = Action(action.at, what, usual)
                if actions != plan.actions:
                    yield msgspec.structs.replace(plan, actions=actions)
        for what in kinds:
            actions = list(plan.actions)
            actions[number] = Action(action.at, what, action.data)
            yield msgspec.structs.replace(plan, actions=actions)


def shorter_data(plan: Plan) -> Iterator[Plan]:
    """Lists with fewer items, and lists in lists; times and counts that are smaller."""
    for number, action in enumerate(plan.actions):
        for key in SPARE:
            if key in action.data:
                yield _with_data(plan, number, {k: v for k, v in action.data.items() if k != key})
        for data in _shorter(action.data):
            yield _with_data(plan, number, data)


def _with_data(plan: Plan, number: int, data: dict[str, Any]) -> Plan:
    actions = list(plan.actions)
    actions[number] = Action(actions[number].at, actions[number].what, data)
    return msgspec.structs.replace(plan, actions=actions)


def _shorter(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "steps" and inner and all(isinstance(one, str) for one in inner):
                yield from ({**value, key: inner[:n] + inner[n + 1 :]} for n in range(len(inner)))
            for less in _shorter(inner):
                yield {**value, key: less}
    elif isinstance(value, list):
        yield from _shorter_list(value)
    elif isinstance(value, float) and value > 0.1:
        lower = (0.05, value / 4, value / 2)
        yield from dict.fromkeys(float(f"{less:.1g}") for less in lower if less < value * 0.7)
    elif isinstance(value, int) and not isinstance(value, bool) and value > 1:
        yield from dict.fromkeys((1, value // 2, value - 1))


def _shorter_list(value: list[Any]) -> Iterator[Any]:
    is_program = all(isinstance(inner, list) for inner in value)
    for number, inner in enumerate(value):
        if is_program:
            yield value[:number] + value[number + 1 :]
            if inner[0] in INNER_STEPS:
                yield [*value[:number], *inner[1], *value[number + 1 :]]
            if inner[0] in CALL_STEPS:
                yield [*value[:number], WAIT, *value[number + 1 :]]
            if inner[0] == "ask" and len(inner) > 2:
                yield [*value[:number], inner[:2], *value[number + 1 :]]
        for less in _shorter(inner):
            yield [*value[:number], less, *value[number + 1 :]]


def earlier(plan: Plan) -> Iterator[Plan]:
    """Everything sooner: all long gaps at once, then the first action at once, and single gaps shorter."""
    gaps = [
        action.at - (plan.actions[number - 1].at if number else 0.0)
        for number, action in enumerate(plan.actions)
    ]
    for most in GAPS:
        if any(gap > most + LEAST_GAP / 2 for gap in gaps):
            yield _with_gaps(plan, [min(gap, most) for gap in gaps])
    for number, gap in enumerate(gaps):
        least = LEAST_GAP if number else 0.0
        for shorter in dict.fromkeys((least, max(least, gap / 4), max(least, gap / 2))):
            if gap - shorter > LEAST_GAP / 2:
                yield _with_gaps(plan, [*gaps[:number], shorter, *gaps[number + 1 :]])


def _with_gaps(plan: Plan, gaps: list[float]) -> Plan:
    at, actions = 0.0, []
    for action, gap in zip(plan.actions, gaps, strict=True):
        at += gap
        actions.append(Action(round(at, 4), action.what, action.data))
    return msgspec.structs.replace(plan, actions=actions)
