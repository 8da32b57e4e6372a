"""A2A with its official client, by both bindings: messages, tasks, lists, cancelling, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver
from a2a.client.errors import A2AClientError
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Part,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import (
    InvalidParamsError,
    MethodNotFoundError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict

from hostler.host.config import ConfigFile
from support.dialects.a2a import Told, a2a_client, got, message, told
from support.dialects.cutting import cutting
from support.dialects.players import player, script
from support.http_host import Served
from support.loopback import NO_CERTIFICATES
from support.trust import trusted

LISTENER = Path(__file__).parents[3] / "support/plugins/listener"

SAID = "你好 🙂 A lamp, s’il vous plaît."


def spelled(text: str) -> str:
    return script(*[["delta", one] for one in text], ["say", text])


@pytest.mark.shows("a2a", "text")
async def test_a_message_is_a_task_with_an_artifact_streamed_and_whole(host: Served, binding: str) -> None:
    async with a2a_client(host.url, binding=binding) as client:
        streamed = await told(client, message(spelled(SAID)))
        assert streamed.texts == [SAID]
        assert streamed.states == ["SUBMITTED", "WORKING", "COMPLETED"]
        assert len(streamed.parts["message-1"]) > len(SAID) / 2  # it came in pieces
        task = await got(client, streamed.task_id)
        assert task["contextId"] == streamed.context_id
        assert [part["text"] for part in task["artifacts"][0]["parts"]] == [SAID]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert task["status"]["timestamp"].endswith("Z")
    async with a2a_client(host.url, binding=binding, streaming=False) as client:
        whole = await told(client, message(spelled(SAID), message_id="mine"))
        assert whole.events == 1
        assert (whole.texts, whole.state) == ([SAID], "COMPLETED")
        (said,) = (await got(client, whole.task_id))["history"]
        assert (said["messageId"], said["role"]) == ("mine", "ROLE_USER")
        assert said["parts"] == [{"text": spelled(SAID)}]
        assert "history" not in await got(client, whole.task_id, history_length=0)


async def test_text_survives_being_sent_byte_by_byte(host: Served, binding: str) -> None:
    async with cutting(host.port) as proxy:
        proxy.crumbs = True
        async with a2a_client(proxy.url, binding=binding) as client:
            assert (await told(client, message(script(["delta", "你🙂"], ["say", "你🙂好"])))).texts == [
                "你🙂好"
            ]


async def test_a_context_is_a_conversation(host: Served, binding: str) -> None:
    async with a2a_client(host.url, binding=binding) as client:
        first = await told(client, message("one"))
        second = await told(client, message("two", context_id=first.context_id))
        assert second.context_id == first.context_id
        assert second.task_id != first.task_id
        named = await told(client, message("three", context_id="of my own"))
        assert named.context_id == "of my own"
    run = (await host.client.get(f"/v1/runs/{second.task_id}")).json()
    assert run["conversation_id"] == first.context_id


@pytest.mark.shows("a2a", "repeated")
async def test_the_same_message_again_is_the_same_task(host: Served, binding: str) -> None:
    async with a2a_client(host.url, binding=binding) as client:
        sent = message(spelled("once"), message_id="again")
        first, second = await asyncio.gather(told(client, sent), told(client, sent))
        late = await told(client, sent)
        assert first.task_id == second.task_id == late.task_id
        assert first.texts == second.texts == late.texts == ["once"]
        assert (
            await told(client, message("x", message_id="again", context_id="other"))
        ).task_id != late.task_id
    async with a2a_client(host.url, await host.key(), binding=binding) as other:
        assert (await told(other, sent)).task_id != first.task_id


@pytest.mark.shows("a2a", "long-run")
async def test_a_client_that_does_not_wait_polls(host: Served, binding: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with a2a_client(host.url, binding=binding, streaming=False, polling=True) as client:
        sent = await told(
            client, message(script(["delta", "half"], ["wait", str(gate)], ["say", "half and whole"]))
        )
        assert sent.state in ("SUBMITTED", "WORKING")
        gate.touch()
        async with asyncio.timeout(30):
            while (task := await got(client, sent.task_id))["status"]["state"] != "TASK_STATE_COMPLETED":
                await asyncio.sleep(0.02)
        assert task["artifacts"][0]["parts"] == [{"text": "half and whole"}]


@pytest.mark.shows("a2a", "usage")
async def test_usage_is_told_at_the_end(host: Served, binding: str) -> None:
    async with a2a_client(host.url, binding=binding) as client:
        found = await told(client, message(script(["usage", 12, 5, "done"])))
        assert found.metadata["hostler"]["usage"]["input_tokens"] == 12
        task = await got(client, found.task_id)
        assert task["metadata"]["hostler"]["usage"]["output_tokens"] == 5


@pytest.mark.shows("a2a", "files-in", "files-out")
async def test_files_come_in_and_go_out(host: Served, binding: str) -> None:
    async with a2a_client(host.url, binding=binding) as client:
        given = [
            Part(raw=b"\x00\xffbytes", filename="a.bin", media_type="application/x-own"),
            Part(raw=b"GIF89a", media_type="image/gif"),
            Part(url="https://example.com/b.pdf", filename="b.pdf", media_type="application/pdf"),
            Part(url="https://example.com/v1/artifacts/a/content", filename="another host's"),
        ]
        seen = await told(client, message(script(["seen"]), *given))
        taken = json.loads(seen.texts[0])["input"]["contents"][1:]
        assert [one["type"] for one in taken] == ["file_base64", "image_base64", "file_url", "file_url"]
        assert base64.b64decode(taken[0]["file_base64"]) == b"\x00\xffbytes"
        assert (taken[1]["mime_type"], taken[2]["file_url"]) == ("image/gif", "https://example.com/b.pdf")
        out = await told(client, message(script(["file", "inside", "out.txt"], ["loose", "alone", "b.txt"])))
        task = await got(client, out.task_id)
    files = [part for one in task["artifacts"] for part in one["parts"] if "url" in part]
    assert [file["filename"] for file in files] == ["out.txt", "b.txt"]
    assert [file.get("mediaType") for file in files] == [None, "text/plain"]
    contents = [(await host.client.get(file["url"])).text for file in files]
    assert contents == ["inside", "alone"]
    assert [part["filename"] for parts in out.parts.values() for part in parts if "url" in part] == [
        "out.txt",
        "b.txt",
    ]


async def test_reasoning_is_a_status_and_no_part_of_the_answer(host: Served, binding: str) -> None:
    async with a2a_client(host.url, binding=binding) as client:
        found = await told(client, message(script(["think", "Hm, "], ["think", "well."], ["say", "Yes."])))
        assert found.texts == ["Yes."]
        thoughts = [
            part["text"]
            for status in found.statuses
            for part in status.get("message", {}).get("parts", [])
            if part.get("metadata", {}).get("hostler", {}).get("thought")
        ]
        assert thoughts == ["Hm, well."]
        assert "message" not in (await got(client, found.task_id))["status"]


@pytest.mark.shows("a2a", "error")
async def test_a_run_that_fails_is_a_failed_task(host: Served, binding: str) -> None:
    async with a2a_client(host.url, binding=binding) as client:
        found = await told(client, message(script(["delta", "begun"], ["fail", "the kettle is empty"])))
        assert (found.state, found.texts) == ("FAILED", [])
        assert "the kettle is empty" in found.said
        assert found.metadata["hostler"]["code"] == "runner.error"
        task = await got(client, found.task_id)
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        assert "the kettle is empty" in task["status"]["message"]["parts"][0]["text"]


@pytest.mark.shows("a2a", "cancel")
async def test_a_task_is_cancelled_once(host: Served, binding: str) -> None:
    async with a2a_client(host.url, binding=binding) as client:
        stream = client.send_message(
            SendMessageRequest(message=message(script(["delta", "on and"], ["hold"])))
        )
        found = Told()
        async for response in stream:
            found.take(response)
            if found.parts:
                break
        rest = asyncio.create_task(_rest(stream, found))
        task = await client.cancel_task(CancelTaskRequest(id=found.task_id))
        assert task.status.state == TaskState.TASK_STATE_CANCELED
        await rest
        assert found.state == "CANCELED"
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(CancelTaskRequest(id=found.task_id))
        with pytest.raises(UnsupportedOperationError, match="over"):
            await told(client, message("more", task_id=found.task_id))
        with pytest.raises(UnsupportedOperationError, match="get it instead"):
            async for _ in client.subscribe(SubscribeToTaskRequest(id=found.task_id)):
                pass


async def _rest(stream: Any, found: Told) -> None:
    async for response in stream:
        found.take(response)


@pytest.fixture
async def listening(host: Served) -> Served:
    await host.host.apply(ConfigFile(plugins=[trusted(LISTENER)]), actor="test")
    await player(host, "listener", runner="plugin:test/listener/default", resource_policy={})
    return host


@pytest.mark.shows("a2a", "steer")
async def test_a_message_for_a_task_at_work_steers_it(
    listening: Served, binding: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    async with a2a_client(listening.url, agent="listener", binding=binding, streaming=False) as client:
        begun = await told(client, message(f"wait {gate}"), returnImmediately=True)
        sent = message("and hurry", task_id=begun.task_id)
        more, again = [asyncio.create_task(told(client, sent)) for _ in range(2)]
        async with asyncio.timeout(30):
            while len((await got(client, begun.task_id))["history"]) < 2:
                await asyncio.sleep(0.02)
        gate.touch()
        assert {(await more).task_id, (await again).task_id} == {begun.task_id}
        assert json.loads((await more).texts[0]) == [f"wait {gate}", "and hurry"]
        with pytest.raises(InvalidParamsError, match="contextId"):
            await told(client, message("x", task_id=begun.task_id, context_id="another"))


async def test_an_agent_that_does_not_listen_has_it_as_a_task_of_its_own(
    host: Served, binding: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    async with a2a_client(host.url, binding=binding, streaming=False) as client:
        begun = await told(client, message(script(["wait", str(gate)], ["say", "a"])), returnImmediately=True)
        sent = message("b", task_id=begun.task_id)
        more = await told(client, sent, returnImmediately=True)
        assert (more.state, more.context_id) == ("SUBMITTED", begun.context_id)
        assert more.task_id != begun.task_id
        gate.touch()
        assert (await told(client, sent)).task_id == more.task_id
    await player(host, concurrency={"on_busy": "reject"})
    async with a2a_client(host.url, binding=binding, streaming=False) as client:
        held = await told(client, message(script(["hold"])), returnImmediately=True)
        with pytest.raises(UnsupportedOperationError, match="busy"):
            await told(client, message("c", task_id=held.task_id))


async def test_tasks_are_listed_in_pages(host: Served, binding: str) -> None:
    async with a2a_client(host.url, binding=binding) as client:
        made = [(await told(client, message(f"{number}", context_id="c"))).task_id for number in range(5)]
        failed = (await told(client, message(script(["fail", "no"]), context_id="c"))).task_id
        await told(client, message("elsewhere", context_id="d"))
        seen: list[str] = []
        token = ""
        while True:
            page = await client.list_tasks(ListTasksRequest(context_id="c", page_size=2, page_token=token))
            assert (page.total_size, page.page_size) == (6, 2)
            seen += [task.id for task in page.tasks]
            if not (token := page.next_page_token):
                break
        assert seen == [failed, *reversed(made)]
        only = await client.list_tasks(ListTasksRequest(status=TaskState.TASK_STATE_FAILED))
        assert [task.id for task in only.tasks] == [failed]
        whole = await client.list_tasks(
            ListTasksRequest(context_id="d", include_artifacts=True, history_length=1)
        )
        (task,) = [MessageToDict(one) for one in whole.tasks]
        assert task["artifacts"][0]["parts"] == [{"text": "you said: elsewhere"}]
        assert task["history"][0]["parts"] == [{"text": "elsewhere"}]
        late = ListTasksRequest()
        late.status_timestamp_after.FromJsonString("2100-01-01T00:00:00Z")
        assert list((await client.list_tasks(late)).tasks) == []
        for wrong in (ListTasksRequest(page_size=101), ListTasksRequest(page_token="nonsense")):
            with pytest.raises(InvalidParamsError):
                await client.list_tasks(wrong)


async def test_what_is_not_there_is_not_found(host: Served, binding: str) -> None:
    await host.agent("other")
    async with a2a_client(host.url, binding=binding) as client:
        found = await told(client, message("here"))
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id="nothing"))
        with pytest.raises(TaskNotFoundError):
            await told(client, message("x", task_id="nothing"))
        with pytest.raises(TaskNotFoundError):
            await client.cancel_task(CancelTaskRequest(id="nothing"))
        with pytest.raises(TaskNotFoundError):
            async for _ in client.subscribe(SubscribeToTaskRequest(id="nothing")):
                pass
    async with a2a_client(host.url, agent="other", binding=binding) as client:
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id=found.task_id))
    async with httpx.AsyncClient(verify=NO_CERTIFICATES) as http:
        with pytest.raises(Exception, match="404"):
            await A2ACardResolver(http, f"{host.url}/a2a/nobody").get_agent_card()


@pytest.mark.shows("a2a", "wrong-key", "unknown-agent")
async def test_an_agent_that_is_gone_and_a_wrong_key_are_errors(host: Served, binding: str) -> None:
    async with a2a_client(host.url, "wrong", binding=binding) as client:
        with pytest.raises(A2AClientError, match="401"):
            await told(client, message("x"))
        with pytest.raises(A2AClientError, match="401"):
            await got(client, "x")
    async with a2a_client(host.url, await host.key("default", "runs:read"), binding=binding) as client:
        with pytest.raises(A2AClientError, match="403"):
            await told(client, message("x"))
    async with a2a_client(host.url, binding=binding) as client:
        assert (await host.client.delete("/v1/agents/player")).status_code == 204
        with pytest.raises(MethodNotFoundError, match="no agent"):
            await told(client, message("x"))
