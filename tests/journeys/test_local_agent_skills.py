"""local-agent with a skill of the host: offered, activated, its files read, as the model asks for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.agent_host import ask, hosting
from support.model_answers import Answer
from support.model_server import ModelServer
from support.skills import SKILL, make_skill


def wish(id_: str, **given: Any) -> Answer:
    call = {"id": id_, "name": "skill_brewing", "arguments": json.dumps(given)}
    return Answer(tool_calls=[call], finish_reason="tool_calls")


def last(server: ModelServer) -> dict[str, Any]:
    message: dict[str, Any] = server.requests[-1].json["messages"][-1]
    return message


async def test_a_skill_is_activated_and_its_files_are_read(tmp_path: Path) -> None:
    """What a skill says reaches the model whole, however long a tool's result may be."""
    long = SKILL + "Warm the pot. " * 2_000
    folder = make_skill(tmp_path / "skills", text=long)
    config = {"max_tool_result_chars": 100}
    async with (
        ModelServer(api_key="k") as server,
        hosting(tmp_path / "data", server, config=config, window=100_000, skills=[folder.parent]) as served,
    ):
        server.add(wish("a"))
        server.add(wish("f", path="references/times.md"))
        server.say("Two minutes.")
        found = await ask(served, "How long for green tea?")
        assert found[-1].type == "run.completed", found[-1].data
        first, second, third = server.requests
        (offered,) = [tool["function"] for tool in first.json["tools"]]
        assert offered["name"] == "skill_brewing"
        assert offered["description"].startswith("Brews tea. Use it when somebody is thirsty.")
        told = json.loads(second.json["messages"][-1]["content"])
        assert told["instructions"].count("Warm the pot.") == 2_000
        assert "references/times.md" in [file["path"] for file in told["files"]]
        assert "green: 2 min" in third.json["messages"][-1]["content"]
        # a file that is not there is told, not guessed at
        server.add(wish("n", path="../secrets.md"))
        server.say("There is none.")
        await ask(served, "And the secrets?")
        assert last(server)["content"].startswith("Error (not_found)")
