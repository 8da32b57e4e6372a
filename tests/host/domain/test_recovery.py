"""What follows the loss of a plugin process or a host: the whole table of settlements."""

from __future__ import annotations

import pytest

from hostler.domain.agents import OnCrash, Recovery
from hostler.domain.recovery import MAX_DELAY_SECONDS, Settlement, postpone, settle
from hostler_protocol.errors import (
    HostError,
    InvalidArgumentError,
    PayloadTooLargeError,
    PluginStartError,
)


def after_crash(
    on_crash: OnCrash | None = None, *, resumable: bool = False, **facts: bool | int
) -> Settlement:
    policy = Recovery(on_crash=on_crash, max_attempts=3)
    given = {"crashes": 0, "had_effects": False, "cancelled": False, **facts}
    return settle(policy, cause="plugin", resumable=resumable, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("on_crash", "resumable", "had_effects", "action"),
    [
        (None, True, True, "resume"),
        (None, False, False, "fail"),
        ("fail", True, False, "fail"),
        ("resume", True, True, "resume"),
        ("resume", False, False, "restart"),
        ("resume", False, True, "fail"),
        ("restart", True, True, "restart"),
        ("restart", False, True, "restart"),
    ],
)
def test_the_policy_and_the_runner_decide(
    on_crash: OnCrash | None, resumable: bool, had_effects: bool, action: str
) -> None:
    settled = after_crash(on_crash, resumable=resumable, had_effects=had_effects)
    assert settled.action == action
    assert settled.goes_on is (action != "fail")
    assert settled.status_code == "runner.crashed"


@pytest.mark.parametrize(
    ("crashes", "handed_over", "action"),
    [
        (0, False, "resume"),
        (1, False, "resume"),
        (2, False, "fail"),
        (2, True, "resume"),
        (9, True, "resume"),
    ],
)
def test_attempts_are_bounded_but_for_runs_that_a_host_hands_over(
    crashes: int, handed_over: bool, action: str
) -> None:
    settled = after_crash("resume", resumable=True, crashes=crashes, handed_over=handed_over)
    assert settled.action == action


@pytest.mark.parametrize(("crashes", "seconds"), [(0, 0), (1, 1), (2, 2), (5, 16), (6, 30), (1_000, 30)])
def test_the_delay_doubles_up_to_its_maximum(crashes: int, seconds: int) -> None:
    settled = settle(
        Recovery(on_crash="restart", max_attempts=10_000),
        cause="host",
        resumable=False,
        crashes=crashes,
        had_effects=False,
        cancelled=False,
    )
    assert (settled.action, settled.delay_seconds) == ("restart", seconds)
    assert settled.delay_seconds <= MAX_DELAY_SECONDS
    assert settled.status_code == "host.restarted"


def test_a_run_that_was_being_cancelled_is_cancelled() -> None:
    settled = after_crash("restart", resumable=True, cancelled=True, undone=True)
    assert (settled.action, settled.status_code) == ("cancel", "cancelled")


@pytest.mark.parametrize(("resumable", "action"), [(True, "resume"), (False, "repeat")])
def test_an_attempt_that_had_done_nothing_after_its_pause_is_repeated_under_any_policy(
    resumable: bool, action: str
) -> None:
    settled = after_crash("fail", resumable=resumable, crashes=99, undone=True)
    assert (settled.action, settled.is_recovery) == (action, False)
    assert settled.otherwise is not None
    assert settled.otherwise.action == "fail"


@pytest.mark.parametrize(
    ("own_pause", "by_plugin", "undone"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_an_attempt_that_could_not_be_started_is_retried_and_is_no_recovery(
    own_pause: bool, by_plugin: bool, undone: bool
) -> None:
    settled = postpone("no slot", "host.error", own_pause=own_pause, by_plugin=by_plugin)
    assert (settled.action, settled.undone, settled.is_recovery) == ("resume", undone, False)


def test_the_failure_of_an_attempt_that_could_not_be_started_names_who_is_to_blame() -> None:
    started = PluginStartError("no such file")
    assert started.status_code == "runner.crashed"
    assert HostError("broken").status_code == "host.error"
    assert PayloadTooLargeError("large").status_code == "payload_too_large"
    assert InvalidArgumentError("config").status_code == "runner.config_invalid"
