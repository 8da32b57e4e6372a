"""What a client does with assistants and runs of a LangGraph server: an outline to compare servers by."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from support.databases import TEST_SECONDS
from support.dialects.langgraph import AGENT, collect, last_values, said

StatusOf = Callable[[Awaitable[Any]], Awaitable[int | None]]
MODES = ["values", "updates", "messages-tuple"]


def shown(values: Any) -> list[tuple[Any, ...]]:
    """The messages of a state: type and text, with calls and their outcomes."""
    found: list[tuple[Any, ...]] = []
    for one in values["messages"]:
        calls = [(call["name"], call["args"]) for call in one.get("tool_calls") or []]
        more = (one["name"], one["status"]) if one["type"] == "tool" else ()
        found.append((one["type"], one["content"], calls, *more))
    return found[1:]


async def new_thread(client: Any) -> str:
    name: str = (await client.threads.create())["thread_id"]
    return name


async def assistants(client: Any, status_of: StatusOf) -> dict[str, Any]:
    """Assistants: found, got, their schemas and graph."""
    (one,) = await client.assistants.search(graph_id=AGENT)
    name = one["assistant_id"]
    got = await client.assistants.get(name)
    schemas = await client.assistants.get_schemas(name)
    graph = await client.assistants.get_graph(name)
    return {
        "assistant": (sorted(got), got == one, await client.assistants.count(graph_id=AGENT)),
        "no assistant": (
            await status_of(client.assistants.search(graph_id="nobody")),
            await status_of(client.assistants.get(str(uuid.uuid4()))),
        ),
        "schemas": (sorted(schemas), "messages" in schemas["input_schema"]["properties"]),
        "graph": sorted(
            {"agent", "tools", "__start__", "__end__"} & {str(node["id"]) for node in graph["nodes"]}
        ),
    }


async def calls(client: Any) -> dict[str, Any]:
    """Calls of tools, in every mode of a stream."""
    thread = await new_thread(client)
    steps = (["say", "Let me look."], ["tool", "player.price", {"thing": "茶"}, "a"], ["say", "Done. 🙂"])
    options: Any = {"stream_mode": [*MODES, "custom", "events"]}
    parts = await collect(client.runs.stream(thread, AGENT, input=said(*steps), **options))
    state = await client.threads.get_state(thread)
    updates = [part.data for part in parts if part.event == "updates"]
    by_node = [
        (node, one["type"]) for update in updates for node in update for one in update[node]["messages"]
    ]
    complete = [part.data[0] for part in parts if part.event == "messages"]
    names = {part.data["event"] for part in parts if part.event == "events"}
    return {
        "calls": shown(last_values(parts)),
        "calls, state": shown(state["values"]),
        "calls, updates": by_node,
        "calls, messages": [one["content"] for one in complete if one["type"] == "tool"],
        "calls, custom": [part.data for part in parts if part.event == "custom"],
        "calls, events": sorted(names),
    }


async def questions(client: Any) -> dict[str, Any]:
    """Interrupts: one after the other, several at once; decided by a plain value, and by their ids."""
    found: dict[str, Any] = {}
    thread = await new_thread(client)
    steps = said(["ask", "First?"], ["say", "between"], ["ask", "Second?"])
    whole = await client.runs.wait(thread, AGENT, input=steps)
    found["one by one, asked"] = [one["value"]["question"].splitlines()[0] for one in whole["__interrupt__"]]
    whole = await client.runs.wait(thread, AGENT, command={"resume": "xl"})
    found["one by one, asked again"] = [
        one["value"]["question"].splitlines()[0] for one in whole["__interrupt__"]
    ]
    whole = await client.runs.wait(thread, AGENT, command={"resume": "s"})
    found["one by one"] = shown(whole)
    runs = await client.runs.list(thread)
    found["one by one, runs"] = [one["status"] for one in runs]

    thread = await new_thread(client)
    both = said(["together", [["ask", "A?"], ["ask", "B?"]]])
    parts = await collect(client.runs.stream(thread, AGENT, input=both, stream_mode=MODES))
    state = await client.threads.get_state(thread)
    waiting = {one["value"]["question"].splitlines()[0]: one["id"] for one in state["interrupts"]}
    told = {
        one["id"] for part in parts if part.event == "updates" for one in part.data.get("__interrupt__", [])
    }
    found["at once, asked"] = (
        sorted(waiting),
        told == set(waiting.values()),
        sum(len(task["interrupts"]) for task in state["tasks"]),
    )
    resume = {waiting["A?"]: "xl", waiting["B?"]: "s"}
    whole = await client.runs.wait(thread, AGENT, command={"resume": resume})
    found["at once"] = sorted(shown(whole), key=str)
    found["at once, thread"] = (await client.threads.get(thread))["status"]
    return found


async def stateless(client: Any) -> dict[str, Any]:
    """Runs without a thread."""
    found: dict[str, Any] = {
        "stateless": shown(await client.runs.wait(None, AGENT, input=said(["say", "一"])))
    }
    stream = client.runs.stream(None, AGENT, input=said(["say", "二"]), stream_mode=MODES)
    parts = await collect(stream)
    found["stateless, streamed"] = (shown(last_values(parts)), "run_id" in parts[0].data)
    run = await client.runs.create(None, AGENT, input=said(["say", "三"]))
    found["stateless, created"] = (run["status"] in ("pending", "running"), run["thread_id"] is not None)
    whole = await client.runs.wait(None, AGENT, input=said(["fail", "broken"]), raise_error=False)
    found["stateless, failed"] = sorted(whole["__error__"])
    return found


async def queue(client: Any, folder: Path, status_of: StatusOf) -> dict[str, Any]:
    """Runs that wait for their turn; runs that are cancelled before it, and while they work."""
    thread, gate = await new_thread(client), folder / "queue"
    first = await client.runs.create(thread, AGENT, input=said(["wait", str(gate)], ["say", "first"]))
    ids = [first["run_id"]]
    for text in ("second", "never"):
        given: Any = {"input": said(["say", text]), "multitask_strategy": "enqueue"}
        ids.append((await client.runs.create(thread, AGENT, **given))["run_id"])

    async def statuses() -> list[str]:
        return [(await client.runs.get(thread, one))["status"] for one in ids]

    async with asyncio.timeout(TEST_SECONDS):
        while (await statuses())[0] != "running":
            await asyncio.sleep(0.05)
    found: dict[str, Any] = {"queued": await statuses()}
    found["queued, listed"] = len(await client.runs.list(thread, status="pending"))
    await client.runs.cancel(thread, ids[2], wait=True)
    gate.touch()
    await client.runs.join(thread, ids[1])
    found["queued, over"] = [
        (await client.runs.get(thread, one))["status"]
        if await status_of(client.runs.get(thread, one)) is None
        else None
        for one in ids
    ]
    state = await client.threads.get_state(thread)
    found["queued, said"] = [one["content"] for one in state["values"]["messages"] if one["type"] == "ai"]
    held = await client.runs.create(thread, AGENT, input=said(["hold"]))
    async with asyncio.timeout(TEST_SECONDS):
        while (await client.runs.get(thread, held["run_id"]))["status"] != "running":
            await asyncio.sleep(0.05)
        await client.runs.cancel(thread, held["run_id"])
        while (await client.threads.get(thread))["status"] == "busy":
            await asyncio.sleep(0.05)
    found["cancelled, without waiting"] = (await client.runs.get(thread, held["run_id"]))["status"]
    found["cancelled, thread"] = (await client.threads.get(thread))["status"]
    return found


async def more_runs(client: Any, folder: Path, status_of: StatusOf) -> dict[str, Any]:
    """All of this."""
    found = await assistants(client, status_of)
    found |= await calls(client)
    found |= await questions(client)
    found |= await stateless(client)
    return found | await queue(client, folder, status_of)
