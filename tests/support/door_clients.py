"""Other programs' clients of model services, in a sandbox without network, at the model door of a run.

They are installed once, as pinned, into a folder of this machine's cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hostler.domain.model_entries import ModelEntry, Price
from hostler.sandbox.port import Mechanism
from hostler.sandbox.probe import find_sandbox
from support.cached_installs import alone, environments_of, lend_environments, missing
from support.gates import Gate
from support.model_answers import Answer, Recorded, wishes
from support.model_server import ModelServer

PLUGIN = Path(__file__).with_name("plugins") / "door_clients"
CACHE = "door-clients"
RUNNER = "plugin:test/door-clients/default"
NODE_PACKAGE = "openai@7.57.0"
INSTALL_SECONDS = 300.0
ARGUMENTS = {"thing": "lamp"}
COST = 11 * 2.0 + 7 * 3.0
"""Of one answer, at the price below."""


@functools.cache
def node_modules() -> Path | str:
    """The folder with the JavaScript client; a text says why there is none."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "there is no Node.js"
    with alone(CACHE, "node") as cache:
        folder = cache / NODE_PACKAGE
        if not (folder / "node_modules" / "openai" / "package.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            command = [
                "npm",
                "install",
                "--no-audit",
                "--no-fund",
                "--no-save",
                "--ignore-scripts",
                NODE_PACKAGE,
            ]
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
            )
            if done.returncode:
                return f"npm cannot install {NODE_PACKAGE}: {done.stderr[-500:]}"
    return folder / "node_modules"


async def need_clients(*, node: bool = False) -> None:
    """Skip the test where they cannot be had."""
    found = [await asyncio.to_thread(environments_of, CACHE, PLUGIN)]
    if node:
        found.append(await asyncio.to_thread(node_modules))
    for one in found:
        if isinstance(one, str):
            missing(one)


def plugin_in(folder: Path) -> Path:
    """A copy of the plugin, with its JavaScript modules if they are there."""
    copy = shutil.copytree(PLUGIN, folder / "door_clients", ignore=shutil.ignore_patterns("__pycache__"))
    modules = node_modules()
    if isinstance(modules, Path):
        shutil.copytree(modules, copy / "node_modules", symlinks=True, copy_function=os.link)
    return copy


def lend_clients(data: Path) -> None:
    """Let a host use the installed clients."""
    lend_environments(CACHE, PLUGIN, data)


def models_of(server: ModelServer) -> list[ModelEntry]:
    """What the host knows: a model with a price that counts, one to fall back to, and one for vectors."""

    def entry(name: str, **more: Any) -> ModelEntry:
        return ModelEntry(id=name, base_url=server.base_url, model=name, api_key="k", max_retries=0, **more)

    price = Price(input=2_000_000.0, output=3_000_000.0)
    return [
        entry("main", price=price),
        entry("spare", price=price),
        entry("vectors", type="embedding", price=price),
    ]


def agent_of(**policy: Any) -> dict[str, Any]:
    """The agent of the clients."""
    return {
        "name": "clients",
        "runner": RUNNER,
        "config": {"model": {"primary": "main", "fallbacks": ["spare"]}, "timeout": 240},
        "resource_policy": {
            "allowed_tool_names": ["door-clients.*"],
            "allowed_model_ids": ["main", "spare", "vectors"],
            **policy,
        },
    }


def answer_as_asked(server: ModelServer, gate: Gate | None = None) -> None:
    """Script the service: a wish for the tool, its answer in pieces, a thank-you, vectors.

    `gate`: the second piece of the answer waits at it.
    """
    held: list[str | Gate] = [] if gate is None else [gate]

    def answer(request: Recorded) -> Answer:
        if request.path.endswith("/embeddings"):
            vectors = [{"index": n, "embedding": [0.5, n]} for n in range(len(request.json["input"]))]
            body = json.dumps({"data": vectors, "usage": {"prompt_tokens": 5}}).encode()
            return Answer(body=body, headers={"content-type": "application/json"})
        if request.json["messages"][-1]["role"] == "tool":
            return Answer(pieces=["A lamp ", *held, "costs 12 ", "euros: 十二欧元."])
        if request.json.get("tools"):
            return wishes(("call_lamp", "price", ARGUMENTS))
        return Answer(pieces=["You are welcome."])

    server.always(answer)


@contextlib.asynccontextmanager
async def in_sandbox(mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Have hosts of this process use one mechanism. Skips where this machine has it not."""
    sandbox = await find_sandbox()
    if mechanism not in sandbox.capabilities.mechanisms:
        pytest.skip(f"no {mechanism} here")
    wanted = functools.partial(find_sandbox, mechanism)
    with monkeypatch.context() as patch:
        patch.setattr("hostler.host.sandbox_audit.find_sandbox", wanted)
        yield
