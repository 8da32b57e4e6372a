"""Messages that a client kept itself: the history of a conversation that begins with its event."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler.domain.caller_history import MAX_MESSAGES
from hostler.domain.events import Caller, CallerScope
from hostler.host import maintenance
from hostler.runs.orchestrator import Accepted
from hostler.storage.stores import quotas, transcripts
from hostler.storage.stores import waiting_messages as waiting
from hostler_protocol.content import HistoryMessage
from hostler_protocol.errors import (
    ConflictError,
    HostlerError,
    InvalidArgumentError,
    PayloadTooLargeError,
    UnauthorizedError,
)
from hostler_protocol.events import EventEnvelope
from support.agent_host import hosting
from support.http_host import Served
from support.http_runs import ended
from support.model_server import ModelServer
from support.stepping import CALLER, WORKSPACE, Ended, Latch, Stage, stage, within

CALL = {"id": "call_1", "type": "function", "function": {"name": "clock", "arguments": '{"zone": "UTC"}'}}
EARLIER: list[dict[str, Any]] = [
    {"role": "system", "content": "Answer in rhymes."},
    {"role": "user", "content": "What time is it?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "noon", "tool_call_id": "call_1"},
    {"role": "assistant", "content": "It is noon, and soon."},
]
PAGE = ["call", "history.page", {"direction": "forward"}]


def messages(*given: dict[str, Any]) -> list[HistoryMessage]:
    return msgspec.convert(given, list[HistoryMessage])


async def send(
    host: Stage, steps: Any, *history: dict[str, Any], conversation: str = "c", **fields: Any
) -> Accepted:
    body = {"event_type": "message.received", "agent": "main", "conversation_id": conversation, **fields}
    body.setdefault("input", {"text": json.dumps(steps)})
    envelope = msgspec.convert(body, EventEnvelope)
    return await host.host.orchestrator.accept(envelope, CALLER, history=messages(*history))


async def over(host: Stage, accepted: Accepted) -> Ended:
    assert accepted.run is not None
    return await host.ended(accepted.run.run_id)


async def stored(host: Stage, conversation: str = "c") -> list[transcripts.StoredItem]:
    """The conversation, oldest first."""
    page = await host.host.db.read(
        lambda tx: transcripts.page(tx, WORKSPACE, conversation_id=conversation, direction="forward")
    )
    return page.items


@contextlib.asynccontextmanager
async def hosted(tmp_path: Path, database_url: str = "", **settings: Any) -> AsyncIterator[Stage]:
    url = database_url if database_url.startswith("postgres") else None
    async with within(), stage(tmp_path / "data", database=url, **settings) as host:
        yield host


async def test_a_run_reads_them_as_its_history(tmp_path: Path, database_url: str) -> None:
    search = ["call", "history.search", {"query": "noon"}]
    async with hosted(tmp_path, database_url) as host:
        ended_ = await over(host, await send(host, [PAGE, search, ["tell"]], *EARLIER))
        page, found = ended_.told
        assert [item["role"] for item in page["items"]] == [one["role"] for one in EARLIER]
        for item, one in zip(page["items"], EARLIER, strict=True):
            assert item["content_json"] == one
        assert {item["content"] for item in found["items"]} == {"noon", "It is noon, and soon."}
        items = await stored(host)
        assert [item.role for item in items] == [*(one["role"] for one in EARLIER), "user", "assistant"]
        assert [item.metadata for item in items] == [{"from": "caller"}] * 5 + [{}] * 2
        # the next message of the conversation is sent alone, and its run has all before it
        (page,) = (await over(host, await send(host, [PAGE, ["tell"]]))).told
        assert len(page["items"]) == len(EARLIER) + 2


async def test_the_same_event_brings_them_once(tmp_path: Path, database_url: str) -> None:
    async with hosted(tmp_path, database_url) as host:
        first = await send(host, [["say", "hi"]], *EARLIER, event_id="e")
        await over(host, first)
        again = await send(host, [["say", "hi"]], *EARLIER, event_id="e")
        assert (again.duplicate, again.run) == (
            True,
            first.run and msgspec.structs.replace(first.run, status="completed"),
        )
        assert len(await stored(host)) == len(EARLIER) + 2
        for other in (EARLIER[:-1], []):
            with pytest.raises(ConflictError, match="'e' is known with another body"):
                await send(host, [["say", "hi"]], *other, event_id="e")
        with pytest.raises(ConflictError, match="conversation 'c' has begun already"):
            await send(host, [["say", "hi"]], *EARLIER, event_id="e2")
        assert len(await stored(host)) == len(EARLIER) + 2


async def test_two_at_once_do_not_mix(tmp_path: Path, database_url: str) -> None:
    async with hosted(tmp_path, database_url) as host:
        sent = await asyncio.gather(
            *(send(host, [["say", "hi"]], *EARLIER, event_id=f"e{n}") for n in range(6)),
            return_exceptions=True,
        )
        (accepted,) = [one for one in sent if isinstance(one, Accepted)]
        assert all(isinstance(one, Accepted | ConflictError) for one in sent), sent
        await over(host, accepted)
        assert len(await stored(host)) == len(EARLIER) + 2


async def test_a_message_that_waits_keeps_them_before_it(tmp_path: Path, database_url: str) -> None:
    async with hosted(tmp_path, database_url) as host, Latch(tmp_path) as latch:
        await host.agent(concurrency={"max_runs": 1})
        busy = await send(host, [["gate", latch.path]], conversation="other")
        await latch.reached()
        later = await send(host, [PAGE, ["tell"]], *EARLIER)
        assert later.outcome in ("queued", "started")
        assert await stored(host) == []
        shown = await host.host.db.read(lambda tx: waiting.page(tx, WORKSPACE, "c"))
        assert len(shown.items) == 1
    async with hosted(tmp_path, database_url) as host:  # after a restart
        await over(host, busy)
        (page,) = (await over(host, later)).told
        assert [item["role"] for item in page["items"]] == [one["role"] for one in EARLIER]
        assert [item.role for item in await stored(host)][-2:] == ["user", "assistant"]


async def test_a_debounced_message_keeps_them(tmp_path: Path, database_url: str) -> None:
    async with hosted(tmp_path, database_url) as host:
        await host.agent(concurrency={"debounce": 3.0})
        first = await send(host, {"no": 1}, *EARLIER, input={"text": "["})
        await send(host, [], input={"text": json.dumps([PAGE, ["tell"]])[1:]})
        ended_ = await over(host, first)
        (page,) = ended_.told
        assert [item["role"] for item in page["items"]] == [one["role"] for one in EARLIER]


async def test_inline_files_are_artifacts(tmp_path: Path, database_url: str) -> None:
    data = base64.b64encode(b"\x89PNG" + bytes(range(256)) * 200).decode()
    picture = {"type": "image_base64", "image_base64": data, "mime_type": "image/png"}
    seen = {"role": "user", "content": [{"type": "text", "text": "look"}, picture]}
    async with hosted(tmp_path, database_url) as host:
        await over(host, await send(host, [["say", "hi"]], seen, event_id="e"))
        await send(host, [["say", "hi"]], seen, event_id="e")
        item = (await stored(host))[0]
        (ref,) = item.artifact_refs
        assert item.content_json["content"][1] == {
            "type": "artifact",
            "artifact_id": ref.artifact_id,
            "mime_type": "image/png",
            "size_bytes": len(base64.b64decode(data)),
        }
        read = ["call", "artifact.read", {"artifact_id": ref.artifact_id}]
        (answer,) = (await over(host, await send(host, [read, ["tell"]]))).told
        assert answer["content_base64"] == data
        used = (await host.host.db.read(quotas.of_workspaces))[WORKSPACE]
        assert (used.artifacts, used.artifact_bytes) == (1, len(base64.b64decode(data)))


async def test_a_narrow_caller_brings_no_files_of_others(tmp_path: Path) -> None:
    """The holder of a front-end token brings nothing that was said before, and so reads no files by it."""
    data = base64.b64encode(b"a secret").decode()
    file = {"type": "file_base64", "file_base64": data}
    narrow = Caller(WORKSPACE, "page", "key", scope=CallerScope("main", "d", "key", "key"))
    async with hosted(tmp_path) as host:
        await over(host, await send(host, [["say", "x"]], {"role": "user", "content": [file]}))
        (ref,) = (await stored(host))[0].artifact_refs
        element = {"type": "artifact", "artifact_id": ref.artifact_id}
        body = {"event_type": "message.received", "agent": "main", "conversation_id": "d"}
        envelope = msgspec.convert({**body, "input": {"text": "[]"}}, EventEnvelope)
        history = messages({"role": "user", "content": [element]})
        with pytest.raises(UnauthorizedError, match="brings no history"):
            await host.host.orchestrator.accept(envelope, narrow, history=history)
        assert await stored(host, "d") == []


async def test_they_are_deleted_with_their_conversation(tmp_path: Path, database_url: str) -> None:
    data = base64.b64encode(b"secret picture").decode()
    picture = {"type": "file_base64", "file_base64": data, "file_name": "plan.txt"}
    async with hosted(tmp_path, database_url) as host:
        actor = {"actor_type": "user", "actor_id": "ada"}
        seen = {"role": "user", "content": [picture]}
        for place in ("c", "d"):
            await over(
                host, await send(host, [["say", "x"]], *EARLIER, seen, conversation=place, actor=actor)
            )
        await maintenance.delete_conversation(host.host.data, WORKSPACE, "c", by="test")
        assert await stored(host) == []
        assert len(await stored(host, "d")) == len(EARLIER) + 3
        await maintenance.delete_actor(host.host.data, WORKSPACE, "ada", by="test", actor_type=None)
        assert await stored(host, "d") == []


async def test_a_retry_has_the_same_history(tmp_path: Path, database_url: str) -> None:
    async with hosted(tmp_path, database_url) as host:
        first = await send(host, [PAGE, ["tell"]], *EARLIER)
        told = (await over(host, first)).told
        assert first.run is not None
        again = await host.host.reruns.retry(WORKSPACE, first.run.run_id, actor="test")
        page = (await host.ended(again)).told[0]
        assert [item["content_json"] for item in page["items"]] == [
            item["content_json"] for item in told[0]["items"]
        ]


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ({"role": "tool", "content": "x"}, r"history\[0\]: tool_call_id names the call"),
        ({"role": "user", "content": "x", "tool_call_id": "a"}, "no other has it"),
        ({"role": "user", "content": "x", "tool_calls": [CALL]}, "are an assistant's"),
        ({"role": "assistant", "content": "", "tool_calls": [CALL, CALL]}, "two tool_calls have one id"),
        ({"role": "assistant", "content": "", "tool_calls": [CALL | {"id": ""}]}, "1 to 512 characters"),
        ({"role": "tool", "content": "x", "tool_call_id": "a" * 513}, "1 to 512 characters"),
        (
            {"role": "user", "content": [{"type": "image_base64", "image_base64": "%"}]},
            r"history\[0\]\.content\[0\]\.image_base64 is not base64",
        ),
    ],
)
async def test_messages_that_are_none_are_refused(
    tmp_path: Path, message: dict[str, Any], wrong: str
) -> None:
    async with hosted(tmp_path) as host:
        with pytest.raises(InvalidArgumentError, match=wrong):
            await send(host, [], message)
        assert await stored(host) == []


async def test_there_are_bounds(tmp_path: Path) -> None:
    line = {"role": "user", "content": "x"}
    refused: list[tuple[type[HostlerError], list[dict[str, Any]], dict[str, Any], str]] = [
        (PayloadTooLargeError, [line] * (MAX_MESSAGES + 1), {}, "1,001 messages; at most 1,000"),
        (PayloadTooLargeError, [{**line, "content": "x" * 2**20}], {}, r"history\[0\] has 1,048,\d+ bytes"),
        (PayloadTooLargeError, [{**line, "content": "x" * 2**19}] * 8, {}, "at most 4,194,304"),
        (InvalidArgumentError, [line], {"event_type": "api.invoked"}, "api.invoked has none"),
        (InvalidArgumentError, [line], {"conversation": None}, "needs a conversation_id"),
    ]
    async with hosted(tmp_path) as host:
        for error, history, fields, wrong in refused:
            with pytest.raises(error, match=wrong):
                await send(host, [], *history, **fields)
        most = await send(host, [["say", "read"]], *[line] * MAX_MESSAGES)
        assert (await over(host, most)).said == ["read"]
        forged = {**CALL, "provider_data": {"source": "svc", "fields": {"signature": "forged"}}}
        call = {"role": "assistant", "content": "", "tool_calls": [forged]}
        await over(host, await send(host, [["say", "x"]], call, conversation="d"))
        assert (await stored(host, "d"))[0].content_json["tool_calls"] == [CALL]


# -- local-agent --------------------------------------------------------------------------


async def asked(served: Served, text: str, *history: dict[str, Any]) -> dict[str, Any]:
    """Send a message and wait for the end of its run."""
    body = {"event_type": "message.received", "conversation_id": "c", "input": {"text": text}}
    accepted = await served.host.orchestrator.accept(
        msgspec.convert(body, EventEnvelope), CALLER, history=messages(*history)
    )
    assert accepted.run is not None
    return await ended(served.client, accepted.run.run_id)


async def test_local_agent_sees_them(tmp_path: Path) -> None:
    prompt = [{"role": "system", "content": "You are a clerk."}]
    async with (
        ModelServer(api_key="k") as server,
        hosting(tmp_path / "data", server, config={"prompt": prompt}) as served,
    ):
        server.say("Still noon.")
        record = await asked(served, "And now?", *EARLIER)
        assert record["output"]["text"] == "Still noon."
        sent = server.requests[-1].json["messages"]
        assert [one["role"] for one in sent] == [
            "system",
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
        ]
        own, _, callers = sent[0]["content"].partition("Instructions of the program")
        assert own.startswith("You are a clerk.")
        assert callers.endswith("Answer in rhymes.")
        (call,) = sent[2]["tool_calls"]
        assert (call["id"], call["function"]["name"]) == ("call_1", "clock")
        assert (sent[3]["tool_call_id"], sent[3]["content"]) == ("call_1", "noon")
        assert sent[-1]["content"] == "And now?"
        server.say("Later.")
        await asked(served, "When?")  # a later message of the conversation, sent alone
        assert [one["content"] for one in server.requests[-1].json["messages"]][-3:] == [
            "And now?",
            "Still noon.",
            "When?",
        ]


async def test_half_a_pair_is_left_out(tmp_path: Path) -> None:
    """A client cuts its history where it likes; services refuse half a pair."""
    orphan = {"role": "tool", "content": "late", "tool_call_id": "call_0"}
    broken = {**CALL, "function": {"name": "what time?", "arguments": "not json"}}
    unanswered = {"role": "assistant", "content": "I look.", "tool_calls": [CALL | {"id": "call_9"}]}
    history = [
        orphan,
        EARLIER[1],
        {**EARLIER[2], "tool_calls": [broken, CALL | {"id": "call_2"}]},
        EARLIER[3],
        {"role": "user", "content": "and in Rome?"},
        unanswered,
    ]
    async with ModelServer(api_key="k") as server, hosting(tmp_path / "data", server) as served:
        server.say("One.")
        await asked(served, "So?", *history)
        sent = server.requests[-1].json["messages"][1:]  # after the prompt
        assert [one["role"] for one in sent] == [
            "user",
            "assistant",
            "tool",
            "user",
            "assistant",
            "user",
        ]
        (call,) = sent[1]["tool_calls"]
        assert call["function"] == {"name": "what_time_", "arguments": "{}"}
        assert (sent[4]["content"], sent[4].get("tool_calls")) == ("I look.", None)


async def test_instructions_outlast_a_long_conversation(tmp_path: Path) -> None:
    """They are at its beginning, which a request has no room for; a summary does not hold them."""
    long = [
        {"role": role, "content": f"{number} " + "word " * 300}
        for number in range(40)
        for role in ("user", "assistant")
    ]
    async with (
        ModelServer(api_key="k") as server,
        hosting(tmp_path / "data", server, window=4000) as served,
    ):
        for text in ("Notes: much was said.", "Yes.", "Notes: and more.", "No.", "Maybe."):
            server.say(text)
        await asked(served, "Go on", EARLIER[0], *long)
        assert any("much was said" in str(one.json["messages"]) for one in server.requests)
        for text in ("And then?", "And then?"):
            await asked(served, text)
        for request in server.requests:
            system = request.json["messages"][0]
            if "You keep the notes" not in system["content"]:
                assert "Answer in rhymes." in system["content"], request.json["messages"]
