"""Each test begins with the secrets that its own fixtures have read, and with none of other tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hostler.secrets import known_values
from hostler.secrets.known_values import KnownValues


@contextmanager
def forgetting(known: KnownValues) -> Iterator[None]:
    """Forget afterwards what was remembered meanwhile; what is wider keeps what it has."""
    with known._lock:
        before = known._values.copy()
    try:
        yield
    finally:
        with known._lock:
            known._values = before
            known._is_old, known._printed = True, None


@pytest.fixture(scope="module", autouse=True)
def secrets_of_the_module() -> Iterator[None]:
    """What the fixtures of a module have read is known as long as they last, and not to the next module."""
    with forgetting(known_values.KNOWN):
        yield


@pytest.fixture(autouse=True)
def secrets_of_the_test(secrets_of_the_module: None) -> Iterator[None]:
    """A secret of one test would be masked in the text of another."""
    with forgetting(known_values.KNOWN):
        yield
