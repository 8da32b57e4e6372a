"""Runners driven in memory over a real link: what they ask the host for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path

import msgspec
import pytest

from hostler_protocol.content import (
    ArtifactElement,
    ArtifactRef,
    FunctionCall,
    ImageUrlElement,
    ModelMessage,
    TextElement,
    ToolCall,
)
from hostler_protocol.events import Input
from hostler_protocol.runs import JournalRecord
from hostler_sdk import (
    Cancelled,
    Conflict,
    Denied,
    Expired,
    HostError,
    InvalidArgument,
    NotFound,
    RateLimited,
    Result,
    RunContext,
    Runner,
    RuntimeFailure,
    delta,
    log,
    message,
    tool,
)
from hostler_sdk.testing import ScriptedHost, drive_sync
from support.driven import of


def test_many_calls_of_one_run_are_in_flight_at_once() -> None:
    arrived = 0
    everybody = asyncio.Event()

    async def meet(number: int) -> int:
        nonlocal arrived
        arrived += 1
        if arrived == 100:
            everybody.set()
        await everybody.wait()  # answered only when all hundred have been called
        return number * number

    async def run(ctx: RunContext) -> str:
        squares = await asyncio.gather(*(ctx.tools.call("meet", {"number": n}) for n in range(100)))
        return str(sum(squares))

    assert drive_sync(of(run), tools={"meet": meet}).text == str(sum(n * n for n in range(100)))


def test_models_answer_in_turn_and_are_recorded() -> None:
    async def run(ctx: RunContext) -> str:
        assert [model.model_id for model in ctx.resources.models] == ["main"]
        first = await ctx.models.invoke("main", [{"role": "user", "content": "one two"}], temperature=0.5)
        second = await ctx.models.invoke("main", [ModelMessage(role="user", content="x")])
        assert first.usage is not None
        return f"{first.message.content} {first.usage.input_tokens} {second.finish_reason}"

    wish = ModelMessage(
        role="assistant", tool_calls=[ToolCall(id="t1", function=FunctionCall(name="f", arguments="{}"))]
    )
    driven = drive_sync(of(run), models={"main": ["first", wish]})
    assert driven.text == "first 2 tool_calls"
    assert [call.method for call in driven.calls] == ["model.invoke", "model.invoke"]
    assert driven.calls[0].params.extra_args == {"temperature": 0.5}


def test_a_streamed_answer_comes_in_pieces_and_then_whole() -> None:
    async def run(ctx: RunContext) -> AsyncIterator[Result]:
        stream = ctx.models.stream("main", [{"role": "user", "content": "hi"}])
        async for chunk in stream:
            yield delta(chunk.delta.content or "")
        assert stream.reply is not None
        yield message(stream.reply.message.content or "", usage=stream.reply.usage)

    driven = drive_sync(of(run), models="a b c")
    assert driven.results[:3] == [delta("a "), delta("b "), delta("c")]
    assert driven.text == "a b c"
    assert driven.usage is not None
    assert driven.usage.output_tokens == 3


def test_leaving_a_stream_or_a_wait_tells_the_host_that_nobody_waits() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def run(ctx: RunContext) -> str:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await ctx.tools.call("forever")
        async for _ in ctx.models.stream("main", []):
            break
        return str(await ctx.states.get("actor", "none", "default"))  # the connection goes on

    driven = drive_sync(of(run), tools={"forever": forever}, models="many words " * 50)
    assert driven.text == "default"
    assert driven.calls[0].given_up
    assert driven.warnings == []


def test_a_stream_that_is_refused_raises() -> None:
    async def run(ctx: RunContext) -> str:
        with pytest.raises(RuntimeFailure, match="the service is away"):
            async for _ in ctx.models.stream("main", []):
                pass
        return "seen"

    assert drive_sync(of(run), models=RuntimeFailure("the service is away")).text == "seen"


@pytest.mark.parametrize(
    ("raised", "expected", "retryable"),
    [
        (Denied("no"), Denied, False),
        (Expired("late"), Expired, False),
        (Cancelled("called off"), Cancelled, False),
        (RateLimited("slow down", details={"retry_after": 7.5}), RateLimited, True),
        (ZeroDivisionError("inside the tool"), RuntimeFailure, False),
    ],
)
def test_a_refused_call_raises_the_class_of_its_code(
    raised: Exception, expected: type[HostError], retryable: bool
) -> None:
    seen: list[HostError] = []

    async def run(ctx: RunContext) -> str:
        try:
            await ctx.tools.call("buy", {})
        except HostError as error:
            seen.append(error)
        return "done"

    drive_sync(of(run), tools={"buy": raised})
    (error,) = seen
    assert type(error) is expected
    assert error.retryable is retryable
    assert str(raised) in error.message
    if isinstance(error, RateLimited):
        assert error.retry_after == 7.5


def test_parameters_that_are_not_json_are_refused_before_they_leave() -> None:
    async def run(ctx: RunContext) -> str:
        with pytest.raises(InvalidArgument, match=r"tool\.call: parameters\['x'\] is an object"):
            await ctx.tools.call("t", {"x": object()})
        with pytest.raises(InvalidArgument, match="Expected `str`"):
            await ctx.call("state.get", scope=1, key=[])
        return "done"

    assert drive_sync(of(run)).text == "done"


def test_history_is_paged_in_both_directions() -> None:
    async def run(ctx: RunContext) -> str:
        newest = await ctx.history.page(limit=2)
        older = await ctx.history.page(before_cursor=newest.next_cursor, limit=2)
        forward = [item.content async for item in ctx.history.all()]
        backward = [item.content async for item in ctx.history.all(direction="backward")]
        assert backward == forward[::-1]
        assert len(forward) == 250
        found = await ctx.history.search("line 7")
        assert [item.content for item in found.items] == ["line 7"]
        return " ".join(item.content for item in (*newest.items, *older.items))

    driven = drive_sync(of(run), history=[f"line {number}" for number in range(250)])
    assert driven.text == "line 249 line 248 line 247 line 246"


def test_states_are_versioned_values_by_scope_and_key() -> None:
    async def run(ctx: RunContext) -> str:
        assert ctx.state.actor == {"name": "Ada"}
        assert ctx.state.runner == {}
        assert await ctx.states.get("actor", "name") == "Ada"
        assert await ctx.states.get("actor", "none") is None
        assert await ctx.states.set("runner", "k", None) == 1
        assert await ctx.states.get("runner", "k", "default") is None  # null is a value, not absence
        with pytest.raises(Conflict):
            await ctx.states.set("runner", "k", 2, if_version=0)
        version = await ctx.states.version("runner", "k")
        assert await ctx.states.set("runner", "k", 2, if_version=version) == 2
        for number in range(150):
            await ctx.states.set("conversation", f"a{number:03}", number)
        await ctx.states.set("conversation", "b", 0)
        assert len(await ctx.states.keys("conversation", prefix="a")) == 150
        assert (await ctx.states.keys("conversation"))[-1] == "b"
        assert await ctx.states.delete("conversation", "b")
        assert not await ctx.states.delete("conversation", "b")
        await ctx.states.set("conversation", "conversation_id", "theirs")
        assert await ctx.states.get("conversation", "external.conversation_id") == "theirs"
        assert await ctx.states.keys("conversation", "conversation_id") == ["external.conversation_id"]
        assert await ctx.states.delete("conversation", "conversation_id")
        with pytest.raises(InvalidArgument, match="scope 'planet' is unknown"):
            await ctx.states.get("planet", "k")
        return "done"

    assert drive_sync(of(run), states={"actor": {"name": "Ada"}}).text == "done"


def test_storage_holds_bytes_in_two_areas() -> None:
    async def run(ctx: RunContext) -> str:
        await ctx.storage.plugin.set("k", b"\x00\x01")
        await ctx.storage.workspace.set("k", "text")
        assert await ctx.storage.plugin.get("k") == b"\x00\x01"
        assert await ctx.storage.workspace.get("k") == b"text"
        assert await ctx.storage.plugin.keys() == ["k"]
        assert await ctx.storage.plugin.delete("k")
        assert await ctx.storage.plugin.get("k") is None
        return "done"

    assert drive_sync(of(run)).text == "done"


def test_artifacts_are_uploaded_in_parts_and_streamed_back(tmp_path: Path) -> None:
    big = bytes(range(256)) * 40_000  # 10 MB: three parts
    path = tmp_path / "big.bin"
    path.write_bytes(big)

    async def run(ctx: RunContext) -> str:
        for source in (big, path, BytesIO(big)):
            id_ = await ctx.artifacts.upload(source, name="big.bin", mime_type="application/x-big")
            meta = await ctx.artifacts.metadata(id_)
            assert (meta.size_bytes, meta.name) == (len(big), "big.bin")
            assert b"".join([part async for part in ctx.artifacts.stream(id_)]) == big
        empty = await ctx.artifacts.upload(b"")
        assert [part async for part in ctx.artifacts.stream(empty)] == []
        assert (await ctx.artifacts.read(id_, offset=255, limit=2)).content_base64 == "/wA="
        with pytest.raises(InvalidArgument, match="upload takes bytes, a pathlib"):
            await ctx.artifacts.upload("text")  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            await ctx.artifacts.metadata("none")
        return "done"

    driven = drive_sync(of(run))
    assert driven.text == "done"
    assert [call.params.part for call in driven.calls if call.method == "artifact.upload"][:3] == [0, 1, 2]


def test_a_pulled_message_is_typed_like_the_input_of_a_run() -> None:
    async def run(ctx: RunContext) -> str:
        first, second = await ctx.steering.pull()
        assert first.input.text == "now in red"
        assert [type(element) for element in first.input.contents] == [TextElement, ImageUrlElement]
        assert second.input.text.split() == ["and", "blue"]  # text of the contents, as in ctx.input
        assert first.event.event_type == "message.received"
        assert first.event.event_id != second.event.event_id != ctx.event.event_id
        assert first.conversation == ctx.conversation
        assert first.actor is not None
        assert first.actor.actor_id == "ada"
        assert first.subject is None
        assert first.claimed_run_id == ctx.run_id
        assert first.input["text"] == first.input.text  # as runners read it that are older than the types
        with pytest.raises(KeyError, match="colour"):
            first.input["colour"]
        return "done"

    picture = {"type": "image_url", "image_url": {"url": "http://pics/cat.png"}}
    arrived = [
        {"text": "now in red", "contents": [{"type": "text", "text": "now in red"}, picture]},
        Input(contents=[TextElement(text="and blue")]),
    ]
    driven = drive_sync(of(run), steering=arrived, context={"actor": {"actor_id": "ada"}})
    assert driven.error is None


def test_a_pulled_message_stands_in_the_history_where_it_was_pulled() -> None:
    class Slow(Runner):
        async def run(self, ctx: RunContext) -> AsyncIterator[Result]:
            yield message("thinking")
            for item in await ctx.steering.pull("one-at-a-time"):
                yield message(f"heard {item.input.text}")
            await ctx.steering.pull()

    async def recall(ctx: RunContext) -> str:
        return " | ".join([f"{item.role}: {item.content}" async for item in ctx.history.all()])

    host = ScriptedHost()
    host.drive_sync(Slow, "one", steering=["two", "three"])
    said = ["user: one", "assistant: thinking", "user: two", "assistant: heard two", "user: three"]
    assert host.drive_sync(of(recall), "four").text == " | ".join(said)


def test_items_of_the_history_give_the_whole_message() -> None:
    long = "a" * 5_000

    async def run(ctx: RunContext) -> str:
        asked, answered = (await ctx.history.page(direction="forward")).items
        assert (asked.message.role, asked.message.content) == ("user", long)
        assert answered.message.role == "assistant"
        assert answered.message.content == [TextElement(text="see"), ArtifactElement(artifact_id="a1")]
        assert answered.message.artifact_refs == [ArtifactRef(artifact_id="a2")]
        return "done"

    host = ScriptedHost()
    host.world.remember("user", long)
    seen = [TextElement(text="see"), ArtifactElement(artifact_id="a1")]
    host.world.remember("assistant", seen, [ArtifactRef(artifact_id="a2")])
    assert host.drive_sync(of(run)).error is None


def test_every_other_call_has_its_name() -> None:
    async def run(ctx: RunContext) -> str:
        passages = await ctx.knowledge.retrieve("kb", "red apple", top_k=1)
        assert [item.content for item in passages.items] == ["a red apple"]
        ranked = await ctx.models.rerank("main", "red", ["blue", "red"])
        assert ranked.items[0].index == 1
        vectors = (await ctx.models.embed("main", ["red", "red", [7]], dimensions=4)).embeddings
        assert vectors[0] == vectors[1] != vectors[2] == [0.0, 0.0, 0.0, 1.0]
        assert (
            await ctx.models.count_tokens("main", [{"role": "user", "content": "a b c"}])
        ).input_tokens == 3
        assert (await ctx.events.get(ctx.event.event_id)).event_type == "message.received"
        assert len((await ctx.events.page()).items) == 1
        assert [item.input.text for item in await ctx.steering.pull("one-at-a-time")] == ["wait"]
        assert [item.input.text for item in await ctx.steering.pull()] == ["stop"]
        assert (await ctx.runs.get()).run_id == ctx.run_id
        assert len((await ctx.runs.list(statuses=["running"])).items) == 1
        assert (await ctx.runs.events(after=0)).items == []
        entry = JournalRecord(
            position=1, kind="lifecycle", type="run.queued", at=1.0, data=msgspec.Raw(b'{"a":1}'), attempt=1
        )
        assert entry.payload == {"a": 1}
        assert (await ctx.runs.cancel("other", reason="enough")).run_id
        child = await ctx.runs.create("helper", "do it", wait=5)
        assert child.output is not None
        assert child.output.text == "did it"
        reacted = await ctx.actions.request("message.react", "m1", {"emoji": "+"})
        assert (reacted.outcome, reacted.result) == ("done", {"id": 7})
        assert (await ctx.actions.request("message.pin")).outcome == "unsupported"
        with pytest.raises(Denied):
            await ctx.actions.request("member.ban", {"person_id": "p"})
        decision = await ctx.ask("Really?", actions=["yes", {"name": "no"}], expires_in=60)
        assert decision.values == {"action": "yes"}
        with pytest.raises(Expired):
            await ctx.ask("And?", fields=[{"name": "why", "type": "text"}])
        with pytest.raises(InvalidArgument, match="1 minute to 30 days"):
            await ctx.ask("And?", expires_in=5)
        assert (await ctx.call("prompt.get")).prompt[0].content == "be kind"
        assert (await ctx.call("file.get", file_id="f")).content_base64 == "Yg=="
        assert (await ctx.call("host.info")).protocol == 1
        return "done"

    driven = drive_sync(
        of(run),
        models="x",
        knowledge={"kb": ["a blue sky", "a red apple"]},
        steering=["wait", "stop"],
        agents={"helper": "did it"},
        actions={"message.react": {"id": 7}, "member.ban": Denied("no")},
        decisions=[{"values": {"action": "yes"}}, Expired("nobody answered")],
        prompt=[{"role": "system", "content": "be kind"}],
        files={"f": b"b"},
    )
    assert driven.error is None
    assert driven.text == "done"
    asked = [call.params.kind for call in driven.calls if call.method == "interaction.request"]
    assert asked == ["choice", "form", "confirmation"]


def test_tools_that_wait_for_somebody_are_decided_in_their_order() -> None:
    booked: list[str] = []

    @tool(approval="required")
    async def book(seat: str) -> str:
        """Books a seat."""
        booked.append(seat)
        return f"booked {seat}"

    @tool(client=True)
    async def locate() -> str:
        """Where the client is."""
        raise AssertionError("the client runs it")

    async def run(ctx: RunContext) -> AsyncIterator[Result]:
        told = [tool.approval for tool in ctx.resources.tools], [t.tool_type for t in ctx.resources.tools]
        yield log(str(told))
        for name, parameters in (("book", {"seat": "12C"}),) * 4 + (("locate", {}),) * 2:
            try:
                yield message(str(await ctx.tools.call(name, parameters)))
            except (Denied, Expired, Cancelled) as error:
                yield message(f"{error.code}: {error.message}")

    decisions = [
        {"decision": "denied", "comment": "too dear"},
        {"decision": "approved", "arguments": {"seat": "30A"}},
        {"decision": "cancelled"},
        {"decision": "approved"},
        {"decision": "answered", "result": "Rome"},
    ]
    driven = drive_sync(of(run), tools=[book, locate], decisions=decisions)
    assert driven.text.splitlines() == [
        "denied: too dear",
        "booked 30A",
        "cancelled: the call of book was cancelled",
        "booked 12C",
        "Rome",
        "expired: the call of locate was expired",
    ]
    assert booked == ["30A", "12C"]
    assert driven.results[0] == log("(['required', 'never'], ['plugin', 'client'])")
