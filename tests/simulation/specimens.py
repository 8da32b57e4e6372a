"""Two lives in which most things happen: what judges are shown with one thing in them changed."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.domain.webhooks import RUN_EVENTS
from hostler.simulation.entropy import EPOCH
from simulation.model_service import KEY_NAME, PRICE, URL
from simulation.plan import Action, Plan
from simulation.receivers import SECRET_NAME
from simulation.workloads import channels, hooks, reminders, schedules
from simulation.workloads.secrets import WRITTEN_OUT

RUNNER = "plugin:test/actor/"


def agent(name: str, runner: str = "resumable", **more: Any) -> dict[str, Any]:
    """Return the agent of one conversation, named like it."""
    return {
        "name": name,
        "runner": RUNNER + runner,
        "scope": {"type": "conversation", "id": name},
        "concurrency": {"on_busy": "queue"},
        **more,
    }


def message(at: float, name: str, to: str, steps: list[Any], **more: Any) -> Action:
    """Return a message to an agent."""
    return Action(at, "message", {"id": name, "agent": to, "conversation": to, "steps": steps, **more})


RULES = {
    "actor.refund": {
        "approval": "required",
        "subjects": ["user:clerk", "user:boss"],
        "min_approvals": 2,
        "editable": True,
    }
}
AGENTS = [
    agent("turn", concurrency={"on_busy": "queue", "debounce": 0.5}),
    agent("talk", concurrency={"on_busy": "steer"}),
    agent("queue", resource_policy={"allowed_agents": ["child"]}),
    agent("desk", "keeper", resource_policy={"tool_approval": RULES}),
    agent("plain", "plain", config={"timeout": 3}),
    agent("model", config={"model": "thinker"}, resource_policy={"budget": {"max_tokens_per_run": 10_000}}),
    agent("once", recovery={"max_attempts": 1}),
    {"name": "child", "runner": RUNNER + "resumable", "scope": {"type": "conversation", "id": "children"}},
]
ACTIONS = [
    message(0.1, "turn1", "turn", [["say", "turn1.a"]]),
    message(0.2, "turn2", "turn", [["say", "turn2.a"], ["say", "turn2.b"]]),
    message(0.3, "talk1", "talk", [["listen", 4, 0.5], ["say", "talk1.a"]]),
    message(0.9, "talk2", "talk", [["say", "talk2.a"]]),
    message(
        0.1, "queue1", "queue", [["deltas", 3, "d "], ["set", "k", "v"], ["wait", 1.0], ["say", "queue1.a"]]
    ),
    message(0.3, "queue2", "queue", [["get", "k"], ["say", "queue2.a"], ["tool", "refund", "queue2.b"]]),
    message(
        0.5,
        "desk1",
        "desk",
        [["say", "desk1.a"], ["hold", [["refund", "desk1.b"]]], ["tool", "refund", "desk1.b"]],
    ),
    message(4.0, "desk2", "desk", [["tool", "refund", "desk2.a"], ["ask", "desk2.b", 60]]),
    message(0.2, "once", "once", [["wait", 0.2]]),
    message(0.7, "paused", "desk", [["hold", [["pick", "paused.a"]]]]),
    message(1.0, "plain1", "plain", [["wait", 9.0]]),
    message(2.0, "plain2", "plain", [["wait", 0.5], ["fail"]]),
    message(0.6, "model1", "model", [["model", "model1.a"], ["stream", "model1.b"]]),
    message(
        3.0, "tools", "queue", [["tool", kind, f"tools.{kind}"] for kind in ("note", "book", "pay", "price")]
    ),
    message(5.0, "cancelled", "queue", [["stubborn", 3.0]]),
    message(6.0, "family", "queue", [["child", [["wait", 0.1], ["say", "child.a"]]]]),
    message(1.0, "turn1", "turn", [["say", "tenant.a"]], workspace="tenant"),
    Action(6.5, "cancel", {"event": "cancelled", "grace": 5.0, "host": 0}),
    Action(7.0, "retry", {"event": "plain2", "host": 0, "part": 0.0, "effects": False}),
]
CALM = Plan(
    seed="specimen",
    anchors=[0.05],
    people={"late": 1.0},
    models=[
        {
            "id": "thinker",
            "base_url": URL,
            "api_key": f"env:{KEY_NAME}",
            "timeout": 10.0,
            "max_retries": 0,
            "price": PRICE,
        }
    ],
    webhooks=[
        {"name": "hook", "url": "https://hook.example/notices", "secret": f"env:{SECRET_NAME}", "events": []},
        {
            "name": "ends",
            "url": "https://ends.example/notices",
            "secret": f"env:{SECRET_NAME}",
            "events": list(RUN_EVENTS),
        },
    ],
    agents=AGENTS,
    tenant=[agent("turn")],
    actions=ACTIONS,
)
"""Nothing goes wrong."""
HARD = Plan(
    seed="specimen",
    people={},
    agents=[agent("doubt"), agent("desk", "keeper")],
    actions=[
        Action(0.0, "kill host at call", {"stage": "done", "count": 1, "seconds": 1.0}),
        message(0.2, "doubt1", "doubt", [["tool", "note", "doubt1.a"], ["tool", "refund", "doubt1.b"]]),
        Action(8.0, "kill host", {"host": 0, "seconds": 1.0, "by": 0.0}),
        message(7.9, "desk1", "desk", [["say", "x"], ["hold", [["refund", "desk1.b"]]], ["wait", 3.0]]),
    ],
)
"""The host is killed in the middle of a call, and while somebody is asked."""

GONE = [["say", "amber 1"], ["set", "k", "amber 2"], ["file", "amber 3", 900]]
DELETES = {"kind": "conversation", "id": "talk", "cancels": False, "host": 0}
ERASED = Plan(
    seed="specimen",
    people={"ahead": 1.0},
    pause_key=["env:HOSTLER_SIMULATED_PAUSE_KEY"],
    agents=[agent("maker", "maker"), agent("desk", "keeper"), agent("ahead")],
    actions=[
        message(0.2, "sealed", "desk", [["hold", [["ask", "sealed?"]]], ["say", "on"]]),
        message(0.3, "ahead", "ahead", [["tool", "refund", "the same"] for _ in range(6)]),
        message(0.1, "gone", "maker", GONE, conversation="talk"),
        message(0.1, "kept", "maker", [["say", "birch 1"], ["set", "k", "birch 2"]], conversation="other"),
        Action(5.0, "erase", DELETES),
    ],
)
"""A conversation is deleted; pauses are sealed, and calls approved ahead."""

SEALED = Plan(
    seed="specimen",
    master_key=["env:HOSTLER_SIMULATED_MASTER_KEY"],
    agents=[agent("maker", "maker")],
    actions=[message(0.1, "said", "maker", [["say", "amber and birch and cedar"]], conversation="talk")],
)
"""Content is encrypted at rest."""
WATCHED = Plan(
    seed="specimen",
    agents=[agent("talk")],
    actions=[
        Action(0.0, "watch", {"id": "v0", "conversation": None, "start": True, "cut": 1.0, "host": 0}),
        message(0.5, "talk1", "talk", [["deltas", 2, "d "], ["say", "one"]]),
        message(2.0, "talk2", "talk", [["say", "two"]]),
    ],
)
"""Somebody watches the workspace."""
HELD = Plan(
    seed="specimen",
    master_key=["env:HOSTLER_SIMULATED_MASTER_KEY"],
    agents=[
        agent("holder", "holder", config={"key": "secret://token"}),
        agent("writer", "holder", config={"key": WRITTEN_OUT}),
    ],
    actions=[
        Action(0.0, "set secrets", {"changes": [[0.0, "set"], [3.0, "set"]], "host": 0}),
        *(
            msgspec.structs.replace(message(at, name, to, [["say", name]]), what="use secret")
            for at, name, to in ((0.5, "first", "holder"), (1.0, "other", "writer"), (6.0, "last", "holder"))
        ),
    ],
)
"""Agents with a stored secret, which is rotated, and with one that is written out."""

RING = {"conversation": "rings", "host": 0, "again": 1}
EVERY = {
    "agent": schedules.AGENT,
    "text": '[["wait", 0.1]]',
    "grace": 60.0,
    "end": schedules.text(EPOCH + 12),
}
SOURCES = Plan(
    seed="specimen",
    plugins=[channels.PLUGIN],
    hooks=[hooks.entry(50.0)],
    schedules=[
        {"name": "often", "every": 2.0, "misfire": "all", **EVERY},
        {"name": "by-the-clock", "cron": "*/4 * * * * *", "misfire": "once", **EVERY},
    ],
    channels=[channels.entry("keyed", "leave")],
    agents=[
        *(agent(name) for name in (hooks.AGENT, schedules.AGENT, channels.AGENT)),
        agent(reminders.AGENT, resource_policy={"allow_schedules": True}),
    ],
    actions=[
        message(0.4, "m0", reminders.AGENT, [["remind", "m0", 1, [["say", "later"]]]]),
        Action(0.5, "ring", {"id": "ring1", "steps": [["wait", 0.1]], "known": True, **RING}),
        Action(0.7, "ring", {"id": "ring2", "steps": [["wait", 0.2]], "known": True, **RING}),
        Action(1.0, "ring", {"id": "ring3", "steps": [["wait", 0.3]], "known": False, **RING}),
        Action(2.5, "fire now", {"name": "often", "host": 0}),
        Action(
            0.6,
            "speak",
            {"id": "t1", "chat": "hall", "person": "ada", "steps": [["say", "t1.a"], ["say", "t1.b"]]},
        ),
        Action(2.6, "speak", {"id": "t2", "chat": "hall", "person": "ada", "steps": [["say", "t2.a"]]}),
        Action(3.6, "speak", {"id": "t3", "chat": "hall", "person": "mallory", "steps": [["say", "t3.a"]]}),
        Action(4.6, "speak", {"id": "t4", "chat": "yard", "person": "bob", "steps": [["fail"]]}),
    ],
)
"""Events come from a hook, from schedules and from chats."""
