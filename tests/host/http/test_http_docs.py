"""docs/http.md: its commands are run, in order, against a real host; its tables are those of the code."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from pathlib import Path

import pytest

from hostler.http.auth import RIGHTS
from hostler.http.problems import STATUS_OF_CODE
from support.databases import run
from support.http_host import ADMIN_KEY, serving

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "http.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_command_works(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path) as served:
            environment = {**os.environ, "HOSTLER_URL": served.url, "HOSTLER_KEY": ADMIN_KEY}
            for block in BLOCKS:
                # --json came with curl 7.82; its meaning is spelled out for older ones.
                script = block.replace("--json", '-H "Content-Type: application/json" --data')
                shell = await asyncio.create_subprocess_exec(
                    "sh",
                    "-ec",
                    script,
                    env=environment,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                )
                out, err = await shell.communicate()
                assert (shell.returncode, err) == (0, b""), block
                assert out, block
                refused = b"urn:hostler:problem:" in out
                assert refused == ("/v1/runs/none" in block), (block, out)

    run(scenario())


def test_rights_and_codes_are_those_of_the_code() -> None:
    named = set(
        re.findall(r"`([a-z]+(?::[a-z]+)?)`", TEXT.partition("| right | opens |")[2].partition("##")[0])
    )
    assert named == RIGHTS - {"plugins:connect"}
    table = TEXT.partition("| status | code |")[2].partition("##")[0]
    for code, status in STATUS_OF_CODE.items():
        assert re.search(rf"^\|[^|]*\b{status}\b[^|]*\| `{code}` \|", table, re.MULTILINE), code
