"""Public names of the SDK, and the cost of its import."""

from __future__ import annotations

import subprocess
import sys

import hostler_sdk
from hostler_sdk.testing import ScriptedHost
from support.child_plugins import environment

LOAD = """
import asyncio, msgspec, sys
before = set(sys.modules)
import {module}
for name in sorted(set(sys.modules) - before):
    sys.stdout.write(name + "\\n")
"""


def loaded_by(module: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOAD.format(module=module)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    return set(done.stdout.split())


def test_the_sdk_loads_little_beside_asyncio_and_msgspec() -> None:
    loaded = loaded_by("hostler_sdk")
    foreign = {name.partition(".")[0] for name in loaded} - {"hostler_sdk", "hostler_protocol"}
    assert foreign <= sys.stdlib_module_names
    costly = {
        "argparse",
        "email",
        "http",
        "importlib.metadata",
        "multiprocessing",
        "sqlite3",
        "unittest",
        "xml",
    }
    assert not costly & loaded
    for heavy in ("testing", "scripted", "conformance", "serve", "loading", "client", "websocket", "stdio"):
        assert f"hostler_sdk.{heavy}" not in loaded


def test_serving_needs_neither_yaml_nor_websockets() -> None:
    loaded = loaded_by("hostler_sdk.serve")
    heavy = {"yaml", "websockets", "httpx", "typing_extensions", "pytest", "ssl", "hostler_sdk.testing"}
    assert not heavy & loaded


def test_every_public_name_is_there_and_documented() -> None:
    for name in hostler_sdk.__all__:
        assert getattr(hostler_sdk, name).__doc__, name
    assert sorted(hostler_sdk.__all__) == hostler_sdk.__all__


def test_the_pytest_plugin_offers_a_scripted_host(host: ScriptedHost) -> None:
    class Counter(hostler_sdk.Runner):
        async def run(self, ctx: hostler_sdk.RunContext) -> str:
            visits = await ctx.states.get("actor", "visits", 0) + 1
            await ctx.states.set("actor", "visits", visits)
            said = [item.content async for item in ctx.history.all()]
            reply = await ctx.models.invoke("any", [{"role": "user", "content": "x"}])
            return f"{visits} {said} {reply.message.content}"

    assert host.drive_sync(Counter, "a", models="one").text == "1 [] one"
    assert host.drive_sync(Counter, "b", models="two").text == "2 ['a', '1 [] one'] two"
    assert host.world.snapshot.actor == {"visits": 2}
