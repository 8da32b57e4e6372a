"""The same client script against this host and against the maker's own server: the same outline of both."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.errors import APIStatusError

from support.databases import TEST_SECONDS
from support.dialects.langgraph import AGENT, collect, interrupts_of, last_values, names, said, told
from support.dialects.langgraph_dev import langgraph_dev
from support.http_host import ADMIN_KEY, Served

pytestmark = pytest.mark.timeout(500)
MODES = ["values", "updates", "messages-tuple"]


def outline(parts: list[Any]) -> dict[str, Any]:
    """What a stream says, without ids and times."""
    values = last_values(parts)
    updates = [part.data for part in parts if part.event == "updates"]
    return {
        "events": names(parts),
        "messages": [(one["type"], one["content"]) for one in values["messages"]],
        "keys": sorted(set(values)),
        "nodes": [next(iter(update)) for update in updates],
        "tokens": ["".join(told(parts).values())],
        "fields": [sorted(set(one) - {"example"}) for one in values["messages"] if one["type"] == "ai"],
        "errors": [sorted(part.data) for part in parts if part.event == "error"],
        "interrupts": [sorted(one) for one in interrupts_of(parts)],
    }


async def place(client: Any, thread_id: str, run_id: str) -> dict[str, Any]:
    """How thread and run are after a stream, without ids and times."""
    run, thread = await client.runs.get(thread_id, run_id), await client.threads.get(thread_id)
    state = await client.threads.get_state(thread_id)
    history = await client.threads.get_history(thread_id, limit=1)
    return {
        "run": run["status"],
        "thread": thread["status"],
        "thread_interrupts": len(thread.get("interrupts") or {}),
        "next": state["next"],
        "waits": [len(task["interrupts"]) for task in state["tasks"]],
        "messages": [one["content"] for one in state["values"]["messages"]],
        "same_history": history[0]["values"] == state["values"],
        "of_agent": (run["assistant_id"] is not None, thread["metadata"]["graph_id"]),
        "keys": {"run_id", "thread_id", "created_at", "updated_at", "metadata", "kwargs"} <= set(run),
    }


async def status_of(call: Any) -> int | None:
    """The status of the error that a call ends with."""
    try:
        await call
    except APIStatusError as error:
        return error.status_code
    return None


async def tour(client: Any) -> dict[str, Any]:
    """Do everything with a server that both have."""
    found: dict[str, Any] = {}
    assistants = await client.assistants.search()
    found["assistants"] = [(one["graph_id"], one["name"], one["version"]) for one in assistants]
    thread = await client.threads.create()
    thread_id = thread["thread_id"]
    found["new"] = (thread["status"], thread["metadata"])
    begun: list[Any] = []

    async def stream(thread_id: str, **given: Any) -> list[Any]:
        options = {"stream_mode": MODES, "stream_resumable": True, "on_run_created": begun.append}
        return await collect(client.runs.stream(thread_id, AGENT, **options, **given))

    for name, steps in (("text", [["say", "你好 👩‍👩‍👧"]]), ("more", [["say", "two words"]])):
        parts = await stream(thread_id, input=said(*steps))
        run_id = parts[0].data["run_id"]
        assert begun[-1] == {"run_id": run_id, "thread_id": thread_id}
        found[name] = (outline(parts), await place(client, thread_id, run_id))
    whole = await client.runs.wait(thread_id, AGENT, input=said(["say", "waited"]))
    found["waited"] = [(one["type"], one["content"]) for one in whole["messages"]]
    found["joined"] = (
        await client.runs.join(thread_id, (await client.runs.list(thread_id))[0]["run_id"]) == whole
    )
    found["listed"] = [one["status"] for one in await client.runs.list(thread_id)]

    failing = (await client.threads.create())["thread_id"]
    parts = await stream(failing, input=said(["fail", "broken"]))
    found["failed"] = (outline(parts), (await client.runs.get(failing, parts[0].data["run_id"]))["status"])
    found["failed thread"] = (await client.threads.get(failing))["status"]
    whole = await client.runs.wait(failing, AGENT, input=said(["fail", "broken"]), raise_error=False)
    found["failed whole"] = sorted(whole["__error__"])

    asking = (await client.threads.create())["thread_id"]
    parts = await stream(asking, input=said(["ask", "Which?"]))
    found["asked"] = (outline(parts), await place(client, asking, parts[0].data["run_id"]))
    found["question"] = interrupts_of(parts)[0]["value"]["question"].splitlines()[0]
    found["interrupted"] = len(await client.threads.search(status="interrupted"))
    command = {"resume": {interrupts_of(parts)[0]["id"]: "xl"}}
    parts = await stream(asking, command=command)
    found["answered"] = (outline(parts), await place(client, asking, parts[0].data["run_id"]))

    held = (await client.threads.create())["thread_id"]
    run = await client.runs.create(held, AGENT, input=said(["hold"]))
    async with asyncio.timeout(TEST_SECONDS):
        while (await client.runs.get(held, run["run_id"]))["status"] != "running":
            await asyncio.sleep(0.05)
    found["busy"] = (await client.threads.get(held))["status"]
    other = client.runs.create(held, AGENT, input=said(["say", "x"]), multitask_strategy="reject")
    found["rejected"] = await status_of(other)
    await client.runs.cancel(held, run["run_id"], wait=True)
    found["cancelled"] = (await client.runs.get(held, run["run_id"]))["status"]

    nowhere = str(uuid.uuid4())
    found["refusals"] = [
        await status_of(client.threads.get(nowhere)),
        await status_of(client.runs.get(thread_id, nowhere)),
        await status_of(client.threads.create(thread_id=thread_id)),
    ]
    await client.threads.delete(thread_id)
    return found


async def test_the_same_outline_as_of_the_makers_server(served: Served, tmp_path: Path) -> None:
    folder = tmp_path / "dev"
    folder.mkdir()
    async with langgraph_dev(folder) as url, get_client(url=url, timeout=TEST_SECONDS) as client:
        theirs = await tour(client)
    ours_url = f"{served.url}/langgraph"
    async with get_client(url=ours_url, api_key=ADMIN_KEY, timeout=TEST_SECONDS) as client:
        ours = await tour(client)
    assert {name: value for name, value in ours.items() if value != theirs.get(name)} == {}
    assert ours.keys() == theirs.keys()
