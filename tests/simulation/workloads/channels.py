"""People who write in chats of a platform, to a bot whose channel breaks and whose platform fails."""

from __future__ import annotations

import json
from typing import Any

from simulation.life import WORKSPACE, Life
from simulation.plan import MAX_MOMENT, Action, Draft
from simulation.square import READING, READING_ILLS, SAYING, SAYING_ILLS
from simulation.workloads.services import plan_ills

AGENT = "greeter"
NAME = "lobby"
BOT = "bot"
PLUGIN = "talker"
KINDS = ("keyed", "keyed", "looking", "forgetful")
LOOK_SECONDS = 0.5
LOOKS = 60
"""For a question: its run may fail before it asks."""


def plan(draft: Draft) -> None:
    """A channel of one of the kinds, its agent, messages in two chats, and faults of the platform."""
    chance = draft.chance("channels")
    draft.plugins.append(PLUGIN)
    draft.channels.append(entry(chance.choice(KINDS), chance.choice(["leave", "send_again"])))
    draft.agents.append(
        {
            "name": AGENT,
            "runner": "plugin:test/actor/resumable",
            "concurrency": {"on_busy": chance.choice(["queue", "queue", "parallel", "steer"])},
            "recovery": {"max_attempts": 3},
            "scope": {"type": "conversation", "id": "only for the greeter"},
        }
    )
    for number in range(chance.randint(2, 8)):
        name = f"talk{number}"
        draft.add(
            chance.uniform(0, MAX_MOMENT * 0.8),
            "speak",
            id=name,
            chat=chance.choice(["hall", "yard"]),
            person=chance.choice(["ada", "bob", "mallory"] if chance.random() < 0.3 else ["ada", "bob"]),
            steps=_steps(chance, name),
        )
    _enrich(draft)
    plan_ills(draft, READING, READING_ILLS)
    plan_ills(draft, SAYING, SAYING_ILLS)


def _enrich(draft: Draft) -> None:
    """In some lives the platform has edits and buttons: answers grow there, and people press a choice."""
    chance, [channel] = draft.chance("rich chats"), draft.channels
    if not channel["channel"].endswith("/keyed") or chance.random() < 0.5:
        return
    channel["channel"] = f"plugin:test/{PLUGIN}/rich"
    for action in draft.actions:
        if action.what != "speak":
            continue
        name, steps = action.data["id"], action.data["steps"]
        pause = ["wait", round(chance.uniform(0.1, 2), 3)]
        if chance.random() < 0.7:
            steps[:0] = [["deltas", chance.randint(1, 4), f"{name} grows "], pause]
        if chance.random() < 0.7:
            steps[:0] = [["ask", f"{name}.asks", chance.choice([None, 60])]]
            action.data["press"] = chance.choice(["ada", "bob", action.data["person"]])


def entry(kind: str, on_doubt: str) -> dict[str, Any]:
    """Return the entry of the channel."""
    return {
        "name": NAME,
        "channel": f"plugin:test/{PLUGIN}/{kind}",
        "config": {"bot": BOT},
        "agent": AGENT,
        "on_doubt": on_doubt,
        "block": {"people": ["mallory"]},
    }


def _steps(chance: Any, name: str) -> list[list[Any]]:
    texts = [f"{name}.{number}" for number in range(3)]
    long = " ".join([texts[2], *(f"word{number}" for number in range(20))])
    wait = [["wait", round(chance.uniform(0.01, 2), 3)]]
    said = [[["say", texts[1]]], [["say", texts[1]], *wait, ["say", long]], [["say", long]]]
    return [*chance.choice([[], wait, [["tool", "note", texts[0]]]]), *chance.choice(said)]


async def speak(life: Life, action: Action) -> None:
    """Post something in a chat, and wait until the host has it."""
    data = action.data
    text = json.dumps(data["steps"])
    post = life.outside.square.post(data["chat"], data["person"], text)
    life.outside.note("posted in chat", id=data["id"], number=post.number, chat=post.chat)
    if data["person"] == "mallory":
        return
    while not life.rows(
        f"SELECT 1 FROM events WHERE workspace_id = '{WORKSPACE}' AND source = 'platform'"
        f" AND json_extract(body, '$.source_event_id') = '{post.number}'"
    ):
        await life.look_again(LOOK_SECONDS)
    if "press" in data:
        await _press(life, data["id"], data["press"])


async def _press(life: Life, name: str, person: str) -> None:
    """Press the first button below the question of a run, if it is asked before long."""
    square = life.outside.square
    for _ in range(LOOKS):
        for said in square.said:
            values = square.buttons.get(said.number)
            if values and f"{name}.asks" in said.text:
                post = square.post(said.chat, person, "", (said.number, values[0]))
                life.outside.note("pressed in chat", id=name, number=post.number, person=person)
                return
        await life.look_again(LOOK_SECONDS)


ACTIONS = {"speak": speak}
