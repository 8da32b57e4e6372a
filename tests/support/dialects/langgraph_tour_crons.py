"""What a client does with the crons of a LangGraph server: the outline of it, to compare servers by."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from support.dialects.langgraph import AGENT, plain

YEARLY = "0 0 1 1 *"
END = datetime(2190, 1, 1, tzinfo=UTC)


def outline(cron: dict[str, Any]) -> dict[str, Any]:
    """What a server says of a cron, without ids and times."""
    planned, end = cron["next_run_date"], cron["end_time"]
    return {
        "fields": sorted(cron),
        "own": (cron["schedule"], cron["enabled"], cron["metadata"], cron["on_run_completed"]),
        "zone": cron["timezone"],
        "in thread": cron["thread_id"] is not None,
        "ends": end is not None and datetime.fromisoformat(end) == END,
        "next": planned and f"{datetime.fromisoformat(planned):%m-%d %H:%M:%S}",
        "input": [one["content"] for one in cron["payload"]["input"]["messages"]],
        "context": cron["payload"].get("context", {}),
    }


async def crons(client: Any, status_of: Callable[[Awaitable[Any]], Awaitable[int | None]]) -> dict[str, Any]:
    """Crons: made, found, changed, deleted. None of them fires here."""
    thread = (await client.threads.create(metadata={"of": "crons"}))["thread_id"]
    given = {"input": plain("早报"), "metadata": {"a": 1, "茶": "✓"}}
    made = await client.crons.create_for_thread(
        thread, AGENT, schedule=YEARLY, timezone="Asia/Tokyo", end_time=END, context={"tone": "kind"}, **given
    )
    other = await client.crons.create(
        AGENT, schedule="0 0 1 1 * 30", timezone="UTC", on_run_completed="keep", **given
    )
    name = made["cron_id"]
    found: dict[str, Any] = {"crons": [outline(made), outline(other)]}
    searches: list[dict[str, Any]] = [
        *({}, {"thread_id": thread}, {"metadata": {"茶": "✓"}}, {"metadata": {"a": 2}}, {"limit": 1}),
        *({"offset": 1}, {"enabled": False}, {"sort_by": "created_at", "sort_order": "asc"}),
    ]
    places = {name: "of thread", other["cron_id"]: "other"}
    found["crons, searched"] = [
        [places[one["cron_id"]] for one in await client.crons.search(**wanted)] for wanted in searches
    ]
    found["crons, selected"] = await client.crons.search(thread_id=thread, select=["schedule", "timezone"])
    found["crons, counted"] = [
        await client.crons.count(**wanted) for wanted in ({}, {"thread_id": thread}, {"metadata": {"a": 1}})
    ]
    changes: list[dict[str, Any]] = [
        {"metadata": {"a": 2}},
        {"schedule": "30 12 1 1 *"},
        {"timezone": "Europe/Berlin"},
        {"end_time": None, "input": plain("b")},
    ]
    found["crons, changed"] = [outline(await client.crons.update(name, **change)) for change in changes]
    nowhere = str(uuid.uuid4())
    found["crons, refused"] = [
        await status_of(call)
        for call in (
            client.crons.create(nowhere, schedule=YEARLY, **given),
            client.crons.create_for_thread(nowhere, AGENT, schedule=YEARLY, **given),
            client.crons.update(nowhere, enabled=False),
            client.crons.delete(nowhere),
            client.crons.update(name),
        )
    ]
    found["crons, wrong"] = [
        await status_of(client.crons.create(AGENT, **{"schedule": YEARLY, **given, **wrong}))
        for wrong in ({"schedule": "99 * * * *"}, {"timezone": "Mars"})
    ]
    await client.crons.delete(name)
    found["crons, deleted"] = (await status_of(client.crons.delete(name)), await client.crons.count())
    await client.threads.delete(thread)
    return found
