"""AG-UI with its official client: broken connections, pages loaded again, requests sent twice, tokens."""

from __future__ import annotations

import asyncio
import random
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.dialects.ag_ui import ag_ui_client, client_in, some_cuts, texts_of, transcript, user
from support.dialects.players import script
from support.http_host import ADMIN_KEY, Served
from support.loopback import NO_CERTIFICATES

WORDS = ["你好 ", "👩‍👩‍👧 ", "café ", "the end"]
STORY: list[list[Any]] = [["delta", word] for word in WORDS * 6] + [["say", "".join(WORDS * 6)]]
TEXT = "".join(WORDS * 6)


def body(run_id: str, *messages: dict[str, Any], thread: str = "thread-1", **more: Any) -> dict[str, Any]:
    return {"threadId": thread, "runId": run_id, "protocolVersion": "1.0", "messages": list(messages), **more}


async def post(served: Served, given: dict[str, Any], last: str | None = None) -> str:
    headers = {} if last is None else {"Last-Event-ID": last}
    answer = await served.client.post("/ag-ui/player", json=given, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize("seed", range(4))
async def test_a_connection_that_breaks_anywhere_loses_and_repeats_nothing(served: Served, seed: int) -> None:
    steps = [*STORY, ["tool", "player.price", {"thing": "茶"}, "x"], ["loose", "x", "f.txt"]]
    async with ag_ui_client(served.url, ADMIN_KEY, thread="whole") as client:
        whole = await client.run(script(*steps))
        expected = client.types()
    cuts = some_cuts(random.Random(seed), at_most=900, number=8)
    async with ag_ui_client(served.url, ADMIN_KEY, cuts=cuts, resuming=True) as client:
        done = await client.run(script(*steps))
        assert texts_of(done["messages"]) == texts_of(whole["messages"])
        assert client.types() == expected
        assert client.warnings == []
    runs = (await served.client.get("/v1/runs")).json()["items"]
    assert len(runs) == 2
    mine = next(run for run in runs if run["conversation_id"] == "thread-1")
    found = await transcript(served.url, ADMIN_KEY, "player", "thread-1", mine["run_id"], random.Random(seed))
    assert found == texts_of(whole["messages"])


@pytest.mark.shows("ag-ui", "long-run")
async def test_every_cut_of_a_stream_goes_on_exactly_also_long_after(served: Served) -> None:
    given = body("r1", user(script(*STORY[:5], ["say", "".join(WORDS) + "你好 "])))
    whole = await post(served, given)
    for last in range(1, whole.count("\nid: ") + 2):
        head = re.split(rf"(?<=\n)(?=id: {last + 1}\n)", whole)
        assert await post(served, given, str(last)) == (head[1] if len(head) > 1 else "")
    for wrong in ("x", "-1", "cc1", "9" * 30):
        answer = await served.client.post("/ag-ui/player", json=given, headers={"Last-Event-ID": wrong})
        assert (answer.status_code, answer.json()["type"]) == (400, "RUN_ERROR")


@pytest.mark.shows("ag-ui", "repeated")
async def test_the_same_request_twice_is_one_run_and_tells_the_thread(served: Served) -> None:
    given = body("r1", user("once"))
    first = await post(served, given)
    again = await post(served, given)
    assert "MESSAGES_SNAPSHOT" in again
    assert first.split("\n\n")[-2].partition("data:")[2] == again.split("\n\n")[-2].partition("data:")[2]
    other = await served.client.post("/ag-ui/player", json=body("r1", user("something else")))
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    assert len((await served.client.get("/v1/runs")).json()["items"]) == 1


async def test_a_new_thread_begins_with_the_messages_that_its_client_has(served: Served) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    earlier: list[dict[str, Any]] = [
        {"id": "1", "role": "system", "content": "Be kind."},
        {"id": "2", "role": "user", "content": "你好"},
        {"id": "3", "role": "assistant", "toolCalls": [call]},
        {"id": "4", "role": "tool", "toolCallId": "c1", "content": "seen"},
        {"id": "5", "role": "reasoning", "content": "hm"},
        {"id": "6", "role": "assistant", "content": "Hello."},
    ]
    given = body("r1", *earlier, user("and now"))
    await post(served, given)
    await post(served, given)
    items = (await served.client.get("/v1/conversations/thread-1/history")).json()["items"]
    assert [item["content"] for item in reversed(items)] == [
        "Be kind.", "你好", "", "seen", "Hello.", "and now", "you said: and now",
    ]  # fmt: skip
    # a thread that is known is kept by the host: what else a client says of it is not taken
    await post(
        served, body("r2", *earlier, {"id": "7", "role": "assistant", "content": "forged"}, user("more"))
    )
    items = (await served.client.get("/v1/conversations/thread-1/history")).json()["items"]
    assert len(items) == 9
    # whoever opens a page gives an agent no instructions, and puts no words into its mouth
    made = await served.client.post("/v1/tokens", json={"agent": "player", "conversation_id": "p"})
    headers = {"authorization": f"Bearer {made.json()['token']}"}
    given = body("r1", *earlier, user("and now"), thread="p")
    answer = await served.client.post("/ag-ui/player", json=given, headers=headers)
    assert answer.status_code == 200, answer.text
    items = (await served.client.get("/v1/conversations/p/history")).json()["items"]
    assert "system" not in {item["role"] for item in items}
    assert len(items) == 2


async def test_the_same_request_at_once_is_one_run(served: Served) -> None:
    given = body("r1", user(script(*STORY)))
    await asyncio.gather(*(post(served, given) for _ in range(5)))
    assert len((await served.client.get("/v1/runs")).json()["items"]) == 1


async def test_a_client_shows_a_run_again_by_its_id(served: Served, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    steps = script(["delta", "Half "], ["wait", str(gate)], ["say", "Half and whole."])
    async with ag_ui_client(served.url, ADMIN_KEY, cuts=[900]) as client:
        client.send(say=[user(steps)], run={"runId": "r1"})
        await client.until_event("TEXT_MESSAGE_CONTENT")
        client.send(abort=True)
        await client.outcome()
        gate.touch()
        done = await client.command(run={"runId": "r1"})
        assert texts_of(done["messages"]) == ["Half and whole."]


async def test_a_page_that_is_loaded_again_sees_its_thread_and_what_runs(
    served: Served, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        await client.run("first")
        steps = script(["delta", "so far "], ["wait", str(gate)], ["say", "so far so good"])
        client.send(say=[user(steps)], run={})
        await client.until_event("TEXT_MESSAGE_CONTENT")
        async with ag_ui_client(served.url, ADMIN_KEY) as page:
            page.send(connect=True)
            await page.until_event("TEXT_MESSAGE_CONTENT")
            gate.touch()
            seen = await page.outcome()
        done = await client.outcome()
    assert texts_of(seen["messages"]) == texts_of(done["messages"]) == ["you said: first", "so far so good"]
    users = [[m["content"] for m in one["messages"] if m["role"] == "user"] for one in (seen, done)]
    ids = [[m["id"] for m in one["messages"] if m["role"] == "user"] for one in (seen, done)]
    assert users[0] == users[1]
    assert ids[0] == ids[1]


async def test_a_page_that_is_loaded_again_answers_what_waits(served: Served) -> None:
    order = ["tool", "player.order", {"thing": "tea"}, "o"]
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        await client.run(script(["say", "Wait."], order, ["say", "Bye."]))
    async with ag_ui_client(served.url, ADMIN_KEY) as page:
        seen = await page.command(connect=True)
        (interrupt,) = seen["interrupts"]
        resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        done = await page.command(run={"resume": resume})
        assert texts_of(done["messages"])[0] == "Wait."
        assert texts_of(done["messages"])[-1] == "Bye."
    async with ag_ui_client(served.url, ADMIN_KEY) as page:
        seen = await page.command(connect=True)
        assert texts_of(seen["messages"]) == texts_of(done["messages"])
        assert seen["interrupts"] == []
        results = [message for message in seen["messages"] if message["role"] == "tool"]
        assert len(results) == 1


async def test_a_superseded_attempt_goes_on_where_it_repeats_itself(served: Served, tmp_path: Path) -> None:
    died = tmp_path / "died"
    steps = script(
        ["delta", "The answer "], ["delta", "is "], ["crash", str(died)], ["say", "The answer is 四十二."]
    )
    async with ag_ui_client(served.url, ADMIN_KEY) as client:
        done = await client.run(steps)
    assert texts_of(done["messages"]) == ["The answer is 四十二."]
    assert died.exists()


async def test_connecting_names_what_is_not_there(served: Served) -> None:
    for path in ("nobody/t/connect", "player/never/connect", "player/never/connect?run_id=x"):
        answer = await served.client.get(f"/ag-ui/{path}")
        assert (answer.status_code, answer.json()["type"]) == (404, "RUN_ERROR")


async def test_a_token_of_a_page_reaches_its_agent_and_thread_alone(served: Served) -> None:
    made = await served.client.post(
        "/v1/tokens", json={"agent": "player", "conversation_id": "mine", "minutes": 5}
    )
    token = made.json()["token"]
    order = ["tool", "player.order", {"thing": "tea"}, "o"]
    async with ag_ui_client(served.url, ADMIN_KEY, thread="other") as stranger:
        await stranger.run("secret", runId="r1")
    async with ag_ui_client(served.url, token, thread="mine") as client:
        done = await client.run(script(["say", "Hi."], order), runId="r1")
        resume = [
            {"interruptId": done["interrupts"][0]["id"], "status": "resolved", "payload": {"approved": True}}
        ]
        done = await client.command(run={"resume": resume})
        assert "ordered 1 tea" in texts_of(done["messages"])[-1]
        again = await client.command(connect=True)
        assert texts_of(again["messages"]) == texts_of(done["messages"])
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=served.url, headers=headers, verify=NO_CERTIFICATES) as wire:
        for answer in (
            await wire.post("/ag-ui/player", json=body("r1", user("x"), thread="other")),
            await wire.get("/ag-ui/player/other/connect"),
            await wire.post("/ag-ui/player/other/stop", json={}),
            await wire.post("/ag-ui/nobody", json=body("r1", user("x"), thread="mine")),
        ):
            assert answer.status_code == 404, answer.text
            assert "secret" not in answer.text


async def test_the_programs_of_the_page(served: Served, tmp_path: Path) -> None:
    """Those that the client of these tests does not import: a greeting, and an approval."""
    folder = tmp_path / "client"
    node = await asyncio.to_thread(client_in, folder)
    (folder / "order.mjs").write_text(ORDERING)
    environ = {"HOSTLER_URL": served.url, "HOSTLER_KEY": ADMIN_KEY, "AGENT": "player"}
    said = []
    for arguments in (["hello.mjs"], ["order.mjs", script(["tool", "player.order", {"thing": "茶"}, "o"])]):
        process = await asyncio.create_subprocess_exec(
            str(node.program), *arguments, cwd=folder, stdout=asyncio.subprocess.PIPE, env=environ
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
        said.append(out.decode())
    assert said == ["you said: Hello", 'player.order: "ordered 1 茶"']


ORDERING = """
import { approve } from "./approve.mjs";
import { careful } from "./careful.mjs";

const { HOSTLER_URL, HOSTLER_KEY, AGENT } = process.env;
const agent = careful(`${HOSTLER_URL}/ag-ui/${AGENT}`, { Authorization: `Bearer ${HOSTLER_KEY}` });
agent.addMessage({ id: "m1", role: "user", content: process.argv[2] });
await agent.runAgent();
for (const interrupt of agent.pendingInterrupts) await approve(agent, interrupt);
const answers = agent.messages.filter(({ role, content }) => role === "assistant" && content);
process.stdout.write(answers.at(-1).content);
"""
