"""How many workers the tests have."""

from __future__ import annotations

import pytest

from support.order import WORKER_BYTES, workers

GIB = 1 << 30


@pytest.mark.parametrize(
    ("processors", "available", "expected"),
    [
        (1, 64 * GIB, 6),
        (2, 13 * GIB, 6),
        (8, 64 * GIB, 8),
        (64, 512 * GIB, 16),
        (8, 4 * WORKER_BYTES, 4),
        (8, 4 * WORKER_BYTES - 1, 3),
        (8, WORKER_BYTES - 1, 1),
    ],
)
def test_workers_are_as_many_as_processors_and_memory_allow(
    processors: int, available: int, expected: int
) -> None:
    assert workers(processors, available) == expected


def test_the_variable_of_xdist_says_how_many_workers_there_are(
    monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "23")
    assert pytestconfig.hook.pytest_xdist_auto_num_workers(config=pytestconfig) == 23
