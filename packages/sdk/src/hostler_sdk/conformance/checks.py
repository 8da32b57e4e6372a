"""The conformance checks, one per rule of the protocol."""

from __future__ import annotations

import asyncio
from typing import Any

from hostler_protocol.calls import CALLS
from hostler_protocol.errors import (
    JSONRPC_INVALID_PARAMS,
    JSONRPC_METHOD_NOT_FOUND,
    HostlerError,
    InvalidArgumentError,
)
from hostler_protocol.frames import Notification, Request, encode, raw
from hostler_protocol.ids import new_id
from hostler_protocol.limits import MAX_MESSAGE_BYTES, PROTOCOL_VERSION
from hostler_protocol.methods import AnswerAhead, NoParams, RunAheadNote
from hostler_protocol.results import HOST_ONLY_RESULTS, RESULT_TYPES, decode_data
from hostler_sdk.conformance import channels, tools
from hostler_sdk.conformance.process import (
    START_SECONDS,
    Candidate,
    Check,
    PluginUnderTest,
    ViolationError,
    start_params,
)
from hostler_sdk.scripted import ObservedRun

INITIALIZE = "initialize"
CONCURRENT_RUNS = 8
QUIET_SECONDS = 0.25
"""Time in which a plugin must not send a result without credit."""
SINGLE_CREDITS = 50
"""Results that are credited one by one; then the rest is credited at once."""
ENOUGH_CREDIT = 100_000


async def stdout_clean(candidate: Candidate) -> str:
    """Standard output carries only protocol messages."""
    async with candidate.started(initialize=False) as plugin:
        try:
            await plugin.awaited("initialize", plugin.session.initialize(), START_SECONDS)
            run = await plugin.start_run((await plugin.runners())[0])
            await plugin.ended(run)
        except ViolationError:
            if plugin.junk is None:
                return "no stray output before the plugin failed for another reason"
        if plugin.junk is not None:
            raise ViolationError(
                f"standard output held {plugin.junk}, which is no JSON-RPC 2.0 message; "
                "write such things to standard error"
            )
        return f"{len(plugin.frames)} messages"


async def initialize(candidate: Candidate) -> str:
    """`initialize` is answered with an identity, and a version within the range."""
    async with candidate.started(initialize=False) as plugin:
        reply = await plugin.awaited("initialize", plugin.session.initialize(), START_SECONDS)
        return f"{reply.plugin.key} {reply.plugin.version}"


async def version_refused(candidate: Candidate) -> str:
    """A range of versions that the plugin does not speak is refused with an error."""
    async with candidate.started(initialize=False) as plugin:
        low, high = PROTOCOL_VERSION + 1000, PROTOCOL_VERSION + 1001
        try:
            async with asyncio.timeout(START_SECONDS):
                reply = await plugin.session.initialize(low, high)
        except TimeoutError as error:
            raise ViolationError(f"no answer to initialize with versions {low} to {high}") from error
        except HostlerError as error:
            if plugin.session.lost_because is not None:
                raise ViolationError(
                    f"versions {low} to {high} must be refused with an error: {error.message}"
                ) from error
            return "refused"
        raise ViolationError(f"versions {low} to {high} were accepted as {reply.protocol}")


async def runners_list(candidate: Candidate) -> str:
    """Every manifest is valid, has the plugin's identity in its id, and a unique name."""
    async with candidate.started(initialize=False) as plugin:
        reply = await plugin.awaited("initialize", plugin.session.initialize(), START_SECONDS)
        manifests = await plugin.runners()
        names = [manifest.name for manifest in manifests]
        if len(set(names)) < len(names):
            raise ViolationError(f"two runners have the same name: {', '.join(names)}")
        for manifest in manifests:
            expected = reply.plugin.runner_id(manifest.name)
            if manifest.id != expected:
                raise ViolationError(f"runner {manifest.name!r} has the id {manifest.id!r}, not {expected!r}")
        return ", ".join(names)


