"""What tests install once, into a folder of this machine's cache."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hostler.plugins.environment import Environments
from hostler.plugins.limits import DEFAULT_START_LIMITS
from hostler.plugins.supervisor import environments_folder
from hostler_protocol.errors import PluginStartError


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


@functools.cache
def environments_of(what: str, plugin: Path) -> Path | str:
    """The folder of environments with all that a plugin requires; a text says why there is none."""
    requires = yaml.safe_load((plugin / "hostler.yaml").read_text())["requires"]
    with alone(what, plugin.name) as cache:
        environments = Environments(cache / "environments", DEFAULT_START_LIMITS)
        try:
            asyncio.run(environments.python_for(requires, base=plugin))
        except PluginStartError as error:
            return f"what {plugin.name} requires cannot be installed: {error}"
    return environments.folder


def lend_environments(what: str, plugin: Path, data: Path) -> None:
    """Let a host over `data` use the environment of a plugin. Skips the test where it cannot be had."""
    found = environments_of(what, plugin)
    if isinstance(found, str):
        missing(found)
    assert isinstance(found, Path)
    data.mkdir(mode=0o700, exist_ok=True)
    target = environments_folder(data)
    target.parent.mkdir(exist_ok=True, mode=0o700)
    target.symlink_to(found)
