"""`hostler acp` with the official Python client: a real command, a real host, a scripted agent."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import acp
import pytest
from acp.schema import (
    HttpMcpServer,
)

from support.editor_hosts import a_host, agent, at
from support.editors import ALL, Editing, delta, editing, result, said, steps
from support.server_process import KEY
from support.shop import BOOK

pytestmark = pytest.mark.timeout(400)


@pytest.mark.shows("acp", "text", "unicode", "tools", "usage")
async def test_an_answer_streams_and_the_session_is_loaded_as_it_was(tmp_path: Path) -> None:
    message = steps(
        delta("Hello 你好"),
        delta(" 🎉 "),
        said("Hello 你好 🎉"),
        result("log", level="info", text="looking"),
        result("log", level="info", text="plan of the agent:\n[x] look\n[>] think\n[ ] write"),
        result("log", level="debug", text="thought of the agent: well, 再想想"),
        result("tool.call.started", tool_call_id="c1", tool_name="files.read", parameters={"path": "a.txt"}),
        result("tool.call.completed", tool_call_id="c1", tool_name="files.read", result={"text": "Ä"}),
        result("tool.call.started", tool_call_id="c1", tool_name="files.write", parameters={"path": "b.txt"}),
        result("tool.call.completed", tool_call_id="c1", tool_name="files.write", error="read only"),
        ["result", "message.completed", {"message": {"role": "assistant", "content": "Done."}}, {
            "usage": {"input_tokens": 11, "output_tokens": 7, "cached_tokens": 3, "reasoning_tokens": 2}
        }],
    )  # fmt: skip
    async with a_host(tmp_path) as host, at(host, tmp_path) as editor:
        session = await editor.new(tmp_path)
        answer = await editor.say(session, message)
        assert answer.stop_reason == "end_turn"
        assert answer.usage is not None
        assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (
            11,
            7,
            18,
        )
        assert (answer.usage.cached_read_tokens, answer.usage.thought_tokens) == (3, 2)
        seen = editor.person.transcript()
        kinds = [kind for kind, _ in seen]
        assert kinds == [
            "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call", "agent_message_chunk",
        ]  # fmt: skip
        assert seen[0][1] == "Hello 你好 🎉"
        assert seen[1][1] == "looking\n\nwell, 再想想"
        assert seen[2][1]["title"] == "files.read a.txt"
        assert (seen[2][1]["status"], seen[2][1]["rawOutput"]) == ("completed", {"text": "Ä"})
        assert (seen[3][1]["status"], seen[3][1]["rawOutput"]) == ("failed", "read only")
        assert seen[4][1] == "Done."
        (plan,) = editor.person.of("plan")
        assert [entry["status"] for entry in plan["entries"]] == ["completed", "in_progress", "pending"]
        first, second = editor.person.of("tool_call")
        assert (first["kind"], second["kind"]) == ("read", "edit")
        assert first["toolCallId"] != second["toolCallId"]
        (listed,) = (await editor.connection.list_sessions(cwd=str(tmp_path))).sessions
        assert (listed.session_id, listed.cwd) == (session, str(tmp_path))
        assert (listed.title or "").startswith('[["result"')
        assert not (await editor.connection.list_sessions(cwd="/elsewhere")).sessions
        assert await editor.leave() == 0
        assert editor.log.read_text() == ""
        async with at(host, tmp_path) as other:
            await other.connection.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
            loaded = other.person.transcript()
            assert loaded == [("user_message_chunk", message), *seen]
            await other.person.until(lambda: other.person.of("available_commands_update"))
            other.person.updates.clear()
            await other.say(session, steps(said("on")))
            assert other.person.transcript() == [("agent_message_chunk", "on")]
            async with at(host, tmp_path) as third:
                await third.connection.resume_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
                await third.say(session, steps(said("further")))
                assert third.person.transcript() == [("agent_message_chunk", "further")]


@pytest.mark.shows("acp", "cancel", "error")
async def test_cancel_and_errors(tmp_path: Path) -> None:
    async with a_host(tmp_path) as host, at(host, tmp_path) as editor:
        session, person = await editor.new(tmp_path), editor.person
        prompt = editor.saying(session, steps(delta("begun"), ["until_cancelled"]))
        await person.until(lambda: "begun" in person.text())
        await editor.connection.cancel(session_id=session)
        assert (await prompt).stop_reason == "cancelled"
        prompt = editor.saying(session, steps(BOOK))
        await person.until(lambda: person.asked)
        await editor.connection.cancel(session_id=session)
        assert (await prompt).stop_reason == "cancelled"
        prompt = editor.saying(session, steps(["hold"]))
        await asyncio.sleep(0)
        await editor.connection.cancel(session_id=session)  # while its event is being sent
        assert (await prompt).stop_reason == "cancelled"
        failing = steps(result("run.failed", code="shop.closed", error="今天关门"))
        with pytest.raises(acp.RequestError, match="今天关门") as caught:
            await editor.say(session, failing)
        assert caught.value.code == -32603
        assert (caught.value.data or {})["code"] == "shop.closed"
        for reason, stop in (("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal")):
            answer = await editor.say(
                session, steps(said("x"), result("run.completed", finish_reason=reason))
            )
            assert answer.stop_reason == stop
        with pytest.raises(acp.RequestError, match="is not open") as caught:
            await editor.say("nowhere", "x")
        assert caught.value.code == -32002
        with pytest.raises(acp.RequestError, match="there is no session") as caught:
            await editor.connection.load_session(cwd="/", session_id="nowhere", mcp_servers=[])
        assert caught.value.code == -32002
        with pytest.raises(acp.RequestError, match="expected an absolute path") as caught:
            await editor.new("relative")
        assert caught.value.code == -32602
        with pytest.raises(acp.RequestError, match="input is empty") as caught:
            await editor.say(session)
        assert caught.value.code == -32602
        with pytest.raises(acp.RequestError, match=r"at most 1,048,576") as caught:
            await editor.say(session, "x" * 1_100_000)
        assert caught.value.code == -32602
        await editor.say(session, steps(said("still here")))
        assert "still here" in person.text()


async def test_a_second_prompt_waits_where_runs_follow_each_other(tmp_path: Path) -> None:
    async with a_host(tmp_path) as host, at(host, tmp_path) as editor:
        session, person = await editor.new(tmp_path), editor.person
        first = editor.saying(session, steps(delta("one "), ["until_cancelled"]))
        await person.until(lambda: "one" in person.text())
        second = editor.saying(session, steps(said("two")))
        async with host.client() as client:
            runs = await _runs_of(client, session, 2)
            (run,) = [one for one in runs if one["status"] == "running"]
            await client.post(f"/v1/runs/{run['run_id']}/cancel", json={})
        assert (await first).stop_reason == "cancelled"
        assert (await second).stop_reason == "end_turn"
        assert "two" in person.text()


async def _runs_of(client: Any, session: str, count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(60):
        while True:
            found = (await client.get("/v1/runs", params={"conversation_id": session})).json()["items"]
            if len(found) >= count:
                return list(found)
            await asyncio.sleep(0.02)


@pytest.mark.shows("acp", "steer")
async def test_a_second_prompt_steers_where_the_agent_listens(tmp_path: Path) -> None:
    """Both prompts are answered by the one run; a load shows the second where it was taken up."""
    listening = {"name": "helper", "runner": "plugin:test/listener/default"}
    go = tmp_path / "go"
    async with a_host(tmp_path, listening) as host, at(host, tmp_path) as editor, host.client() as client:
        session, person = await editor.new(tmp_path), editor.person
        first = editor.saying(session, f"wait {go}")
        await _runs_of(client, session, 1)
        second = editor.saying(session, "and 加糖")
        async with asyncio.timeout(60):
            while True:
                events = (await client.get("/v1/events", params={"conversation_id": session})).json()["items"]
                if [one["outcome"] for one in events] == ["steered", "started"]:
                    break
                await asyncio.sleep(0.02)
        go.touch()
        assert [(await one).stop_reason for one in (first, second)] == ["end_turn", "end_turn"]
        heard = json.dumps([f"wait {go}", "and 加糖"])
        assert person.transcript() == [("agent_message_chunk", heard)]
        await editor.connection.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
        assert [text for _, text in person.transcript()[1:]] == [f"wait {go}and 加糖", heard]


async def test_a_session_that_is_loaded_anew_gives_up_its_prompt_and_goes_on(tmp_path: Path) -> None:
    async with a_host(tmp_path) as host, at(host, tmp_path) as editor:
        session, person = await editor.new(tmp_path), editor.person
        prompt = editor.saying(session, steps(delta("begun"), BOOK, said("begun and done")))
        await person.until(lambda: person.asked)
        await editor.connection.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
        assert (await prompt).stop_reason == "cancelled"
        person.updates.clear()
        await person.until(lambda: len(person.asked) == 2)
        person.choose("allow", "allow")  # the first request was withdrawn
        await person.until(lambda: person.text().endswith("and done"))


@pytest.mark.shows("acp", "wrong-key", "unknown-agent")
async def test_keys_agents_and_versions(tmp_path: Path) -> None:
    async with a_host(tmp_path, agent(), agent("second")) as host:
        async with at(host, tmp_path, key="wrong") as editor:
            for ask in (
                lambda: editor.new(tmp_path),
                lambda: editor.connection.authenticate(method_id="hostler-key"),
                editor.connection.list_sessions,
            ):
                with pytest.raises(acp.RequestError, match="Authentication required") as caught:
                    await ask()
                assert caught.value.code == -32000
        async with editing("helper", "--url", host.url, folder=tmp_path) as editor:
            assert [method.id for method in editor.about.auth_methods or []] == ["hostler-key"]
            with pytest.raises(acp.RequestError, match="needs a key") as caught:
                await editor.new(tmp_path)
            assert caught.value.code == -32000
        async with editing("helper", "--url", host.url, folder=tmp_path, HOSTLER_KEY=KEY) as editor:
            await editor.connection.authenticate(method_id="hostler-key")
            with pytest.raises(acp.RequestError, match="the only method"):
                await editor.connection.authenticate(method_id="other")
        async with at(host, tmp_path, "helpr") as editor:
            with pytest.raises(acp.RequestError, match=r"there is no agent 'helpr'.*helper") as caught:
                await editor.new(tmp_path)
            assert caught.value.code == -32002
        async with editing("helper", "--url", "http://127.0.0.1:9", "--key", "k", folder=tmp_path) as editor:
            with pytest.raises(acp.RequestError, match="no server answers") as caught:
                await editor.new(tmp_path)
            assert caught.value.code == -32603
        async with at(host, tmp_path) as editor:
            answered = await editor.connection.initialize(protocol_version=7)
            assert answered.protocol_version == 1
            await _choose_agents(editor, tmp_path)


async def _choose_agents(editor: Editing, folder: Path) -> None:
    made = await editor.connection.new_session(cwd=str(folder), mcp_servers=[])
    (option,) = made.config_options or []
    assert (option.id, option.current_value) == ("agent", "helper")
    assert [one.value for one in option.options] == ["helper", "echo", "second"]
    changed = await editor.connection.set_config_option("agent", made.session_id, "second")
    assert changed is not None
    assert changed.config_options[0].current_value == "second"
    answer = await editor.say(made.session_id, steps(said("2")))
    assert answer.stop_reason == "end_turn"
    with pytest.raises(acp.RequestError, match="there is no agent 'third'"):
        await editor.connection.set_config_option("agent", made.session_id, "third")
    loaded = await editor.connection.load_session(cwd=str(folder), session_id=made.session_id, mcp_servers=[])
    assert loaded is not None
    assert (loaded.config_options or [])[0].current_value == "second"


async def test_sessions_close_and_are_deleted_and_mcp_servers_are_not_used(tmp_path: Path) -> None:
    server = HttpMcpServer(type="http", name="docs", url="https://example.com/mcp", headers=[])
    async with a_host(tmp_path) as host, at(host, tmp_path) as editor:
        session = await editor.new(tmp_path, mcp_servers=[server])
        await editor.say(session, steps(said("hello")))
        assert "MCP servers of the editor are not used (docs)" in editor.person.text()
        before = editor.person.text()
        await editor.say(session, steps(said("again")))
        assert editor.person.text().removeprefix(before) == "again"
        await editor.say(session, "/state")
        assert "No state is kept" in editor.person.text()
        prompt = editor.saying(session, steps(delta("begun"), ["until_cancelled"]))
        await editor.person.until(lambda: "begun" in editor.person.text())
        await editor.connection.close_session(session_id=session)
        assert (await prompt).stop_reason == "cancelled"
        with pytest.raises(acp.RequestError, match="is not open"):
            await editor.say(session, "x")
        await editor.connection._conn.send_request("session/delete", {"sessionId": session})
        assert not (await editor.connection.list_sessions()).sessions
        with pytest.raises(acp.RequestError, match="there is no session"):
            await editor.connection.load_session(cwd="/", session_id=session, mcp_servers=[])


async def test_sessions_are_listed_page_by_page(tmp_path: Path) -> None:
    async with a_host(tmp_path) as host, at(host, tmp_path, capabilities=ALL) as editor:
        made = []
        for number in range(23):
            session = await editor.new(tmp_path if number % 2 else tmp_path / "other")
            await editor.say(session, steps(said(f"{number}")))
            made.append(session)
        await editor.say(made[0], steps(said("again")))
        first = await editor.connection.list_sessions()
        second = await editor.connection.list_sessions(cursor=first.next_cursor)
        assert second.next_cursor is None
        found = [one.session_id for one in (*first.sessions, *second.sessions)]
        assert found == [made[0], *reversed(made[1:])]
        inside = await editor.connection.list_sessions(cwd=str(tmp_path))
        assert [one.session_id for one in inside.sessions] == [*reversed(made[1::2])]
        with pytest.raises(acp.RequestError, match="cursor"):
            await editor.connection.list_sessions(cursor="nonsense")


@pytest.mark.shows("acp", "long-run")
async def test_a_run_goes_on_without_its_editor_and_is_found_on_load(tmp_path: Path) -> None:
    async with a_host(tmp_path) as host:
        async with at(host, tmp_path) as editor:
            session = await editor.new(tmp_path)
            work = [delta("before "), BOOK, said("before and after")]
            prompt = editor.saying(session, steps(*work))
            await editor.person.until(lambda: editor.person.asked)
            await editor.kill()
            prompt.cancel()
        async with at(host, tmp_path) as other:
            await other.connection.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
            assert other.person.text() == "before"
            await other.person.until(lambda: other.person.asked)
            other.person.choose("allow")
            await other.person.until(lambda: other.person.text() == "before and after")
            calls = other.person.tool_calls
            await other.person.until(lambda: [c["status"] for c in calls().values()] == ["completed"])
            transcript = other.person.transcript()
            assert (await other.leave()) == 0
        async with at(host, tmp_path) as third:
            await third.connection.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
            assert third.person.transcript() == transcript


@pytest.mark.shows("acp", "disconnect")
async def test_a_disconnect_cancels_if_it_shall(tmp_path: Path) -> None:
    async with a_host(tmp_path) as host, host.client() as client:
        for flags, ends in (((), "running"), (("--cancel-on-disconnect",), "cancelled")):
            async with at(host, tmp_path, *flags) as editor:
                session = await editor.new(tmp_path)
                prompt = editor.saying(session, steps(delta("begun"), ["until_cancelled"]))
                await editor.person.until(lambda: editor.person.text() == "begun")
                assert await editor.leave() == 0
                prompt.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                    await prompt
            (run,) = (await client.get("/v1/runs", params={"conversation_id": session})).json()["items"]
            async with asyncio.timeout(60):
                while (await client.get(f"/v1/runs/{run['run_id']}")).json()["status"] != ends:
                    await asyncio.sleep(0.02)
            await client.post(f"/v1/runs/{run['run_id']}/cancel", json={})


async def test_a_data_directory_without_a_server_gets_one(tmp_path: Path) -> None:
    async with a_host(tmp_path) as host:
        await host.stop()
        arguments = ("helper", "--data", str(tmp_path / "data"))
        async with editing(*arguments, folder=tmp_path, HOSTLER_ADMIN_KEY=KEY) as editor:
            session = await editor.new(tmp_path)
            assert (await editor.say(session, steps(said("here")))).stop_reason == "end_turn"
            assert editor.person.text() == "here"
            async with editing(*arguments, folder=tmp_path, HOSTLER_ADMIN_KEY=KEY) as other:  # shares it
                await other.connection.load_session(cwd="/", session_id=session, mcp_servers=[])
                assert other.person.text() == "here"
                assert await other.leave() == 0
            assert await editor.leave() == 0