async def run_ends(candidate: Candidate) -> str:
    """`run/start` of each runner is answered before its results, and `run/end` is the run's last message."""
    async with candidate.started() as plugin:
        for manifest in await plugin.runners():
            before = len(plugin.frames)
            run = await plugin.start_run(manifest)
            await plugin.ended(run)
            await plugin.ping()
            frames = plugin.frames[before:]
            answered = next(number for number, frame in enumerate(frames) if "method" not in frame)
            of_run = [number for number, frame in enumerate(frames) if _run_of(frame) == run.context.run_id]
            if of_run[0] < answered:
                raise ViolationError(f"{frames[of_run[0]]['method']} came before the answer to run/start")
            if frames[of_run[-1]]["method"] != "run/end":
                raise ViolationError(f"{frames[of_run[-1]]['method']} of a run came after its run/end")
        return "each runner"


async def result_sequence(candidate: Candidate) -> str:
    """The results of a run are numbered 1, 2, 3 ... without a gap."""
    async with candidate.started() as plugin:
        run = await plugin.start_run((await plugin.runners())[0])
        await plugin.ended(run)
        numbers = [
            frame["params"].get("sequence")
            for frame in plugin.frames
            if frame.get("method") == "run/result" and _run_of(frame) == run.context.run_id
        ]
        if numbers != list(range(1, len(numbers) + 1)):
            raise ViolationError(f"the sequence is {numbers[:20]}; it must be 1, 2, 3 ...")
        return f"{len(numbers)} results"


async def result_payloads(candidate: Candidate) -> str:
    """Every result has a type that runners may send, and a valid payload."""
    async with candidate.started() as plugin:
        seen: set[str] = set()
        for manifest in await plugin.runners():
            run = await plugin.start_run(manifest)
            await plugin.ended(run)
            _check_payloads(run)
            seen.update(result.type for result in run.results)
            if run.warnings:
                raise ViolationError(f"{manifest.name}: {run.warnings[0]}")
        return ", ".join(sorted(seen)) or "no results"


async def credit(candidate: Candidate) -> str:
    """A run sends no more results than the host has credited."""
    async with candidate.started() as plugin:
        run = await plugin.start_run((await plugin.runners())[0], credit=1)
        await plugin.awaited("a result", plugin.session.until(lambda: run.over or bool(run.results)))
        await _credit_singly(plugin, run)
        await plugin.ended(run)
        return f"{len(run.results)} results, one at a time"


async def unknown_method(candidate: Candidate) -> str:
    """An unknown request is answered with -32601, and has no other effect."""
    async with candidate.started() as plugin:
        _check_error(await plugin.raw_request("conformance/unknown", {}), JSONRPC_METHOD_NOT_FOUND)
        await plugin.ping()
        return str(JSONRPC_METHOD_NOT_FOUND)


async def bad_params(candidate: Candidate) -> str:
    """A request with invalid parameters is answered with -32602, and has no other effect."""
    async with candidate.started() as plugin:
        for params in ({}, [1, 2], {"runner_id": 7, "runner_name": None, "context": "none"}):
            _check_error(await plugin.raw_request("run/start", params), JSONRPC_INVALID_PARAMS)
        await plugin.ping()
        return str(JSONRPC_INVALID_PARAMS)


async def unknown_runner(candidate: Candidate) -> str:
    """`run/start` of a runner that the plugin does not offer is refused."""
    async with candidate.started() as plugin:
        manifest = (await plugin.runners())[0]
        params = start_params(manifest, 1)
        answer = await plugin.raw_request(
            "run/start",
            {
                "runner_id": "plugin:nobody/nothing/none",
                "runner_name": "none",
                "credit": 1,
                "context": {
                    "run_id": params.context.run_id,
                    "trigger": {"type": "message.received"},
                    "event": {"event_id": new_id(), "event_type": "message.received"},
                },
            },
        )
        if "error" not in answer:
            raise ViolationError(
                "a run of a runner that is not offered was accepted; refuse it with an error"
            )
        await plugin.ping()
        return "refused"


