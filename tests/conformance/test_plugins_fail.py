"""Plugins that break one rule each: the check of that rule fails, and says why."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hostler_sdk.conformance import CHECKS, CheckResult, check_plugin
from support.child_plugins import environment

BROKEN = Path(__file__).parents[1] / "support" / "broken_plugin.py"

FAULTS = [
    ("prints", "stdout_clean", "standard output held 'Starting up!', which is no JSON-RPC 2.0 message"),
    ("dies", "initialize", "cannot find my model"),
    ("chooses_outside", "initialize", "protocol version 7 was chosen of 1 to 1"),
    ("any_version", "version_refused", "versions 1001 to 1002 were accepted as 1002"),
    ("bad_manifest", "runners_list", "unknown field `flying`"),
    (
        "foreign_id",
        "runners_list",
        "has the id 'plugin:acme/other/default', not 'plugin:acme/broken/default'",
    ),
    ("twins", "runners_list", "two runners have the same name"),
    ("no_runners", "runners_list", "no runner is offered"),
    ("no_run_end", "run_ends", "run/end: nothing within"),
    ("results_before_answer", "run_ends", "run/result came before the answer to run/start"),
    ("talks_after_end", "run_ends", "run/result of a run came after its run/end"),
    ("sequence_from_zero", "result_sequence", "a sequence starts at 1"),
    ("sequence_gap", "result_sequence", "the sequence is [5, 6, 7]; it must be 1, 2, 3"),
    ("bad_payload", "result_payloads", "result 2: message.delta: Object"),
    ("host_only_result", "result_payloads", "attempt.started is made by the host only"),
    ("ignores_credit", "credit", "more results were sent than the host had credited"),
    ("silent_on_unknown", "unknown_method", "an answer to conformance/unknown: nothing within"),
    ("unknown_code", "unknown_method", "expected the error -32601"),
    ("bad_params_code", "bad_params", "expected the error -32602"),
    ("crashes_on_bad_params", "bad_params", "the process ended with status 1"),
    ("any_runner", "unknown_runner", "a run of a runner that is not offered was accepted"),
    ("answers_notifications", "unknown_notification", "a notification was answered"),
    ("deaf_during_runs", "ping_during_run", "an answer to ping: nothing within"),
    ("ignores_cancel", "cancel", "run/end: nothing within"),
    ("takes_any", "answer_ahead", "host/state.get took an answer that was sent ahead of another call"),
    ("whole_reads", "cut_bytes", "the process ended with status 1"),
    ("one_at_a_time", "concurrent_runs", "an answer to run/start of default: nothing within"),
    ("small_buffer", "large_message", "line too long"),
    ("tool_twins", "tools_list", "two tools are named 'ring'"),
    ("any_tool", "tool_unknown", "a tool that is not offered was answered"),
    ("any_parameters", "tool_parameters", "an unknown parameter: a result, not invalid_argument"),
    ("drops_calls", "tool_calls", "32 answers of clock: nothing within"),
    ("invents_outcomes", "tool_lookup", "ring has an outcome for an effect key that was never used"),
    ("channel_twins", "channels_list", "two channels are named 'bell'"),
    ("any_channel", "channel_unknown", "channel/open of a channel that is not there: a result"),
    ("silent_channel", "channel_open", "ingest/health of bell: nothing within"),
    ("opens_twice", "channel_open", "channel/open of bell, which is open: a result, not conflict"),
    ("talks_after_close", "channel_open", "bell spoke after its channel/close was answered"),
    ("mute_send", "channel_send", "an answer to channel/send of bell: nothing within"),
    ("loses_channels", "channel_shutdown", "the process ended with status 5 after shutdown, not 0"),
    ("drops_runs", "shutdown_drains", "the connection is lost: the process ended with status 0"),
    ("exits_with_status", "shutdown_drains", "the process ended with status 5 after shutdown, not 0"),
    ("mute_shutdown", "shutdown_drains", "shutdown was not answered"),
    ("stays_after_shutdown", "shutdown_drains", "the end of the process: nothing within"),
    ("ignores_eof", "eof_exits", "the end of the process: nothing within"),
]
SHORT = 2.0
"""Only for faults that show by what never comes; whatever passes here is given the usual time."""


async def check(fault: str, **options: object) -> list[CheckResult]:
    command = [sys.executable, str(BROKEN), fault]
    return await check_plugin(command, BROKEN.parent, environment(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("fault", "name", "says"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
async def test_the_broken_rule_is_found_and_named(fault: str, name: str, says: str) -> None:
    never_comes = "nothing within" in says
    (result,) = await check(fault, only={name}, **({"step_seconds": SHORT} if never_comes else {}))
    assert not result.ok
    assert result.name == name
    assert says in result.detail


def test_every_check_has_a_plugin_that_fails_it() -> None:
    assert {name for _, name, _ in FAULTS} == set(CHECKS)


async def test_the_same_plugin_without_a_fault_conforms() -> None:
    assert [result for result in await check("none") if not result.ok] == []


@pytest.mark.parametrize("fault", ["bad_payload", "exits_with_status", "answers_notifications"])
async def test_one_broken_rule_fails_no_other_check(fault: str) -> None:
    (expected,) = [name for one, name, _ in FAULTS if one == fault]
    assert [result.name for result in await check(fault) if not result.ok] == [expected]


async def test_an_unknown_check_is_refused() -> None:
    with pytest.raises(ValueError, match="no check is named 'speed'; there are stdout_clean"):
        await check("none", only={"speed"})
