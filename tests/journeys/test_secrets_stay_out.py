"""Invariant 26: a secret that an agent or a model is configured with stands in no table, file or log line."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from pathlib import Path

import pytest

from hostler.domain.events import Caller
from hostler.domain.model_entries import ModelEntry
from hostler.domain.pause_actions import Action, ActRequest
from hostler.host.config import ConfigFile
from support.every_row import everything
from support.model_server import ModelServer
from support.stepping import STEPPER, WORKSPACE, Steps, stage, within
from support.trust import plugin_entry

pytestmark = pytest.mark.gate("resolved-secrets")

SHOP = Path(__file__).parents[2] / "examples" / "shop"
ADMIN = Caller(WORKSPACE, "admin", "admin", frozenset({"admin"}), frozenset({"installation"}))


async def test_invariant_26_no_secret_is_stored(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    canaries = {"CANARY_TOKEN": "canary-of-the-agent-7f3a", "CANARY_KEY": "canary-of-the-model-9c1d"}
    for name, value in canaries.items():
        monkeypatch.setenv(name, value)
    caplog.set_level(logging.DEBUG)
    shop = tmp_path / "shop"
    shutil.copytree(SHOP, shop, ignore=shutil.ignore_patterns("*.sqlite3*", "__pycache__"))
    url = database_url if database_url.startswith("postgresql:") else None
    data = tmp_path / "data"
    opened = stage(data, database=url, hold_seconds=0.05)
    async with within(50), ModelServer(api_key=canaries["CANARY_KEY"]) as server, opened as host:
        server.always("ok")
        model = ModelEntry(id="m", base_url=server.base_url, model="x", api_key="env:CANARY_KEY")
        await host.host.apply(
            ConfigFile(plugins=[plugin_entry(STEPPER), str(shop)], models=[model]), actor="test"
        )
        await host.agent(
            runner="resumable",
            config={"token": "env:CANARY_TOKEN", "model": "m"},
            resource_policy={
                "allowed_tool_names": ["shop.*"],
                "tool_approval": {"shop.*": "required"},
            },
        )
        ask = {"model_id": "m", "messages": [{"role": "user", "content": "hi"}]}
        send = {"tool_name": "shop.send", "parameters": {"to": "ada", "text": "hi"}}
        steps: Steps = [
            ["call", "model.invoke", ask],
            ["crash", 1],
            ["call", "tool.call", send],
            ["show_config_digest"],
        ]
        run_id = await host.start(steps, conversation_id="c1")
        while not (page := await host.host.pauses.page(ADMIN, run_id=run_id)).items:
            await asyncio.sleep(0.01)
        pause = page.items[0]
        (call,) = pause.calls
        action = Action(call_id=call.call_id, type="approve", args_hash=call.args_hash)
        await host.host.pauses.act(ADMIN, pause.id, ActRequest(revision=pause.revision, actions=[action]))
        ended = await host.ended(run_id)
        assert ended.record.status == "completed", ended.last
        assert json.loads(ended.said[-1])["token_seen"] == len(canaries["CANARY_TOKEN"])
        stored = await host.host.db.read(everything)
        tape = await host.host.export()
    for canary in canaries.values():
        assert canary not in stored
        assert canary not in str(tape)
        assert canary not in caplog.text
        for file in data.rglob("*"):
            if file.is_file():
                assert canary.encode() not in file.read_bytes(), file