async def unknown_notification(candidate: Candidate) -> str:
    """An unknown notification is ignored, and not answered."""
    async with candidate.started() as plugin:
        before = len(plugin.frames)
        plugin.write(b'{"jsonrpc":"2.0","method":"conformance/unknown","params":{"any":[1,2,3]}}\n')
        await plugin.ping()
        if len(plugin.frames) > before + 1:
            raise ViolationError(f"a notification was answered: {plugin.frames[before]}")
        return "ignored"


async def ping_during_run(candidate: Candidate) -> str:
    """`ping` is answered during a run."""
    async with candidate.started() as plugin:
        run = await plugin.start_run((await plugin.runners())[0], credit=0)
        for _ in range(3):
            await plugin.ping()
        state = "over" if run.over else "waiting for credit"
        return f"while the run was {state}"


async def cancel(candidate: Candidate) -> str:
    """`run/cancel` ends a run, even one that waits for credit."""
    async with candidate.started() as plugin:
        manifest = (await plugin.runners())[0]
        run = await plugin.start_run(manifest, credit=0)
        if not run.over:
            plugin.session.cancel(run.context.run_id)
        await plugin.ended(run)
        again = await plugin.start_run(manifest)
        await plugin.ended(again)
        return "the next run works"


async def answer_ahead(candidate: Candidate) -> str:
    """An answer that came ahead is taken by no other call than its own, and holds up no run."""
    async with candidate.started() as plugin:
        run = await plugin.start_run((await plugin.runners())[0])
        answer = AnswerAhead(method="state.get", digest="0" * 64, result=raw({"value": 1, "version": 1}))
        note = RunAheadNote(run_id=run.context.run_id, requests=0, answers=[answer])
        plugin.write(encode(Notification("run/ahead", raw(note))) + b"\n")
        await plugin.ended(run)
        await plugin.ping()
        calls = [one for one in plugin.frames if str(one.get("method")).removeprefix("host/") in CALLS]
        if taken := [call["method"] for call in calls if "id" not in call]:
            raise ViolationError(f"{taken[0]} took an answer that was sent ahead of another call")
        return f"{len(calls)} calls took none"


async def cut_bytes(candidate: Candidate) -> str:
    """Messages may arrive in pieces, cut anywhere, even within a character."""
    async with candidate.started(cut=True) as plugin:
        run = await plugin.start_run((await plugin.runners())[0])
        await plugin.ended(run)
        await plugin.ping()
        return "pieces of 1 to 7 bytes"


async def concurrent_runs(candidate: Candidate) -> str:
    """Several runs work at once, and none waits for another."""
    async with candidate.started() as plugin:
        manifest = (await plugin.runners())[0]
        runs = [await plugin.start_run(manifest, credit=0) for _ in range(CONCURRENT_RUNS)]
        for run in reversed(runs):
            if not run.over:
                plugin.session.credit(run.context.run_id, ENOUGH_CREDIT)
            await plugin.ended(run)
        return f"{CONCURRENT_RUNS} runs, ended in reverse order"


async def large_message(candidate: Candidate) -> str:
    """A message just below the limit is accepted."""
    async with candidate.started() as plugin:
        manifest = (await plugin.runners())[0]
        bare = encode(Request(2**32, "run/start", raw(start_params(manifest, 64, metadata={"padding": ""}))))
        padding = "x" * (MAX_MESSAGE_BYTES - len(bare))
        run = await plugin.start_run(manifest, metadata={"padding": padding})
        await plugin.ended(run)
        return f"{MAX_MESSAGE_BYTES:,} bytes"


