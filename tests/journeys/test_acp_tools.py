"""Files and terminals of an editor, as tools of a run and in messages, with the official Python client."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import acp
import pytest
from acp.schema import (
    BlobResourceContents,
    ClientCapabilities,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextResourceContents,
)

from hostler_protocol.ids import new_id
from support.editor_hosts import POLICY, a_host, agent, at
from support.editors import Editing, Person, result, said, steps
from support.server_process import HostProcess
from support.shop import calling

pytestmark = pytest.mark.timeout(400)
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def client_call(name: str, **arguments: Any) -> list[Any]:
    """A step that pauses the run for a tool of the client."""
    pending = {"kind": "client_tool", "tool_name": name, "arguments": arguments, "call_id": new_id()}
    return result("run.paused", pending=[pending], state={"at": 1})


async def in_attempts(host: HostProcess, editor: Editing, session: str, call: list[Any]) -> Any:
    """Let a run pause for a client's tool; what its next attempt is told of the outcome."""
    text = json.dumps({"1": [call], "else": [["show_context"]]})
    await editor.say(session, text)
    said_last = editor.person.text().rpartition("\n\n")[2] or editor.person.text()
    editor.person.updates.clear()
    return json.loads(said_last)["continuation"]["decisions"][0]


@pytest.mark.gate("editor-consent")
@pytest.mark.shows("acp", "client-tools")
async def test_files_and_terminal_of_the_editor_are_client_tools(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    person = Person(files={str(project / "a.txt"): "one\ntwo 二\nthree\n", "/etc/other": "x"})
    async with (
        a_host(tmp_path, agent(runner="keeper")) as host,
        at(host, tmp_path, person=person) as editor,
    ):
        session = await editor.new(project)

        async def call(name: str, **arguments: Any) -> Any:
            return await in_attempts(host, editor, session, client_call(name, **arguments))

        read = await call("editor_read_file", path="a.txt", line=2, limit=1)
        assert read["result"] == {"path": str(project / "a.txt"), "content": "two 二\n"}
        assert not person.asked
        missing = await call("editor_read_file", path="b.txt")
        assert "there is no" in json.dumps(missing)
        person.choose("reject")
        outside = await call("editor_read_file", path="../../../../etc/other")
        assert "refused" in json.dumps(outside)
        assert "not in the project folder" in json.dumps(person.asked)
        person.choose("allow_again")
        written = await call("editor_write_file", path="b.txt", content="new\n")
        assert written["result"]["written"] is True
        assert person.files[str(project / "b.txt")] == "new\n"
        assert person.asked[-1]["call"]["content"][0]["type"] == "diff"
        await call("editor_write_file", path="c.txt", content="")
        assert len(person.asked) == 2  # allowed for the session
        person.choose("allow")
        ran = await call("editor_run_command", command="make", args=["all"])
        assert ran["result"] == {"output": "ok\n", "truncated": False, "exit_code": 0, "signal": None}
        assert person.commands[-1]["command"] == "make"
        assert person.commands[-1]["cwd"] == str(project)
        assert person.released == ["t1"]
        person.hangs = True
        person.choose("allow")
        hung = await call("editor_run_command", command="sleep", timeout=0.2)
        assert hung["result"]["timed_out"] is True
        assert (person.killed, person.released) == (["t2"], ["t1", "t2"])
        wrong = await call("editor_run_command", command="")
        assert "command: expected a text" in json.dumps(wrong)


@pytest.mark.gate("editor-consent")
async def test_an_agent_leaves_the_project_folder_by_no_link_and_by_no_earlier_consent(
    tmp_path: Path,
) -> None:
    """What is allowed for the session is that file or that command, and writes within the folder."""
    project, secret = tmp_path / "project", tmp_path / "secret"
    project.mkdir()
    secret.write_text("key")
    (project / "notes").symlink_to(secret)
    (project / "up").symlink_to(tmp_path)
    person = Person(files={str(project / "notes"): "key", str(project / "up" / "secret"): "key"})
    async with (
        a_host(tmp_path, agent(runner="keeper")) as host,
        at(host, tmp_path, person=person) as editor,
    ):
        session = await editor.new(project)

        async def call(name: str, **arguments: Any) -> Any:
            return await in_attempts(host, editor, session, client_call(name, **arguments))

        person.choose("allow_again", "allow_again")
        await call("editor_write_file", path="a.txt", content="")
        await call("editor_run_command", command="make", args=["test"])
        assert len(person.asked) == 2
        person.choose(*["reject"] * 6)
        refused = [
            await call("editor_read_file", path="notes"),
            await call("editor_read_file", path="up/secret"),
            await call("editor_write_file", path="notes", content="x"),
            await call("editor_write_file", path="../b.txt", content="x"),
            await call("editor_run_command", command="make", args=["install"]),
            await call("editor_run_command", command="make", args=["test"], cwd="/"),
        ]
        assert all("refused this call" in json.dumps(one) for one in refused), refused
        assert len(person.asked) == 8
        assert set(person.files) == {
            str(project / "a.txt"),
            str(project / "notes"),
            str(project / "up" / "secret"),
        }
        assert person.files[str(project / "notes")] == "key"
        assert [one["args"] for one in person.commands] == [["test"]]
        await call("editor_write_file", path="a.txt", content="again")
        assert len(person.asked) == 8


async def test_the_tools_of_the_editor_join_those_of_the_run(tmp_path: Path) -> None:
    """Runs call them like any tool, where the agent takes tools of its callers."""
    person = Person(files={str(tmp_path / "a.txt"): "内容\n"})
    closed = agent("closed", resource_policy={**POLICY, "allow_client_tools": False})
    call = steps(calling("editor_read_file", path="a.txt"), ["tell"])
    async with a_host(tmp_path, agent(), closed) as host, at(host, tmp_path, person=person) as editor:
        session = await editor.new(tmp_path)
        await editor.say(session, call)
        assert json.loads(person.text()) == [
            {"result": {"path": str(tmp_path / "a.txt"), "content": "内容\n"}}
        ]
        (shown,) = person.tool_calls().values()
        assert (shown["kind"], shown["title"], shown["status"]) == (
            "read",
            "editor_read_file a.txt",
            "completed",
        )
        person.updates.clear()
        await editor.say(session, json.dumps({"else": [["show_context"]]}))
        tools = json.loads(person.text())["resources"]["tools"]
        assert {one["tool_name"] for one in tools if one["tool_name"].startswith("editor_")} == {
            "editor_read_file", "editor_write_file", "editor_run_command",
        }  # fmt: skip
        person.updates.clear()
        await editor.connection.set_config_option("agent", session, "closed")
        await editor.say(session, call)
        assert "error" in json.loads(person.text())[0]


async def test_an_editor_without_a_tool_says_so(tmp_path: Path) -> None:
    async with (
        a_host(tmp_path, agent(runner="keeper")) as host,
        at(host, tmp_path, capabilities=ClientCapabilities()) as editor,
    ):
        session = await editor.new(tmp_path)
        prompt = editor.saying(session, steps(client_call("editor_read_file", path="a.txt")))
        await editor.person.until(lambda: "does not offer the tool" in json.dumps(editor.person.tool_calls()))
        await editor.connection.cancel(session_id=session)
        assert (await prompt).stop_reason == "cancelled"


@pytest.mark.shows("acp", "files-in", "files-out")
async def test_files_go_in_and_out(tmp_path: Path) -> None:
    big = bytes(range(256)) * 4096
    blocks = [
        ImageContentBlock(type="image", data=base64.b64encode(PIXEL).decode(), mime_type="image/png"),
        ResourceContentBlock(type="resource_link", name="a.py", uri="file:///p/a.py"),
        EmbeddedResourceContentBlock(
            type="resource", resource=TextResourceContents(uri="file:///p/文.txt", text="内容")
        ),
        EmbeddedResourceContentBlock(
            type="resource",
            resource=BlobResourceContents(
                uri="file:///p/big.bin",
                blob=base64.b64encode(big).decode(),
                mime_type="application/octet-stream",
            ),
        ),
    ]
    out = [
        result("artifact.created", artifact_type="file", name="r.txt", mime_type="text/plain",
               content_base64=base64.b64encode("报告".encode()).decode()),
        result("artifact.created", artifact_type="image", name="p.png", mime_type="image/png",
               content_base64=base64.b64encode(PIXEL).decode()),
        result("artifact.created", artifact_type="file", name="z.bin", mime_type="application/zip",
               content_base64=base64.b64encode(b"zip").decode()),
        said("made"),
    ]  # fmt: skip
    async with a_host(tmp_path) as host, at(host, tmp_path) as editor, host.client() as client:
        session = await editor.new(tmp_path)
        text = json.dumps({"else": out})
        await editor.say(session, text)
        shown = [one["content"] for one in editor.person.of("agent_message_chunk")]
        assert [one["type"] for one in shown] == ["resource", "image", "resource_link", "text"]
        assert shown[0]["resource"]["text"] == "报告"
        assert base64.b64decode(shown[1]["data"]) == PIXEL
        assert (shown[2]["name"], shown[2]["size"]) == ("z.bin", 3)
        got = await client.get(shown[2]["uri"].removeprefix(host.url))
        assert got.content == b"zip"
        await _send_files(editor, client, session, blocks, big)
        with pytest.raises(acp.RequestError, match="not valid base64") as caught:
            await editor.say(session, ImageContentBlock(type="image", data="%%", mime_type="image/png"))
        assert caught.value.code == -32602
        editor.person.updates.clear()
        await editor.connection.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
        loaded = [one["content"] for one in editor.person.of("user_message_chunk")]
        assert [one["type"] for one in loaded] == ["text", "image", "text", "text", "resource_link"]
        again = [one["content"]["type"] for one in editor.person.of("agent_message_chunk")]
        assert again[:4] == ["resource", "image", "resource_link", "text"]


async def _send_files(editor: Editing, client: Any, session: str, blocks: list[Any], big: bytes) -> None:
    """Send files to an agent that takes any text, and look at its event."""
    await editor.connection.set_config_option("agent", session, "echo")
    await editor.say(session, *blocks)
    listed = (await client.get("/v1/events", params={"conversation_id": session})).json()["items"]
    event = (await client.get(f"/v1/events/{listed[0]['event_id']}")).json()["envelope"]
    image, link, embedded, file = event["input"]["contents"]
    assert link["text"] == "[a.py](file:///p/a.py)"
    assert embedded["text"] == '<context ref="file:///p/文.txt">\n内容\n</context>'
    assert file["file_name"] == "big.bin"
    for found, content in ((image, PIXEL), (file, big)):
        if "artifact_id" in found:
            got = (await client.get(f"/v1/artifacts/{found['artifact_id']}/content")).content
        else:
            got = base64.b64decode(found["image_base64"])
        assert got == content
