"""Hostile editors: `hostler acp` answers each line with valid JSON-RPC or not at all, and goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.command_line import HOSTLER, environment
from support.examples import SOAK
from support.http_host import Served, serving

pytestmark = [pytest.mark.gate("editor-consent"), pytest.mark.timeout(400)]
BOUND_SECONDS = 100.0
LINES = 20_000 if SOAK else 1_500
FIRST = 100
"""The least id of a request; smaller ones are among `VALUES`, and may be used again."""
METHODS = (
    "initialize", "authenticate", "session/new", "session/load", "session/resume", "session/list",
    "session/close", "session/delete", "session/prompt", "session/set_config_option", "session/cancel",
    "session/set_mode", "session/fork", "logout", "$/cancel_request", "_ext", "", "nonsense",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 1.5, 10**30, "", "x", "/", "\x00", "../..", "你好🎉", "\ud83d", [], {}, [[]], [{}],
    [{"type": "text", "text": "say 1"}], [{"type": "text"}],
    [{"type": "image", "data": "%", "mimeType": "x"}],
    [{"type": "resource", "resource": {"uri": "x", "blob": "AA=="}}], {"a": {"b": [1]}}, "agent", "puppet",
    {"fs": {"readTextFile": 3}, "terminal": "yes"}, [{"name": "m", "command": "x", "args": [], "env": []}],
)  # fmt: skip
NAMES = (
    "sessionId", "cwd", "mcpServers", "prompt", "methodId", "configId", "value", "cursor", "protocolVersion",
    "clientCapabilities", "clientInfo", "_meta", "requestId", "x",
)  # fmt: skip


class Raw:
    """The command, spoken to in bytes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.got: list[Any] = []
        self._next = 1_000_000

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def read(self) -> Any:
        """The next line, which has to be a message of JSON-RPC."""
        assert self._process.stdout is not None
        async with asyncio.timeout(BOUND_SECONDS):
            line = await self._process.stdout.readline()
        assert line.endswith(b"\n"), "the command has ended"
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            assert isinstance(message["method"], str)
        else:
            assert ("result" in message) != ("error" in message)
            if "error" in message:
                assert isinstance(message["error"]["code"], int)
                assert isinstance(message["error"]["message"], str)
        self.got.append(message)
        return message

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request, and return its answer."""
        self._next += 1
        body = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}
        await self.write(json.dumps(body).encode() + b"\n")
        while (message := await self.read()).get("id") != self._next or "method" in message:
            pass
        found: dict[str, Any] = message
        return found

    async def refused(self, line: bytes) -> dict[str, Any]:
        """Send a line, and return the error without an id that answers it."""
        await self.write(line + b"\n")
        while (message := await self.read()).get("id", 1) is not None:
            pass
        error: dict[str, Any] = message["error"]
        return error

    async def end(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(BOUND_SECONDS):
            while await self._process.stdout.readline():  # type: ignore[union-attr]
                pass
            return await self._process.wait()


@contextlib.asynccontextmanager
async def raw(served: Served, folder: Path) -> AsyncIterator[Raw]:
    with (folder / "stderr").open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *HOSTLER, "acp", "puppet", "--url", served.url, "--key", await served.key(),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=stderr,
            limit=2**26, env=environment(None),
        )  # fmt: skip
    try:
        yield Raw(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_lines_that_are_no_messages_are_refused_and_the_next_is_answered(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served, raw(served, tmp_path) as editor:
        for line in (b"{", b"nonsense", b"\xff\xfe", b'{"a": NaN}', b"[" * 100_000, b"null", b'"\xc3"'):
            assert (await editor.refused(line))["code"] == -32700
        for line in (
            b"[]", b"3", b"{}", b'"x"', b'[{"jsonrpc":"2.0","id":1,"method":"initialize"}]',
            b'{"jsonrpc":"1.0","method":"x"}', b'{"jsonrpc":"2.0","id":true,"method":"x"}',
            b'{"jsonrpc":"2.0","id":null,"method":"x"}', b'{"jsonrpc":"2.0","id":[1],"method":"x"}',
        ):  # fmt: skip
            assert (await editor.refused(line))["code"] == -32600, line
        early = await editor.ask("session/new", cwd="/", mcpServers=[])
        assert early["error"]["message"] == "initialize first"
        await editor.write(b"\n\r\n  \n")
        await editor.write(b'{"jsonrpc":"2.0","id":7,"result":{}}\n{"jsonrpc":"2.0","id":8}\n')
        await editor.write(b'{"jsonrpc":"2.0","id":9,"result":1,"error":{}}\n')
        answer = await editor.ask("initialize", protocolVersion=1)
        assert answer["result"]["protocolVersion"] == 1
        wrong = await editor.ask("session/new", cwd=3)
        assert wrong["error"]["code"] == -32602
        assert wrong["error"]["message"].startswith("cwd: ")
        assert (await editor.ask("session/fork", sessionId="x"))["error"]["code"] == -32601
        deep = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "session/new"})[:-1].encode()
        await editor.write(deep + b', "params": ' + b'{"a":' * 900 + b"1" + b"}" * 901 + b"\n")
        assert (await editor.ask("session/list"))["result"]["sessions"] == []
        assert await editor.end() == 0


async def test_bounds_are_kept(tmp_path: Path) -> None:
    """A line over 32 MiB is passed over, and no more than 256 requests are open."""
    async with serving(tmp_path / "data") as served, raw(served, tmp_path) as editor:
        await editor.ask("initialize", protocolVersion=1)
        await editor.write(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (33 << 20))
        error = await editor.refused(b'"}')
        assert (error["code"], "32 MiB" in error["message"]) == (-32600, True)
        session = (await editor.ask("session/new", cwd="/", mcpServers=[]))["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hold"}]}
        for number in range(257):
            body = {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": prompt}
            await editor.write(json.dumps(body).encode() + b"\n")
        while (message := await editor.read()).get("id") != 256:
            pass
        assert message["error"]["code"] == -32001
        body = {"jsonrpc": "2.0", "id": 3, "method": "session/list"}
        await editor.write(json.dumps(body).encode() + b"\n")
        while "error" not in (message := await editor.read()):
            pass
        assert "still open" in message["error"]["message"]


@pytest.mark.shows("acp", "hostile")
async def test_whatever_comes_is_answered_once_or_not_at_all(tmp_path: Path) -> None:
    chance = random.Random(27)
    async with serving(tmp_path / "data") as served, raw(served, tmp_path) as editor:
        await editor.ask("initialize", protocolVersion=1)
        session = (await editor.ask("session/new", cwd="/", mcpServers=[]))["result"]["sessionId"]
        asked: set[Any] = set()
        for number in range(FIRST, FIRST + LINES):
            await editor.write(_line(chance, number, session, asked) + b"\n")
            if number % 50 == 0:  # an editor that asks without ever reading is refused
                await editor.ask("session/list", cursor="x")
        for one in await _runs(served):
            await served.client.post(f"/v1/runs/{one}/cancel", json={})
        assert (await editor.ask("session/list"))["result"] is not None
        status = await editor.end()
        assert status == 0, (tmp_path / "stderr").read_text()[-3000:]
        answers = [one["id"] for one in editor.got if "method" not in one]
        answered = [one for one in answers if isinstance(one, int) and FIRST <= one < 10**9]
        twice = {one for one in answered if answered.count(one) > 1}
        assert not twice, [one for one in editor.got if "method" not in one and one["id"] in twice]
        assert {one for one in answered if one < FIRST + LINES} <= asked
        log = (tmp_path / "stderr").read_text()
        assert "Traceback" not in log, log[-3000:]


async def _runs(served: Served) -> list[str]:
    found = await served.client.get("/v1/runs", params={"status": ["queued", "claimed", "running"]})
    return [one["run_id"] for one in found.json()["items"]]


def _line(chance: random.Random, number: int, session: str, asked: set[Any]) -> bytes:
    params: Any = {name: chance.choice(VALUES) for name in chance.sample(NAMES, chance.randint(0, 6))}
    if chance.random() < 0.5:
        params["sessionId"] = session
    if chance.random() < 0.1:
        params = chance.choice(VALUES)
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": chance.choice(METHODS), "params": params}
    if chance.random() < 0.7:
        body["id"] = number
        asked.add(number)
    if chance.random() < 0.1:
        body.pop(chance.choice(list(body)))
    if chance.random() < 0.1:
        body[chance.choice(("id", "method", "result", "error"))] = chance.choice(VALUES)
    changed = chance.random() < 0.15
    if changed and "id" in body:
        body["id"] = f"m{number}"  # whose digits may change
        asked.discard(number)
    text = json.dumps(body).encode()
    if changed:
        at = chance.randrange(len(text))
        text = text[:at] + chance.randbytes(chance.randint(0, 3)).replace(b"\n", b"") + text[at + 1 :]
    return text


async def test_an_editor_that_goes_in_the_middle_leaves_no_command_behind(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        for _ in range(2):
            async with raw(served, tmp_path) as editor:
                await editor.ask("initialize", protocolVersion=1)
                session = (await editor.ask("session/new", cwd="/", mcpServers=[]))["result"]["sessionId"]
                prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hold"}]}
                body = {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": prompt}
                await editor.write(json.dumps(body).encode() + b"\n")
                while (await editor.read()).get("method") != "session/update":
                    pass
                assert await editor.end() == 0
        assert "Traceback" not in (tmp_path / "stderr").read_text()


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
async def test_files_are_no_editor(tmp_path: Path, stream: str) -> None:
    file = (tmp_path / "file").open("w+b")
    streams: dict[str, Any] = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    process = await asyncio.create_subprocess_exec(
        *HOSTLER, "acp", "puppet", "--url", "http://127.0.0.1:9", "--key", "k", **(streams | {stream: file}),
        stderr=asyncio.subprocess.PIPE, env=environment(None),
    )  # fmt: skip
    async with asyncio.timeout(BOUND_SECONDS):
        _, error = await process.communicate()
    file.close()
    assert process.returncode == 2
    assert "an editor starts this command with pipes" in error.decode()
