"""What tests install once, into a folder of this machine's cache."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest


def cache_of(what: str) -> Path:
    """The folder of some installs."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "hostler-tests" / what


def missing(reason: str) -> None:
    """Skip a test on a machine that cannot have them; fail it where everything has to be there."""
    if os.environ.get("CI"):
        raise AssertionError(reason)
    pytest.skip(reason)


@contextlib.contextmanager
def alone(what: str, name: str) -> Iterator[Path]:
    """The folder of some installs, for one process at a time."""
    cache = cache_of(what)
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield cache
