"""Each planned time of a schedule fires once or is left out once, and no other moment fires."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import datetime
from typing import Any

from simulation.life import WORKSPACE, Life


def judge(life: Life) -> list[str]:
    """All of it."""
    return [*_planned(life), *_on_time(life), *_asked(life), *_reminded(life)]


def _events(life: Life) -> dict[str, list[dict[str, Any]]]:
    """The events of each schedule by its name: what they say of their firing, with their ids."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event, body in life.rows(
        "SELECT event_id, body FROM events WHERE event_type = 'schedule.triggered'"
        f" AND workspace_id = '{WORKSPACE}' AND body IS NOT NULL"
    ):
        said = json.loads(body)["data"]["schedule"]
        found[said["name"]].append({**said, "event": event})
    return found


def times_of(spec: dict[str, Any], anchor: int) -> list[int]:
    """Return the planned times of an entry in milliseconds, reckoned by themselves."""
    if "at" in spec:
        return [_moment(spec["at"])]
    end = _moment(spec["end"])
    if "every" in spec:
        step = int(spec["every"] * 1000)
        return list(range(anchor + step, end + 1, step))
    # these divide a minute: offsets of zones are whole minutes
    step = int(spec["cron"].split()[0].removeprefix("*/")) * 1000
    return list(range(anchor // step * step + step, end + 1, step))


def _moment(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def _planned(life: Life) -> list[str]:
    """Firings and what was left out are together all planned times, each once, in their order."""
    events, found = _events(life), []
    for name, anchor in life.rows(
        f"SELECT name, anchor FROM schedules WHERE workspace_id = '{WORKSPACE}' AND run_id IS NULL"
        " ORDER BY name"
    ):
        spec = next(one for one in life.plan.schedules if one["name"] == name)
        wanted = times_of(spec, anchor)
        fired = Counter(round(one["planned_at"] * 1000) for one in events[name] if not one["asked"])
        left = sum(number for (number,) in life.rows(f"{LEFT_OUT} AND s.name = '{name}'"))
        for planned, count in fired.items():
            if count > 1:
                found.append(f"schedule {name} fired {count} times for {planned}")
            if planned not in wanted:
                found.append(f"schedule {name} fired for {planned}, which is not planned")
        if len(fired) + left != len(wanted):
            found.append(f"schedule {name}: of {len(wanted)} times {len(fired)} fired, {left} were left out")
        if left and spec["misfire"] == "all":
            found.append(f"schedule {name} makes up for all, and left {left} out")
    return found


LEFT_OUT = (
    "SELECT f.left_out FROM firings f JOIN schedules s ON s.workspace_id = f.workspace_id"
    " AND s.schedule_id = f.schedule_id WHERE f.asked_by IS NULL"
)


def _on_time(life: Life) -> list[str]:
    """Nothing fires before its time. Only where clocks are right."""
    if any(action.what == "clock" for action in life.plan.actions):
        return []
    return [
        f"schedule {name} fired at {fired}, before its time {planned}"
        for name, fired, planned in life.rows(
            "SELECT s.name, f.fired_at, f.planned_at FROM firings f JOIN schedules s"
            " ON s.schedule_id = f.schedule_id WHERE f.asked_by IS NULL AND f.fired_at < f.planned_at"
        )
    ]


def _asked(life: Life) -> list[str]:
    """What a person asked for happened once."""
    events = [one["event"] for rows in _events(life).values() for one in rows if one["asked"]]
    told = [data["event"] for _, kind, data in life.outside.notes if kind == "fired now"]
    stored = {event for (event,) in life.rows("SELECT event_id FROM events")}
    found = [f"{event} was fired for a person, and is gone" for event in told if event not in stored]
    asked = {f"asked-{one.data['name']}-{one.at}" for one in life.plan.actions if one.what == "fire now"}
    return found + [f"{event} fired, and nobody asked for it" for event in events if event not in asked]


def _reminded(life: Life) -> list[str]:
    """What a run was told to have made fires once, and nothing that a run makes fires more often."""
    events = _events(life)
    made = {
        data["answer"]["reminds"]
        for _, kind, data in life.outside.notes
        if kind == "answered" and isinstance(data["answer"], dict) and "reminds" in data["answer"]
    }
    asked = {
        step[1]
        for one in life.plan.actions
        if one.what == "message"
        for step in one.data.get("steps", [])
        if step[0] == "remind"
    }
    found = [f"reminder {name} was made, and never fired" for name in sorted(made) if not events[name]]
    return found + [
        f"reminder {name} fired {len(events[name])} times" for name in sorted(asked) if len(events[name]) > 1
    ]