async def shutdown_drains(candidate: Candidate) -> str:
    """After `shutdown` active runs are finished; then the process exits with status 0."""
    async with candidate.started() as plugin:
        run = await plugin.start_run((await plugin.runners())[0], credit=0)
        stopping = asyncio.create_task(_shut_down(plugin.session.request("shutdown", NoParams())))
        try:
            await asyncio.sleep(0)
            if not run.over:
                await plugin.ping()
                plugin.session.credit(run.context.run_id, ENOUGH_CREDIT)
            await plugin.ended(run)
            status = await plugin.exit_status()
            if status != 0:
                raise ViolationError(f"the process ended with status {status} after shutdown, not 0")
            refused = await stopping
            if refused is not None:
                raise ViolationError(f"shutdown was not answered: {refused}")
        finally:
            stopping.cancel()
        return f"{len(run.results)} results while draining"


async def eof_exits(candidate: Candidate) -> str:
    """The end of standard input ends the process, even during a run."""
    async with candidate.started() as plugin:
        await plugin.start_run((await plugin.runners())[0], credit=0)
        plugin.close_input()
        status = await plugin.exit_status()
        return f"status {status}"


CHECKS: dict[str, Check] = {
    "stdout_clean": stdout_clean,
    INITIALIZE: initialize,
    "version_refused": version_refused,
    "runners_list": runners_list,
    "run_ends": run_ends,
    "result_sequence": result_sequence,
    "result_payloads": result_payloads,
    "credit": credit,
    "unknown_method": unknown_method,
    "bad_params": bad_params,
    "unknown_runner": unknown_runner,
    "unknown_notification": unknown_notification,
    "ping_during_run": ping_during_run,
    "cancel": cancel,
    "answer_ahead": answer_ahead,
    "cut_bytes": cut_bytes,
    "concurrent_runs": concurrent_runs,
    "large_message": large_message,
    "tools_list": tools.listed,
    "tool_unknown": tools.unknown,
    "tool_parameters": tools.parameters,
    "tool_calls": tools.calls,
    "tool_lookup": tools.lookup,
    "channels_list": channels.listed,
    "channel_unknown": channels.unknown,
    "channel_open": channels.opened,
    "channel_send": channels.sending,
    "channel_shutdown": channels.shutdown_closes,
    "shutdown_drains": shutdown_drains,
    "eof_exits": eof_exits,
}
"""Every check by name, in the order in which they run."""


async def _shut_down(request: Any) -> str | None:
    try:
        await request
    except HostlerError as error:
        return error.message
    return None


def _run_of(frame: dict[str, Any]) -> Any:
    params = frame.get("params")
    return params.get("run_id") if "method" in frame and isinstance(params, dict) else None


async def _credit_singly(plugin: PluginUnderTest, run: ObservedRun) -> None:
    for number in range(SINGLE_CREDITS):
        await plugin.ping()
        if number < 2:
            await asyncio.sleep(QUIET_SECONDS)
        if run.over:
            return
        have = len(run.results)
        plugin.session.credit(run.context.run_id)

        def gone_on(have: int = have) -> bool:
            return run.over or len(run.results) > have

        await plugin.awaited("a result after run/credit", plugin.session.until(gone_on))
    plugin.session.credit(run.context.run_id, ENOUGH_CREDIT)


def _check_payloads(run: ObservedRun) -> None:
    for result in run.results:
        if result.type in HOST_ONLY_RESULTS:
            raise ViolationError(f"{result.type} is made by the host only")
        if result.type in RESULT_TYPES:
            try:
                decode_data(result.type, result.data)
            except InvalidArgumentError as error:
                raise ViolationError(f"result {result.sequence}: {error.message}") from error


def _check_error(answer: dict[str, Any], code: int) -> None:
    error = answer.get("error")
    if not isinstance(error, dict) or error.get("code") != code:
        shown = answer.get("error", "a result")
        raise ViolationError(f"expected the error {code}, got {shown}")
