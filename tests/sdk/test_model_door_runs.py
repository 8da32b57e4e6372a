"""Runs and their doors: keys, several runs of one process, the environment, packages that are missing."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import threading
from typing import Any

import httpx
import pytest

from hostler_protocol.events import AgentRunContext
from hostler_protocol.methods import RunStartParams
from hostler_sdk import Cancelled, RunContext, Runner, RuntimeFailure
from hostler_sdk.client import HostConnection
from hostler_sdk.model_door.http_server import ADDRESS
from hostler_sdk.plugin import plugin_of
from hostler_sdk.scripted import HostSession, ObservedRun, World
from hostler_sdk.testing import ScriptedHost
from support.doors import ASK


async def ask(url: str, key: str, header: str = "authorization") -> tuple[int, str]:
    value = f"Bearer {key}" if header == "authorization" else key
    async with httpx.AsyncClient(verify=False) as client:
        headers = {header.encode(): value.encode()}
        answer = await client.post(f"{url}/chat/completions", json=ASK, headers=headers)
    found = answer.json()
    return answer.status_code, found["error"]["message"] if "error" in found else found["model"]


class Wire:
    """What a plugin writes to its host, in memory."""

    def __init__(self, session: HostSession) -> None:
        self.session = session

    def write(self, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(self.session.received, data)

    async def drain(self) -> None:
        pass


async def together(runner: Runner, count: int, **scripts: Any) -> list[ObservedRun]:
    """Drive so many runs at once in one process, `run-0` and so on, and return them once they are over."""
    loop = asyncio.get_running_loop()

    def to_plugin(data: bytes) -> None:
        loop.call_soon(connection.received, data)

    session = HostSession(to_plugin, World(**scripts))
    plugin = plugin_of(runner)
    (offered,) = plugin.runners.values()
    connection = HostConnection(plugin, Wire(session))
    await session.initialize()
    runs = []
    for number in range(count):
        given = AgentRunContext(run_id=f"run-{number}", resources=session.world.resources)
        start = RunStartParams(
            runner_id=offered.manifest.id, runner_name=offered.manifest.name, context=given, credit=64
        )
        runs.append(await session.start(start))
    async with asyncio.timeout(60):
        await session.until(lambda: all(run.over for run in runs))
    connection.lost("over")
    await connection.stopped(1.0)
    await session.aclose()
    for run in runs:
        assert run.results[-1].type == "message.completed", bytes(run.results[-1].data)
    return runs


@pytest.mark.gate("model-door")
async def test_each_run_has_a_key_of_its_own_which_ends_with_it() -> None:
    places: dict[str, tuple[str, str]] = {}
    both = asyncio.Barrier(2)
    over = asyncio.Event()

    class Meeting(Runner):
        async def run(self, ctx: RunContext) -> str:
            places[ctx.run_id] = (ctx.models.openai_url, ctx.models.openai_key)
            assert places[ctx.run_id] == (ctx.models.openai_url, ctx.models.openai_key)
            await both.wait()
            url = ctx.models.openai_url
            found = [await ask(url, key) for _, key in places.values()]
            assert [status for status, _ in found] == [200, 200]
            if ctx.run_id == "run-0":
                over.set()
                return "first"
            await over.wait()
            async with asyncio.timeout(20):
                while True:
                    status, said = await ask(url, places["run-0"][1])
                    if status == 401:
                        break
            assert "the run of this key is over" in said
            for wrong in ("x", "hostler_door_x", places["run-1"][1][:-1], "ключ"):
                status, said = await ask(url, wrong)
                assert (status, "no key of this door" in said) == (401, True)
            assert (await ask(url, places["run-1"][1], "api-key"))[0] == 200
            return "second"

    runs = await together(Meeting(), 2, models="yes")
    assert len({place[0] for place in places.values()}) == 1
    assert len({place[1] for place in places.values()}) == 2
    # a request is a call of the run whose key it has, whichever run's code sends it
    assert [len(run.calls) for run in runs] == [2, 3]
    assert {call.params.run_id for call in runs[0].calls} == {"run-0"}


async def test_many_runs_and_requests_at_once_do_not_mix() -> None:
    class Asking(Runner):
        async def run(self, ctx: RunContext) -> str:
            async with ctx.models.openai_http_client() as client:

                async def one(number: int) -> None:
                    asked = f"{ctx.run_id} {number}"
                    messages = [{"role": "user", "content": asked}]
                    body = {"model": "default", "messages": messages}
                    answer = await client.post("/chat/completions", json=body)
                    assert answer.json()["choices"][0]["message"]["content"] == f"{asked}!"

                await asyncio.gather(*(one(number) for number in range(20)))
            return "ok"

    runs = await together(Asking(), 8, models=lambda given: f"{given[-1].content}!")
    for number, run in enumerate(runs):
        said = {call.params.messages[0].content for call in run.calls}
        assert said == {f"run-{number} {n}" for n in range(20)}


async def test_the_environment_is_one_run_s_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://before")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    seen: list[str] = []

    class Blocking(Runner):
        async def run(self, ctx: RunContext) -> str:
            async with ctx.models.openai_environment() as variables:
                assert {name: os.environ[name] for name in variables} == variables
                assert os.environ["OPENAI_API_KEY"] == ctx.models.openai_key
                seen.append(f"begin {ctx.run_id}")
                for _ in range(5):
                    await asyncio.sleep(0)
                assert os.environ["OPENAI_API_KEY"] == ctx.models.openai_key
                seen.append(f"end {ctx.run_id}")
            return "ok"

    await together(Blocking(), 3, models="yes")
    assert [line.split()[0] for line in seen] == ["begin", "end"] * 3
    assert [line.split()[1] for line in seen[::2]] == [line.split()[1] for line in seen[1::2]]
    assert os.environ["OPENAI_BASE_URL"] == "http://before"
    assert "OPENAI_API_KEY" not in os.environ


def test_a_proxy_is_told_to_leave_the_door_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "NO_PROXY",
        "no_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("HTTP_PROXY", raising=False)
    found: list[dict[str, str]] = []

    class Reading(Runner):
        async def run(self, ctx: RunContext) -> str:
            found.append(ctx.models.openai_variables)
            monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:3128")
            monkeypatch.setenv("NO_PROXY", "example.com")
            found.append(ctx.models.openai_variables)
            return "ok"

    assert ScriptedHost().drive_sync(Reading, "x", models="yes").text == "ok"
    plain, proxied = found
    assert set(plain) == {"OPENAI_BASE_URL", "OPENAI_API_KEY"}
    assert proxied == plain | {"NO_PROXY": f"example.com,{ADDRESS}", "no_proxy": ADDRESS}


def test_after_its_end_a_run_has_no_door() -> None:
    kept: list[Any] = []

    class Leaving(Runner):
        async def run(self, ctx: RunContext) -> str:
            kept.append((ctx, ctx.models.openai_http_client()))
            return "ok"

    async def late() -> None:
        assert (await ScriptedHost().drive(Leaving, "x", models="yes")).text == "ok"
        ctx, client = kept[0]
        with pytest.raises(Cancelled, match="its model door is shut"):
            _ = ctx.models.openai_key
        answer = await client.post("/chat/completions", json=ASK)
        assert answer.status_code == 401
        await client.aclose()

    asyncio.run(late())


def test_where_no_socket_may_be_made_the_door_says_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise PermissionError(1, "Operation not permitted")

    class Confined(Runner):
        async def run(self, ctx: RunContext) -> str:
            with monkeypatch.context() as patch:
                patch.setattr(socket, "socket", refused)
                with pytest.raises(RuntimeFailure, match=r"Operation not permitted.*openai_client\(\)"):
                    _ = ctx.models.openai_url
            async with ctx.models.openai_http_client() as client:
                return str((await client.post("/chat/completions", json=ASK)).status_code)

    assert ScriptedHost().drive_sync(Confined, "x", models="yes").text == "200"


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lacking(Runner):
        async def run(self, ctx: RunContext) -> str:
            with pytest.raises(RuntimeFailure, match=r"package openai is not installed.*requires"):
                ctx.models.openai_client()
            for name in ("httpx", "httpx2"):
                monkeypatch.setitem(sys.modules, name, None)
            with pytest.raises(RuntimeFailure, match=r"package httpx is not installed.*requires"):
                ctx.models.openai_http_client()
            return "ok"

    monkeypatch.setitem(sys.modules, "openai", None)
    assert ScriptedHost().drive_sync(Lacking, "x", models="yes").text == "ok"


def test_a_client_of_another_loop_is_told_so() -> None:
    class Elsewhere(Runner):
        async def run(self, ctx: RunContext) -> str:
            client = ctx.models.openai_http_client()
            with pytest.raises(RuntimeError, match="openai_url"):
                await asyncio.to_thread(lambda: asyncio.run(client.post("/chat/completions", json=ASK)))
            return "ok"

    assert ScriptedHost().drive_sync(Elsewhere, "x", models="yes").text == "ok"


def test_a_client_s_timeout_holds_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    host = ScriptedHost()

    async def never(*_: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(host.world, "answer", never)

    class Impatient(Runner):
        async def run(self, ctx: RunContext) -> str:
            async with ctx.models.openai_http_client() as client:
                with pytest.raises(httpx.ReadTimeout):
                    await client.post("/chat/completions", json=ASK, timeout=0.05)
            return "ok"

    driven = host.drive_sync(Impatient, "x", models="yes")
    assert driven.text == "ok"
    assert driven.calls[0].given_up


def test_a_client_that_blocks_the_loop_is_told_of_with_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hostler_sdk.model_door.loop_watch.WATCH_SECONDS", 0.05)
    told = threading.Event()
    lines: list[str] = []

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())
            if "stood still" in lines[-1]:
                told.set()

    class Blocking(Runner):
        async def run(self, ctx: RunContext) -> str:
            assert ctx.models.openai_url
            handler = Told()
            logging.getLogger("hostler_sdk").addHandler(handler)
            try:
                return "told" if told.wait(20) else "not told"
            finally:
                logging.getLogger("hostler_sdk").removeHandler(handler)

    assert ScriptedHost().drive_sync(Blocking, "x", models="yes").text == "told"
    (said,) = [line for line in lines if "stood still" in line]
    assert "asyncio.to_thread" in said
    assert "test_model_door_runs.py" in said
