"""Runners driven in memory over a real link: what authors rely on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hostler_protocol.content import FunctionCall, ModelMessage, ToolCall
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
    ToolContext,
    completed,
    delta,
    failed,
    log,
    message,
    state_updated,
    tool,
)
from hostler_sdk.testing import Driven, ScriptedHost, drive, drive_sync


class Echo(Runner):
    """Repeats what you say."""

    config: ClassVar = [{"name": "suffix", "type": "string", "default": "!"}]

    async def run(self, ctx: RunContext) -> AsyncIterator[Result]:
        for word in ctx.input.text.split():
            yield delta(word + " ")
        yield message(ctx.input.text + ctx.config["suffix"])


def of(body: Any, **attributes: Any) -> type[Runner]:
    """A runner class around one `run` function of the context alone."""
    return type("Told", (Runner,), {"run": lambda self, ctx: body(ctx), **attributes})


def test_a_generator_streams_its_results_in_order() -> None:
    driven = drive_sync(Echo, "hello there")
    assert driven.results == [delta("hello "), delta("there "), message("hello there!")]
    assert (driven.text, driven.status, driven.finish_reason) == ("hello there!", "completed", "stop")
    assert driven.calls == []
    assert drive_sync(Echo, "hi", config={"suffix": "?"}).text == "hi?"


def test_drive_is_awaited_inside_a_loop() -> None:
    async def several() -> list[Driven]:
        return await asyncio.gather(*(drive(Echo, str(number)) for number in range(5)))

    assert [driven.text for driven in asyncio.run(several())] == [f"{number}!" for number in range(5)]


@pytest.mark.parametrize(
    ("returned", "results"),
    [("text", [message("text")]), (message("own"), [message("own")]), (None, [])],
)
def test_a_coroutine_returns_text_a_message_or_nothing(returned: Any, results: list[Result]) -> None:
    async def run(ctx: RunContext) -> Any:
        await ctx.emit(delta("a"))
        await ctx.emit(state_updated("actor", "k", 1))
        return returned

    driven = drive_sync(of(run))
    assert driven.results == [delta("a"), state_updated("actor", "k", 1), *results]
    assert driven.status == "completed"


def test_a_run_of_nothing_but_deltas_has_said_nothing() -> None:
    async def run(ctx: RunContext) -> AsyncIterator[Result]:
        yield delta("a")
        yield log("b")

    driven = drive_sync(of(run))
    assert (driven.status, driven.code) == ("failed", "runner.no_output")


# -- how runs fail ------------------------------------------------------------------------------------


async def _raises(ctx: RunContext) -> AsyncIterator[Result]:
    yield delta("a")
    raise ValueError("the sky is closed")


async def _groups(ctx: RunContext) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_explode())


async def _explode() -> None:
    raise KeyError("deep")


async def _exits(ctx: RunContext) -> None:
    raise SystemExit(4)


async def _calls_wrongly(ctx: RunContext) -> None:
    await ctx.models.invoke("gone", [])


async def _yields_text(ctx: RunContext) -> AsyncIterator[Any]:
    yield "plain text"


async def _returns_number(ctx: RunContext) -> int:
    return 42


def _is_plain(ctx: RunContext) -> list[int]:
    return [1]


async def _emits_unencodable(ctx: RunContext) -> AsyncIterator[Result]:
    yield state_updated("actor", "k", object())


async def _cancels_itself(ctx: RunContext) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("body", "code", "error"),
    [
        (_raises, "runner.error", "ValueError: the sky is closed"),
        (_groups, "runner.error", "KeyError: 'deep'"),
        (_exits, "runner.error", "SystemExit: 4"),
        (_calls_wrongly, "runner.error", "NotFound: no model 'gone' is scripted"),
        (_yields_text, "runner.error", "yielded str 'plain text', which is not a result; use delta(text)"),
        (_returns_number, "runner.error", "returned int 42, which is not a result"),
        (_is_plain, "runner.error", "must be an async generator (async def with yield) or a coroutine"),
        (_emits_unencodable, "runner.error", "TypeError: Encoding objects of type object is unsupported"),
        (_cancels_itself, "cancelled", "the runner cancelled itself"),
    ],
)
def test_a_failure_ends_the_run_with_its_text(body: Any, code: str, error: str) -> None:
    driven = drive_sync(of(body))
    assert driven.code == code
    assert error in str(driven.error)
    assert driven.status == ("cancelled" if code == "cancelled" else "failed")


def test_the_whole_traceback_goes_to_the_log_before_the_failure() -> None:
    driven = drive_sync(of(_raises))
    trace, ending = driven.results[-2:]
    assert (trace.type, ending.type) == ("log", "run.failed")
    assert "Traceback" in trace.data.text  # type: ignore[union-attr]
    assert "in _raises" in trace.data.text  # type: ignore[union-attr]
    assert trace.data.level == "error"  # type: ignore[union-attr]
    assert "Traceback" not in str(driven.error)


def test_an_enormous_exception_still_ends_the_run() -> None:
    async def run(ctx: RunContext) -> None:
        raise ValueError("x" * 3_000_000)

    driven = drive_sync(of(run))
    assert driven.code == "runner.error"
    assert len(str(driven.error)) == 4000
    assert "characters left out" in driven.results[0].data.text  # type: ignore[union-attr]


def test_nothing_follows_what_ends_a_run_and_the_runner_is_not_stuck() -> None:
    reached = []

    async def run(ctx: RunContext) -> AsyncIterator[Result]:
        yield completed()
        for _ in range(200):  # far more than the credit that is left
            yield delta("late")
        reached.append("end")

    driven = drive_sync(of(run), credit=2)
    assert driven.results == [completed()]
    assert reached == ["end"]


def test_a_runner_may_fail_by_its_own_code() -> None:
    async def run(ctx: RunContext) -> AsyncIterator[Result]:
        yield failed("weather.unreachable", "the weather service is away; try later", retryable=True)

    driven = drive_sync(of(run))
    assert (driven.status, driven.code) == ("failed", "weather.unreachable")


# -- credit, logs, cancellation -------------------------------------------------------------------------


@pytest.mark.parametrize("credit", [1, 2, 64])
def test_all_results_arrive_whatever_the_credit(credit: int) -> None:
    async def run(ctx: RunContext) -> AsyncIterator[Result]:
        for number in range(300):
            if number % 3 == 0:
                ctx.log(f"log {number}")
            yield delta(str(number))
        yield message("done")

    driven = drive_sync(of(run), credit=credit)
    assert driven.warnings == []
    deltas = [one.data.chunk.content for one in driven.results if one.type == "message.delta"]  # type: ignore[union-attr]
    assert deltas == [str(number) for number in range(300)]
    assert driven.results[0] == log("log 0")
    assert driven.results[-1] == message("done")


def test_child_tasks_emit_at_once_and_nothing_is_lost() -> None:
    async def run(ctx: RunContext) -> str:
        async def one(name: str) -> None:
            for number in range(50):
                await ctx.emit(delta(f"{name}{number}"))

        await asyncio.gather(*(one(name) for name in "abcd"))
        return "done"

    driven = drive_sync(of(run), credit=1)
    texts = [one.data.chunk.content for one in driven.results[:-1]]  # type: ignore[union-attr]
    assert len(texts) == 200
    for name in "abcd":  # in the order of each task
        assert [text for text in texts if text[0] == name] == [f"{name}{number}" for number in range(50)]


def test_a_flood_of_unawaited_logs_is_refused_and_awaiting_them_is_the_remedy() -> None:
    async def flood(ctx: RunContext) -> None:
        for number in range(5000):
            ctx.log(str(number))

    driven = drive_sync(of(flood), credit=1)
    assert "RateLimited: 1024 results wait for the host; await what ctx.log() gives" in str(driven.error)

    async def patient(ctx: RunContext) -> str:
        for number in range(5000):
            await ctx.log(str(number))
        return "done"

    assert len(drive_sync(of(patient), credit=1).results) == 5001


def test_cancellation_reaches_the_code_and_its_cleanup_may_speak() -> None:
    seen: list[str] = []

    async def run(ctx: RunContext) -> AsyncIterator[Result]:
        try:
            yield message("begun")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(f"cancelled {ctx.cancelled}")
            raise
        finally:
            await ctx.states.set("actor", "cleaned", True)
            seen.append("cleaned")

    host = ScriptedHost()
    driven = host.drive_sync(of(run), cancel_on=lambda result: result == message("begun"))
    assert (driven.status, driven.code) == ("cancelled", "cancelled")
    assert seen == ["cancelled True", "cleaned"]
    assert host.world.snapshot.actor == {"cleaned": True}
    assert driven.results == [message("begun")]


def test_a_run_that_waits_for_credit_is_cancelled_too() -> None:
    closed: list[str] = []

    async def run(ctx: RunContext) -> AsyncIterator[Result]:
        try:
            while True:
                yield delta("more")
        finally:
            closed.append("closed")

    driven = drive_sync(of(run), cancel_on=lambda _: True)
    assert driven.status == "cancelled"
    assert closed == ["closed"]


# -- the host's calls ---------------------------------------------------------------------------------


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
        with pytest.raises(InvalidArgument, match=r"tool\.call: parameters must be JSON"):
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


def test_every_other_call_has_its_name() -> None:
    async def run(ctx: RunContext) -> str:
        passages = await ctx.knowledge.retrieve("kb", "red apple", top_k=1)
        assert [item.content for item in passages.items] == ["a red apple"]
        ranked = await ctx.models.rerank("main", "red", ["blue", "red"])
        assert ranked.items[0].index == 1
        assert (
            await ctx.models.count_tokens("main", [{"role": "user", "content": "a b c"}])
        ).input_tokens == 3
        assert (await ctx.events.get(ctx.event.event_id)).event_type == "message.received"
        assert len((await ctx.events.page()).items) == 1
        assert [item.input["text"] for item in await ctx.steering.pull("one-at-a-time")] == ["wait"]
        assert [item.input["text"] for item in await ctx.steering.pull()] == ["stop"]
        assert (await ctx.runs.get()).run_id == ctx.run_id
        assert len((await ctx.runs.list(statuses=["running"])).items) == 1
        assert (await ctx.runs.events(after=0)).items == []
        assert (await ctx.runs.cancel("other", reason="enough")).run_id
        child = await ctx.runs.create("helper", "do it", wait=5)
        assert child.output is not None
        assert child.output.text == "did it"
        decision = await ctx.ask("Really?", actions=["yes", {"name": "no"}], expires_in=60)
        assert decision.values == {"action": "yes"}
        with pytest.raises(Expired):
            await ctx.ask("And?", fields=[{"name": "why", "type": "text"}])
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
        decisions=[{"values": {"action": "yes"}}, Expired("nobody answered")],
        prompt=[{"role": "system", "content": "be kind"}],
        files={"f": b"b"},
    )
    assert driven.error is None
    assert driven.text == "done"
    asked = [call.params.kind for call in driven.calls if call.method == "interaction.request"]
    assert asked == ["choice", "form"]


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


def test_messages_arrive_while_a_run_is_at_work() -> None:
    host = ScriptedHost()
    host.world.script(tools={"look": lambda: host.world.arrive({"text": "and this"})})

    async def run(ctx: RunContext) -> str:
        before = await ctx.steering.pull()
        await ctx.tools.call("look")
        return f"{len(before)}, then {[item.input['text'] for item in await ctx.steering.pull()]}"

    assert host.drive_sync(of(run)).text == "0, then ['and this']"


def test_tools_with_decorator_get_checked_parameters_and_their_context() -> None:
    @tool(effect="idempotent")
    async def book(seat: str, nights: int = 1, *, ctx: ToolContext) -> dict[str, Any]:
        """Books a seat."""
        return {"seat": seat, "nights": nights, "run": ctx.run_id, "call": ctx.call_id}

    async def run(ctx: RunContext) -> str:
        detail = await ctx.tools.detail("book")
        assert detail.description == "Books a seat."
        booked = await ctx.tools.call("book", {"seat": "1A"}, tool_call_id="t9")
        assert booked == {"seat": "1A", "nights": 1, "run": ctx.run_id, "call": "t9"}
        with pytest.raises(InvalidArgument, match=r"book: Expected `int`, got `str` - at `\$\.nights`"):
            await ctx.tools.call("book", {"seat": "1A", "nights": "two"})
        return "done"

    assert drive_sync(of(run), tools=[book]).text == "done"


def test_calls_of_tasks_left_behind_are_refused_once_the_run_is_over() -> None:
    async def all_of_it() -> None:
        over = asyncio.Event()
        left: list[asyncio.Task[Any]] = []

        async def later(ctx: RunContext) -> Any:
            await over.wait()
            return await ctx.states.get("actor", "k")

        async def run(ctx: RunContext) -> str:
            left.append(asyncio.create_task(later(ctx)))
            return "done"

        driven = await drive(of(run))
        assert (driven.text, driven.calls) == ("done", [])
        over.set()
        with pytest.raises(Cancelled):
            async with asyncio.timeout(10):
                await left[0]

    asyncio.run(all_of_it())


def test_text_is_never_none_and_deadline_is_told() -> None:
    async def run(ctx: RunContext) -> str:
        assert ctx.deadline is not None
        assert ctx.deadline == ctx.runtime.deadline_at
        assert ctx.actor is not None
        return f"[{ctx.input.text}] {ctx.actor.actor_id}"

    assert drive_sync(of(run), None, context={"actor": {"actor_id": "ada"}}).text == "[] ada"
    parts = {"contents": [{"type": "text", "text": "from parts"}]}
    assert drive_sync(of(run), parts).text == "[from parts] tester"


def test_a_result_that_a_host_would_drop_is_warned_of() -> None:
    async def run(ctx: RunContext) -> AsyncIterator[Result]:
        yield Result("message.completed", {"message": {"role": "nobody", "content": "x"}})
        yield Result("acme.custom", {"any": 1})
        yield message("good")

    driven = drive_sync(of(run))
    assert driven.results == [Result("acme.custom", {"any": 1}), message("good")]
    assert "message.completed: Invalid enum value 'nobody'" in driven.warnings[0]


def test_a_run_that_never_ends_fails_the_test_in_time() -> None:
    async def run(ctx: RunContext) -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        drive_sync(of(run), seconds=0.2)


def test_only_runners_are_driven() -> None:
    with pytest.raises(TypeError, match="takes a class derived from Runner"):
        drive_sync(int)  # type: ignore[arg-type]
