"""docs/streams.md: its commands and its program run, its tables are the code's."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path
from typing import get_args

import pytest

from hostler.http.limits import MAX_BODY_BYTES, MAX_SUBSCRIPTIONS
from hostler.http.live.messages import Command, ServerMessage, schema
from hostler.journal.timeline_entries import OwnType
from hostler_protocol.results import RESULT_TYPES
from support.http_host import ADMIN_KEY, serving

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "streams.md").read_text()


async def run(program: list[str], environment: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *program, env={**os.environ, **environment}, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(120):
        out, _ = await process.communicate()
    assert process.returncode == 0, out
    return out.decode()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_commands_and_program_of_the_page_run(tmp_path: Path) -> None:
    (block,) = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    (program,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    async with serving(tmp_path) as served:
        environment = {"HOSTLER_URL": served.url, "HOSTLER_KEY": ADMIN_KEY}
        script = block.replace("--json", '-H "Content-Type: application/json" --data')
        out = await run(["sh", "-ec", script], environment)
        assert "event: event.received" in out
        assert "event: run.status" in out
        (tmp_path / "follow.py").write_text(program)
        lines = (await run([sys.executable, str(tmp_path / "follow.py")], environment)).splitlines()
        assert lines[0] == "hello"
        assert lines[1].endswith("event.received")
        assert lines[-1].endswith("run.completed")


def test_tables_are_those_of_the_code() -> None:
    for name in get_args(OwnType):
        assert f"`{name}`" in TEXT
    assert {"message.delta", "message.completed", "run.completed"} <= set(RESULT_TYPES)
    for kind in get_args(Command):
        assert f"| `{kind.__struct_config__.tag}` |" in TEXT
    for kind in get_args(ServerMessage):
        assert f"`{kind.__struct_config__.tag}`" in TEXT
    assert f"at most {MAX_SUBSCRIPTIONS} subscriptions" in TEXT
    assert f"{MAX_BODY_BYTES >> 20} MiB" in TEXT
    assert {"Command", "ServerMessage", "RunStatusChange", "AgentRunResult"} <= set(schema()["$defs"])
