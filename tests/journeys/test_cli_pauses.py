"""A refund that needs a yes: from the shell, and in a chat at a terminal, the whole way."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hostler.domain.agents import AgentSpec
from hostler.host.config import ConfigFile
from support.command_line import EXAMPLES, HOSTLER, CommandLine, Ran, environment
from support.http_host import ADMIN_KEY, WORKSPACE, Served, serving
from support.terminal import Terminal
from support.trust import trusted

pytestmark = pytest.mark.timeout(240)
REFUND = 'shop.refund {"receipt": "R1"}'


@asynccontextmanager
async def shop(tmp_path: Path) -> AsyncIterator[Served]:
    """A host with the example shop, that parks what waits for longer than a moment."""
    folder = tmp_path / "shop"
    shutil.copytree(EXAMPLES / "shop", folder, ignore=shutil.ignore_patterns("*.sqlite3", "__pycache__"))
    async with serving(tmp_path / "data", agent=False, hold_seconds=0.2) as served:
        spec = AgentSpec(name="clerk", runner="plugin:acme/shop/default", config={"tools": ["shop.*"]})
        await served.host.apply(ConfigFile(plugins=[trusted(folder)], agents=[spec]), actor="test")
        yield served


async def command(served: Served, tmp_path: Path, *arguments: str) -> Ran:
    line = CommandLine(tmp_path / "none", tmp_path)
    env = {"HOSTLER_URL": served.url, "HOSTLER_KEY": ADMIN_KEY}
    return await asyncio.to_thread(lambda: line(*arguments, env=env))


async def test_a_run_from_the_shell_waits_is_decided_and_goes_on(tmp_path: Path) -> None:
    async with shop(tmp_path) as served:
        waits = await command(served, tmp_path, "run", "clerk", REFUND)
        assert waits.status == 3, waits.err
        (pause_id,) = set(re.findall(r"hostler pauses approve (\S+)", waits.err))
        (run_id,) = set(re.findall(r"hostler runs tail (\S+)", waits.err))
        listed = await command(served, tmp_path, "pauses", "list", "--status", "open")
        assert "approval shop.refund" in listed.out
        shown = await command(served, tmp_path, "pauses", "show", pause_id[:8])
        assert '"receipt": "R1"' in shown.out
        approved = await command(served, tmp_path, "pauses", "approve", pause_id[:8], "-m", "go ahead")
        assert approved.status == 0, approved.err
        tailed = await command(served, tmp_path, "runs", "tail", run_id)
        assert "shop.refund: {" in tailed.out, tailed.err
        over = json.loads((await command(served, tmp_path, "pauses", "show", pause_id, "--json")).out)
        assert (over["status"], over["calls"][0]["execution"]) == ("resumed", "succeeded")
        explained = await command(served, tmp_path, "explain", run_id, over["calls"][0]["call_id"])
        assert explained.status == 0, explained.err
        assert "tool.call ('shop.refund') was allowed by people" in explained.out
        assert "approval\tpassed\tpeople\t\tapproved by admin (approve)" in explained.out
        assert "grant\tpassed\tconfig\tconfig.tools\tthe configuration selects 'shop.refund'" in explained.out
        parsed = await command(served, tmp_path, "explain", run_id, over["calls"][0]["call_id"], "--json")
        assert (parsed.json["outcome"], parsed.json["decided_by"]) == ("allowed", "approval")
        missing = await command(served, tmp_path, "explain", run_id, "999")
        assert (missing.status, "has no call '999'" in missing.err) == (1, True)
        told = await command(served, tmp_path, "pauses", "inbox", "--json")
        assert [entry["event"] for entry in told.json] == [
            "pause.resumed",
            "pause.settled",
            "pause.opened",
        ]


@pytest.mark.parametrize(("answer", "told"), [("y", 'shop.refund: {"'), ("n", "denied")])
async def test_a_chat_asks_before_the_refund_and_goes_on_with_the_answer(
    tmp_path: Path, answer: str, told: str
) -> None:
    async with shop(tmp_path) as served:
        env = environment(tmp_path / "none", HOSTLER_URL=served.url, HOSTLER_KEY=ADMIN_KEY)
        with Terminal([*HOSTLER, "chat", "clerk", "-c", "c1"], tmp_path, env) as terminal:

            def person() -> None:
                terminal.expect("›")
                terminal.type(REFUND)
                terminal.expect('"receipt": "R1"')
                terminal.expect("approve?")
                terminal.type(answer)
                if answer == "n":
                    terminal.expect("why")
                    terminal.type("not this one")
                terminal.expect(told)
                terminal.expect("›")
                terminal.type("/quit")
                assert terminal.ends() == 0

            await asyncio.to_thread(person)
        found = (await served.client.get("/v1/pauses", params={"conversation_id": "c1"})).json()["items"]
        assert [pause["status"] for pause in found] == ["resumed"]


async def test_piped_words_stop_at_what_waits(tmp_path: Path) -> None:
    async with shop(tmp_path) as served:
        line = CommandLine(tmp_path / "none", tmp_path)
        env = {"HOSTLER_URL": served.url, "HOSTLER_KEY": ADMIN_KEY}
        words = f"shop.prices\n{REFUND}\nshop.prices\n"
        said = await asyncio.to_thread(lambda: line("chat", "clerk", stdin=words, env=env))
        assert said.status == 3
        assert said.out.count("shop.prices:") == 1
        assert "hostler pauses approve" in said.err
        assert WORKSPACE
