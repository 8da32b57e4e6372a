"""Runners driven in memory over a real link: what authors rely on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from hostler_sdk import (
    Cancelled,
    InvalidArgument,
    Result,
    RunContext,
    Runner,
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
from support.driven import of


class Echo(Runner):
    """Repeats what you say."""

    config: ClassVar = [{"name": "suffix", "type": "string", "default": "!"}]

    async def run(self, ctx: RunContext) -> AsyncIterator[Result]:
        for word in ctx.input.text.split():
            yield delta(word + " ")
        yield message(ctx.input.text + ctx.config["suffix"])


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
        (_emits_unencodable, "runner.error", "TypeError: state.updated: value is an object: use None, bool"),
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


# -- at the edges --------------------------------------------------------------------------------------


def test_messages_arrive_while_a_run_is_at_work() -> None:
    host = ScriptedHost()
    host.world.script(tools={"look": lambda: host.world.arrive({"text": "and this"})})

    async def run(ctx: RunContext) -> str:
        before = await ctx.steering.pull()
        await ctx.tools.call("look")
        return f"{len(before)}, then {[item.input.text for item in await ctx.steering.pull()]}"

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
