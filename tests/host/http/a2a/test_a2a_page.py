"""The blocks of docs/clients/a2a.md: its program, as a program of its own, and the shape of a request."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path

import pytest

from support.dialects.a2a import a2a_client, message, told
from support.dialects.players import script
from support.http_host import ADMIN_KEY, Served

PAGE = Path(__file__).parents[4] / "docs" / "clients" / "a2a.md"
BLOCK = re.compile(r"```python\n# (\S+\.py)\n(.*?)```", re.DOTALL)


@pytest.mark.timeout(120)
async def test_the_program_of_the_page_works(host: Served, tmp_path: Path) -> None:
    ((name, code),) = BLOCK.findall(PAGE.read_text("utf-8"))
    (tmp_path / name).write_text(code)
    environ = {**os.environ, "HOSTLER_URL": host.url, "HOSTLER_KEY": ADMIN_KEY, "AGENT": "player"}
    program = await asyncio.create_subprocess_exec(
        sys.executable, str(tmp_path / name), env=environ, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await program.communicate()
    assert (program.returncode, out.decode()) == (0, "you said: Hello\n")


async def test_a_request_looks_as_on_the_page(host: Served) -> None:
    (shown,) = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL))
    async with a2a_client(host.url) as client:
        asked = await told(client, message(script(["tool", "player.order", {"thing": "lamp"}, "o"])))
    (request,) = asked.requests
    assert request.keys() == shown.keys()
    assert (request["kind"], request["arguments"]) == (shown["kind"], shown["arguments"])
    pattern = re.sub("[A-Z]+", "[^_.]+", re.escape(shown["id"]))
    assert re.fullmatch(pattern, request["id"]), request["id"]
    assert request["schema"]["required"] == shown["schema"]["required"]
