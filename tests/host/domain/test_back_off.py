"""Waits between tries: doubled, bounded, however many failures there were."""

from __future__ import annotations

from hostler.domain.back_off import back_off
from hostler.domain.breaker import MAX_BACK_OFF_SECONDS, restart_wait


def test_each_wait_is_twice_the_one_before_up_to_the_longest() -> None:
    assert [back_off(failures, 0.5, 8.0) for failures in range(1, 8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert back_off(100_000, 0.05, 1.0) == 1.0


def test_a_restart_waits_by_the_table_then_doubles() -> None:
    assert [restart_wait(failures) for failures in range(8)] == [0.0, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    assert restart_wait(1_000) == MAX_BACK_OFF_SECONDS
