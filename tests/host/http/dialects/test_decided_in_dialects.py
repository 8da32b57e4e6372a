"""What a run asks people, from the request to the end of the run, with the client of each interface.

Calls that a kill has left in doubt, more budget, approvals with edited arguments. One host serves all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.utils.errors import InvalidParamsError, UnsupportedOperationError

from support.dialects.a2a import a2a_client, got, message, told
from support.dialects.deciding import A2A, BOTH, CLIENTS
from support.dialects.langgraph import langgraph, plain, texts_of
from support.dialects.players import POLICY, player, playing, script
from support.http_host import Served

CLIENT = pytest.mark.parametrize("name", CLIENTS)
ORDER = ["tool", "player.order", {"thing": "灯 🙂"}, "o"]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    editable = {"player.order": {"approval": "required", "editable": True}}
    budget = {"max_tool_calls_per_run": 1, "on_exceeded": "ask"}
    async with playing(tmp_path / "data", hold_seconds=0.05) as made:
        await player(made, "lenient", resource_policy={**POLICY, "tool_approval": editable})
        await player(made, "thrifty", resource_policy={**POLICY, "budget": budget})
        yield made


@CLIENT
@pytest.mark.shows(
    "openai-chat", "openai-responses", "ag-ui", "ai-sdk", "mcp", "a2a", "langgraph", "in-doubt", "unicode"
)
async def test_a_call_that_a_kill_left_in_doubt(served: Served, tmp_path: Path, name: str) -> None:
    vanish = ["tool", "player.vanish", {"path": str(tmp_path / "vanished")}, "v"]
    done = await CLIENTS[name](served, tmp_path).decide(
        "player", script(vanish, ["say", "Bye."]), {"happened": True, "result": "as 你 said"}
    )
    assert "player.vanish" in done.shown
    assert done.texts[-2:] == ['player.vanish: "as 你 said"', "Bye."]
    (run,) = (await served.client.get("/v1/runs")).json()["items"]
    assert run["status"] == "completed"


@CLIENT
@pytest.mark.shows("openai-chat", "openai-responses", "ag-ui", "ai-sdk", "mcp", "a2a", "langgraph", "budget")
async def test_more_budget(served: Served, tmp_path: Path, name: str) -> None:
    steps = script(*(["tool", "player.price", {"thing": thing}, thing] for thing in ("lamp", "sofa")))
    done = await CLIENTS[name](served, tmp_path).decide("thrifty", steps, {"approved": True})
    assert "top_up" in done.shown
    assert "tool_calls" in done.shown
    assert [text.partition(": ")[0] for text in done.texts] == ["player.price"] * 2


@CLIENT
@pytest.mark.shows(
    "openai-chat", "openai-responses", "ag-ui", "ai-sdk", "mcp", "a2a", "langgraph", "edited", "unicode"
)
async def test_edited_arguments(served: Served, tmp_path: Path, name: str) -> None:
    edited = {"thing": "沙发", "count": 3}
    done = await CLIENTS[name](served, tmp_path).decide(
        "lenient", script(ORDER), {"approved": True, "editedArgs": edited}
    )
    assert "灯 🙂" in done.shown
    assert done.texts == ['player.order: "ordered 3 沙发"']


DIE = ["tool", "toolbox.die", {}, "d"]
DOUBT_AND_ORDER = script(["together", [ORDER, DIE]])
SAID = ['player.order: "ordered 1 灯 🙂"', 'toolbox.die: "so be it"']


@pytest.mark.parametrize("name", ["a2a", "ag-ui", "langgraph", "mcp", "mcp-session"])
@pytest.mark.shows("a2a", "ag-ui", "langgraph", "mcp", "in-doubt")
async def test_a_call_in_doubt_beside_an_approval(mortal: Served, tmp_path: Path, name: str) -> None:
    done = await CLIENTS[name](mortal, tmp_path).decide("mortal", DOUBT_AND_ORDER, BOTH)
    assert done.requests == 2
    assert sorted(done.texts) == SAID


STALE = "0" * 16
YES: dict[str, Any] = {"approved": True}
HAPPENED: dict[str, Any] = {"happened": True, "result": "so be it"}


async def both_asked(mortal: Served, folder: Path) -> None:
    """Wait until a call is in doubt and an approval beside it is asked."""
    await A2A(mortal, folder).all_asked((BOTH,))


async def in_doubt(mortal: Served) -> int:
    """How many calls are in doubt."""
    pauses = (await mortal.client.get("/v1/pauses")).json()["items"]
    return sum(call["review"] == "in_doubt" for pause in pauses for call in pause["calls"])


@pytest.mark.parametrize("wrong", ["stale", "empty"])
async def test_a_doubt_is_resolved_only_with_all_else_that_a_message_decides(
    mortal: Served, tmp_path: Path, wrong: str
) -> None:
    async with a2a_client(mortal.url, agent="mortal") as client:
        asked = await told(client, message(DOUBT_AND_ORDER))
        await both_asked(mortal, tmp_path)
        asked.take_task(await got(client, asked.task_id))
        ids = {one["kind"]: one["id"] for one in asked.requests}
        doubt = {"id": ids["in_doubt"], **HAPPENED}
        stale = {"id": ids["approval"].rpartition(".")[0] + f".{STALE}", **YES}
        given = stale if wrong == "stale" else {"id": ids["approval"]}
        with pytest.raises((InvalidParamsError, UnsupportedOperationError)):
            await told(client, message(doubt, given, task_id=asked.task_id))
        assert await in_doubt(mortal) == 1
        right = message(doubt, {"id": ids["approval"], **YES}, task_id=asked.task_id)
        assert sorted((await told(client, right)).texts) == SAID


@pytest.mark.parametrize("wrong", ["stale", "empty"])
async def test_a_doubt_is_resolved_only_with_all_else_that_a_resume_decides(
    mortal: Served, tmp_path: Path, wrong: str
) -> None:
    async with langgraph(mortal.url) as client:
        await client.runs.wait("t", "mortal", input=plain(DOUBT_AND_ORDER))
        await both_asked(mortal, tmp_path)
        state = await client.threads.get_state("t")
        ids = {one["value"]["hostler"]["kind"]: one["id"] for one in state["tasks"][0]["interrupts"]}
        stale: dict[str, Any] = {ids["approval"].rpartition(".")[0] + f".{STALE}": YES}
        given = stale if wrong == "stale" else {ids["approval"]: {}}
        doubt = {ids["in_doubt"]: HAPPENED}
        with pytest.raises(httpx.HTTPStatusError):
            await client.runs.wait("t", "mortal", command={"resume": {**doubt, **given}})
        assert await in_doubt(mortal) == 1
        right = {**doubt, ids["approval"]: YES}
        values = await client.runs.wait("t", "mortal", command={"resume": right})
        assert sorted(texts_of(values)) == SAID


@pytest.mark.parametrize("first", ["approval", "in_doubt"])
async def test_what_waits_beside_a_decision_is_the_end_of_its_answer(
    mortal: Served, tmp_path: Path, first: str
) -> None:
    """A task of A2A takes decisions one by one: the answer to each ends at once, with what still waits."""
    answers: dict[str, Any] = {
        "approval": {"approved": True},
        "in_doubt": {"happened": True, "result": "so be it"},
    }
    async with a2a_client(mortal.url, agent="mortal") as client:
        asked = await told(client, message(DOUBT_AND_ORDER))
        await A2A(mortal, tmp_path).all_asked((BOTH,))
        asked.take_task(await got(client, asked.task_id))
        requests = {one["kind"]: one["id"] for one in asked.requests}
        (second,) = set(answers) - {first}
        begun = await told(client, message({"id": requests[first], **answers[first]}, task_id=asked.task_id))
        assert begun.state == "INPUT_REQUIRED"
        assert [one["kind"] for one in begun.requests] == [second]
        done = await told(client, message({"id": requests[second], **answers[second]}, task_id=asked.task_id))
        assert sorted(done.texts) == SAID
