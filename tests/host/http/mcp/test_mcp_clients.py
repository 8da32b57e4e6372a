"""More of the official client: tasks by an extension of its own, and many calls at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp.client.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.types import CallToolResult, Request, RequestParams, Result

from support.dialects.mcp import GENERATIONS, TASKS, Heard, accept, mcp_client, texts_of
from support.dialects.players import script
from support.http_host import ADMIN_KEY, Served


class Task(Result):
    """A task in place of the result of a call."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    ttl_ms: int | None
    poll_interval_ms: int


class TaskParams(RequestParams):
    task_id: str


class GetTask(Request[TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"


class Now(Result):
    """A task as it is."""

    status: str
    result: CallToolResult | None = None


class Tasks(ClientExtension):
    """The extension, as a program writes it for the official client: it polls until the result is there."""

    identifier = TASKS

    def __init__(self) -> None:
        self.polled: list[str] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Task, resolve=self.resolve)]

    async def resolve(self, task: Task, context: ClaimContext) -> CallToolResult:
        while True:
            request = GetTask(params=TaskParams(task_id=task.task_id))
            now = await context.session.send_request(request, Now)
            self.polled.append(now.status)
            if now.result is not None:
                return now.result
            await asyncio.sleep(0.05)


async def test_the_official_client_polls_tasks(served: Served, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    extension = Tasks()
    async with mcp_client(served.url, ADMIN_KEY, "2026-07-28", extensions=[extension]) as client:
        steps = script(["say", "slow"], ["wait", str(gate)], ["say", "你好 🙂"])
        calling = asyncio.create_task(client.call_tool("player", {"message": steps}))
        async with asyncio.timeout(30):
            while not (extension.polled or calling.done()):
                await asyncio.sleep(0.02)
        gate.touch()
        assert texts_of(await calling) == ["slow", "你好 🙂"]
    assert set(extension.polled) == {"working", "completed"}


@pytest.mark.parametrize("mode", GENERATIONS)
async def test_many_calls_at_once_keep_their_answers_apart(served: Served, mode: str) -> None:
    async def one(client: Client, number: int) -> None:
        heard = Heard()
        steps: list[list[Any]] = [
            ["delta", f"{number}:"],
            ["tool", "player.order", {"thing": str(number)}, "a"],
        ]
        given = {"message": script(*steps, ["say", f"{number}:done"])}
        result = await client.call_tool("player", given, progress_callback=heard.note_progress)
        said = [f'player.order: "ordered 1 {number}"', f"{number}:done"]
        assert sorted(texts_of(result)) == sorted(said)
        assert str(number) in heard.text

    answer = lambda _: accept(approved=True)  # noqa: E731
    async with mcp_client(served.url, ADMIN_KEY, mode, answer=answer) as client:
        await asyncio.gather(*(one(client, number) for number in range(8)))
