"""Plugins served over standard input and output, as real processes."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostler_protocol.methods import RunParkNote
from hostler_sdk.conformance.process import ViolationError, start_params
from support.child_plugins import (
    EXAMPLES,
    folder_plugin,
    one_run,
    runner_file,
    texts,
    within,
)

SECONDS = 110.0


def test_prints_of_the_plugin_and_its_children_stay_off_the_wire(tmp_path: Path) -> None:
    candidate = runner_file(
        tmp_path,
        """
        import os, subprocess, sys
        print("printed at import")
        from hostler_sdk import Runner, message

        class Told(Runner):
            async def run(self, ctx):
                print("printed in a run")
                os.write(1, b"written to descriptor 1\\n")
                subprocess.run([sys.executable, "-c", "print('printed by a child'); input()"],
                               stderr=subprocess.DEVNULL)
                sys.__stdout__.write("through the back door\\n")
                sys.__stdout__.flush()
                yield message(repr(sys.stdin.read()))
        """,
    )

    async def body() -> None:
        async with candidate.started() as plugin:
            run = await one_run(plugin)
            assert plugin.junk is None
            assert texts(run) == ["''"]  # the plugin's own standard input is empty, not the wire

    within(SECONDS, body)


def test_many_runs_share_the_process_and_keep_apart(tmp_path: Path) -> None:
    candidate = runner_file(
        tmp_path,
        """
        import asyncio
        from hostler_sdk import Runner, delta, message

        waiting = []

        class Told(Runner):
            async def run(self, ctx):
                gate = asyncio.Event()
                waiting.append(gate)
                if len(waiting) == 50:
                    for other in waiting:
                        other.set()
                await gate.wait()   # no run goes on before all fifty have begun
                for number in range(20):
                    yield delta(f"{ctx.run_id} {number}")
                yield message(ctx.run_id)
        """,
    )

    async def body() -> None:
        async with candidate.started() as plugin:
            (manifest,) = await plugin.runners()
            runs = [await plugin.start_run(manifest) for _ in range(50)]
            for run in runs:
                await plugin.ended(run)
                assert [result.sequence for result in run.results] == list(range(1, 22))
                assert texts(run) == [run.context.run_id]
                assert run.warnings == []

    within(SECONDS, body)


def test_a_parked_run_falls_silent_and_its_next_attempt_speaks(tmp_path: Path) -> None:
    candidate = runner_file(
        tmp_path,
        """
        import asyncio
        from hostler_sdk import Cancelled, Runner, message, log

        seen = []

        class Told(Runner):
            async def run(self, ctx):
                if ctx.attempt > 1:
                    yield message("; ".join(seen))
                    return
                try:
                    yield log("begun")
                    await asyncio.Event().wait()
                finally:
                    for attempt in (ctx.emit(message("from beyond")), ctx.states.get("actor", "k")):
                        try:
                            await attempt
                        except Cancelled:
                            seen.append("refused")
        """,
    )

    async def body() -> None:
        async with candidate.started() as plugin:
            session = plugin.session
            (manifest,) = await plugin.runners()
            run = await plugin.start_run(manifest)
            await plugin.awaited("log", session.until(lambda: bool(run.results)))
            before = len(plugin.frames)
            plugin.write(session.link.notify("run/park", RunParkNote(run_id=run.context.run_id)))
            await plugin.ping()
            await plugin.ping()
            assert all("method" not in frame for frame in plugin.frames[before:])  # two pongs, nothing else
            params = start_params(manifest, 64, attempt=2)
            again = await session.start(_same_run(params, run.context.run_id))
            await plugin.ended(again)
            assert texts(again) == ["refused; refused"]
            assert session.link.foreign_messages == 0

    within(SECONDS, body)


def _same_run(params: Any, run_id: str) -> Any:
    context = msgspec.structs.replace(params.context, run_id=run_id)
    return msgspec.structs.replace(params, context=context)


def test_a_run_that_swallows_its_cancellation_is_fenced_and_harms_nobody(tmp_path: Path) -> None:
    candidate = runner_file(
        tmp_path,
        """
        import asyncio
        from hostler_sdk import Runner, log, message

        class Told(Runner):
            async def run(self, ctx):
                if ctx.metadata.get("stubborn"):
                    await ctx.emit(log("begun"))
                    while True:
                        try:
                            await asyncio.Event().wait()
                        except asyncio.CancelledError:
                            ctx.log("no")
                return "polite"
        """,
    )

    async def body() -> None:
        async with candidate.started() as plugin:
            (manifest,) = await plugin.runners()
            stubborn = await plugin.start_run(manifest, metadata={"stubborn": True})
            await plugin.awaited("log", plugin.session.until(lambda: bool(stubborn.results)))
            plugin.session.cancel(stubborn.context.run_id)
            assert texts(await one_run(plugin)) == ["polite"]
            await plugin.ended(stubborn)  # it is over for the host, whatever its code does
            params = start_params(manifest, 64)
            again = await plugin.session.start(_same_run(params, stubborn.context.run_id))
            await plugin.ended(again)
            assert texts(again) == ["polite"]
            # the code of the stubborn run never ends; the process does, at the end of its input
            plugin.close_input()
            assert await plugin.exit_status() == 0

    within(SECONDS, body)


def test_a_busy_generator_leaves_room_for_ping_and_cancel(tmp_path: Path) -> None:
    candidate = runner_file(
        tmp_path,
        """
        from hostler_sdk import Runner, delta

        class Told(Runner):
            async def run(self, ctx):
                while True:       # never waits for anything but its credit
                    yield delta("x")
        """,
    )

    async def body() -> None:
        async with candidate.started() as plugin:
            run = await plugin.start_run((await plugin.runners())[0], credit=10_000_000)
            await plugin.awaited("results", plugin.session.until(lambda: len(run.results) > 1000))
            await plugin.ping()
            assert not run.over
            plugin.session.cancel(run.context.run_id)
            await plugin.ended(run)

    within(SECONDS, body)


def test_a_result_of_any_size_is_sent_and_the_host_decides(tmp_path: Path) -> None:
    candidate = runner_file(
        tmp_path,
        """
        from hostler_sdk import Runner, message

        class Told(Runner):
            async def run(self, ctx):
                yield message("x" * ctx.metadata["size"])
        """,
    )

    async def body() -> None:
        async with candidate.started() as plugin:
            (manifest,) = await plugin.runners()
            for size in (2_000_000, 20_000_000):  # over the limit of a result; over that of a message
                run = await plugin.start_run(manifest, metadata={"size": size})
                with pytest.raises(ViolationError, match="payload_too_large"):
                    await plugin.ended(run)
            assert len(texts(await one_run(plugin, metadata={"size": 10}))) == 1  # the connection lives on

    within(SECONDS, body)


def test_ctrl_c_in_the_terminal_is_left_to_the_host(tmp_path: Path) -> None:
    async def body() -> None:
        async with folder_plugin(EXAMPLES / "echo").started() as plugin:
            run = await plugin.start_run((await plugin.runners())[0], credit=0)
            plugin.signal(signal.SIGINT)
            await plugin.ping()
            assert not run.over
            plugin.session.credit(run.context.run_id, 100)
            await plugin.ended(run)

    within(SECONDS, body)


def test_a_thread_left_running_does_not_keep_the_process(tmp_path: Path) -> None:
    candidate = runner_file(
        tmp_path,
        """
        import threading
        from hostler_sdk import Runner

        class Told(Runner):
            async def run(self, ctx):
                threading.Thread(target=threading.Event().wait).start()
                return "started"
        """,
    )

    async def body() -> None:
        async with candidate.started() as plugin:
            await one_run(plugin)
            plugin.close_input()
            assert await plugin.exit_status() == 0

    within(SECONDS, body)


@pytest.mark.parametrize("how", ["end of input", "SIGTERM"])
def test_the_loss_of_the_host_stops_the_runs(tmp_path: Path, how: str) -> None:
    marker = tmp_path / "cleaned"
    candidate = runner_file(
        tmp_path,
        """
        import asyncio, os
        from hostler_sdk import Runner, log

        class Told(Runner):
            async def run(self, ctx):
                try:
                    yield log("begun")
                    await asyncio.Event().wait()
                finally:
                    open(os.environ["MARKER"], "w").close()
        """,
        MARKER=str(marker),
    )

    async def body() -> None:
        async with candidate.started() as plugin:
            run = await plugin.start_run((await plugin.runners())[0])
            await plugin.awaited("log", plugin.session.until(lambda: bool(run.results)))
            if how == "SIGTERM":
                plugin.signal(signal.SIGTERM)
            else:
                plugin.close_input()
            assert await plugin.exit_status() == 0
            assert marker.exists()

    within(SECONDS, body)


def test_noise_on_the_wire_ends_the_process() -> None:
    async def body() -> None:
        async with folder_plugin(EXAMPLES / "echo").started() as plugin:
            plugin.write(b"\x00\xff this is no message\n")
            assert await asyncio.wait_for(plugin.exit_status(), SECONDS) == 0

    within(SECONDS, body)
