"""Fixtures of the tests of simulated lives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simulation.lives import Workers


@pytest.fixture(scope="session")
def workers() -> Iterator[Workers]:
    """One worker for all tests of a test process, as it takes two seconds of the processor to start.

    That lives leave nothing in it is proven in test_lives.py.
    """
    with Workers(1) as made:
        yield made
