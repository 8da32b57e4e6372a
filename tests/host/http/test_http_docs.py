"""Commands of docs/http.md and docs/steering.md run, in order, against a host; tables are the code's."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from pathlib import Path

import pytest

from hostler.domain.agents import Concurrency
from hostler.domain.steering import STEER_STATUSES
from hostler.host.config_file import parse_config
from hostler.http.auth import RIGHTS
from hostler.http.problems import STATUS_OF_CODE
from support.http_host import ADMIN_KEY, serving

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "http.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
STEERING = (ROOT / "docs" / "steering.md").read_text()
STEERING_BLOCKS = re.findall(r"```sh no-run\n(.*?)```", STEERING, re.DOTALL)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("blocks", [BLOCKS, STEERING_BLOCKS], ids=["http", "steering"])
async def test_every_command_works(tmp_path: Path, blocks: list[str]) -> None:
    async with serving(tmp_path) as served:
        environment = {**os.environ, "HOSTLER_URL": served.url, "HOSTLER_KEY": ADMIN_KEY}
        for block in blocks:
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


def test_the_steering_page_s_configuration_and_statuses_are_those_of_the_code() -> None:
    (config,) = re.findall(r"```yaml\n(.*?)```", STEERING, re.DOTALL)
    (agent,) = parse_config(config, name="agents.yaml").agents
    assert agent.concurrency == Concurrency(debounce=1.5, max_runs=20)
    for status in STEER_STATUSES:
        assert f"| `{status}` |" in STEERING


def test_rights_and_codes_are_those_of_the_code() -> None:
    table = TEXT.partition("| right | allows |")[2].partition("##")[0]
    named = set(re.findall(r"`([a-z]+(?::[a-z_]+)?)`", table))
    assert named == RIGHTS - {"plugins:connect"}
    table = TEXT.partition("| status | code |")[2].partition("##")[0]
    for code, status in STATUS_OF_CODE.items():
        assert re.search(rf"^\|[^|]*\b{status}\b[^|]*\| `{code}` \|", table, re.MULTILINE), code
