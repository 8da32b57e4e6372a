"""Use and the audit log from the shell: by agent and workspace, and who did what."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.command_line import CommandLine, Ran
from support.http_host import ADMIN_KEY, Served, serving

pytestmark = pytest.mark.timeout(120)


async def command(served: Served, tmp_path: Path, *arguments: str) -> Ran:
    line = CommandLine(tmp_path / "none", tmp_path)
    env = {"HOSTLER_URL": served.url, "HOSTLER_KEY": ADMIN_KEY}
    return await asyncio.to_thread(lambda: line(*arguments, env=env))


async def test_what_was_used_and_done_is_listed(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        empty = await command(served, tmp_path, "usage", "--days", "7")
        assert (empty.status, "nothing ran in the last 7 days" in empty.err) == (0, True)
        await served.say("say 1")
        await served.say("fail")
        await served.agent("other")
        await served.say("say 1", agent="other")
        table = await command(served, tmp_path, "usage")
        rows = [line.split("\t") for line in table.out.splitlines()]
        assert [(row[0], row[1], row[3]) for row in rows] == [
            ("puppet", "2", "1"),
            ("other", "1", "0"),
            ("total", "3", "1"),
        ]
        assert all(row[-1].endswith(" s") for row in rows)
        by = await command(served, tmp_path, "usage", "--by", "workspace", "--agent", "other", "--json")
        assert [(one["name"], one["total"]["runs"]) for one in by.json["groups"]] == [("default", 1)]
        made = await command(served, tmp_path, "keys", "create", "ci", "--json")
        key = made.json["record"]["key_id"]
        await command(served, tmp_path, "keys", "revoke", key)

        async def facts(*filters: str) -> list[str]:
            found = await command(served, tmp_path, "audit", "list", "--json", *filters)
            return [fact["action"] for fact in found.json]

        assert await facts("--target", key) == ["key.revoked", "key.created"]
        assert await facts("--action", "key.created", "--actor", "admin", "--days", "1") == ["key.created"]
        assert await facts("--action", "key", "--refused") == []
