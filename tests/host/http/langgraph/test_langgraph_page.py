"""The blocks of docs/clients/langgraph.md, as printed; and the client for JavaScript."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.dialects.langgraph import AGENT, NODE_CLIENT, langgraph, said, texts_of
from support.dialects.players import script
from support.http_host import ADMIN_KEY, Served
from support.node_clients import node_clients

PAGE = Path(__file__).parents[4] / "docs" / "clients" / "langgraph.md"
BLOCK = re.compile(r"^```python\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SCRIPT = re.compile(r"^```js\n// (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REACT = Path(__file__).parents[3] / "support" / "dialects" / "langgraph_react.mjs"
DRIVER = Path(__file__).parents[3] / "support" / "dialects" / "langgraph_client.mjs"
ORDER: list[Any] = ["tool", "player.order", {"thing": "茶"}, "o"]


def run(code: str) -> str:
    """Run a program; what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), {})
    return out.getvalue()


async def test_the_blocks_of_the_page(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = dict(BLOCK.findall(PAGE.read_text("utf-8")))
    assert set(blocks) == {"tour.py", "resume.py", "threads.py", "remember.py", "crons.py", "protocol.py"}
    monkeypatch.setenv("HOSTLER_URL", served.url)
    monkeypatch.setenv("HOSTLER_KEY", ADMIN_KEY)
    printed = await asyncio.to_thread(run, blocks["tour.py"])
    assert printed.splitlines() == ["['Hello']", *["['Hello', 'you said: Hello']"] * 2, "[]"]
    printed = await asyncio.to_thread(run, blocks["protocol.py"])
    assert printed == "success ['Hello', 'you said: Hello', 'And now?', 'you said: And now?']\n"
    asking: dict[str, Any] = {}
    await asyncio.to_thread(exec, compile(blocks["protocol.py"], str(PAGE), "exec"), asking)
    ordered = await asyncio.to_thread(asking["ask"], AGENT, script(ORDER))
    assert "ordered 1 茶" in ordered["messages"][-1]["content"]
    approving: dict[str, Any] = {}
    exec(compile(blocks["resume.py"], str(PAGE), "exec"), approving)
    async with langgraph(served.url) as client:
        await client.runs.wait("t", AGENT, input=said(ORDER))
        done = await approving["approve"](client, "t", AGENT)
        assert "ordered 1 茶" in texts_of(done)[-1]
        made: dict[str, Any] = {}
        for name in ("threads.py", "remember.py", "crons.py"):
            exec(compile(blocks[name], str(PAGE), "exec"), made)
        await client.threads.update("t", metadata={"user": "ada"})
        said_on = await made["continue_elsewhere"](client, AGENT, "ada")
        assert said_on[-3:] == ["This is a copy.", "And now?", "you said: And now?"]
        assert await made["each_morning"](client, "t", AGENT) == ["30 7 * * mon"]
        await client.store.put_item(["users", "ada"], key="k", value={"topic": "secret"})
        assert await made["remember"](client, "ada", {"topic": "tea"}) == [{"topic": "tea"}]


async def test_the_client_for_javascript(served: Served, tmp_path: Path) -> None:
    node = node_clients(*NODE_CLIENT)
    steps = script(["delta", "你好 👩‍👩‍👧", "m"], ["say", "你好 👩‍👩‍👧", "m"], ORDER, ["say", "Bye."])
    told = await asyncio.to_thread(node.run, DRIVER, tmp_path, served.url, ADMIN_KEY, steps)
    assert told["assistants"] == [AGENT]
    assert told["tokens"] == "你好 👩‍👩‍👧"
    assert told["interrupts"] == 1
    assert told["again"] == told["first"], "joined from its start"
    assert told["rest"] == told["first"][2:], "joined after its second event"
    assert told["texts"][0] == "你好 👩‍👩‍👧"
    assert told["texts"][-1] == "Bye."
    assert told["state"] == told["texts"]
    assert told["refused"]["status"] == 404
    assert "no agent 'nobody'" in json.dumps(told["refused"])


async def test_the_chat_of_the_page_in_react(served: Served, tmp_path: Path) -> None:
    node = node_clients(*NODE_CLIENT, "react@19.3.1", "react-dom@19.3.1", "happy-dom@21.0.4")
    chat = dict(SCRIPT.findall(PAGE.read_text("utf-8")))
    (tmp_path / "chat.mjs").write_text(chat["chat.mjs"])
    gate = str(tmp_path / "gate")
    scripts = [
        script(["delta", "你好", "m"], ["wait", f"{gate}-first"], ["say", "你好 👩‍👩‍👧", "m"]),
        script(["tool", "player.price", {"thing": "x"}, "p"], ORDER, ["say", "Bye."]),
        script(["fail", "broken"]),
        script(["delta", "to be stopped", "m"], ["hold"]),
        script(["delta", "一,", "m"], ["wait", gate], ["say", "一, 二.", "m"]),
    ]
    page = (served.url, ADMIN_KEY, json.dumps(scripts), gate)
    told = await asyncio.to_thread(node.run, REACT, tmp_path, *page)
    assert told["parts"] == ["你好"]
    assert told["text"] == ["你好 👩‍👩‍👧"]
    assert told["approval"] == ['player.order {"thing":"茶"}']
    assert told["calls"] == ["player.price: completed", "player.order: completed"]
    assert told["approved"] == 0, "what is decided is not asked again"
    assert "broken" in told["error"][0]
    async with langgraph(served.url) as client:
        found = await client.runs.list(told["kept"]["threadId"])
    statuses = [one["status"] for one in found]
    assert statuses[1:] == ["interrupted", "error", "success", "success"], "what was stopped was cancelled"
    again = await asyncio.to_thread(node.run, REACT, tmp_path, *page, json.dumps(told["kept"]))
    assert again["again"] == ["一,"]
    assert again["texts"][-1] == "一, 二."
    assert again["texts"].count("一, 二.") == 1
    assert again["stored"] == 0, "the page does not join a run that is over"
