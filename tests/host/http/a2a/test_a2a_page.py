"""The program of docs/clients/a2a.md, as a program of its own."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

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
