"""What tests install once, into a folder of this machine's cache."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from hostler.plugins.environment import Environments
from hostler.plugins.limits import DEFAULT_START_LIMITS
from hostler.plugins.supervisor import environments_folder
from hostler_protocol.errors import PluginStartError

IMPORT_SECONDS = 300.0
IMPORT_ALL = """\
import ast, contextlib, importlib, pathlib, sys
names = {"hostler_sdk.serve", *sys.argv[1].split()}
for path in sys.argv[2:]:
    for node in ast.walk(ast.parse(pathlib.Path(path).read_bytes())):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
for name in sorted(names):
    with contextlib.suppress(Exception):
        importlib.import_module(name)
"""
"""Imports the modules that are named, and those that files import; what is not there is left out."""


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
def environments_of(what: str, plugin: Path, *sources: Path) -> Path | str:
    """The folder of environments with all that a plugin requires; a text says why there is none."""
    requires = yaml.safe_load((plugin / "hostler.yaml").read_text())["requires"]
    with alone(what, plugin.name) as cache:
        environments = Environments(cache / "environments", DEFAULT_START_LIMITS)
        try:
            python = Path(asyncio.run(environments.python_for(requires, base=plugin)))
        except PluginStartError as error:
            return f"what {plugin.name} requires cannot be installed: {error}"
        _compile(python, plugin, requires, sources)
    return environments.folder


def _compile(python: Path, plugin: Path, requires: Sequence[str], sources: Sequence[Path]) -> None:
    """Compile what a plugin imports, once per environment.

    In a sandbox environments cannot be written, and each of many starts would compile it anew.
    """
    done = python.parents[1] / f"compiled-for-{plugin.name}"
    if done.exists():
        return
    names = [re.split(r"[^\w.-]", text, maxsplit=1)[0].replace("-", "_") for text in requires]
    subprocess.run(
        [python, "-I", "-c", IMPORT_ALL, " ".join(names), *plugin.glob("*.py"), *sources],
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},  # else it is downloaded when imported
        capture_output=True,
        timeout=IMPORT_SECONDS,
        check=True,
    )
    done.touch()


def lend_environments(what: str, plugin: Path, data: Path, *sources: Path) -> None:
    """Let a host over `data` use the environment of a plugin. Skips the test where it cannot be had.

    `sources`: files that are added to the plugin.
    """
    found = environments_of(what, plugin, *sources)
    if isinstance(found, str):
        missing(found)
    assert isinstance(found, Path)
    data.mkdir(mode=0o700, exist_ok=True)
    target = environments_folder(data)
    target.parent.mkdir(exist_ok=True, mode=0o700)
    target.symlink_to(found)
