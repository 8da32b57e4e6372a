"""Examples of agents by the model door alone: frameworks, and programs in other languages.

Each runs in the sandbox of a real host, uses a tool of the run, is killed in its middle, and replayed.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hostler_sdk.testing import Driven, drive_sync
from support.cached_installs import alone, lend_environments, missing
from support.command_line import EXAMPLES, CommandLine, until
from support.door_clients import node_modules
from support.gates import Gate
from support.model_answers import Answer, Recorded, wishes
from support.model_server import ModelServer

pytestmark = [
    pytest.mark.timeout(600),  # frameworks are installed, and imported for ten seconds
    pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux"),
]
CACHE = "door-examples"
HEAVY = bool(os.environ.get("HOSTLER_HEAVY"))
"""Whether the example that needs 835 MB is tried, too."""
QUESTION = "What does a suite cost?"
ANSWER = "A suite costs 300 euros."
DSPY_STEPS = [
    {"next_thought": "look", "next_tool_name": "shop_prices", "next_tool_args": '{"kind": "suite"}'},
    {"next_thought": "found", "next_tool_name": "finish", "next_tool_args": "{}"},
    {"reasoning": "it is listed", "answer": ANSWER},
]


def knows(request: Recorded) -> bool:
    """Whether the model is told the tool's result, however a framework writes it."""
    return re.search(r"suite\W+300", request.body.decode()) is not None


def wish(request: Recorded) -> Answer:
    """Ask for the tool of the run, as the program has offered it."""
    (name,) = [
        tool["function"]["name"] for tool in request.json["tools"] if "prices" in tool["function"]["name"]
    ]
    return wishes(("call_suite", name, {"kind": "suite"}))


def with_text(request: Recorded) -> Answer:
    return Answer(pieces=["A suite ", "costs 300 euros."]) if knows(request) else wish(request)


def with_final_answer(request: Recorded) -> Answer:
    if not knows(request):
        return wish(request)
    return wishes(("call_end", "final_answer", {"answer": ANSWER}))


def in_fields(request: Recorded) -> Answer:
    said = request.json["messages"][-1]["content"]
    fields = DSPY_STEPS[sum(f"observation_{n}" in said for n in range(2))] | {"completed": ""}
    return Answer(pieces=[f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in fields.items()])


@dataclass(frozen=True)
class Example:
    """An example, and how a model answers it. `calls`: of the model, in one run."""

    folder: str
    answer: Callable[[Recorded], Answer] = with_text
    program: str | None = None
    calls: int = 2


CASES = {
    "smolagents": Example("smolagents", with_final_answer),
    "dspy": Example("dspy", in_fields, calls=3),
    "llama-index": Example("llama-index"),
    "crewai": Example("crewai"),
    "node": Example("door", program="node"),
    "rust": Example("door", program="rust"),
}


def prepared(example: Example, folder: Path, data: Path) -> Path:
    """Return a copy of the example that can run. Skips where what it needs cannot be had."""
    ignored = shutil.ignore_patterns("__pycache__", "node_modules", "target")
    copy = shutil.copytree(EXAMPLES / example.folder, folder / example.folder, ignore=ignored)
    match example.program:
        case None:
            lend_environments(CACHE, EXAMPLES / example.folder, data)
        case "node":
            modules = node_modules()
            if isinstance(modules, str):
                missing(modules)
            shutil.copytree(modules, copy / "node" / "node_modules", symlinks=True, copy_function=os.link)
        case "rust":
            build(copy / "rust")
    return copy


def build(folder: Path) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("there is no cargo here")
    with alone(CACHE, "rust") as cache:
        command = [
            "cargo",
            "build",
            "--release",
            "--offline",
            "--quiet",
            "--target-dir",
            str(cache / "target"),
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        target = folder / "target" / "release"
        target.mkdir(parents=True)
        shutil.copy(cache / "target" / "release" / "agent", target)


def configuration(plugin: Path, server: ModelServer, example: Example) -> str:
    model = {"id": "main", "base_url": server.base_url, "model": "main", "api_key": "k", "max_retries": 0}
    config: dict[str, Any] = {"model": {"primary": "main"}}
    if example.program is not None:
        config["program"] = example.program
    agent = {
        "name": "example",
        "runner": f"plugin:acme/{example.folder}/default",
        "config": config,
        "resource_policy": {"allowed_tool_names": ["shop.prices"], "allowed_model_ids": ["main"]},
    }
    plugins = [{"path": str(path)} for path in (plugin, EXAMPLES / "shop")]
    return json.dumps({"plugins": plugins, "models": [model], "agents": [agent]})


@pytest.mark.parametrize("name", CASES)
def test_it_answers_with_a_tool_is_killed_and_goes_on_unpaid_and_is_replayed(
    tmp_path: Path, name: str
) -> None:
    if name == "crewai" and not HEAVY:
        pytest.skip("CrewAI takes 835 MB: HOSTLER_HEAVY=1 asks for it")
    example = CASES[name]
    hostler = CommandLine(tmp_path / "data", tmp_path / "work")
    hostler.cwd.mkdir()
    plugin = prepared(example, tmp_path, hostler.data)
    gate = Gate()

    def answer(request: Recorded) -> Answer:
        found = example.answer(request)
        if knows(request):
            found.hold = gate
        return found

    with ModelServer(api_key="k") as server:
        server.always(answer)
        (hostler.cwd / "hostler.yaml").write_text(configuration(plugin, server, example))
        event = {"event_type": "message.received", "agent": "example", "input": {"text": QUESTION}}
        with hostler.serving("--config", "hostler.yaml") as host, host.client() as http:
            run_id = http.post("/v1/events", json=event).json()["run"]["run_id"]
            server.wait_asked(2)  # the wish for the tool is given, the second answer is under way
            host.stop(signal.SIGKILL)
        gate.open()
        with hostler.serving("--config", "hostler.yaml") as host, host.client() as http:
            ended = ("completed", "failed", "cancelled", "timeout")
            until(lambda: http.get(f"/v1/runs/{run_id}").json()["status"] in ended, "the run did not end")
            record = http.get(f"/v1/runs/{run_id}").json()
        assert (record["status"], record["attempt"]) == ("completed", 2), (record, host.log[-3000:])
        assert record["output"]["text"] == ANSWER
        first, second, again, *_ = [request.json for request in server.requests]
        assert len(server.requests) == example.calls + 1  # only what had no answer is asked again
        assert second == again
        assert QUESTION in json.dumps(first["messages"])
    replayed = hostler("replay", run_id)  # the service is gone
    assert replayed.status == 0, replayed.out
    assert "identical" in replayed.out


def test_a_program_that_is_not_built_is_named() -> None:
    driven = driven_without_rust()
    assert driven.status == "failed"
    assert "agent: README.md says how to build it" in (driven.error or "")


def driven_without_rust() -> Driven:
    """The run of a program that is not there, against a scripted host."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES / "door"))
        door = importlib.import_module("door")
        patch.setitem(door.PROGRAMS, "rust", [str(EXAMPLES / "door" / "rust" / "missing" / "agent")])
        return drive_sync(door.Door, "x", models="x", config={"program": "rust"})
