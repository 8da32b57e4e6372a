"""`hostler chat` at a real terminal, against a real server: streaming, steering, decisions, leaving."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hostler.domain.agents import AgentSpec
from hostler.host.config import ConfigFile
from hostler.storage.port import Tx
from hostler.storage.stores import agents
from hostler_protocol.pausing import FormField
from support.command_line import HOSTLER, environment
from support.http_host import ADMIN_KEY, WORKSPACE, Served, serving
from support.pauses import call, open_pause
from support.terminal import Terminal
from support.trust import plugin_entry

LISTENER = Path(__file__).parents[2] / "support" / "plugins" / "listener"


async def at_terminal(
    tmp_path: Path,
    scenario: Callable[[Served, Terminal], Awaitable[None]],
    agent: str = "puppet",
    conversation: str = "c1",
) -> str:
    """Chat with an agent at a terminal; all that was written."""
    written = ""
    async with serving(tmp_path / "data") as served:
        await served.host.apply(ConfigFile(plugins=[plugin_entry(LISTENER)]), actor="test")
        spec = AgentSpec(name="listener", runner="plugin:test/listener/default")
        await served.host.db.write(lambda tx: agents.apply(tx, WORKSPACE, spec))
        served.host.event_router.changed(WORKSPACE)
        env = environment(tmp_path / "none", HOSTLER_URL=served.url, HOSTLER_KEY=ADMIN_KEY)
        command = [*HOSTLER, "chat", agent, "-c", conversation]
        with Terminal(command, tmp_path, env) as terminal:
            await asyncio.to_thread(terminal.expect, "Ctrl-D to leave")
            await asyncio.to_thread(terminal.expect, "›")
            await scenario(served, terminal)
            written = terminal.text
    return written


async def does(terminal: Terminal, *steps: tuple[str, str]) -> None:
    """Type and expect, one after the other: ("type", text), ("see", text), ("press", key)."""
    for what, text in steps:
        act = {"type": terminal.type, "see": terminal.expect, "press": terminal.press}[what]
        await asyncio.to_thread(act, text)


async def the_run(served: Served, conversation: str = "c1") -> str:
    """The id of the run that is under way in the conversation."""
    async with asyncio.timeout(60):
        while True:
            found = await served.client.get(
                "/v1/runs", params={"conversation_id": conversation, "status": "running"}
            )
            if found.json()["items"]:
                run_id: str = found.json()["items"][0]["run_id"]
                return run_id
            await asyncio.sleep(0.02)


async def waits_for(served: Served, *calls: Any, pause_id: str = "p1") -> None:
    run_id = await the_run(served)

    def work(tx: Tx) -> None:
        open_pause(tx, *calls, run_id=run_id, pause_id=pause_id)

    await served.host.db.write(work)


async def pause(served: Served, pause_id: str = "p1") -> dict[str, Any]:
    found: dict[str, Any] = (await served.client.get(f"/v1/pauses/{pause_id}")).json()
    return found


async def test_it_streams_and_can_be_left_and_gone_on_with(tmp_path: Path) -> None:
    async def scenario(served: Served, terminal: Terminal) -> None:
        await does(
            terminal,
            ("type", "say 3"),
            ("see", "0 1 2"),
            ("see", "done: say 3."),
            ("see", "›"),
            ("type", "/state"),
            ("see", "has no state yet"),
            ("type", "remember color blue"),
            ("see", "done: remember"),
            ("see", "›"),
            ("type", "/state"),
            ("see", 'color = "blue"'),
            ("type", "/pauses"),
            ("see", "nothing waits"),
            ("type", "/nothing"),
            ("see", "unknown command"),
            ("see", "›"),
            ("press", "d"),
            ("see", "--conversation c1"),
        )
        assert await asyncio.to_thread(terminal.ends) == 0

    await at_terminal(tmp_path, scenario)


async def test_ctrl_c_stops_the_answer_and_not_the_conversation(tmp_path: Path) -> None:
    async def scenario(served: Served, terminal: Terminal) -> None:
        await does(
            terminal,
            ("type", "hold"),
            ("see", "holding"),
            ("press", "c"),
            ("see", "cancelled"),
            ("see", "›"),
            ("type", "say 1"),
            ("see", "done: say 1."),
            ("see", "›"),
            ("type", "hold"),
            ("see", "holding"),
            ("type", "/cancel"),
            ("see", "cancelled"),
            ("see", "›"),
            ("type", "/quit"),
        )
        assert await asyncio.to_thread(terminal.ends) == 0

    await at_terminal(tmp_path, scenario)


async def test_what_is_typed_while_an_answer_comes_reaches_it(tmp_path: Path) -> None:
    go = tmp_path / "go"

    async def scenario(served: Served, terminal: Terminal) -> None:
        await does(terminal, ("type", f"wait {go}"))
        await the_run(served)
        await does(terminal, ("type", "and blue"), ("see", "steered: the current answer"))
        go.touch()
        await does(terminal, ("see", '"and blue"]'), ("see", "›"), ("type", "/quit"))
        assert await asyncio.to_thread(terminal.ends) == 0

    await at_terminal(tmp_path, scenario, "listener")


async def test_a_call_is_put_to_the_person_and_decided_there(tmp_path: Path) -> None:
    async def scenario(served: Served, terminal: Terminal) -> None:
        await does(terminal, ("type", "hold"), ("see", "holding"))
        await waits_for(served, call("k1", editable=True), call("k2", title="And \x1b[2Jthis"))
        await does(
            terminal,
            ("see", "shop.book"),
            ("see", '"seats": 1'),
            ("see", "digest"),
            ("see", "approve? [y]es [n]o [e]dit"),
            ("type", "e"),
            ("see", "arguments as JSON"),
            ("type", '{"item": "k1", "seats": 3}'),
            ("see", '"seats": 3'),
            ("see", "approve?"),
            ("type", "c"),
            ("see", "comment"),
            ("type", "three is fine"),
            ("see", "approve?"),
            ("type", "what"),
            ("see", "y, n, c or s"),
            ("type", "y"),
            ("see", "1 more to decide"),
            ("see", "And \\u001b[2Jthis"),
            ("see", "approve?"),
            ("type", "s"),
            ("see", "left for later"),
            ("type", "/pauses"),
            ("see", "approve?"),
            ("type", "n"),
            ("see", "why"),
            ("type", "too many"),
        )
        async with asyncio.timeout(60):
            while (found := await pause(served))["status"] == "open":
                await asyncio.sleep(0.02)
        first, second = found["calls"]
        assert (first["decision"], first["comment"], first["args"]["seats"]) == (
            "approved",
            "three is fine",
            3,
        )
        assert (second["decision"], second["comment"]) == ("denied", "too many")
        await does(terminal, ("press", "c"), ("see", "cancelled"), ("see", "›"), ("press", "d"))
        assert await asyncio.to_thread(terminal.ends) == 0

    assert "And \x1b[2J" not in await at_terminal(tmp_path, scenario)


async def test_a_form_is_filled_in_field_by_field_until_it_fits(tmp_path: Path) -> None:
    form = [
        FormField(
            name="size", type="select", options=["s", {"value": "xl", "label": "Large"}], required=True
        ),
        FormField(name="seats", type="number", default=2, label="Seats"),
        FormField(name="window", type="boolean", required=True),
        FormField(name="extras", type="multiselect", options=["a", "b", "c"]),
        FormField(name="note", type="text"),
    ]

    async def scenario(served: Served, terminal: Terminal) -> None:
        await does(terminal, ("type", "hold"), ("see", "holding"))
        await waits_for(served, call("k1", "question", title="Which seat?", fields=form))
        await does(
            terminal,
            ("see", "Which seat?"),
            ("see", "answer now?"),
            ("type", "y"),
            ("see", "2  Large"),
            ("see", "size * ›"),
            ("type", "7"),
            ("see", "a number from 1 to 2"),
            ("see", "size * ›"),
            ("type", ""),
            ("see", "required"),
            ("see", "size * ›"),
            ("type", "Large"),
            ("see", "Seats [2] ›"),
            ("type", "many"),
            ("see", "a number"),
            ("see", "Seats [2] ›"),
            ("type", ""),
            ("see", "window * (y/n) ›"),
            ("type", "y"),
            ("see", "extras"),
            ("see", "›"),
            ("type", "1, c"),
            ("see", "note ›"),
            ("type", ""),
        )
        async with asyncio.timeout(60):
            while (found := await pause(served))["status"] == "open":
                await asyncio.sleep(0.02)
        assert found["calls"][0]["values"] == {
            "size": "xl",
            "seats": 2,
            "window": True,
            "extras": ["a", "c"],
        }
        await does(terminal, ("type", "/cancel"), ("see", "cancelled"), ("see", "›"), ("type", "/quit"))

    await at_terminal(tmp_path, scenario)


async def test_a_decision_that_came_too_late_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    async def scenario(served: Served, terminal: Terminal) -> None:
        await does(terminal, ("type", "hold"), ("see", "holding"))
        await waits_for(served, call("k1"))
        await does(terminal, ("see", "approve?"))
        found = await pause(served)
        action = {
            "call_id": "k1",
            "type": "deny",
            "args_hash": found["calls"][0]["args_hash"],
            "comment": "elsewhere",
        }
        await served.client.post("/v1/pauses/p1/actions", json={"revision": 1, "actions": [action]})
        await does(terminal, ("type", "y"), ("see", "denied"), ("type", "/quit"))
        assert await asyncio.to_thread(terminal.ends) == 0
        assert (await pause(served))["calls"][0]["decision"] == "denied"

    await at_terminal(tmp_path, scenario)
