"""The conversation with real plugin processes: handshake, runs, calls, back pressure, misbehaviour."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hostler.plugins.limits import DEFAULT_CONNECTION_LIMITS, DEFAULT_PROCESS_LIMITS
from hostler.plugins.lingering_runs import RunLingersError
from hostler_protocol.errors import (
    CancelledCallError,
    PayloadTooLargeError,
    PluginCrashedError,
    PluginError,
    PluginProtocolError,
    PluginStartError,
)
from hostler_protocol.limits import Limits
from support.plugin_runs import Recorder, begin, run, start_params, wire

LIMITS = DEFAULT_CONNECTION_LIMITS


async def _open(folder: Path, start: str) -> None:
    limits = replace(LIMITS, handshake_seconds=1.0 if start == "mute" else 30.0)
    async with wire(folder, start, limits=limits):
        pass


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ("refuse", "refused the handshake: only protocol 7"),
        ("version", "protocol version 9 was chosen of 1 to 1"),
        ("identity", "says that it is somebody-else/wire, but test/wire was expected"),
        (
            "crash",
            "exited with status 1; its last words were: ModuleNotFoundError: No module named 'nowhere'",
        ),
        ("explain", "echo.py has no class Ecko; did you mean Echo?"),
        ("mute", "did not finish its handshake within 1 s"),
        ("stdout", "not a JSON-RPC message"),
    ],
)
async def test_a_failing_handshake_says_why(tmp_path: Path, start: str, says: str) -> None:
    with pytest.raises(PluginStartError) as caught:
        await _open(tmp_path, start)
    assert says in caught.value.message
    assert "\n" not in caught.value.message


async def test_an_invalid_runner_hides_no_other(tmp_path: Path) -> None:
    async with wire(tmp_path, "runners") as plugin:
        connection = plugin.connection
        assert list(connection.runners) == ["default"]
        assert connection.version == "1.2"
        first, second, third = connection.warnings
        assert "'plugin:other/thing/default'" in first
        assert "'plugin:test/wire/default'" in first
        assert "id" in second
        assert "telepathy" in third


async def test_many_runs_at_once_in_one_process_each_get_their_own_results(tmp_path: Path) -> None:
    async with wire(tmp_path) as plugin:
        async with asyncio.TaskGroup() as group:
            runs = [group.create_task(run(plugin.connection, f"call key-{n}")) for n in range(200)]
        for n, task in enumerate(runs):
            recorder = task.result()
            assert recorder.over.result() == "end"
            assert json.loads(recorder.texts[0]) == {"value": f"key-{n}", "version": 1}
        assert plugin.connection.active_runs == frozenset()
        assert plugin.connection.held_bytes == 0


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("refuse", PluginProtocolError, "no such runner here"),
        ("silent", PluginCrashedError, "did not answer"),
    ],
)
async def test_a_run_that_is_not_started_raises_and_tells_nothing_more(
    tmp_path: Path, text: str, error: type[PluginError], says: str
) -> None:
    async with wire(tmp_path, limits=replace(LIMITS, answer_seconds=1.0)) as plugin:
        params = start_params(text)
        recorder = Recorder(plugin.connection, params.context.run_id)
        with pytest.raises(error, match=says):
            await plugin.connection.start_run(params, recorder)
        assert not recorder.over.done()
        assert (await run(plugin.connection, "echo on")).texts == ["on"]


async def test_a_context_over_the_message_size_is_refused_and_the_process_goes_on(tmp_path: Path) -> None:
    async with wire(tmp_path, wire_limits=Limits(max_message_bytes=100_000)) as plugin:
        with pytest.raises(PayloadTooLargeError):
            await begin(plugin.connection, "echo " + "x" * 200_000)
        assert (await run(plugin.connection, "echo on")).texts == ["on"]


async def test_breaking_one_run_leaves_the_others_untouched(tmp_path: Path) -> None:
    async with wire(
        tmp_path, wire_limits=Limits(max_message_bytes=100_000, max_result_bytes=50_000)
    ) as plugin:
        bystander = await begin(plugin.connection, "wait")
        over_result = await run(plugin.connection, "big 60000")
        over_message = await run(plugin.connection, "big 150000")
        over_credit = await run(plugin.connection, "overspend", gives_credit=False)
        assert over_result.over.result()[0] == "payload_too_large"
        assert over_message.over.result()[0] == "payload_too_large"
        assert over_credit.over.result()[0] == "runner.protocol"
        assert len(over_credit.results) == 64
        plugin.connection.cancel_run(bystander.run_id)
        assert await bystander.over == "end"
        assert bystander.texts == ["cancelled"]


async def test_calls_of_a_fenced_run_are_refused_and_of_a_parked_one_left_open(tmp_path: Path) -> None:
    async with wire(tmp_path) as plugin:
        connection = plugin.connection
        fenced = await begin(connection, "call k", answers=False)
        parked = await begin(connection, "call k", answers=False)
        for recorder in (fenced, parked):
            while not recorder.calls:
                recorder.something.clear()
                await recorder.something.wait()
        connection.end_run(fenced.run_id)
        connection.park_run(parked.run_id)
        connection.reply(parked.calls[0][0], {"value": 1, "version": 1})  # too late: nobody waits
        assert (await run(connection, "call again")).texts
        assert not fenced.results
        assert not parked.results
        assert not fenced.over.done()
        assert not parked.over.done()


async def test_a_call_given_up_by_the_runner_is_told(tmp_path: Path) -> None:
    async with wire(tmp_path) as plugin:
        recorder = await begin(plugin.connection, "giveup", answers=False)
        while not recorder.cancelled_calls:
            recorder.something.clear()
            await recorder.something.wait()
        assert recorder.cancelled_calls == [recorder.calls[0][0]]
        plugin.connection.refuse(recorder.calls[0][0], CancelledCallError("late"))
        assert (await run(plugin.connection, "echo on")).texts == ["on"]


async def test_heavy_calls_are_handed_out_a_few_at_a_time_and_all_answered(tmp_path: Path) -> None:
    async with wire(tmp_path) as plugin:
        most = 0

        class Slow(Recorder):
            """Answers each call one loop turn later, so that calls pile up."""

            waiting = 0

            def on_call(self, call_id: Any, method: str, params: Any) -> None:
                nonlocal most
                self.waiting += 1
                most = max(most, self.waiting)
                asyncio.get_running_loop().call_later(0.001, self._answer, call_id)

            def _answer(self, call_id: Any) -> None:
                self.waiting -= 1
                page: dict[str, Any] = {
                    "items": [],
                    "next_cursor": None,
                    "prev_cursor": None,
                    "has_more": False,
                }
                self.connection.reply(call_id, page)

        params = start_params("calls 300")
        recorder = Slow(plugin.connection, params.context.run_id)
        await plugin.connection.start_run(params, recorder)
        assert await recorder.over == "end"
        assert recorder.texts == ["all answered"]
        assert most == LIMITS.heavy_calls


async def test_heavy_calls_that_piled_up_may_be_answered_from_within_one_another(tmp_path: Path) -> None:
    async with wire(tmp_path) as plugin:
        page: dict[str, Any] = {"items": [], "next_cursor": None, "prev_cursor": None, "has_more": False}

        class Late(Recorder):
            """Answers nothing until all have asked, and from then on at once."""

            def on_result(self, result: Any, size: int) -> None:
                super().on_result(result, size)
                self.answers = True
                for call_id, _, _ in list(self.calls):
                    self.connection.reply(call_id, page)

        params = start_params("calls 900")
        recorder = Late(plugin.connection, params.context.run_id, answers=False)
        await plugin.connection.start_run(params, recorder)
        assert await recorder.over == "end"
        assert recorder.texts == ["all answered"]
        assert len(recorder.calls) == 900


async def test_reading_pauses_while_results_are_not_committed(tmp_path: Path) -> None:
    """A runner with all the credit it wants is held back by the bytes that wait to be committed."""
    limits = replace(LIMITS, held_result_bytes=200_000)
    async with wire(tmp_path, limits=limits) as plugin:
        connection = plugin.connection
        params = start_params("flood 5000", credit=5000)
        recorder = Recorder(connection, params.context.run_id, gives_credit=False)
        other = await begin(connection, "wait")
        await connection.start_run(params, recorder)
        while connection.held_bytes <= limits.held_result_bytes:
            recorder.something.clear()
            await recorder.something.wait()
        # paused: at most one more read of the pipe arrives, and nothing after that
        assert connection.held_bytes < limits.held_result_bytes + 300_000
        held = connection.held_bytes
        for _ in range(50):
            await asyncio.sleep(0)
        assert connection.held_bytes == held
        while not recorder.over.done():
            size, recorder.taken = connection.held_bytes, 0
            connection.credit(recorder.run_id, 0, size)
            if not recorder.over.done():
                recorder.something.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(recorder.something.wait(), 0.05)
        assert len(recorder.results) == 5000
        assert [r.sequence for r in recorder.results] == list(range(1, 5001))
        connection.end_run(recorder.run_id)
        connection.end_run(other.run_id)
        assert connection.held_bytes == 0


async def test_reaching_for_foreign_runs_is_refused_and_too_much_of_it_ends_the_connection(
    tmp_path: Path,
) -> None:
    async with wire(tmp_path, limits=replace(LIMITS, bad_messages_per_minute=100)) as plugin:
        recorder = await run(plugin.connection, "foreign 50")
        assert json.loads(recorder.texts[0])["data"]["code"] == "not_found"
        hostile = await begin(plugin.connection, "foreign 200")
        error = await hostile.over
        assert isinstance(error, PluginProtocolError)
        assert "broke the rules" in error.message
        assert plugin.connection.closed.result() is error


async def test_warnings_of_a_run_are_bounded(tmp_path: Path) -> None:
    async with wire(tmp_path) as plugin:
        recorder = await run(plugin.connection, "badresults 1000")
        assert recorder.texts == ["done"]
        assert len(recorder.warnings) == LIMITS.run_warnings
        assert "type" in recorder.warnings[0]
        assert recorder.warnings[-1] == "more warnings follow; they are not kept"


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("crash", PluginCrashedError, "killed by SIGKILL"),
        ("exit 7", PluginCrashedError, "exited with status 7; its last words were: about to leave"),
        ("noise", PluginProtocolError, "not a JSON-RPC message"),
        ("hang", PluginCrashedError, "has not answered a ping for"),
        ("deaf", PluginCrashedError, "has not answered a ping for"),
    ],
)
async def test_a_lost_process_is_told_to_all_its_runs_with_the_reason(
    tmp_path: Path, text: str, error: type[PluginError], says: str
) -> None:
    limits = replace(LIMITS, ping_interval_seconds=0.2, ping_silence_seconds=1.0)
    async with wire(tmp_path, limits=limits) as plugin:
        waiting = [await begin(plugin.connection, "wait") for _ in range(3)]
        recorder = await begin(plugin.connection, text)
        for lost in (*waiting, recorder):
            end = await lost.over
            assert isinstance(end, error)
            assert says in end.message
        await plugin.process.wait_gone()
        with pytest.raises(error):
            await begin(plugin.connection, "echo late")


async def test_a_process_that_does_not_read_is_given_up(tmp_path: Path) -> None:
    limits = replace(LIMITS, write_stall_seconds=0.6, write_pause_bytes=100_000)
    async with wire(tmp_path, limits=limits) as plugin:
        recorder = await begin(plugin.connection, "deaf")
        await recorder.something.wait()
        big = await asyncio.gather(
            *(begin(plugin.connection, "x" * 400_000) for _ in range(3)), return_exceptions=True
        )
        assert all(isinstance(end, PluginCrashedError) for end in big)
        error = await recorder.over
        assert "has read nothing for" in error.message


async def test_too_much_unsent_ends_the_connection_at_once(tmp_path: Path) -> None:
    async with wire(tmp_path, limits=replace(LIMITS, write_limit_bytes=1_000_000)) as plugin:
        recorder = await begin(plugin.connection, "deaf")
        await recorder.something.wait()
        ends = await asyncio.gather(
            *(begin(plugin.connection, "x" * 400_000) for _ in range(5)), return_exceptions=True
        )
        assert all(isinstance(end, PluginCrashedError) for end in ends)
        assert "does not read" in (await recorder.over).message


async def test_a_stderr_flood_fills_neither_memory_nor_disk(tmp_path: Path) -> None:
    process_limits = replace(DEFAULT_PROCESS_LIMITS, log_file_bytes=100_000, log_bytes_per_second=10_000_000)
    async with wire(tmp_path, process_limits=process_limits) as plugin:
        recorder = await run(plugin.connection, "stderr 3000000")
        assert recorder.texts == ["written"]
        files = sorted(path.name for path in tmp_path.glob("wire.log*"))
        assert files == ["wire.log", "wire.log.1", "wire.log.2"]
        # a file may be over its size by one read of the pipe
        assert sum(path.stat().st_size for path in tmp_path.glob("wire.log*")) < 3 * (100_000 + 262_144)
        assert len(plugin.log.lines) == process_limits.log_tail_lines


async def test_a_mistake_in_handling_one_run_does_not_take_the_others_along(tmp_path: Path) -> None:
    class Broken(Recorder):
        def on_result(self, result: Any, size: int) -> None:
            raise ZeroDivisionError

    async with wire(tmp_path) as plugin:
        other = await begin(plugin.connection, "wait")
        params = start_params("echo x")
        recorder = Broken(plugin.connection, params.context.run_id)
        await plugin.connection.start_run(params, recorder)
        assert isinstance(await recorder.over, PluginError)
        assert not other.over.done()
        assert (await run(plugin.connection, "echo on")).texts == ["on"]


# -- two attempts of one run --------------------------------------------------------------------------


async def test_an_attempt_is_started_once_the_process_is_free_of_the_one_before(tmp_path: Path) -> None:
    async with wire(tmp_path) as plugin:
        connection = plugin.connection
        first = await begin(connection, "wait")
        os.kill(plugin.process.pid, signal.SIGSTOP)  # so that it has not heard of it yet
        connection.cancel_run(first.run_id)
        connection.end_run(first.run_id)
        assert await connection.wait_free([first.run_id], 0) == [first.run_id]
        os.kill(plugin.process.pid, signal.SIGCONT)
        second = await begin(connection, "echo again", first.run_id)
        assert await second.over == "end"
        assert second.texts == ["again"], "nothing that the first one said is taken for its own"
        assert first.texts == []
        assert await connection.wait_free([first.run_id], 0) == []


async def test_a_process_that_does_not_leave_a_run_cannot_have_its_next_attempt(tmp_path: Path) -> None:
    async with wire(tmp_path, "ignores", limits=replace(LIMITS, leave_seconds=0.2)) as plugin:
        connection = plugin.connection
        first = await begin(connection, "wait")
        with pytest.raises(RunLingersError, match=first.run_id):
            await begin(connection, "echo again", first.run_id)  # the host itself has not ended it
        connection.cancel_run(first.run_id)
        connection.end_run(first.run_id)
        with pytest.raises(RunLingersError, match=first.run_id):
            await begin(connection, "echo again", first.run_id)
        assert (await run(connection, "echo other")).texts == ["other"]


async def test_a_parked_run_may_come_back_at_once(tmp_path: Path) -> None:
    async with wire(tmp_path, "ignores", limits=replace(LIMITS, leave_seconds=0.2)) as plugin:
        first = await begin(plugin.connection, "wait")
        plugin.connection.park_run(first.run_id)
        second = await begin(plugin.connection, "echo back", first.run_id)
        assert await second.over == "end"
        assert second.texts == ["back"]
