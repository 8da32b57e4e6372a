"""What is posted is one event, in the order of its chat; what runs say is in the chat once, in order."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from hostler.domain.channels import FAILURE_TEXT
from simulation.life import WORKSPACE, Life
from simulation.square import Said
from simulation.workloads.channels import BOT, NAME


@dataclass(frozen=True, slots=True)
class Row:
    """A message of the outbox, and when it arrived on the platform."""

    id: str
    chat: str
    text: str
    status: str
    error: str | None
    maybe_twice: bool
    run: str
    sequence: int | None
    arrived: list[Said]
    """With what is seen of each in the end; of an edit: when that was so."""
    edited: list[str]
    """The texts of its edits that are messages of the outbox, too."""


def judge(life: Life) -> list[str]:
    """All of it."""
    if not life.plan.channels:
        return []
    return [*_events(life), *_sent(life), *_in_order(life), *_answers(life)]


def _events(life: Life) -> list[str]:
    """Each post is one event, those of the bot and of blocked people none; per chat in their order."""
    blocked = {BOT, *(one for entry in life.plan.channels for one in entry["block"]["people"])}
    events: dict[int, list[str]] = defaultdict(list)
    for event, body in life.rows(
        f"SELECT event_id, body FROM events WHERE workspace_id = '{WORKSPACE}' AND source = 'platform'"
        " ORDER BY seq"
    ):
        if body is not None:
            events[int(json.loads(body)["source_event_id"])].append(event)
    found = []
    for post in life.outside.square.posts:
        if post.press is not None:
            continue  # an answer to what waits, or to nobody
        wanted, ids = post.person not in blocked, events[post.number]
        if len(ids) != wanted:
            found.append(f"post {post.number} of {post.person} became {len(ids)} events: {ids}")
    places = list(events)
    for chat in {post.chat for post in life.outside.square.posts}:
        wanted_order = [post.number for post in life.outside.square.posts if post.chat == chat]
        order = [number for number in places if number in wanted_order and events[number]]
        if order != sorted(order):
            found.append(f"the posts of {chat} became events in the order {order}")
    return found


def _rows(life: Life) -> list[Row]:
    """The outbox in the order of its chats."""
    square, said = life.outside.square, defaultdict[str, list[Said]](list)
    for one in square.said:
        said[one.key].append(replace(one, text=square.shown(one)))
    found, keys, edits = [], dict[str, str](), defaultdict[str, list[str]](list)
    for key, number, body, status, error, twice, run, sequence in life.rows(
        "SELECT send_key, delivery_id, body, status, error, maybe_twice, run_id, result_sequence FROM outbox"
        f" WHERE workspace_id = '{WORKSPACE}' AND channel = '{NAME}' ORDER BY chat, position, delivery_id"
    ):
        out = json.loads(body)
        chat, text = out["target"]["chat_id"], out["message"]["text"]
        keys[number], arrived = key, said[key]
        if (edit := out.get("edit")) is not None:
            edits[edit["of"]].append(text)
            arrived = [
                replace(one, at=at, text=now)
                for one in said[keys.get(edit["of"], "")]
                for at, now in square.edits.get(one.number, [])
                if now == text == one.text
            ][:1]
        found.append(
            Row(number, chat, text, status, error, bool(twice), run, sequence, arrived, edits[number])
        )
    return found


def _sent(life: Life) -> list[str]:
    """What counts as sent arrived, and once; twice only where nobody could know, and then marked."""
    [entry] = life.plan.channels
    knows = not entry["channel"].endswith("forgetful")
    found = []
    for row in _rows(life):
        times, name = len(row.arrived), f"message {row.id} of run {row.run}"
        wrong = {one.text for one in row.arrived} - {row.text, *row.edited}
        found += [f"{name} arrived as {text!r}" for text in wrong]
        if times > 1 and (knows or not row.maybe_twice):
            found.append(f"{name} arrived {times} times, and is not marked")
        if row.status == "sent" and not times:
            found.append(f"{name} is marked as sent, and never arrived")
        elif row.status == "failed" and times:
            found.append(f"{name} is marked as failed, and arrived: {row.error}")
        elif row.status == "in_doubt" and (knows or entry["on_doubt"] != "leave"):
            found.append(f"{name} was left in doubt: {row.error}")
        if row.status in ("failed", "in_doubt") and not row.error:
            found.append(f"{name} is {row.status} without a reason")
    waiting = {
        number for (number,) in life.rows("SELECT delivery_id FROM chat_questions WHERE closed_at IS NULL")
    }
    found += [
        f"{row.text!r} has its buttons still, and nothing waits"
        for row in _rows(life)
        for one in row.arrived
        if life.outside.square.buttons.get(one.number) and row.id not in waiting and row.status == "sent"
    ]
    keys = {one.key for row in _rows(life) for one in row.arrived}
    return found + [
        f"{one.text!r} was said in {one.chat}, and is no message of the outbox"
        for one in life.outside.square.said
        if one.key not in keys
    ]


def _in_order(life: Life) -> list[str]:
    """Messages arrive in the order of their chat's outbox."""
    found = []
    for before, after in _neighbours(_rows(life)):
        if after.arrived[0].at < before.arrived[0].at:
            found.append(f"in {after.chat}, message {after.id} arrived before {before.id}")
    return found


def _neighbours(rows: list[Row]) -> Iterator[tuple[Row, Row]]:
    chats: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.arrived:
            chats[row.chat].append(row)
    for arrived in chats.values():
        yield from pairwise(arrived)


def _answers(life: Life) -> list[str]:
    """All that a run of the channel says is in the outbox, and one text when it has failed. Questions are
    there, too.
    """
    rows: dict[str, dict[int | None, str]] = defaultdict(lambda: defaultdict(str))
    for row in _rows(life):
        rows[row.run][row.sequence] += _bare(row.text)
    found = []
    for run, status in life.rows(
        "SELECT r.run_id, r.status FROM runs r JOIN events e ON e.workspace_id = r.workspace_id"
        f" AND e.event_id = r.event_id WHERE e.source = 'platform' AND r.workspace_id = '{WORKSPACE}'"
        " AND NOT EXISTS (SELECT 1 FROM run_sources s WHERE s.run_id = r.run_id)"
    ):
        texts = set(rows[run].values())
        for (data,) in life.rows(
            f"SELECT data FROM journal WHERE run_id = '{run}' AND type = 'message.completed'"
        ):
            text = json.loads(data)["data"]["message"]["content"]
            if _bare(text) not in texts:
                found.append(f"run {run} said {text[:60]!r}, which is not in the outbox")
        told = rows[run].get(None, "").count(_bare(FAILURE_TEXT))
        if told != (status == "failed"):
            found.append(f"run {run} is {status}, and the chat was told {told} times that it failed")
    return found


def _bare(text: str) -> str:
    """A text as it may be split: without white space."""
    return "".join(text.split())
