"""One run, watched in all dialects at once: whatever breaks, each folds to the same transcript."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
from pathlib import Path

import pytest
import yaml

from support.command_line import CommandLine, Server, until
from support.databases import TEST_SECONDS
from support.dialects.players import PLAYER, RUNNER, script
from support.dialects.watching import WATCHERS, Watched

TEXTS = [
    "Let me look: 你好 🙂.",
    'player.price: {"thing": "lamp", "euros": 4}',
    "A lamp costs 4 euros. " * 20 + "Done.",
]


def pieces(text: str, size: int) -> list[list[str]]:
    return [["delta", text[at : at + size]] for at in range(0, len(text), size)]


def steps(folder: Path) -> str:
    """What the agent does: it waits twice, with half of a message said."""
    first, _, last = TEXTS
    middle = len(last) // 2
    return script(
        *pieces(first[:9], 2),
        ["wait", str(folder / "one")],
        *pieces(first[9:], 3),
        ["say", first],
        ["tool", "player.price", {"thing": "lamp"}, "a"],
        *pieces(last[:middle], 5),
        ["wait", str(folder / "two")],
        *pieces(last[middle:], 7),
        ["say", last],
    )


def line_in(folder: Path) -> CommandLine:
    config = {
        "plugins": [{"path": str(PLAYER), "level": "trusted"}],
        "agents": [
            {"name": "player", "runner": RUNNER, "resource_policy": {"allowed_tool_names": ["player.*"]}}
        ],
    }
    (folder / "hostler.yaml").write_text(yaml.safe_dump(config))
    return CommandLine(folder / "data", folder)


def begin(server: Server, text: str) -> str:
    with server.client() as client:
        body = {
            "event_type": "message.received",
            "agent": "player",
            "conversation_id": "c",
            "input": {"text": text},
        }
        run_id: str = client.post("/v1/events", json=body).json()["run"]["run_id"]
        return run_id


def shown(server: Server, run_id: str) -> int:
    """How many results there are."""
    with server.client() as client:
        return int(client.get(f"/v1/runs/{run_id}").json()["sequence"] or 0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2])
async def test_each_dialect_folds_to_the_same_transcript_over_two_kills(tmp_path: Path, seed: int) -> None:
    line = line_in(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments: list[str | Path] = ["--config", tmp_path / "hostler.yaml", "--port", str(port)]
    watchers: list[asyncio.Task[list[str]]] = []
    run_id = ""
    for gate, so_far in (("one", 5), ("two", 30)):
        with line.serving(*arguments) as server:
            run_id = run_id or await asyncio.to_thread(begin, server, steps(tmp_path))
            if not watchers:
                watched = Watched(f"http://127.0.0.1:{port}", server.key, run_id)
                watchers = [
                    asyncio.create_task(watch(watched, random.Random(f"{seed} {name}")), name=name)
                    for name, watch in WATCHERS.items()
                ]
            await asyncio.to_thread(until, lambda: shown(server, run_id) >= so_far, "the run does not go on")  # noqa: B023
            server.stop(signal.SIGKILL)
        (tmp_path / gate).touch()
    with line.serving(*arguments):
        async with asyncio.timeout(4 * TEST_SECONDS):
            found = dict(zip(WATCHERS, await asyncio.gather(*watchers), strict=True))
    assert found == dict.fromkeys(WATCHERS, TEXTS)
    late = await asyncio.to_thread(_late, line, arguments, run_id)
    assert late == TEXTS


def _late(line: CommandLine, arguments: list[str | Path], run_id: str) -> list[str]:
    """The transcript from the run's record, long after."""
    record = json.loads(line("runs", "show", run_id, "--json").out)
    return [message["content"] for message in record["output"]["messages"]]
