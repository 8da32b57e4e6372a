"""What doctor and review of a configuration say of channels that answer nobody, or everybody twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from hostler.domain.agents import AgentSpec
from hostler.host.channel_findings import channel_findings
from hostler.host.config import ConfigFile
from hostler.storage.stores import agents
from support.channel_host import chatting, entry_for
from support.chat_platform import platform
from support.databases import TEST_SECONDS
from support.http_host import WORKSPACE


async def test_channels_without_an_agent_and_of_one_account_are_named(tmp_path: Path) -> None:
    async with asyncio.timeout(TEST_SECONDS), platform() as chat, chatting(tmp_path, chat, agent={}) as host:

        async def wrong() -> list[str]:
            found = await host.host.db.read(lambda tx: channel_findings(tx, WORKSPACE))
            return [one.text for one in found if one.verdict == "wrong"]

        await host.connected()
        assert await wrong() == []
        entry = entry_for(chat.port, tmp_path / "token", agent="echo")
        second = msgspec.structs.replace(entry, name="again", agent="ecko")
        config = ConfigFile(channels=[entry, second])
        checked = await host.host.apply(config, actor="test", dry_run=True)
        said = {one.place: one.problem for one in checked.problems}
        assert "did you mean 'echo'" in said["agent"]
        assert said["config"].startswith("is that of channel 'again': ")

        await host.host.apply(config, actor="test")

        async def both() -> list[str]:
            found = await wrong()
            return found if len(found) == 2 else []

        assert sorted(await host.until(both)) == [
            "again and chat are connected as one account, 'bot-1': each message may come through both "
            "of them, or only one: remove an entry, or disable it",
            "again: there is no agent 'ecko', so what is said there is stored and not answered",
        ]
        off = AgentSpec(name="echo", runner="plugin:test/wires/echo", enabled=False)
        await host.host.db.write(lambda tx: agents.apply(tx, WORKSPACE, off))
        disabled = "chat: its agent 'echo' is disabled, so what is said there is stored and not answered"
        assert disabled in await wrong()
