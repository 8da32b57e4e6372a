"""A2A over broken connections and killed processes: whatever breaks, a task folds to the same transcript."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from a2a.client.errors import A2AClientError
from a2a.types import SendMessageRequest

from hostler.http.a2a.bindings import HTTP_JSON_EVENTS
from hostler.http.a2a.fold import TaskFacts, TaskFold
from hostler.http.dialects.fold import Answer, fold_all
from hostler_protocol.results import AttemptStarted, RunCompleted
from support.dialects.a2a import Told, a2a_client, followed, got, message, told, transcript
from support.dialects.cutting import cutting
from support.dialects.plain import delta, said, stored
from support.dialects.players import script
from support.http_host import ADMIN_KEY, Served

LONG = "Ein langes 长长的 Märchen 🙂. " * 12


@pytest.mark.shows("a2a", "long-run")
async def test_a_client_that_breaks_off_at_random_places_has_the_same(
    host: Served, binding: str, tmp_path: Path
) -> None:
    gates = [tmp_path / "one", tmp_path / "two"]
    steps = script(
        *[["delta", LONG[at : at + 5]] for at in range(0, 200, 5)],
        ["wait", str(gates[0])],
        ["say", LONG],
        ["tool", "player.price", {"thing": "lamp"}, "m1"],
        *[["delta", LONG[at : at + 9]] for at in range(0, len(LONG), 9)],
        ["wait", str(gates[1])],
        ["say", LONG],
    )
    async with a2a_client(host.url, binding=binding) as client:
        reference = asyncio.create_task(told(client, message(steps, message_id="long")))
        async with asyncio.timeout(60):
            stream = client.send_message(SendMessageRequest(message=message(steps, message_id="long")))
            first = Told()
            async for response in stream:
                first.take(response)
                if first.parts:
                    break
        watchers = [
            asyncio.create_task(followed(client, first.task_id, random.Random(number), at_most=6))
            for number in range(4)
        ]
        for gate in gates:
            gate.touch()
        texts = (await reference).texts
        assert texts == [LONG, 'player.price: {"thing": "lamp", "euros": 4}', LONG]
        assert [one.texts for one in await asyncio.gather(*watchers)] == [texts] * 4
        assert (
            await transcript(host.url, ADMIN_KEY, first.task_id, random.Random(7), binding=binding) == texts
        )
        task = await got(client, first.task_id)
        assert [part["text"] for one in task["artifacts"] for part in one["parts"]] == texts


async def test_a_proxy_that_cuts_loses_nothing(host: Served, binding: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    steps = script(*[["delta", one] for one in LONG[:80]], ["wait", str(gate)], ["say", LONG])
    async with cutting(host.port) as proxy, a2a_client(proxy.url, binding=binding) as client:
        stream = client.send_message(SendMessageRequest(message=message(steps)))
        found = Told()
        try:
            async for response in stream:
                found.take(response)
                if found.parts:
                    proxy.cut()
        except A2AClientError:
            pass
        assert found.state == "WORKING"
        gate.touch()
        assert (await followed(client, found.task_id, random.Random(1))).texts == [LONG]


async def test_what_a_crashed_attempt_said_is_not_in_the_task(
    host: Served, binding: str, tmp_path: Path
) -> None:
    steps = script(["delta", "half of"], ["crash", str(tmp_path / "crashed")], ["say", "something else"])
    async with a2a_client(host.url, binding=binding) as client:
        found = await told(client, message(steps))
        assert (found.state, found.texts[-1]) == ("COMPLETED", "something else")
        task = await got(client, found.task_id)
        assert [part["text"] for one in task["artifacts"] for part in one["parts"]] == found.texts


def test_a_superseded_message_is_marked_and_left_out_of_the_whole_task() -> None:
    again = AttemptStarted(attempt=2, cause="crash", discard_after=0)
    results = stored(delta("old words"), again, said("new words"), RunCompleted())
    fold = TaskFold(TaskFacts("r", "c"), HTTP_JSON_EVENTS)
    frames = list(fold_all(fold, Answer("r"), results, None))
    marked = [frame for frame in frames if b'"incomplete":true' in frame]
    assert len(marked) == 1
    assert b'"message-1"' in marked[0]
    task = fold.task()
    assert [part.text for one in task.artifacts for part in one.parts] == ["new words"]


def test_a_stream_keeps_nothing_of_what_it_has_told() -> None:
    opening = TaskFold(TaskFacts("r", "c"), HTTP_JSON_EVENTS).task()
    fold = TaskFold(TaskFacts("r", "c"), HTTP_JSON_EVENTS, opening=opening)
    texts = [f"{number} " * 1_000 for number in range(20)]
    results = stored(*[said(text, f"m{number}") for number, text in enumerate(texts)], RunCompleted())
    frames = b"".join(fold_all(fold, Answer("r"), results, None))
    assert all(text.strip().encode() in frames for text in texts)
    assert fold.task().artifacts == []
