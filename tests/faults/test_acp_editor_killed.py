"""kill -9 of the host, and of `hostler acp`, in the middle of a prompt: the session is as if nothing was."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import acp
import pytest

from support.editors import Editing, delta, editing, result, said, steps
from support.server_process import KEY, PLUGINS, HostProcess, config_file
from support.shop import BOOK, SHOP, calling

pytestmark = pytest.mark.timeout(500)
KILLS = ("host", "command", "both")
POLICY = {"allowed_tool_names": ["shop.*"], "tool_approval": {"shop.book": "required"}}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def work(gate: Path) -> str:
    """A run that stands at a gate in the middle of a message, and asks for an approval after it."""
    return steps(
        result("tool.call.started", tool_call_id="c1", tool_name="shop.prices", parameters={}),
        calling("shop.prices"),
        result("tool.call.completed", tool_call_id="c1", tool_name="shop.prices", result="known"),
        delta("Half of 你好 "),
        delta("🎉 a"),
        ["gate", str(gate)],
        delta(" message."),
        said("Half of 你好 🎉 a message."),
        BOOK,
        said("Booked."),
    )


@contextlib.asynccontextmanager
async def gate(path: Path) -> AsyncIterator[asyncio.Event]:
    """A Unix socket whose connections are closed once the event is set, and set it when one has come."""
    opened = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await opened.wait()
        writer.close()

    server = await asyncio.start_unix_server(hold, path)
    try:
        yield opened
    finally:
        opened.set()
        server.close()


def a_host(folder: Path) -> HostProcess:
    shop = shutil.copytree(SHOP, folder / "shop", ignore=shutil.ignore_patterns("*.sqlite3*"))
    agent = {
        "name": "helper",
        "runner": "plugin:test/stepper/resumable",
        "resource_policy": POLICY,
        "recovery": {"on_crash": "resume", "max_attempts": 5},
    }
    config = config_file(folder / "hostler.yaml", plugins=[PLUGINS / "stepper", shop], agents=[agent])
    return HostProcess(folder / "data", config, options=["--port", str(free_port())])


def a_command(host: HostProcess, folder: Path, how: str, **more: Any) -> Any:
    where = ("--url", host.url) if how == "url" else ("--data", str(folder / "data"))
    return editing("helper", *where, "--key", KEY, folder=folder, **more)


async def finish(editor: Editing) -> list[tuple[str, Any]]:
    """Allow what is asked, and wait for the end."""
    await editor.person.until(lambda: editor.person.asked)
    editor.person.choose("allow")
    await editor.person.until(lambda: editor.person.text().endswith("Booked."))
    calls = editor.person.tool_calls
    await editor.person.until(lambda: {c["status"] for c in calls().values()} == {"completed"})
    return [one for one in editor.person.transcript() if one[0] != "user_message_chunk"]


@pytest.mark.parametrize("how", ["url", "data"])
async def test_it_goes_on_as_if_nothing_had_been_killed(tmp_path: Path, how: str) -> None:
    """Each way of being killed gives the transcript of a run that was left alone, live and when loaded."""
    host = a_host(tmp_path)
    try:
        await host.start()
        seen = {kill: await _one(host, tmp_path, how, kill) for kill in ("nothing", *KILLS)}
        for kill in KILLS:
            assert seen[kill] == seen["nothing"], kill
        live, loaded = seen["nothing"]
        assert live == loaded
        assert [kind for kind, _ in live] == [
            "tool_call",
            "agent_message_chunk",
            "tool_call",
            "agent_message_chunk",
        ]
        assert live[1][1] == "Half of 你好 🎉 a message."
    finally:
        host.end()


async def _one(host: HostProcess, folder: Path, how: str, kill: str) -> tuple[Any, Any]:
    """One run; what was seen of it live (by whoever was there at its end), and what a later load shows."""
    path = folder / f"{kill}.gate"
    async with gate(path) as opened, contextlib.AsyncExitStack() as stack:
        editor = await stack.enter_async_context(a_command(host, folder, how))
        session = await editor.new(folder)
        prompt = editor.saying(session, work(path))
        await editor.person.until(lambda: editor.person.text().endswith("🎉 a"))
        if kill in ("command", "both"):
            await editor.kill()
        if kill in ("host", "both"):
            host.kill()
            await host.start()
        opened.set()
        if kill in ("command", "both"):
            editor = await stack.enter_async_context(a_command(host, folder, how))
            await editor.connection.load_session(cwd=str(folder), session_id=session, mcp_servers=[])
        live = await finish(editor)
        if kill in ("command", "both"):
            with pytest.raises(ConnectionError):
                await prompt
        else:
            assert (await prompt).stop_reason == "end_turn"
        reader = await stack.enter_async_context(a_command(host, folder, how))
        await reader.connection.load_session(cwd=str(folder), session_id=session, mcp_servers=[])
        (user, *loaded) = reader.person.transcript()
        assert user == ("user_message_chunk", work(path))
        return live, loaded


async def test_a_host_that_does_not_come_back_is_an_error(tmp_path: Path) -> None:
    """The prompt ends with an error, and the command lives; a cancelled one is `cancelled`."""
    host = a_host(tmp_path)
    try:
        await host.start()
        constants = {"hostler.cli.acp.host_access.PATIENCE_SECONDS": 1.0}
        command = a_command(host, tmp_path, "url", constants=constants)
        async with command as editor, gate(tmp_path / "g") as opened:
            session = await editor.new(tmp_path)
            prompt = editor.saying(session, work(tmp_path / "g"))
            await editor.person.until(lambda: editor.person.text().endswith("🎉 a"))
            host.kill()
            with pytest.raises(acp.RequestError, match="the host was away for 1 s") as caught:
                await prompt
            assert caught.value.code == -32603
            assert (caught.value.data or {})["retryable"] is True
            await host.start()
            opened.set()
            editor.person.updates.clear()
            await editor.connection.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
            assert (await finish(editor))[-1][1] == "Booked."
    finally:
        host.end()
