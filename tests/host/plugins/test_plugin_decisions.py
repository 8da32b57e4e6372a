"""The pure decisions around plugins: back-off and breaker, liveness, open calls."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hostler.domain.breaker import (
    BACK_OFF_SECONDS,
    CLOSED,
    FAILURES_TO_OPEN,
    MAX_BACK_OFF_SECONDS,
    MAX_OPEN_SECONDS,
    OPEN_SECONDS,
)
from hostler.plugins.heavy_calls import HeavyCalls
from hostler.plugins.limits import DEFAULT_CONNECTION_LIMITS
from hostler.plugins.liveness import PATIENCE, Liveness
from hostler_protocol.calls import CALLS
from hostler_protocol.incoming import Called

pytestmark = pytest.mark.gate("mcp-bounds")


def test_failures_in_a_row_wait_longer_and_then_open_the_breaker() -> None:
    breaker, now, waits = CLOSED, 100.0, []
    for _ in range(FAILURES_TO_OPEN - 1):
        breaker = breaker.failed(now, "no reason")
        assert not breaker.refuses(now)
        waits.append(breaker.wait_seconds(now))
        now += waits[-1]
        assert breaker.wait_seconds(now) == 0
    assert waits == pytest.approx(list(BACK_OFF_SECONDS[1:]))
    breaker = breaker.failed(now, "the last reason")
    assert breaker.is_open
    assert breaker.reason == "the last reason"
    assert breaker.refuses(now + OPEN_SECONDS - 0.1)
    assert not breaker.refuses(now + OPEN_SECONDS)


def test_a_lasting_failure_opens_at_once_and_each_failed_trial_doubles_the_rest() -> None:
    breaker, now, rests = CLOSED, 0.0, []
    for _ in range(6):
        breaker = breaker.failed(now, "wrong class", lasting=True)
        assert breaker.refuses(now)
        rests.append(breaker.wait_seconds(now))
        now += rests[-1]
        assert not breaker.refuses(now)
    assert rests == [OPEN_SECONDS, 120, 240, 480, MAX_OPEN_SECONDS, MAX_OPEN_SECONDS]


def test_what_worked_and_failed_again_waits_longer_each_time_and_is_never_given_up() -> None:
    breaker, now, waits = CLOSED, 0.0, []
    for _ in range(12):
        breaker = breaker.failed(now, "it fell over", worked=True)
        assert not breaker.refuses(now)
        waits.append(breaker.wait_seconds(now))
        now += waits[-1] + 11
    assert waits == pytest.approx([*BACK_OFF_SECONDS[1:], 4, 8, 16, 32, *[MAX_BACK_OFF_SECONDS] * 4])
    breaker = breaker.failed(now, "it does not start any more")
    assert breaker.refuses(now)
    for rest in (2 * OPEN_SECONDS, 4 * OPEN_SECONDS):
        breaker = breaker.failed(now, "it fell over", worked=True)
        assert not breaker.refuses(now)
        breaker = breaker.failed(now, "it does not start any more", lasting=True)
        assert breaker.wait_seconds(now) == pytest.approx(rest)


LIMITS = replace(
    DEFAULT_CONNECTION_LIMITS,
    ping_interval_seconds=10,
    ping_silence_seconds=30,
    write_stall_seconds=30,
    write_pause_bytes=1000,
)


def _ticks(live: Liveness, count: int, **state: Any) -> str | None:
    told = {"reading": True, "sent": 0, "unsent": 0, **state}
    for _ in range(count):
        if wrong := live.tick(**told):
            return wrong
    return None


def test_pings_come_at_their_interval_and_silence_after_one_is_the_end() -> None:
    live = Liveness(LIMITS)
    assert live.tick_seconds == 5
    due = [(live.ping_is_due, _ticks(live, 1)) for _ in range(3)]
    assert due == [(False, None), (False, None), (True, None)]
    live.pinged()
    assert _ticks(live, 5) is None
    assert live.ping_is_due is False
    assert "has not answered a ping for 30 s" in (_ticks(live, 1) or "")


def test_an_answer_or_a_word_puts_the_end_off_but_words_alone_not_for_ever() -> None:
    live = Liveness(LIMITS)
    live.pinged()
    talked = 0
    while (wrong := live.tick(reading=True, sent=0, unsent=0)) is None:
        live.heard()
        talked += 1
    assert wrong == "the process sends messages, but has not answered a ping for 300 s"
    assert talked == PATIENCE * 6 - 1
    live.answered()
    assert _ticks(live, 100) is None


def test_silence_means_nothing_while_the_host_itself_does_not_read() -> None:
    live = Liveness(LIMITS)
    live.pinged()
    assert _ticks(live, 100, reading=False) is None
    assert _ticks(live, 6) is not None


@pytest.mark.parametrize(
    ("sent", "unsent", "given_up"),
    [
        ([5000] * 10, [5000] * 10, True),  # nothing is taken
        ([5000] * 10, list(range(5000, 4000, -100)), False),  # slow, but it reads
        ([500] * 10, [500] * 10, False),  # too little to tell: the ping decides
        ([5000 + n * 100 for n in range(10)], [5000 + n * 100 for n in range(10)], True),  # more is added
    ],
)
def test_a_peer_that_takes_nothing_is_given_up(sent: list[int], unsent: list[int], given_up: bool) -> None:
    live = Liveness(LIMITS)
    live.answered()
    ends = [live.tick(reading=True, sent=s, unsent=u) for s, u in zip(sent, unsent, strict=True)]
    assert any("has read nothing" in (end or "") for end in ends) is given_up


def _called(id_: str, run_id: str, method: str) -> Called:
    params = {"run_id": run_id, "artifact_id": "a", "scope": "actor", "key": "k"}
    kind: Any = CALLS[method].params
    known = {name: value for name, value in params.items() if name in kind.__struct_fields__}
    return Called(id_, f"host/{method}", kind(**known))


def test_heavy_calls_wait_their_turn_in_order_and_light_ones_pass_them() -> None:
    calls = HeavyCalls(2)
    for n in range(5):
        assert calls.add(_called(f"h{n}", "r1", "artifact.read"))
    assert not calls.add(_called("light", "r2", "state.get"))
    assert [called.id for called in calls.admitted()] == ["h0", "h1"]
    assert list(calls.admitted()) == []
    assert calls.close("h2")  # given up before it was handed out
    assert not calls.close("h0")
    assert [called.id for called in calls.admitted()] == ["h3"]
    assert not calls.close("h0")
    assert not calls.close("light")
    assert list(calls.admitted()) == []
    calls.clear()
    assert list(calls.admitted()) == []
