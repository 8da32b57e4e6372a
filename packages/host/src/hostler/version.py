"""The version of this host."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("hostler")
except PackageNotFoundError:  # run from a source tree that was never installed
    VERSION = "0.0.0"
NAME = "hostler"
