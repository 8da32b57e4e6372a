"""What a client does with a LangGraph server, step by step: the outline of it, to compare servers by."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

from langgraph_sdk.errors import APIStatusError

from support.databases import TEST_SECONDS
from support.dialects.langgraph import AGENT, collect, interrupts_of, last_values, names, said, told
from support.dialects.langgraph_tour_crons import crons
from support.dialects.langgraph_tour_runs import more_runs

MODES = ["values", "updates", "messages-tuple"]
EVENTS = {"values": "values", "updates": "updates", "messages-tuple": "messages", "custom": "custom"}
EVENTS |= {"events": "events"}
"""The modes of streams, and the events that each has."""


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


async def runs(client: Any) -> dict[str, Any]:
    """Runs: text, errors, questions, cancel, refusals."""
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


def contents(values: Any) -> list[str]:
    """The contents of the messages of a state."""
    return [one["content"] for one in values.get("messages", [])]


async def thread_with(client: Any, *texts: str, **metadata: Any) -> str:
    """A thread in which the agent has said some texts."""
    name: str = (await client.threads.create(metadata=metadata))["thread_id"]
    for text in texts:
        await client.runs.wait(name, AGENT, input=said(["say", text]))
    return name


async def begun(client: Any, thread_id: str, *steps: list[Any], **options: Any) -> str:
    """Begin a run; its id once it works."""
    run = await client.runs.create(thread_id, AGENT, input=said(*steps), **options)
    async with asyncio.timeout(TEST_SECONDS):
        while (await client.runs.get(thread_id, run["run_id"]))["status"] == "pending":
            await asyncio.sleep(0.05)
    found: str = run["run_id"]
    return found


async def agent_texts(client: Any, thread_id: str) -> list[str]:
    """What the agent has said in a thread, as its state has it."""
    values = (await client.threads.get_state(thread_id))["values"] or {}
    return [one["content"] for one in values.get("messages", []) if one["type"] == "ai"]


async def gone(client: Any, thread_id: str, run_id: str) -> int | None:
    """The status that a run which was deleted is answered with, once that is through."""
    async with asyncio.timeout(TEST_SECONDS):
        while (status := await status_of(client.runs.get(thread_id, run_id))) is None:
            await asyncio.sleep(0.05)
    return status


async def threads(client: Any) -> dict[str, Any]:
    """Metadata, search, copies, history, state."""
    found: dict[str, Any] = {}
    mark = str(uuid.uuid4())
    tree = {"a": [1, {"b": "茶"}], "n": 1}
    name = await thread_with(client, "one", "two", "three", mark=mark, tree=tree)
    bare = await thread_with(client, mark=mark)

    async def count(**metadata: Any) -> int:
        return len(await client.threads.search(metadata={"mark": mark, **metadata}))

    found["searched"] = [
        await count(),
        await count(tree={"n": 1}),
        await count(tree={"a": [{"b": "茶"}]}),
        await count(tree={"a": [2]}),
        await count(other=None),
        await client.threads.count(metadata={"mark": mark}),
    ]
    sorted_by = await client.threads.search(metadata={"mark": mark}, sort_by="created_at", sort_order="asc")
    found["sorted"] = [one["thread_id"] for one in sorted_by] == [name, bare]
    selected = await client.threads.search(metadata={"mark": mark}, select=["thread_id", "status"])
    found["selected"] = sorted(selected[0])
    changed = await client.threads.update(bare, metadata={"mark": mark, "more": True})
    kept = (await client.threads.get(bare))["metadata"]
    found["changed"] = (sorted(changed["metadata"]), kept == changed["metadata"], kept["mark"] == mark)

    whole = await client.threads.get_history(name, limit=100)
    over = [one for one in whole if not one["next"]]
    found["history"] = [contents(one["values"]) for one in over if one["values"].get("messages")]
    before = {"configurable": over[0]["checkpoint"]}
    older = await client.threads.get_history(name, limit=100, before=before)
    found["older"] = [
        contents(one["values"]) for one in older if not one["next"] and one["values"].get("messages")
    ]
    found["limited"] = len(await client.threads.get_history(name, limit=2))
    at = await client.threads.get_state(name, checkpoint=over[1]["checkpoint"])
    by_id = await client.threads.get_state(name, checkpoint_id=over[1]["checkpoint_id"])
    found["past"] = (contents(at["values"]), at["next"], contents(by_id["values"]))
    found["parents"] = whole[0]["parent_checkpoint"] == whole[1]["checkpoint"]

    copy = await client.threads.copy(name)
    other = copy["thread_id"]
    found["copied"] = (copy["status"], copy["metadata"]["mark"] == mark, len(await client.runs.list(other)))
    await client.runs.wait(other, AGENT, input=said(["say", "four"]))
    found["apart"] = (await agent_texts(client, other), await agent_texts(client, name))
    found["copied history"] = len(
        [one for one in await client.threads.get_history(other, limit=100) if not one["next"]]
    ) - len(over)

    added = {"messages": [{"type": "ai", "content": "from a person", "id": "mine"}]}
    place = await client.threads.update_state(name, added, as_node="agent")
    state = await client.threads.get_state(name)
    found["added"] = (contents(state["values"])[-1], state["values"]["messages"][-1]["id"], state["next"])
    found["at its place"] = place["checkpoint"]["checkpoint_id"] == state["checkpoint"]["checkpoint_id"]
    human = {"messages": [{"type": "human", "content": "nobody has answered"}]}
    await client.threads.update_state(other, human, as_node="__start__")
    found["asked by an update"] = (await client.threads.get_state(other))["next"]
    steps = [{"updates": [{"values": {"messages": [["user", "q"], ["ai", "a"]]}, "as_node": "agent"}]}]
    seeded = (await client.threads.create(graph_id=AGENT, supersteps=steps))["thread_id"]
    whole = await client.runs.wait(seeded, AGENT, input=said(["say", "b"]))
    found["seeded"] = [one["content"] for one in whole["messages"] if one["type"] == "ai"]
    nowhere = str(uuid.uuid4())
    found["no such thread"] = {
        "update": await status_of(client.threads.update(nowhere, metadata={})),
        "delete": await status_of(client.threads.delete(nowhere)),
        "copy": await status_of(client.threads.copy(nowhere)),
        "state": await status_of(client.threads.get_state(nowhere)),
    }
    return found


async def ending(client: Any) -> dict[str, Any]:
    """The four strategies of a busy thread, cancel, deletion."""
    found: dict[str, Any] = {}
    for strategy in ("interrupt", "rollback"):
        name = await thread_with(client, "kept")
        held = await begun(client, name, ["hold"])
        await client.runs.wait(name, AGENT, input=said(["say", "now"]), multitask_strategy=strategy)
        found[strategy] = (
            await agent_texts(client, name),
            [one["status"] for one in await client.runs.list(name)],
            await status_of(client.runs.get(name, held)),
        )
    name = await thread_with(client, "kept")
    held = await begun(client, name, ["hold"])
    await client.runs.cancel(name, held, action="rollback")
    found["rolled back"] = (await gone(client, name, held), await agent_texts(client, name))
    name = await thread_with(client, "one", "two")
    newest = (await client.runs.list(name))[0]["run_id"]
    await client.runs.delete(name, newest)
    found["deleted"] = (
        await gone(client, name, newest),
        await agent_texts(client, name),
        len(await client.runs.list(name)),
        await status_of(client.runs.delete(name, newest)),
    )
    ended = (await client.runs.list(name))[0]["run_id"]
    found["cancelled after its end"] = await status_of(client.runs.cancel(name, ended))
    return found


async def store(client: Any) -> dict[str, Any]:
    """Items: put, get, change, delete, search, namespaces."""
    found: dict[str, Any] = {}
    top = uuid.uuid4().hex
    item = client.store
    for number, who in enumerate(("ada", "bob", "eve")):
        await item.put_item(
            [top, who], key=f"k{number}", value={"n": number, "who": {"name": who}, "l": ["茶"]}
        )
    await item.put_item([top, "ada", "deep"], key="k", value={"n": 7})
    one = await item.get_item([top, "ada"], key="k0")
    found["item"] = (sorted(one), one["namespace"][1:], one["key"], one["value"])
    await item.put_item([top, "ada"], key="k0", value={"n": 10})
    again = await item.get_item([top, "ada"], key="k0")
    found["changed item"] = (again["value"], again["created_at"] == one["created_at"])
    found["no item"] = await item.get_item([top, "ada"], key="none")

    async def keys(*labels: str, **wanted: Any) -> list[str]:
        items = (await item.search_items([top, *labels], **wanted))["items"]
        assert all(one["score"] is None for one in items)
        return sorted(one["key"] for one in items)

    found["searched items"] = [
        await keys(),
        await keys("ada"),
        await keys("ad"),
        await keys(filter={"n": 1}),
        await keys(filter={"n": {"$gte": 7}}),
        await keys(filter={"n": {"$gt": 0, "$lt": 9}}),
        await keys(filter={"n": {"$ne": 1}}),
        await keys(filter={"who": {"name": "bob"}}),
        await keys(filter={"l": ["茶"]}),
        len(await keys(limit=2)),
        len(await keys(limit=2, offset=2)),
    ]

    async def spaces(**wanted: Any) -> list[list[str]]:
        listed = (await item.list_namespaces(**wanted))["namespaces"]
        return sorted(one[1:] for one in listed)

    found["namespaces"] = [
        await spaces(prefix=[top]),
        await spaces(prefix=[top], suffix=["deep"]),
        await spaces(prefix=[top, "*", "deep"]),
        await spaces(prefix=[top], max_depth=2),
        len(await spaces(prefix=[top], limit=1)),
    ]
    await item.delete_item([top, "eve"], key="k2")
    await item.delete_item([top, "eve"], key="k2")
    found["deleted item"] = (await item.get_item([top, "eve"], key="k2"), await keys("eve"))
    found["bad item"] = await status_of(item.put_item([top, ""], key="k", value={}))
    return found


async def joins(client: Any, folder: Path) -> dict[str, Any]:
    """Join a run in the middle of its stream: from the start, and from an event on, in each mode."""
    found: dict[str, Any] = {}
    gate = folder / "gate"
    name = await thread_with(client)
    options: Any = {"stream_mode": list(EVENTS), "stream_resumable": True}
    steps = [["say", "first words"], ["wait", str(gate)], ["say", "second part"]]
    live = client.runs.stream(name, AGENT, input=said(*steps), **options)
    head = [await anext(live) for _ in range(2)]
    while "".join(told(head).values()) != "first words":
        head.append(await anext(live))
    run_id = head[0].data["run_id"]

    def join(mode: str, last: str) -> asyncio.Task[list[Any]]:
        stream = client.runs.join_stream(name, run_id, stream_mode=mode, last_event_id=last)
        return asyncio.create_task(collect(stream))

    again, rest = ({mode: join(mode, last) for mode in EVENTS} for last in ("-1", head[3].id))
    waiting = asyncio.create_task(client.runs.join(name, run_id))
    await asyncio.sleep(0.2)  # so that they have joined; if they had not, they would read the same
    gate.touch()
    whole = [*head, *[part async for part in live]]
    found["its tokens"] = "".join(told(whole).values())
    for mode, event in EVENTS.items():
        expected = [one for one in whole if one.event == event]
        late = await join(mode, "-1")
        found[f"{mode}, joined"] = [
            [one for one in parts if one.event != "metadata"] == expected
            for parts in (await again[mode], late)
        ]
        found[f"{mode}, the rest"] = await rest[mode] == [one for one in whole[4:] if one.event == event]
        found[f"{mode}, something"] = bool(expected) or mode == "custom"
    found["joined state"] = contents(await waiting) == contents(last_values(whole))
    return found


async def tour(client: Any, folder: Path) -> dict[str, Any]:
    """Do everything with a server that both have."""
    found = await runs(client)
    found |= await threads(client)
    found |= await ending(client)
    found |= await store(client)
    found |= await crons(client, status_of)
    found |= await more_runs(client, folder, status_of)
    return found | await joins(client, folder)
