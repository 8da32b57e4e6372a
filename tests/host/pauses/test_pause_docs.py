"""docs/pauses.md: its commands run in order against a host, its configuration and its check are right."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.approvers import rule_of
from hostler.domain.pauses import STATUSES
from hostler.host.config_file import parse_config
from hostler.pauses.encryption import open_vault
from hostler.storage.port import Tx
from hostler_protocol.pausing import FormField
from support.command_line import environment
from support.http_host import ADMIN_KEY, serving
from support.pauses import WORKSPACE, call, open_pause, open_run

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "pauses.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def open_all(tx: Tx) -> None:
    open_run(tx, "r1")
    open_pause(
        tx,
        call(
            "book",
            arguments={"customer_id": "c7", "seats": 2},
            editable=True,
            locked=["customer_id"],
        ),
        call("size", "question", fields=[FormField(name="size", type="select", options=["s", "xl"])]),
        call("scan", "client_tool"),
    )
    open_run(tx, "r2", conversation_id="c2")
    open_pause(tx, call("pay", "in_doubt", effect_key="e"), call("k2"), run_id="r2", pause_id="p2")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_every_command_works_in_its_order(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", agent=False, workspace=WORKSPACE) as served:
        await served.host.db.write(open_all)
        names = {"HOSTLER_URL": served.url, "HOSTLER_KEY": ADMIN_KEY, "PAUSE": "p1", "OTHER": "p2"}
        python = f'python() {{ "{sys.executable}" "$@"; }}'
        functions = f'{python}; hostler() {{ python -m hostler "$@"; }};'
        for block in blocks("sh"):
            # --json came with curl 7.82; its meaning is spelled out for older ones.
            script = block.replace("--json '", "-H 'Content-Type: application/json' --data '")
            shell = await asyncio.create_subprocess_exec(
                "bash",
                "-ec",
                f"{functions} {script}",
                env=environment(tmp_path / "none", **names),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, err = await shell.communicate()
            assert (shell.returncode, err) == (0, b""), block
            assert b"urn:hostler:problem:" not in out, (block, out)
        first = (await served.client.get("/v1/pauses/p1")).json()
        assert [one["decision"] for one in first["calls"]] == ["approved", "answered", "answered"]
        assert first["calls"][0]["args"] == {"customer_id": "c7", "seats": 1}
        assert (await served.client.get("/v1/pauses/p2")).json()["status"] == "cancelled"


def test_the_configurations_are_taken_and_say_what_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    tools, sealed = (parse_config(text, name="c.yaml") for text in blocks("yaml"))
    policies = tools.agents[0].resource_policy.tool_approval
    booked: Any = policies["shop.book"]
    assert rule_of(booked).min_approvals == 2
    assert booked.locked == ["customer_id"]
    monkeypatch.setenv("PAUSE_KEY", os.urandom(32).hex())
    assert open_vault(sealed.pause_key[:1]).new_key("p")


def test_states_are_those_of_the_code() -> None:
    for status in STATUSES:
        assert re.search(rf"^\| .*`{status}`.* \|", TEXT, re.MULTILINE), status
