"""local-agent on the small real model of the demo extra, where it is installed: a whole host, offline."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.agents import AgentSpec
from hostler.domain.model_entries import ModelEntry
from hostler.domain.type_fit import convert
from hostler.host.config import ConfigFile
from hostler.models.demo import DemoModelMissingError, demo_weights
from support.agent_host import FOLDER, ask, texts
from support.http_host import serving

TURNS = (
    "Hello! My name is Ada.",
    "I live in Rome. What is Rome known for?",
    "Name one thing to eat there.",
    "And one to see.",
    "Is it warm in July?",
    "How do I say thank you in Italian?",
    "And good morning?",
    "What is the river called?",
    "How old is the city?",
    "Thank you. Goodbye!",
)


def missing() -> str | None:
    """Why the model cannot be used here."""
    try:
        demo_weights()
    except DemoModelMissingError as error:
        return error.message
    return None


@pytest.mark.timeout(600)  # a real model on a machine that may be busy
async def test_ten_turns_with_a_real_model_streamed(tmp_path: Path) -> None:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    async with asyncio.timeout(590), serving(tmp_path, agent=False) as served:
        model = ModelEntry(id="small", provider="demo", extra_args={"max_tokens": 16})
        spec: dict[str, Any] = {
            "name": "chat",
            "runner": "plugin:hostler/local-agent/default",
            "config": {"model": "small", "timeout": 300, "context-window-tokens": 2048},
        }
        agents = [convert(spec, AgentSpec, "chat")]
        config = ConfigFile(plugins=[str(FOLDER)], models=[model], agents=agents)
        await served.host.apply(config, actor="test")
        read: list[int] = []
        for number, text in enumerate(TURNS, 1):
            found = await ask(served, text)
            assert found[-1].type == "run.completed", found[-1].data
            answered = [json.loads(e.data)["data"] for e in found if e.type == "message.completed"]
            (whole,) = [one["message"]["content"] for one in answered]
            assert whole.strip()
            assert len(texts(found)) > 1, f"turn {number} was not streamed"
            assert "".join(texts(found)) == whole
            usage = json.loads(found[-1].data)["usage"]
            assert usage["output_tokens"] > 0
            read.append(usage["input_tokens"])
        assert read == sorted(set(read)), "each turn stands on all that was said before"
        page = (await served.client.get("/v1/runs?limit=20")).json()
        assert [one["status"] for one in page["items"]] == ["completed"] * len(TURNS)
