"""Fixtures of the tests of sandboxes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder outside of /tmp, since a sandbox has a /tmp of its own.

    Its name is short, as addresses of sockets must be, and each user may enter it, as sandboxes have users of
    their own.
    """
    made = Path(tempfile.mkdtemp(prefix="s-", dir="/var/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)
